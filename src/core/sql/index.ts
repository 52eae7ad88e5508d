export type { Backend, Dialect, MigrationSource } from './dialect.ts'
export { SqlStore } from './sql-store.ts'
export * from './values.ts'
