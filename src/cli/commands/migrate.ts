// Applies or prints migrations. `--print` is for teams whose migrations run through another tool; `--check` is for pipelines.

import { Option } from 'commander'
import { isHapaxError, systemClock } from '../../base/index.ts'
import type { Migration } from '../../contracts/index.ts'
import { CliError } from '../io/errors.ts'
import { type Io, json, line, paint } from '../io/io.ts'
import { plural } from '../io/text.ts'
import { existingMigration, type FileToWrite, migrationFiles, writeFiles } from '../migrations/files.ts'
import { FORMAT_NAMES, FORMATS_HELP, type Format, formatted, type Printed } from '../migrations/formats.ts'
import { type AddCommand, examples, withStore } from '../options.ts'
import { LANGUAGES, type Language, readProject } from '../project.ts'
import { closing, command, findStore, type NamedStore, type StoreOptions } from '../store.ts'

/** Options of `hapax migrate`. */
interface MigrateOptions extends StoreOptions {
  readonly print?: true
  /** @default 'sql' */
  readonly format?: Format
  readonly language?: Language
  readonly out?: string
  readonly all?: true
  readonly check?: true
  readonly dryRun?: true
  readonly json?: true
}

/** Adds `hapax migrate`. */
export const addMigrate: AddCommand = (root, io, done) => {
  withStore(root.command('migrate'))
    .description('Creates or updates the tables. Safe to run concurrently.')
    .option('--print', 'print the missing SQL instead of running it')
    .addOption(new Option('--format <format>', `with --print: ${FORMATS_HELP} (default: sql)`).choices(FORMAT_NAMES))
    .option(
      '--out <folder>',
      "with --print: write a file into the tool's folder of migrations, named as the tool wants it",
    )
    .option('--all', 'with --print: all migrations, whatever the database has; it need not be running')
    .addOption(
      new Option(
        '--language <language>',
        'with --print, for formats that are modules: TypeScript, or JavaScript with import or require (default: what package.json says)',
      ).choices(LANGUAGES),
    )
    .option('--check', 'change nothing; exit with 1 if a migration is missing or differs')
    .option('--dry-run', 'change nothing; print what would be applied')
    .addHelpText(
      'after',
      examples(
        'hapax migrate --store postgres://localhost/shop',
        'hapax migrate --print > migrations/20260101_hapax.sql',
        'hapax migrate --print --all --format drizzle --out drizzle',
        'hapax migrate --store mysql://localhost/shop --print --format client | mysql shop',
        'hapax migrate --check',
      ),
    )
    .action(async (options) => done(await migrate(options, io)))
}

/** Applies the migrations, or prints what it would apply. */
async function migrate(options: MigrateOptions, io: Io): Promise<number> {
  const modes = [options.print && '--print', options.check && '--check', options.dryRun && '--dry-run'].filter(Boolean)
  for (const option of ['format', 'out', 'all', 'language'] as const) {
    if (options[option] !== undefined && !options.print) throw new CliError('usage', `--${option} requires --print`)
  }
  if (modes.length > 1) throw new CliError('usage', `${modes.join(' and ')} cannot be combined`)
  const found = await findStore(options, io, modes.length === 0 ? 'create' : 'read')
  return closing(found, () => {
    if (options.print) return print(found, options, io)
    return modes.length === 0 ? apply(found, options, io) : compare(found, options, io)
  })
}

async function apply({ name, store }: NamedStore, options: MigrateOptions, io: Io): Promise<number> {
  const applied = await store.schema.migrate()
  if (options.json) {
    json(io, { applied: applied.map(summary), pending: [] })
    return 0
  }
  for (const each of applied) line(io, `${paint(io, 'green', 'applied')}  ${each.version}  ${each.name}`)
  line(io, applied.length === 0 ? `${name} is up to date` : `${name} is up to date now`)
  return 0
}

/** --check and --dry-run. Neither changes anything; a check fails if a migration is missing. */
async function compare(found: NamedStore, options: MigrateOptions, io: Io): Promise<number> {
  const pending = await missing(found)
  if (options.json) json(io, { applied: [], pending: pending.map(summary) })
  else tellPending(found.name, pending, options, io)
  return options.check && pending.length > 0 ? 1 : 0
}

function tellPending(name: string, pending: readonly Migration[], options: MigrateOptions, io: Io): void {
  for (const each of pending) line(io, `${paint(io, 'yellow', 'missing')}  ${each.version}  ${each.name}`)
  const some = plural(pending.length, 'migration')
  if (pending.length === 0) line(io, `${name} is up to date`)
  else if (options.check) line(io, `${name} lacks ${some}; to apply: ${command('migrate', options)}`)
  else line(io, `migrate would apply ${some} to ${name}`)
}

/** Prints the missing migrations, or all of them: a build may have no access to the database. */
async function print(found: NamedStore, options: MigrateOptions, io: Io): Promise<number> {
  const pending = options.all ? undefined : await pendingOf(found)
  const { schema, features } = found.store
  const printed: Printed = {
    sql: schema.sql(pending?.map(({ version }) => version)),
    database: features.name,
    at: new Date(systemClock.now()),
    language: options.language ?? readProject(io.cwd)?.language ?? 'ts',
  }
  const format = options.format ?? 'sql'
  const files = options.out === undefined ? [] : write(printed, format, options.out, io)
  const sql = formatted(printed, format)
  if (options.json) {
    json(io, { applied: [], pending: pending?.map(summary) ?? null, sql, ...(options.out && { files }) })
  } else if (sql === '') io.out.write(`-- ${found.name} is up to date\n`)
  else if (options.out === undefined) io.out.write(sql)
  else for (const path of files) line(io, `${paint(io, 'green', 'wrote')}  ${path}`)
  return 0
}

async function pendingOf(found: NamedStore): Promise<readonly Migration[]> {
  try {
    return await missing(found)
  } catch (error) {
    if (!isHapaxError(error, 'store-unavailable')) throw error
    throw new CliError(error.code, `${found.name} cannot be asked what it lacks: ${error.message}`, [
      'check the address (or the file) and the credentials, and that the database is running',
      '--all prints all migrations, and needs no database',
    ])
  }
}

/** Writes the migration into the tool's folder; returns the names of the files. */
function write(printed: Printed, format: Format, folder: string, io: Io): string[] {
  if (printed.sql.statements.length === 0) return []
  const there = existingMigration(printed.sql.checksums, folder, io.cwd)
  if (there !== undefined) throw new CliError('exists', `${there} has these migrations already`)
  const files: readonly FileToWrite[] = migrationFiles(printed, format, folder, io.cwd)
  writeFiles(files, io.cwd)
  return files.map(({ path }) => path)
}

async function missing({ store }: NamedStore): Promise<readonly Migration[]> {
  return (await store.schema.migrations()).filter(({ applied }) => !applied)
}

function summary({ version, name, checksum }: Migration): object {
  return { version, name, checksum }
}
