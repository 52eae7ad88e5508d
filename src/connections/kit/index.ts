export { OrmConnection } from './connection.ts'
export { type Executable, runByKysely } from './kysely.ts'
export type { Orm, Track } from './orm.ts'
export { amongConnections, type PoolUnder, sizeOf, underPool } from './pool.ts'
