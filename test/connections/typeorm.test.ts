import { fromTypeorm } from 'hapax/typeorm'
import { DataSource, type DataSourceOptions, type EntityManager } from 'typeorm'
import { type Reached, runPair } from '../support/pairs.ts'

const cannot = {
  'watched statements': `TypeORM runs the handler's statements itself: a swallowed deadlock costs an attempt`,
}

const reached = async (options: DataSourceOptions): Promise<Reached<EntityManager>> => {
  const dataSource = await new DataSource(options).initialize()
  return {
    from: fromTypeorm(dataSource),
    own: (work) => dataSource.transaction(work),
    notBegun: (work) => work(dataSource.manager),
    close: () => dataSource.destroy(),
  }
}

const client = (tx: EntityManager) => ({ query: (text: string, values: unknown[] = []) => tx.query(text, values) })
const nested = <T>(tx: EntityManager, work: (inner: EntityManager) => Promise<T>) => tx.transaction(work)
const left = (text: string) => (tx: EntityManager) => tx.query(text).catch(() => {})

await runPair<EntityManager>({
  orm: 'typeorm',
  driver: 'pg',
  database: 'postgres',
  cannot,
  open: ({ url, max }) => {
    const applicationName = new URL(url).searchParams.get('application_name') ?? 'hapax'
    return reached({ type: 'postgres', url, applicationName, poolSize: max })
  },
  client,
  nested,
  leaveOpen: left('select pg_sleep(300)'),
})

await runPair<EntityManager>({
  orm: 'typeorm',
  driver: 'mysql2',
  database: 'mysql',
  cannot,
  open: ({ url, max }) => reached({ type: 'mariadb', url, poolSize: max }),
  client,
  nested,
  leaveOpen: left('do sleep(300)'),
})
