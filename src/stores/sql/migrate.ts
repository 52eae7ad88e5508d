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
import type { Dialect } from './dialect/dialect.ts'
import { asText } from './values.ts'

/** The dialect's migrations with their checksums. */
function numbered(dialect: Dialect): readonly Migration[] {
  return dialect.schema.migrations.map(({ version, name, sql }) => ({
    version,
    name,
    sql,
    checksum: hash('sha256', sql.join(';\n'), 'hex').slice(0, 16),
  }))
}

/** Which migrations the database has; fails with `schema-drift` when one of them was changed afterwards. */
export async function migrationStates(
  run: (statement: Statement) => Promise<Result>,
  dialect: Dialect,
): Promise<readonly MigrationState[]> {
  const applied = await appliedChecksums(() => run(dialect.schema.applied)).catch((error: unknown) => {
    if (isHapaxError(error, 'schema-missing')) return new Map<number, string>()
    throw error
  })
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
  const applied = chosen.flatMap(({ version, name, checksum, sql }) => [
    `-- migration ${version}: ${name}\n${sql[0]}`,
    ...sql.slice(1),
    inlined(dialect.schema.done(version, name, checksum)),
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
  const applied = await appliedChecksums(() => run(dialect.schema.applied))
  const missing = numbered(dialect).filter((each) => !withState(each, applied).applied)
  for (const { version, name, checksum, sql } of missing) {
    for (const text of sql) await run({ text, params: [] })
    await run(dialect.schema.done(version, name, checksum))
  }
  return missing
}

async function appliedChecksums(read: () => Promise<Result>): Promise<ReadonlyMap<number, string>> {
  const { rows } = await read()
  return new Map(rows.map((row) => [Number(row['version']), asText(row['checksum'])]))
}

function withState(migration: Migration, applied: ReadonlyMap<number, string>): MigrationState {
  const checksum = applied.get(migration.version)
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
