// Runs the suites of stores and brokers on every version of their servers: `npm run test:servers`, or on some of them:
// `npm run test:servers -- mysql-9.7 rabbitmq-4.3`. What it finds goes into docs/support.md.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { serverVariables } from '../test/support/servers.ts'
import { askedNames } from './asked.ts'
import { variableOf } from './servers/given.ts'
import { type Outcome, record } from './servers/matrix.ts'
import { obtain } from './servers/obtain.ts'
import { NotToBeHad, type Obtained } from './servers/obtained.ts'
import type { Run } from './servers/one-run.ts'
import { suites } from './servers/suites.ts'
import { type ServerVersion, versions } from './servers/versions.ts'

const help = `Usage: npm run test:servers [-- <version> ...]

Runs the suites that belong to each version of a server, and updates its row in docs/support.md. Without names, all of them.
  ${versions.map(({ name }) => name).join(' ')}

A version is the server that a variable names (${variableOf('mysql-9.7')} for mysql-9.7); or the one that apt has installed; or it is
downloaded from npm, Debian or Ubuntu without being installed (kept in HAPAX_TEST_CACHE, or the temporary folder); or a container of
Docker Compose. One that cannot be had is listed with the reason.
`

process.exitCode = await main()

async function main(): Promise<number> {
  const names = askedNames(
    versions.map(({ name }) => name),
    help,
  )
  const chosen = versions.filter(({ name }) => names.includes(name))
  const lines: ReturnType<typeof lineOf>[] = []
  for (const [index, version] of chosen.entries()) {
    tell(`${version.name} (${index + 1} of ${chosen.length})`)
    const outcome = await outcomeOf(version)
    record(version.name, outcome, new Date())
    lines.push(lineOf(version, outcome))
  }
  console.table(lines)
  return lines.every(({ failed }) => failed === '' || failed === 0) ? 0 : 1
}

function tell(what: string): void {
  console.error(`servers: ${what}`)
}

function lineOf({ name }: ServerVersion, outcome: Outcome) {
  const { said = '', counted = { passed: '', skipped: '', failed: '' }, how } = outcome
  return { name, said, ...counted, how }
}

/** What goes wrong with one version hinders no other. */
async function outcomeOf(version: ServerVersion): Promise<Outcome> {
  try {
    const obtained = await obtain(version)
    tell(`${version.name}: ${obtained.how}`)
    const { said, ...counted } = await suitesOn(version, obtained)
    tell(`${said}: ${counted.passed} passed, ${counted.skipped} skipped, ${counted.failed} failed`)
    return { how: obtained.how, said, counted }
  } catch (error) {
    const { message } = error as Error
    tell(`${version.name}: ${message}`)
    if (error instanceof NotToBeHad) return { how: `not to be had: ${message}` }
    return { how: 'did not run', counted: { passed: 0, skipped: 0, failed: 1 } }
  }
}

/** Starts the server and runs the suites, in processes of their own: nothing of one version reaches the next. */
async function suitesOn({ name, service }: ServerVersion, { env }: Obtained): Promise<Run> {
  const directory = mkdtempSync(join(tmpdir(), 'hapax-run-'))
  const file = join(directory, 'run.json')
  try {
    const scripts = [
      join(import.meta.dirname, 'services.ts'),
      'node',
      join(import.meta.dirname, 'servers', 'one-run.ts'),
    ]
    const child = spawn(process.execPath, [...scripts, name, file], {
      stdio: ['ignore', 'inherit', 'inherit'],
      env: { ...withoutServers(), ...suites[service].env, ...env, PATH: pathWith(env.PATH) },
    })
    await once(child, 'close')
    if (!existsSync(file)) throw new Error('the suites have not run, see above')
    return JSON.parse(readFileSync(file, 'utf8')) as Run
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

function pathWith(first: string | undefined): string {
  return [first, process.env.PATH].filter(Boolean).join(delimiter)
}

/** The servers that other tests use are not of this version. */
function withoutServers(): NodeJS.ProcessEnv {
  const others: readonly string[] = Object.values(serverVariables)
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !others.includes(name)))
}
