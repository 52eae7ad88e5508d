export type { Backend, Dialect, MigrationSource, ShortTransaction } from './dialect.ts'
export { SqlStore } from './sql-store.ts'
export * from './values.ts'
export { type DoomOf, TransactionWatch } from './watch.ts'
