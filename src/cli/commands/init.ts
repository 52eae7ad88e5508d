// Sets a project up: the store and the broker, a first migration, an example. It never changes a file that is there.

import { existsSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { Option } from 'commander'
import { asError, messageOf, systemClock } from '../../base/index.ts'
import type { MigrationSql } from '../../contracts/index.ts'
import { CONFIG_NAMES } from '../config.ts'
import { ACCESS_NAMES, type Database, type StoreTemplate } from '../init/accesses.ts'
import { BROKER_NAMES } from '../init/brokers.ts'
import { choose, FRAMEWORK_NAMES, type Given } from '../init/choices.ts'
import { assertCompiles } from '../init/compiling.ts'
import { type Setup, sourceFolder } from '../init/setup.ts'
import { projectFiles } from '../init/starter.ts'
import { missingPackages, nextSteps, type Step } from '../init/steps.ts'
import { CliError } from '../io/errors.ts'
import { type Io, json, line, paint } from '../io/io.ts'
import { existingMigration, type FileToWrite, migrationFiles, writeFiles } from '../migrations/files.ts'
import { type AddCommand, examples } from '../options.ts'
import { type Language, type Project, readProject } from '../project.ts'

/** Options of `hapax init`. */
interface InitOptions extends Given {
  readonly migrations?: string
  readonly migration: boolean
  readonly example: boolean
  readonly force?: true
  readonly dryRun?: true
  readonly json?: true
}

/** What became of a file: `kept` is one that differs. */
type State = 'written' | 'there' | 'kept' | 'overwritten'

interface Planned extends FileToWrite {
  readonly state: State
}

/** Adds `hapax init`. */
export const addInit: AddCommand = (root, io, done) => {
  root
    .command('init')
    .description('Sets hapax up in this project: configuration, first migration, an example.')
    .addOption(new Option('--orm <name>', 'the ORM or driver (default: what package.json names)').choices(ACCESS_NAMES))
    .addOption(new Option('--store <database>', 'the database').choices(['postgres', 'mysql', 'sqlite']))
    .addOption(new Option('--broker <name>', 'the broker').choices(BROKER_NAMES))
    .addOption(new Option('--framework <name>', 'the framework').choices(FRAMEWORK_NAMES))
    .option('--migrations <folder>', "the folder of the ORM's migrations")
    .option('--no-migration', 'write no migration: npx hapax migrate creates the tables')
    .option('--no-example', 'write no message type, consumer and worker')
    .option('--yes', 'ask nothing: take the first of several')
    .option('--force', 'overwrite files that differ')
    .option('--dry-run', 'write nothing; print what would be written')
    .option('--json', 'print JSON instead of text')
    .addHelpText(
      'after',
      `
Reads package.json and asks where it names several ORMs, databases or brokers.
Files that are there are left alone, so that it can be run again.
${examples('hapax init', 'hapax init --orm drizzle --store postgres --broker rabbitmq', 'hapax init --dry-run')}`,
    )
    .action(async (options) => done(await init(options, io)))
}

async function init(options: InitOptions, io: Io): Promise<number> {
  const project = projectOf(io)
  const setup = setupOf(project, await choose(project, options, io), options.example)
  assertCompiles(project)
  const { files, migration } = await planned(setup, options, io)
  if (!options.dryRun) writeAll(files, io)
  const missing = missingPackages(setup, migration)
  const steps = nextSteps(setup, missing, migration)
  if (options.json) json(io, document(setup, files, missing, steps, options))
  else tell(setup, files, steps, options, io)
  return 0
}

function projectOf(io: Io): Project {
  const project = readProject(io.cwd)
  if (project !== undefined) return project
  throw new CliError('not-found', `there is no package.json in ${io.cwd}`, [
    'run it in the directory of your project, or make one: npm init -y',
  ])
}

function setupOf(
  project: Project,
  choices: Omit<Setup, 'project' | 'app' | 'template' | 'example'>,
  example: boolean,
): Setup {
  const first = choices.access.on[choices.database]
  if (first === undefined) throw new CliError('usage', `${choices.access.name} does not work on ${choices.database}`)
  const lacking = ({ packages }: StoreTemplate): number => packages.filter((name) => !project.packages.has(name)).length
  const template = first.other !== undefined && lacking(first.other) < lacking(first) ? first.other : first
  const plain = (project.name ?? '').replace(/^.*\//, '').replaceAll(/[^A-Za-z0-9_-]/g, '-')
  return { ...choices, project, template, app: plain.replace(/^[-_]+/, '') || 'app', example }
}

async function planned(
  setup: Setup,
  options: InitOptions,
  io: Io,
): Promise<{ files: Planned[]; migration: string | undefined }> {
  const files = projectFiles(setup).map((file) => ({ ...file, state: stateOf(file, options, io) }))
  const migration = options.migration ? await firstMigration(setup, options, io) : []
  // The journal of a tool is extended, and not overwritten.
  return { files: [...files, ...migration], migration: migration[0]?.path }
}

function stateOf({ path, text }: FileToWrite, { force }: InitOptions, { cwd }: Io): State {
  const isConfig = path.startsWith('hapax.config.')
  const there = isConfig ? [path, ...CONFIG_NAMES].find((name) => existsSync(join(cwd, name))) : path
  if (there === undefined || !existsSync(join(cwd, there))) return 'written'
  if (there !== path) return 'kept'
  if (readFileSync(join(cwd, path), 'utf8') === text) return 'there'
  return force ? 'overwritten' : 'kept'
}

async function firstMigration(setup: Setup, { migrations }: InitOptions, { cwd }: Io): Promise<Planned[]> {
  const { access, database } = setup
  if (access.migrations === undefined) return []
  const { format, folders } = access.migrations
  const language = migrationLanguage(setup)
  const there = folders.find((name) => existsSync(join(cwd, name)))
  const folder = migrations ?? there ?? newFolder(setup, folders[0] ?? 'migrations', language)
  const sql = await migrationSql(database)
  const known = existingMigration(sql.checksums, folder, cwd)
  if (known !== undefined) return [{ path: known, text: '', state: 'there' }]
  const printed = { sql, database, at: new Date(systemClock.now()), language }
  return migrationFiles(printed, format, folder, cwd).map((file) => ({ ...file, state: 'written' }))
}

/** Knex runs its migrations as they are, and reads TypeScript only in projects whose knexfile is written in it. */
function migrationLanguage({ access, project: { directory, language, modules } }: Setup): Language {
  if (access.name !== 'knex' || language !== 'ts' || existsSync(join(directory, 'knexfile.ts'))) return language
  return modules
}

/** A source that is compiled belongs to the others: in the root it would put the output of all of them one folder deeper. */
function newFolder(setup: Setup, name: string, language: Language): string {
  const isSource = language === 'ts' && !['drizzle', 'prisma'].includes(setup.access.name)
  return isSource ? posix.join(sourceFolder(setup), name) : name
}

/** All migrations of a database, which is not opened. */
async function migrationSql(database: Database): Promise<MigrationSql> {
  switch (database) {
    case 'postgres': {
      const { postgres } = await import('../../stores/postgres/index.ts')
      return postgres({ url: 'postgres://localhost/none' }).schema.sql()
    }
    case 'mysql': {
      const { mysql } = await import('../../stores/mysql/index.ts')
      return mysql({ url: 'mysql://localhost/none' }).schema.sql()
    }
    case 'sqlite': {
      const { sqlite } = await import('../../stores/sqlite/index.ts')
      return sqlite({ path: ':memory:' }).schema.sql()
    }
  }
}

function writeAll(files: readonly Planned[], io: Io): void {
  for (const file of files.filter(({ state }) => state === 'written' || state === 'overwritten')) {
    try {
      writeFiles([file], io.cwd)
    } catch (error) {
      throw new CliError('unwritable', `${file.path} could not be written: ${messageOf(asError(error))}`, [
        'check the permissions of the directory; what was written before is left there',
      ])
    }
  }
}

function document(
  { access, database, broker, framework, project }: Setup,
  files: readonly Planned[],
  missing: readonly string[],
  steps: readonly Step[],
  { dryRun }: InitOptions,
): object {
  return {
    dryRun: dryRun === true,
    setup: { orm: access.name, store: database, broker, framework, language: project.language },
    files: files.map(({ path, state }) => ({ path, state })),
    install: missing,
    next: steps,
  }
}

const COLORS = { written: 'green', overwritten: 'yellow', there: 'dim', kept: 'yellow' } as const

function tell(
  { access, database, broker, framework }: Setup,
  files: readonly Planned[],
  steps: readonly Step[],
  { dryRun }: InitOptions,
  io: Io,
): void {
  const parts = [
    `${access.name} on ${database}`,
    broker === 'none' ? 'no broker' : broker,
    framework === 'none' ? '' : framework,
  ]
  line(io, `setting up ${parts.filter(Boolean).join(', ')}\n`)
  for (const { path, state } of files) {
    const note = state === 'kept' ? '  it differs, or another configuration is there; --force overwrites it' : ''
    line(
      io,
      `${paint(io, COLORS[state], (dryRun && state !== 'there' ? `would be ${state}` : state).padEnd(11))}  ${path}${note}`,
    )
  }
  if (files.every(({ state }) => state === 'there')) line(io, '\neverything is there already')
  line(io, '\nnext:')
  for (const [index, { title, command }] of steps.entries()) {
    line(
      io,
      `${String(index + 1).padStart(2)}. ${title}${command === undefined ? '' : `: ${paint(io, 'bold', command)}`}`,
    )
  }
  line(io, '\ndocumentation: node_modules/hapax/docs/README.md')
}
