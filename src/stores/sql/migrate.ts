import { hash } from 'node:crypto'
import type { Random } from '../../base/index.ts'
import { HapaxError, isHapaxError, pause, systemClock } from '../../base/index.ts'
import type {
  Executor,
  Migration,
  MigrationSql,
  MigrationState,
  Result,
  Statement,
  TransactionWork,
} from '../../contracts/index.ts'
import { schemaMissing } from './connection/store-errors.ts'
import type { Dialect, MigrationSource } from './dialect/dialect.ts'
import { asNumber, asText } from './values.ts'

/** The dialect's migrations with their checksums. */
function numbered(dialect: Dialect): readonly Numbered[] {
  return dialect.schema.migrations.map(({ version, compatibleFrom, name, sql }) => ({
    version,
    compatibleFrom,
    name,
    sql,
    checksum: hash('sha256', sql.join(';\n'), 'hex').slice(0, 16),
  }))
}

type Numbered = Migration & Pick<MigrationSource, 'compatibleFrom'>

/** A migration as the database records it. */
interface Applied {
  readonly checksum: string
  readonly compatibleFrom: number
}

/**
 * The migrations that the database has; fails with `schema-drift` if one was changed afterwards, and with `schema-newer` if it has a
 * migration that this version cannot run beside.
 */
export async function migrationStates(
  run: (statement: Statement) => Promise<Result>,
  dialect: Dialect,
): Promise<readonly MigrationState[]> {
  const applied = await appliedBy(() => run(dialect.schema.applied)).catch((error: unknown) => {
    if (isHapaxError(error, 'schema-missing')) return new Map<number, Applied>()
    throw error
  })
  assertCompatible(dialect, applied)
  return numbered(dialect).map((each) => withState(each, applied))
}

/** The transaction that applies what is missing. The lock makes a second instance wait and then find nothing to do. */
export function migration<Tx>(
  dialect: Dialect,
  executorOf: (tx: Tx) => Executor,
): TransactionWork<Tx, readonly Migration[]> {
  return {
    first: [...dialect.schema.lock, ...dialect.schema.place],
    body: async (tx) => {
      const run = ({ text, params }: Statement): Promise<Result> => executorOf(tx).query(text, params)
      try {
        return { value: await applyMissing(dialect, run), last: dialect.schema.unlock }
      } catch (error) {
        // A lock that belongs to the session would outlive the rollback, in a pool for as long as the process.
        for (const statement of dialect.schema.unlock) await run(statement).catch(() => {})
        throw error
      }
    },
  }
}

/**
 * Repeats a migration that met transactions at work. It does not wait for long inside its own: transactions that come later would
 * wait behind it, and two that wait for each other end with an error for one of them.
 */
export async function untilFree<T>(migrate: () => Promise<T>, random: Random): Promise<T> {
  const endMs = systemClock.monotonic() + PATIENCE_MS
  for (;;) {
    try {
      return await migrate()
    } catch (error) {
      if (!isHapaxError(error, 'transaction-conflict') || systemClock.monotonic() > endMs) throw error
      await pause(systemClock, 50 + 200 * random.number())
    }
  }
}

/** How long a migration tries to get hold of tables that are in use. */
const PATIENCE_MS = 120_000

/** What `migration` does, for other tools. */
export function migrationSql(dialect: Dialect, versions?: readonly number[]): MigrationSql {
  const all = numbered(dialect)
  const chosen = all.filter(({ version }) => versions?.includes(version) ?? true)
  const applied = chosen.flatMap(({ version, compatibleFrom, name, checksum, sql }) => [
    `-- migration ${version}: ${name}\n${sql[0]}`,
    ...sql.slice(1),
    inlined(dialect.schema.done(version, name, checksum, compatibleFrom)),
  ])
  const begun = [...dialect.schema.place, dialect.schema.table].map(inlined)
  return {
    statements: chosen.length === 0 ? [] : [...begun, ...applied].map(compact),
    before: ['begin', ...dialect.schema.lock.map(inlined)],
    after: [...dialect.schema.unlock.map(inlined), 'commit'],
    checksums: chosen.map(({ checksum }) => checksum),
    undo: chosen.length < all.length ? [] : dropped([dialect.schema.table.text, ...all.flatMap(({ sql }) => sql)]),
    delimiter: dialect.schema.delimiter,
  }
}

