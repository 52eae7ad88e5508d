import { fieldOf } from '../../base/index.ts'
// Applies or prints migrations. `--print` is for teams whose migrations run through another tool; `--check` is for pipelines.

import { Option } from 'commander'
import type { Migration } from '../../contracts/index.ts'
import { CliError } from '../io/errors.ts'
import { type Io, json, line, paint } from '../io/io.ts'
import { plural } from '../io/text.ts'
import { FORMAT_NAMES, FORMATS_HELP, type Format, formatted } from '../migration-formats.ts'
import { type AddCommand, examples, withStore } from '../options.ts'
import { closing, command, findStore, type NamedStore, type StoreOptions } from '../store.ts'

/** Options of `hapax migrate`. */
interface MigrateOptions extends StoreOptions {
  readonly print?: true
  /** @default 'sql' */
  readonly format?: Format
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
    .option('--check', 'change nothing; exit with 1 if a migration is missing or differs')
    .option('--dry-run', 'change nothing; print what would be applied')
    .addHelpText(
      'after',
      examples(
        'hapax migrate --store postgres://localhost/shop',
        'hapax migrate --print > migrations/20260101_hapax.sql',
        'hapax migrate --store mysql://localhost/shop --print --format client | mysql shop',
        'hapax migrate --check',
      ),
    )
    .action(async (options) => done(await migrate(options, io)))
}

/** Applies the migrations, or prints what it would apply. */
async function migrate(options: MigrateOptions, io: Io): Promise<number> {
  const modes = [options.print && '--print', options.check && '--check', options.dryRun && '--dry-run'].filter(Boolean)
  if (options.format !== undefined && !options.print) throw new CliError('usage', '--format requires --print')
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

/** Prints the missing migrations, or all of them if the database cannot be reached: a build may have no access to it. */
async function print(found: NamedStore, options: MigrateOptions, io: Io): Promise<number> {
  const pending = await missing(found).catch((error: unknown) => {
    if (fieldOf(error, 'code') !== 'store-unavailable') throw error
    io.err.write(`-- ${found.name} cannot be reached: printing all migrations\n`)
    return undefined
  })
  const sql = formatted(found.store.schema.sql(pending?.map(({ version }) => version)), options.format ?? 'sql')
  if (options.json) json(io, { applied: [], pending: pending?.map(summary) ?? null, sql })
  else io.out.write(sql === '' ? `-- ${found.name} is up to date\n` : sql)
  return 0
}

async function missing({ store }: NamedStore): Promise<readonly Migration[]> {
  return (await store.schema.migrations()).filter(({ applied }) => !applied)
}

function summary({ version, name, checksum }: Migration): object {
  return { version, name, checksum }
}
