// Runs the suites of stores and brokers with the oldest client libraries that package.json allows: `npm run test:peers`, or some of them:
// `npm run test:peers -- pg amqplib`. `pg@8.11.0` tries another version.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, globSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import manifest from '../package.json' with { type: 'json' }
import { installed } from '../test/support/registry.ts'

const root = join(import.meta.dirname, '..')
const peers: Readonly<Record<string, string>> = manifest.peerDependencies

/** Packages that are tested together, and the tests that use them. */
interface Suite {
  readonly packages: readonly string[]
  readonly files: string
}

const suites: readonly Suite[] = [
  { packages: ['pg'], files: 'test/stores/postgres*.test.ts' },
  { packages: ['drizzle-orm', 'pg'], files: 'test/stores/drizzle.test.ts' },
  { packages: ['mysql2'], files: 'test/stores/mysql*.test.ts' },
  { packages: ['ioredis'], files: 'test/{stores/redis*,brokers/redis-streams*}.test.ts' },
  { packages: ['amqplib'], files: 'test/brokers/rabbitmq*.test.ts' },
  { packages: ['@nats-io/jetstream', '@nats-io/transport-node'], files: 'test/brokers/nats*.test.ts' },
  { packages: ['@platformatic/kafka'], files: 'test/brokers/kafka*.test.ts' },
]

interface Line {
  readonly clients: string
  readonly passed: number
  readonly failed: number
  readonly skipped: number
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

async function run({ packages, files }: Suite): Promise<Line> {
  const versions = Object.fromEntries(packages.map((name) => [name, versionOf(name)]))
  const clients = Object.entries(versions)
    .map((each) => each.join('@'))
    .join(' ')
  console.log(`\n${clients}\n`)
  const copy = mkdtempSync(join(tmpdir(), 'hapax-peers-'))
  try {
    await copyWith(copy, versions)
    return { clients, ...(await vitest(copy, files)) }
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

/** The one asked for, or the lowest that the range allows. */
function versionOf(name: string): string {
  const version = asked.find((each) => each.name === name)?.version
  const lowest = /^>=(\d+\.\d+\.\d+)$/.exec(peers[name] ?? '')?.[1]
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

async function vitest(copy: string, files: string): Promise<Omit<Line, 'clients'>> {
  const report = join(copy, 'report.json')
  const paths = globSync(files, { cwd: copy })
  const args = ['run', '--reporter=default', '--reporter=json', `--outputFile=${report}`, ...paths]
  const child = spawn('vitest', args, { cwd: copy, stdio: ['ignore', 'inherit', 'inherit'] })
  await once(child, 'close')
  const { numPassedTests, numFailedTests, numPendingTests } = JSON.parse(readFileSync(report, 'utf8'))
  return { passed: numPassedTests, failed: numFailedTests, skipped: numPendingTests }
}
