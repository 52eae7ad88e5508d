// Runs the suites of stores and brokers with the oldest client libraries and ORMs that should pass: `npm run test:peers`, or some of them:
// `npm run test:peers -- pg amqplib`. `pg@8.11.0` tries another version.
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import manifest from '../package.json' with { type: 'json' }
import { OLDEST_ORMS } from '../test/support/oldest-orms.ts'
import { installed } from '../test/support/registry.ts'
import { type Counted, countTests } from './counted.ts'

const root = join(import.meta.dirname, '..')
const peers: Readonly<Record<string, string>> = manifest.peerDependencies
const usual: Readonly<Record<string, string>> = manifest.devDependencies

/** Packages that are tested together, and the tests that use them. */
interface Suite {
  readonly packages: readonly string[]
  /** Drivers that these packages find for themselves; they are those of today. */
  readonly drivers?: readonly string[]
  readonly files: string
}

const drivers = ['pg', 'mysql2', 'better-sqlite3', '@libsql/client']

const suites: readonly Suite[] = [
  { packages: ['pg'], files: 'test/stores/postgres*.test.ts' },
  { packages: ['drizzle-orm'], drivers, files: 'test/connections/drizzle*.test.ts' },
  { packages: ['@electric-sql/pglite'], files: 'test/connections/pglite.test.ts' },
  { packages: ['@prisma/client'], files: 'test/connections/prisma.test.ts' },
  { packages: ['typeorm'], drivers: ['pg', 'mysql2'], files: 'test/connections/typeorm.test.ts' },
  { packages: ['postgres'], files: 'test/connections/postgres-js.test.ts' },
  { packages: ['kysely'], drivers, files: 'test/connections/kysely.test.ts' },
  { packages: ['knex'], drivers, files: 'test/connections/knex.test.ts' },
  { packages: ['better-sqlite3'], files: 'test/connections/better-sqlite3.test.ts' },
  { packages: ['@libsql/client'], files: 'test/connections/libsql.test.ts' },
  { packages: ['sequelize'], drivers, files: 'test/connections/sequelize.test.ts' },
  { packages: ['mysql2'], files: 'test/stores/mysql*.test.ts' },
  { packages: ['ioredis'], files: 'test/{stores/redis*,brokers/redis-streams*}.test.ts' },
  { packages: ['amqplib'], files: 'test/brokers/rabbitmq*.test.ts' },
  { packages: ['@nats-io/jetstream', '@nats-io/transport-node'], files: 'test/brokers/nats*.test.ts' },
  { packages: ['@platformatic/kafka'], files: 'test/brokers/kafka*.test.ts' },
]

interface Line extends Counted {
  readonly clients: string
}

const asked = process.argv.slice(2).map(askedFor)
const chosen = suites.filter(({ packages: [first] }) => asked.length === 0 || asked.some(({ name }) => name === first))
const lines: Line[] = []
for (const suite of chosen) lines.push(await run(suite))
console.table(lines)
process.exitCode = lines.every(({ passed, failed }) => passed > 0 && failed === 0) ? 0 : 1

/** `pg`, or `pg@8.12.0`. */
function askedFor(text: string): { name: string; version: string | undefined } {
  const [, name = '', version] = /^(.[^@]*)(?:@(.+))?$/.exec(text) ?? []
  if (!suites.some(({ packages }) => packages[0] === name)) {
    throw new Error(`expected some of ${suites.map(({ packages }) => packages[0]).join(', ')}, got '${text}'`)
  }
  return { name, version }
}

async function run({ packages, drivers = [], files }: Suite): Promise<Line> {
  const versions = Object.fromEntries(packages.map((name) => [name, versionOf(name)]))
  const clients = Object.entries(versions)
    .map((each) => each.join('@'))
    .join(' ')
  console.log(`\n${clients}\n`)
  const copy = mkdtempSync(join(tmpdir(), 'hapax-peers-'))
  try {
    const beside = Object.fromEntries(drivers.map((name) => [name, usual[name] ?? '']))
    await copyWith(copy, { ...beside, ...versions })
    // The support table is about other versions.
    return { clients, ...(await countTests(copy, [files], { HAPAX_TEST_PEERS: '1' })) }
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

/** The one asked for, or the oldest that should pass. */
function versionOf(name: string): string {
  const version = asked.find((each) => each.name === name)?.version
  const lowest = OLDEST_ORMS[name] ?? /^>=(\d+\.\d+\.\d+)$/.exec(peers[name] ?? '')?.[1]
  if (version === undefined && lowest === undefined) throw new Error(`expected the range of ${name} to be like >=1.2.3`)
  return version ?? lowest ?? ''
}

/** A copy of the project that has these versions, and all its other packages by links. */
async function copyWith(copy: string, versions: Readonly<Record<string, string>>): Promise<void> {
  const others = await installed(versions)
  for (const name of ['package.json', 'package-lock.json', 'tsconfig.json', 'vitest.config.ts', 'README.md']) {
    cpSync(join(root, name), join(copy, name))
  }
  for (const name of ['src', 'test', 'scripts', 'examples', 'docs']) {
    cpSync(join(root, name), join(copy, name), { recursive: true })
  }
  for (const name of packagesIn(join(root, 'node_modules'))) link(join(root, 'node_modules', name), copy, name)
  for (const name of Object.keys(versions)) {
    rmSync(join(copy, 'node_modules', name))
    link(join(others, 'node_modules', name), copy, name)
  }
}

/** The names of the packages, including those in scopes. */
function packagesIn(directory: string): string[] {
  return readdirSync(directory).flatMap((name) =>
    name.startsWith('@') ? readdirSync(join(directory, name)).map((each) => `${name}/${each}`) : [name],
  )
}

function link(target: string, copy: string, name: string): void {
  const path = join(copy, 'node_modules', name)
  mkdirSync(dirname(path), { recursive: true })
  symlinkSync(target, path)
}