/** Drops what these statements create, the last thing first. A schema stays: it may have been there before. */
function dropped(statements: readonly string[]): readonly string[] {
  const made = statements.flatMap((text) => {
    const [, kind, name] = /^\s*create (table|function|procedure) (?:if not exists )?([^\s(]+)/.exec(text) ?? []
    return name === undefined ? [] : [`drop ${kind} if exists ${name}`]
  })
  return made.reverse()
}

/** Without empty lines, so that one between two statements tells them apart. */
function compact(text: string): string {
  return text.trim().replaceAll(/\n\s*\n/g, '\n')
}

/** A statement with its values written in: those of migrations are our own names, numbers and digits. */
function inlined({ text, params }: Statement): string {
  const values = params.values()
  return text.replaceAll(/\$\d+|\?/g, () => {
    const value = values.next().value
    return typeof value === 'number' ? String(value) : `'${String(value).replaceAll("'", "''")}'`
  })
}

async function applyMissing(
  dialect: Dialect,
  run: (statement: Statement) => Promise<Result>,
): Promise<readonly Migration[]> {
  await run(dialect.schema.table)
  const applied = await appliedBy(() => run(dialect.schema.applied))
  assertCompatible(dialect, applied)
  const missing = numbered(dialect).filter((each) => !withState(each, applied).applied)
  for (const { version, compatibleFrom, name, checksum, sql } of missing) {
    for (const text of sql) await run({ text, params: [] })
    await run(dialect.schema.done(version, name, checksum, compatibleFrom))
  }
  return missing
}

async function appliedBy(read: () => Promise<Result>): Promise<ReadonlyMap<number, Applied>> {
  return appliedIn(await read())
}

function appliedIn({ rows }: Result): ReadonlyMap<number, Applied> {
  return new Map(
    rows.map((row) => [
      asNumber(row['version']),
      { checksum: asText(row['checksum']), compatibleFrom: asNumber(row['compatible_from']) },
    ]),
  )
}

/** Fails unless the result of `applied` shows a schema that this version can run on. */
export function assertSchemaFits(dialect: Dialect, answer: Result): void {
  const applied = appliedIn(answer)
  assertCompatible(dialect, applied)
  assertApplied(numbered(dialect).map((each) => withState(each, applied)))
}

/** Fails unless every migration is applied. */
export function assertApplied(states: readonly MigrationState[]): void {
  const missing = states.filter(({ applied }) => !applied).map(({ version }) => version)
  if (missing.length === 0) return
  if (missing.length === states.length) throw schemaMissing()
  throw new HapaxError(
    'schema-outdated',
    `expected migration ${missing.join(', ')} to be applied: run hapax.migrate() or npx hapax migrate`,
    { fields: { missing } },
  )
}

/**
 * A migration of a newer hapax version records the oldest version it is compatible with: during a rolling upgrade, older processes continue
 * if the migration only adds, and are refused if they would misread the tables.
 */
function assertCompatible(dialect: Dialect, applied: ReadonlyMap<number, Applied>): void {
  const known = new Set(dialect.schema.migrations.map(({ version }) => version))
  const newest = Math.max(...known)
  const newer = [...applied].filter(([version, { compatibleFrom }]) => !known.has(version) && compatibleFrom > newest)
  if (newer.length === 0) return
  const versions = newer.map(([version]) => version).sort((a, b) => a - b)
  throw new HapaxError(
    'schema-newer',
    `expected a schema that this version of hapax supports, which knows migrations up to ${newest}, but a newer version has applied ` +
      `incompatible migration ${versions.join(', ')}: install that version of hapax in this process`,
    { fields: { newest, newer: versions } },
  )
}

function withState(
  { compatibleFrom: _, ...migration }: Numbered,
  applied: ReadonlyMap<number, Applied>,
): MigrationState {
  const checksum = applied.get(migration.version)?.checksum
  if (checksum !== undefined && checksum !== migration.checksum) {
    throw new HapaxError(
      'schema-drift',
      `expected migration ${migration.version} (${migration.name}) to have the checksum ${migration.checksum}, ` +
        `but the database has ${checksum}: its schema was made by another version of hapax`,
      { fields: { version: migration.version, expected: migration.checksum, found: checksum } },
    )
  }
  return { ...migration, applied: checksum !== undefined }
}
