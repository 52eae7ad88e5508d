import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { connect } from 'amqplib'
import { describe, expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { ACCESSES, type Database } from '../../src/cli/init/accesses.ts'
import { BROKER_NAMES } from '../../src/cli/init/brokers.ts'
import config from '../../tsconfig.json' with { type: 'json' }
import { cli } from '../support/cli.ts'
import { diagnosticsOf } from '../support/compiler.ts'
import { migrationTools, type OwnDatabase, ownDatabase, withMikroOrmPackages } from '../support/migration-tools.ts'
import { root } from '../support/pages.ts'
import { orSkip } from '../support/registry.ts'
import { inThisRun } from '../support/runs.ts'
import { requireServer, testBrokers, testStores } from '../support/servers.ts'

const run = promisify(execFile)

interface Combination {
  readonly orm: string
  readonly store: Database
  readonly dependencies?: object
}

/** Every ORM and driver on every database. */
const combinations: readonly Combination[] = ACCESSES.flatMap(({ name, on }) =>
  (['postgres', 'mysql', 'sqlite'] as const).filter((store) => store in on).map((store) => ({ orm: name, store })),
)

/** Other packages for the same database. */
const forks: readonly Combination[] = [
  { orm: 'mikro-orm', store: 'mysql', dependencies: { '@mikro-orm/mariadb': '*' } },
]

/** `hapax/…` of the imports that this package does not have. */
function unknownSubpaths(lines: readonly string[]): string[] {
  const names = lines.flatMap((line) => /'hapax\/(.*)'/.exec(line)?.[1] ?? [])
  return names.filter((name) => !(`./${name}` in manifest.exports))
}

const available = combinations.filter(({ orm, store }) => {
  const template = Object.entries(ACCESSES.find(({ name }) => name === orm)?.on ?? {}).find(
    ([name]) => name === store,
  )?.[1]
  return unknownSubpaths(template?.imports ?? []).length === 0
})

/** In a package like this one, in which `hapax` means the sources. */
async function diagnosed(
  write: (folder: string) => Promise<void>,
  verbatimModuleSyntax: boolean,
): Promise<readonly string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'hapax-init-'))
  try {
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ ...manifest, name: 'hapax' }))
    for (const name of ['src', 'node_modules']) symlinkSync(join(root, name), join(folder, name))
    await write(folder)
    // It has no types of its own.
    writeFileSync(join(folder, 'made.d.ts'), `declare module 'better-sqlite3'`)
    const compilerOptions = {
      ...config.compilerOptions,
      verbatimModuleSyntax,
      experimentalDecorators: true,
      // Parameter properties are how constructors of Nest are written.
      erasableSyntaxOnly: false,
      noEmit: true,
    }
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({ compilerOptions, include: ['made*/**/*.ts', 'made*/**/*.mts', 'made.d.ts'] }),
    )
    return await diagnosticsOf(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const nest = { '@nestjs/typeorm': '*', '@mikro-orm/nestjs': '*' }

/** Kinds of TypeScript projects: with ES modules, and with CommonJS, where an application of Nest injects its connection. */
const projects = [
  { kind: 'ES modules', manifest: { type: 'module' }, verbatim: true, frameworks: ['none', 'nestjs', 'express'] },
  { kind: 'CommonJS', manifest: {}, verbatim: false, frameworks: ['nestjs', 'none'] },
  { kind: 'CommonJS with packages of Nest for ORMs', manifest: {}, verbatim: false, frameworks: ['nestjs'], nest },
  { kind: 'CommonJS with verbatimModuleSyntax', manifest: {}, verbatim: true, frameworks: ['nestjs'], nest },
]

describe('what init writes', () => {
  it.for(projects)(
    'compiles, for every ORM and driver, with every broker, with and without an example: $kind',
    async ({ manifest, verbatim: verbatimModuleSyntax, frameworks, nest = {} }) => {
      const diagnostics = await diagnosed(async (folder) => {
        for (const [index, { orm, store, dependencies }] of [...available, ...forks].entries()) {
          const cwd = join(folder, `made-${index}-${orm}-${store}`)
          mkdirSync(join(cwd, 'node_modules'), { recursive: true })
          symlinkSync(folder, join(cwd, 'node_modules/hapax'))
          const named = { name: 'shop', ...manifest, imports: {}, dependencies: { ...dependencies, ...nest } }
          writeFileSync(join(cwd, 'package.json'), JSON.stringify(named))
          const compilerOptions = { ...config.compilerOptions, verbatimModuleSyntax }
          writeFileSync(join(cwd, 'tsconfig.json'), JSON.stringify({ compilerOptions }))
          const broker = BROKER_NAMES[index % BROKER_NAMES.length] ?? 'none'
          const framework = frameworks[index % frameworks.length] ?? 'none'
          const example = index % 4 === 3 ? ['--no-example'] : []
          const init = [
            'init',
            '--orm',
            orm,
            '--store',
            store,
            '--broker',
            broker,
            '--framework',
            framework,
            ...example,
          ]
          expect(await cli([...init, '--no-migration'], { cwd })).toMatchObject({ exitCode: 0, stderr: '' })
        }
      }, verbatimModuleSyntax)
      // It is generated in a project, and not here.
      const generated = /'"@prisma\/client"' has no exported member 'PrismaClient'/
      expect(diagnostics.filter((each) => !generated.test(each))).toEqual([])
      expect(available.length).toBeGreaterThan(5)
    },
  )
})

/** Starts the worker, publishes two orders, and ends once both have been billed. */
const PROGRAM = `
const { connected, hapax, placeOrder, worker } = await import(process.argv[2])
await connected
let left = 2
const done = new Promise((resolve) => hapax.events.on('processed', () => --left === 0 && resolve()))
await worker.start()
await placeOrder('A1', 1)
await placeOrder('A2', 2)
await done
await worker.stop()
await hapax.close()
process.exit(0)
`

async function hapaxCommand(project: string, env: NodeJS.ProcessEnv, ...argv: string[]): Promise<string> {
  const args = ['--conditions=hapax-source', join(root, 'src/cli/main.ts'), ...argv]
  const { stdout } = await run(process.execPath, args, { cwd: project, env: { ...process.env, ...env } })
  return stdout
}

/** What is printed when the example of a project runs. */
async function ranExample(project: string, file: string, env: NodeJS.ProcessEnv): Promise<string[]> {
  const program = join(project, 'run.mjs')
  writeFileSync(program, PROGRAM)
  const args = ['--conditions=hapax-source', '--no-warnings', program, `./${file}`]
  const { stdout } = await run(process.execPath, args, { cwd: project, env: { ...process.env, ...env } })
  return stdout.trim().split('\n').toSorted()
}

function environment({ store, url, file }: OwnDatabase): NodeJS.ProcessEnv {
  return store === 'sqlite' ? { DATABASE_FILE: file } : { DATABASE_URL: url }
}

/** Sets a project up and runs its example, with the commands that init prints; `tool` stands for the one of the ORM. */
async function expectRunning(
  database: OwnDatabase,
  argv: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<void> {
  const { project } = database
  const all = { ...environment(database), ...env }
  const { exitCode, stdout } = await cli(['init', ...argv, '--json'], { cwd: project })
  expect(exitCode).toBe(0)
  const { files, setup } = JSON.parse(stdout)
  const tool = migrationTools.find(({ format }) => format === setup.orm)
  if (tool === undefined) await hapaxCommand(project, all, 'migrate')
  else await tool.up(database, join(project, files[2].path.split('/')[0]))
  expect(await ranExample(project, files[0].path, all)).toEqual(['billed A1', 'billed A2'])
  expect(await hapaxCommand(project, all, 'doctor')).toContain('ok')
  expect(readdirSync(project)).toContain(files[1].path)
}

const has = (store: 'sqlite' | 'postgres' | 'mysql'): boolean => testStores().includes(store)

/** Kinds of packages, of which Node.js reads some files as CommonJS. */
const packages = [{ type: 'module' }, { type: 'commonjs' }, {}].flatMap((type) => [
  { ...type, name: 'shop' },
  { ...type, name: 'shop', devDependencies: { typescript: '*' } },
])

/** Prisma's client is generated, by a program that has to be downloaded. */
const runnable = available.filter(({ orm, store }) => orm !== 'prisma' && has(store))

// Each starts three processes one after the other, which takes long on a busy machine.
describe('a project that init has set up', () => {
  it.for(inThisRun(packages, ({ type }) => type === 'commonjs'))(
    'runs on SQLite without a broker: %o',
    async (manifest) => {
      await using database = await ownDatabase('sqlite', manifest)
      await expectRunning(database, ['--orm', 'sqlite'])
    },
  )

  it.for(inThisRun(runnable, ({ orm, store }) => ['drizzle postgres', 'knex mysql'].includes(`${orm} ${store}`)))(
    'runs through $orm on $store',
    async ({ orm, store }, { skip }) => {
      await using database = await ownDatabase(store)
      if (orm === 'mikro-orm') await orSkip(withMikroOrmPackages(database), skip)
      await expectRunning(database, ['--orm', orm, '--store', store])
    },
  )

  it.runIf(has('postgres'))('runs in CommonJS through an ORM that has to connect first', async () => {
    await using database = await ownDatabase('postgres', { type: 'commonjs' })
    await expectRunning(database, ['--orm', 'typeorm', '--store', 'postgres'])
  })

  it.runIf(has('postgres') && testBrokers().includes('rabbitmq'))(
    'runs on pg and RabbitMQ, which package.json names',
    async () => {
      const name = `shop-${process.pid}`
      const url = requireServer('rabbitmq')
      const dependencies = { pg: '*', amqplib: '*' }
      await using database = await ownDatabase('postgres', { name, type: 'module', dependencies })
      try {
        await expectRunning(database, [], { RABBITMQ_URL: url })
      } finally {
        const connection = await connect(url)
        const channel = await connection.createChannel()
        await channel.deleteQueue(`${name}.billing`)
        await channel.deleteExchange(name)
        await connection.close()
      }
    },
  )
})
