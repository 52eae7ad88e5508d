import { fromKnex } from 'hapax/knex'
import knex, { type Knex } from 'knex'
import { type Reached, runPair } from '../support/pairs.ts'

type Tx = Knex.Transaction

const cannot = {
  'watched statements': `Knex runs the handler's statements itself: a swallowed deadlock costs an attempt`,
}

const reached = (config: Knex.Config): Reached<Tx> => {
  const db = knex(config)
  return {
    from: fromKnex(db),
    own: (work) => db.transaction(work),
    notBegun: (work) => work(db as unknown as Tx),
    close: () => db.destroy(),
  }
}

const client = (placeholder: string) => (tx: Tx) => ({
  query: async (text: string, values: unknown[] = []) =>
    tx.raw(text.replaceAll('?', '\\?').replaceAll(placeholder.replace('?', '\\?'), '?'), values as never),
})

const nested = <T>(tx: Tx, work: (inner: Tx) => Promise<T>) => tx.transaction(work)

await runPair<Tx>({
  orm: 'knex',
  driver: 'pg',
  database: 'postgres',
  cannot,
  open: ({ url, max }) => reached({ client: 'pg', connection: url, pool: { min: 0, max } }),
  client: client('$1'),
  nested,
  leaveOpen: (tx) => tx.raw('select pg_sleep(300)').catch(() => {}),
})

await runPair<Tx>({
  orm: 'knex',
  driver: 'mysql2',
  database: 'mysql',
  cannot,
  open: ({ url, max }) => reached({ client: 'mysql2', connection: { uri: url } as never, pool: { min: 0, max } }),
  client: client('?'),
  nested,
  leaveOpen: (tx) => tx.raw('do sleep(300)').catch(() => {}),
})

await runPair<Tx>({
  orm: 'knex',
  driver: 'better-sqlite3',
  database: 'sqlite',
  cannot: { ...cannot, 'something left open': 'a statement is over when it returns' },
  open: ({ url }) =>
    reached({
      client: 'better-sqlite3',
      connection: { filename: url },
      useNullAsDefault: true,
      pool: { min: 1, max: 1 },
    }),
  client: client('?'),
  nested,
  leaveOpen: () => {},
})
