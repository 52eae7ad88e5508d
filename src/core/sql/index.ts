export type { Dialect, MigrationSource } from './dialect.ts'
export { SqlStore } from './sql-store.ts'
export * from './values.ts'
export { TransactionWatch } from './watch.ts'
