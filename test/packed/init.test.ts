import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { afterAll, describe, expect, it, type TestContext } from 'vitest'
import { ownDatabase } from '../support/migration-tools.ts'
import { installed, npmInstall, orSkip } from '../support/registry.ts'
import { testBrokers, testStores } from '../support/servers.ts'
import { packed, run, Service } from './app.ts'
import { installations, type Kind, kinds } from './init-projects.ts'
import type { Packed } from './setup.ts'

interface Place {
  readonly folder: string
  readonly installed: string
}

const places = new Map<string, Promise<Place>>()
afterAll(async () => {
  for (const place of await Promise.allSettled(places.values())) {
    if (place.status === 'fulfilled') rmSync(place.value.folder, { recursive: true, force: true })
  }
})

/** A folder for projects, in which hapax is installed, below the packages that they share. Those are kept between runs. */
function workplace(name: Kind['installation'], { tarball }: Packed): Promise<Place> {
  const make = async (): Promise<Place> => {
    const made = await installed(installations[name])
    const folder = mkdtempSync(join(made, 'projects-'))
    const dependencies = { hapax: `file:${tarball}` }
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, dependencies }))
    // Next takes the folder of the one lockfile for the root of all.
    await npmInstall(folder, '--no-package-lock')
    return { folder, installed: made }
  }
  const place = places.get(name) ?? make()
  places.set(name, place)
  return place
}

/** The file of a program, by the package that brings it. */
function program({ folder, installed }: Place, tool: string): string {
  const packages: Readonly<Record<string, string>> = {
    nest: '@nestjs/cli',
    fastify: 'fastify-cli',
    tsc: 'typescript',
    typescript7: 'typescript7',
  }
  const home = join(tool === 'hapax' ? folder : installed, 'node_modules', packages[tool] ?? tool)
  const { bin } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'))
  return join(home, typeof bin === 'string' ? bin : (bin[tool] ?? bin.tsc))
}

/** So that no tool downloads anything, or waits for an answer. */
const QUIET = {
  CI: '1',
  CHECKPOINT_DISABLE: '1',
  NEXT_TELEMETRY_DISABLED: '1',
  PRISMA_SCHEMA_ENGINE_BINARY: process.execPath,
  npm_config_offline: 'true',
}

function toolsIn(place: Place, directory: string) {
  return async (tool: string, args: readonly string[], where = '.'): Promise<string> => {
    const start = { cwd: join(directory, where), env: QUIET }
    const { code, stdout, stderr } = await run(process.execPath, [program(place, tool), ...args], start)
    if (code !== 0) throw new Error(`${tool} ${args.join(' ')} failed:\n${stdout}${stderr}`)
    return stdout
  }
}

/** The project, set up by init, built and run on a database of its own, until a message is handled. */
async function expectHandled(kind: Kind, context: TestContext): Promise<void> {
  const place = await orSkip(workplace(kind.installation, packed(context)), context.skip)
  const directory = join(mkdtempSync(join(place.folder, 'project-')), 'shop')
  const tool = toolsIn(place, directory)
  const build = async (): Promise<void> => {
    for (const [name, ...args] of kind.build) await tool(name, args)
  }
  await kind.make({ directory, installed: place.installed, tool })
  const [first] = kind.start
  if (first.endsWith('.js')) {
    await build()
    // Where the compiler puts it without hapax, and from where it starts below.
    expect(readdirSync(join(directory, dirname(first)))).toContain(basename(first))
    rmSync(join(directory, 'dist'), { recursive: true })
  }
  await tool('hapax', ['init', '--store', 'postgres'])
  kind.complete(directory)
  await build()
  await using database = await ownDatabase('postgres')
  const env = { ...QUIET, DATABASE_URL: database.url, KAFKA_URL: process.env['HAPAX_TEST_KAFKA'] ?? '', PORT: '0' }
  await started(kind, place, directory, env)
}

async function started(
  { start: [first, ...args], migrates }: Kind,
  place: Place,
  cwd: string,
  env: Readonly<Record<string, string>>,
): Promise<void> {
  const migrate = async (...more: string[]): Promise<void> => {
    const { code, stderr } = await run(process.execPath, [program(place, 'hapax'), 'migrate', ...more], {
      cwd,
      env,
    })
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  }
  if (!migrates) await migrate()
  const file = first.endsWith('.js') ? join(cwd, first) : program(place, first)
  const service = new Service(process.execPath, [file, ...args], { cwd, env })
  await service.printed('billed A1')
  await migrate('--check')
  service.kill('SIGTERM')
  await service.ended
}

const runnable = Object.entries(kinds).filter(([name]) => !name.includes('Kafka') || testBrokers().includes('kafka'))

describe.runIf(testStores().includes('postgres'))('a project that its own tool has made', () => {
  // The first of each installation waits for it, and Next builds for a minute on a busy machine.
  it.for(runnable)(
    'compiles, builds, starts and handles a message after hapax init: %s',
    { timeout: 600_000 },
    ([, kind], context) => expectHandled(kind, context),
  )
})
