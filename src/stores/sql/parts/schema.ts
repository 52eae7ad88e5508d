import type { Finding, MigrationState, StoreSchema } from '../../../contracts/index.ts'
import { lookAt } from '../checkup.ts'
import { assertRecognised } from '../connection/recognised.ts'
import { assertApplied, migration, migrationSql, migrationStates, untilFree } from '../migrate.ts'
import type { SqlContext } from './context.ts'

/** The tables of an SQL database. */
export function sqlSchema<Tx, Own>(context: SqlContext<Tx, Own>): StoreSchema {
  const { calls, dialect, connection, random } = context
  let known: readonly Finding[] | undefined
  const migrations = (): Promise<readonly MigrationState[]> =>
    migrationStates((statement) => calls.run(statement), dialect)
  /** What another node has migrated a moment ago may be on its way to this one. */
  const caughtUp = async (): Promise<readonly MigrationState[]> => {
    const states = await migrations()
    const { caughtUp: wait } = dialect.schema
    if (wait === undefined || states.every(({ applied }) => applied)) return states
    await calls.run(wait).catch(() => {})
    return await migrations()
  }
  return {
    ready: async () => {
      known ??= await readied(context, await caughtUp())
      return known
    },
    migrations,
    sql: (versions) => migrationSql(dialect, versions),
    migrate: async () => {
      // Read first: an application often has no more than the right to read, and need not migrate at all.
      if ((await migrations()).every(({ applied }) => applied)) return []
      const work = migration(dialect, (tx: Tx) => connection.executor(tx))
      return untilFree(() => calls.whole(work), random)
    },
  }
}

async function readied<Tx, Own>(
  context: SqlContext<Tx, Own>,
  migrations: readonly MigrationState[],
): Promise<readonly Finding[]> {
  const { calls, dialect } = context
  assertApplied(migrations)
  await probe(context)
  const findings = await lookAt((statement) => calls.run(statement), dialect.schema.checks)
  return findings.filter(({ level }) => level !== 'ok')
}

/** On a connection for control work and on one of the handlers': they may be of different pools. */
async function probe<Tx, Own>({ calls, dialect, connection }: SqlContext<Tx, Own>): Promise<void> {
  const { text, params } = dialect.schema.probe
  assertRecognised(await calls.run(dialect.schema.probe))
  const results = await calls.claiming(dialect.schema.probe, async (tx, together) => {
    // Alone as well: pg before 8.14 applies the type parsers of a pool only to the first of the results that come together.
    const alone = await connection.executor(tx).query(text, params)
    return { value: [together, alone], last: undefined }
  })
  results.forEach(assertRecognised)
}
