import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Project } from '../project.ts'
import { BROKERS } from './brokers.ts'
import { configName, hasWorker, injectedOf, isNest, mainFile, nestFile, prismaOutput, type Setup } from './setup.ts'

/** A thing to do next, and the command for it, if there is one. */
export interface Step {
  readonly title: string
  readonly command?: string
}

const TYPES: Readonly<Record<string, string>> = { pg: '@types/pg', 'better-sqlite3': '@types/better-sqlite3' }

const LOCKS: readonly (readonly [file: string, add: string])[] = [
  ['package-lock.json', 'npm install'],
  ['pnpm-lock.yaml', 'pnpm add'],
  ['yarn.lock', 'yarn add'],
  ['bun.lock', 'bun add'],
  ['bun.lockb', 'bun add'],
]

/** The packages that the files and the commands need and package.json does not name. `migration` is its file, if there is one. */
export function missingPackages({ project, access, template, broker }: Setup, migration: string | undefined): string[] {
  const client = broker === 'none' ? [] : clientsOf(broker, project)
  const tool = migration === undefined ? [] : (access.migrations?.packages ?? [])
  const needed = ['hapax', ...template.packages, ...tool, ...client]
  const imported = (name: string): boolean => template.imports.some((line) => line.endsWith(`'${name}'`))
  const types = project.language === 'ts' ? needed.filter(imported).flatMap((name) => TYPES[name] ?? []) : []
  const node = project.language === 'ts' ? ['@types/node'] : []
  return [...new Set([...needed, ...types, ...node])].filter((name) => !project.packages.has(name))
}

/** Redis Streams work with either client; the others need their own. */
function clientsOf(broker: keyof typeof BROKERS, { packages }: Project): readonly string[] {
  return broker === 'redis-streams' && packages.has('redis') ? ['redis'] : BROKERS[broker].packages
}

/** What is left to do, in order. `migration` is the file of the first migration, if there is one. */
export function nextSteps(setup: Setup, missing: readonly string[], migration: string | undefined): Step[] {
  const { access, database, broker } = setup
  const variables = [
    database === 'sqlite' ? 'DATABASE_FILE' : 'DATABASE_URL',
    ...(broker === 'none' ? [] : [BROKERS[broker].variable]),
  ]
  const tables = migration === undefined ? 'npx hapax migrate' : access.migrations?.command
  return [
    ...(missing.length === 0 ? [] : [{ title: 'install', command: `${adder(setup.project)} ${missing.join(' ')}` }]),
    ...generating(setup),
    { title: `set ${variables.join(' and ')}, or change the defaults in ${defaultsIn(setup)}` },
    ...(tables === undefined ? [] : [{ title: 'create the tables', command: tables }]),
    ...starting(setup),
    // Jest loads ES modules only then, whatever Node.js does.
    ...(setup.project.packages.has('jest')
      ? [{ title: 'run the tests', command: 'NODE_OPTIONS=--experimental-vm-modules npx jest' }]
      : []),
    { title: 'check', command: 'npx hapax doctor' },
  ]
}

/** Where the URLs are. */
function defaultsIn(setup: Setup): string {
  if (injectedOf(setup) === undefined) return mainFile(setup)
  return setup.broker === 'none' ? configName(setup) : `${nestFile(setup)} and ${configName(setup)}`
}

/** Prisma's client is imported from where it is generated. */
function generating({ access, project }: Setup): Step[] {
  const output = access.name === 'prisma' ? prismaOutput(project) : undefined
  const there = output === undefined || existsSync(join(project.directory, output))
  return there ? [] : [{ title: 'generate the client', command: 'npx prisma generate' }]
}

/** The tool that adds packages, by the lockfile, which may be that of a monorepo further up. */
function adder({ directory }: Project): string {
  for (let place = directory; ; place = dirname(place)) {
    const lock = LOCKS.find(([file]) => existsSync(join(place, file)))
    if (lock !== undefined) return lock[1]
    if (dirname(place) === place) return 'npm install'
  }
}

const INSIDE: Readonly<Record<string, string>> = {
  next: 'in instrumentation.ts, call worker.start() in register() if NEXT_RUNTIME is nodejs',
  express: 'beside app.listen: await worker.start(); at SIGTERM: await worker.stop()',
  fastify: "fastify.addHook('onReady', () => worker.start()) and fastify.addHook('onClose', () => worker.stop())",
  hono: 'beside serve(app): await worker.start(); at SIGTERM: await worker.stop()',
}

function starting(setup: Setup): Step[] {
  if (isNest(setup)) {
    return [
      {
        title: `import MessagesModule of ${nestFile(setup)} into your application module`,
      },
    ]
  }
  if (!hasWorker(setup)) return []
  const inside = INSIDE[setup.framework]
  return [
    { title: 'run the worker as a process of its own', command: 'npx hapax work' },
    ...(inside === undefined ? [] : [{ title: `or inside the server: ${inside}` }]),
  ]
}
