export { OrmConnection } from './connection.ts'
export {
  type Executable,
  type KyselyExecutor,
  type KyselySession,
  OVER,
  runAlone,
  runByKysely,
  runInside,
} from './kysely.ts'
export type { Orm, Track } from './orm.ts'
export { amongConnections, type PoolUnder, sizeOf, underPool } from './pool.ts'
