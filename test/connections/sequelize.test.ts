import { fromSequelize } from 'hapax/sequelize'
import { type Options, Sequelize, type Transaction } from 'sequelize'
import { type Reached, runPair } from '../support/pairs.ts'

const cannot = {
  'watched statements': `Sequelize runs the handler's statements itself: a swallowed deadlock costs an attempt`,
}

const reached = (url: string, max: number, options: Options = {}): Reached<Transaction> => {
  const db = new Sequelize(url, { logging: false, pool: { max }, ...options })
  return {
    from: fromSequelize(db),
    own: (work) => db.transaction(work),
    notBegun: (work) => work(db as unknown as Transaction),
    close: () => db.close(),
  }
}

/** As a handler would, with the instance that its transaction belongs to. */
const client = (tx: Transaction) => ({
  query: (text: string, values: unknown[] = []) => {
    const { sequelize } = tx as unknown as { sequelize: Sequelize }
    const given = values.length === 0 ? {} : text.includes('?') ? { replacements: values } : { bind: values }
    return sequelize.query(text, { transaction: tx, ...given })
  },
})

const left = (text: string) => (tx: Transaction) =>
  client(tx)
    .query(text)
    .catch(() => {})

await runPair<Transaction>({
  orm: 'sequelize',
  driver: 'pg',
  database: 'postgres',
  cannot,
  open: ({ url, max }) =>
    reached(url, max, { dialectOptions: { application_name: new URL(url).searchParams.get('application_name') } }),
  client,
  leaveOpen: left('select pg_sleep(300)'),
})

await runPair<Transaction>({
  orm: 'sequelize',
  driver: 'mysql2',
  database: 'mysql',
  cannot,
  open: ({ url, max }) => reached(url, max, { dialectOptions: { flags: '+FOUND_ROWS' } }),
  client,
  leaveOpen: left('do sleep(300)'),
})
