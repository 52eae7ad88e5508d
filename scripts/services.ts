// Runs a command with the servers that the tests need: `npm run services -- vitest run test/stores`. Without a command, it
// keeps them until Ctrl-C. Each server is the one a URL in the environment names, or a private instance, thrown away later.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { serverVariables, testStores } from '../test/support/servers.ts'
import { canInstall, install } from './services/apt.ts'
import { composeAnswers, composeLaunch } from './services/compose.ts'
import type { Order } from './services/keeper.ts'
import { mariadb } from './services/mariadb.ts'
import { pgbouncer } from './services/pgbouncer.ts'
import { freePort } from './services/port.ts'
import { postgres } from './services/postgres.ts'
import type { Installation, Service } from './services/service.ts'

const all: Service[] = [postgres, mariadb]

/** Where a server comes from. */
type Origin = { how: 'given'; url: string } | { how: 'private'; installation: Installation } | { how: 'compose' }

/** A process that runs a server until it is released; `ended` tells what it said when it failed. */
interface Keeper {
  readonly process: ChildProcess
  readonly ended: Promise<string>
}

const startDeadlineMs = { given: 0, private: 60_000, compose: 600_000 }
const keepers: Keeper[] = []
let lost = false

process.exitCode = await main(process.argv.slice(process.argv[2] === '--' ? 3 : 2))

async function main(command: string[]): Promise<number> {
  try {
    const needed = all.filter((service) => testStores().some((store) => store === service.name))
    const urls = await openAll(originsOf(needed))
    Object.assign(urls, await openInFront(urls[serverVariables.postgres]))
    return command.length > 0 ? await runCommand(command, urls) : await untilInterrupted(urls)
  } catch (error) {
    console.error(`services: ${(error as Error).message}`)
    return 1
  } finally {
    await Promise.all(keepers.map(release))
  }
}

/** Decides for all servers before any is started: given, installed, installed now, or by Docker Compose. */
function originsOf(services: Service[]): [Service, Origin][] {
  const absent = services.filter((service) => originOf(service) === undefined)
  const complaint = absent.length > 0 && canInstall() ? installAll(absent) : undefined
  const stillAbsent = absent.filter((service) => originOf(service) === undefined)
  if (stillAbsent.length > 0 && !composeAnswers()) throw new Error(absenceMessage(stillAbsent, complaint))
  return services.map((service) => [service, originOf(service) ?? { how: 'compose' }])
}

function originOf(service: Service): Origin | undefined {
  const url = process.env[serverVariables[service.name]]
  if (url) return { how: 'given', url }
  const installation = service.find()
  return installation && { how: 'private', installation }
}

function installAll(services: Service[]): string | undefined {
  const packages = services.map((service) => service.debianPackage)
  console.error(`services: installing ${packages.join(' and ')} with apt-get`)
  return install(packages)
}

function absenceMessage(services: Service[], complaint: string | undefined): string {
  const titles = services.map((service) => service.title).join(' and ')
  const variables = services.map((service) => serverVariables[service.name]).join(' and ')
  const packages = services.map((service) => service.debianPackage).join(' ')
  return [
    `${titles} not found. Do one of these:`,
    `  - install it here (Debian: apt-get install ${packages})`,
    '  - start Docker, and compose.yaml is used',
    `  - set ${variables} to the URL of a server that tests may fill with schemas and databases`,
    '  - leave it out: HAPAX_TEST_STORES=memory,sqlite',
    ...(complaint ? [`apt-get was tried and failed:\n${complaint}`] : []),
  ].join('\n')
}

async function openAll(origins: [Service, Origin][]): Promise<Record<string, string>> {
  const opened = await Promise.allSettled(
    origins.map(async ([service, origin]) => [serverVariables[service.name], await open(service, origin)] as const),
  )
  const failures = opened.filter((result) => result.status === 'rejected')
  if (failures.length > 0) throw new Error(failures.map(({ reason }) => reason.message).join('\nservices: '))
  return Object.fromEntries(opened.filter((result) => result.status === 'fulfilled').map(({ value }) => value))
}

/** What stands in front of a server; where it cannot be had, the tests that need it say so and are skipped. */
async function openInFront(postgresUrl: string | undefined): Promise<Record<string, string>> {
  if (postgresUrl === undefined) return {}
  const service = pgbouncer(postgresUrl)
  const complaint = originOf(service) === undefined && canInstall() ? installAll([service]) : undefined
  const origin = originOf(service)
  if (origin !== undefined) return openAll([[service, origin]])
  console.error(
    ['services: PgBouncer not found, tests through it are skipped', ...(complaint ? [complaint] : [])].join('\n'),
  )
  return {}
}

async function open(service: Service, origin: Origin): Promise<string> {
  const start = performance.now()
  const { url, described, keeper } = origin.how === 'given' ? given(service, origin.url) : await launch(service, origin)
  const version = await untilReady(service, url, Date.now() + startDeadlineMs[origin.how], keeper)
  const seconds = ((performance.now() - start) / 1000).toFixed(1)
  console.error(`services: ${service.title} ${version}, ${described} (${seconds} s)`)
  return url
}

interface Opening {
  readonly url: string
  readonly described: string
  readonly keeper?: Keeper
}

function given(service: Service, url: string): Opening {
  return { url, described: `as ${serverVariables[service.name]} says` }
}

async function launch(service: Service, origin: Exclude<Origin, { how: 'given' }>): Promise<Opening> {
  const port = await freePort()
  const url = service.url(port)
  const directory = join(temporaryFolder(), `hapax-${service.name}-${randomBytes(6).toString('hex')}`)
  if (origin.how === 'compose') {
    const keeper = keep(service, { directory, user: undefined, launch: composeLaunch(service.name, port) })
    return { url, keeper, described: 'a container of Docker Compose' }
  }
  const { from, user, launch } = origin.installation
  return { url, keeper: keep(service, { directory, user, launch: launch({ directory, port }) }), described: from }
}

function keep(service: Service, order: Order): Keeper {
  const script = fileURLToPath(new URL('./services/keeper.ts', import.meta.url))
  // Detached, because Ctrl-C reaches every process of the terminal's group.
  const child = spawn(process.execPath, [script, JSON.stringify(order)], {
    detached: true,
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  child.stdin.on('error', () => {})
  const keeper: Keeper = {
    process: child,
    ended: Promise.all([text(child.stderr), once(child, 'exit')]).then(([said]) => said),
  }
  void keeper.ended.then((said) => {
    if (child.stdin.writableEnded) return
    lost = true
    console.error(`services: ${service.title} stopped unexpectedly\n${said.trimEnd()}`)
  })
  keepers.push(keeper)
  return keeper
}

async function release({ process: child, ended }: Keeper): Promise<void> {
  child.stdin?.end()
  await ended
}

async function untilReady(service: Service, url: string, deadline: number, keeper?: Keeper): Promise<string> {
  for (;;) {
    try {
      return await service.ping(url)
    } catch (error) {
      if (keeper?.process.exitCode != null || keeper?.process.signalCode != null)
        throw new Error(`${service.title} did not start`)
      if (Date.now() >= deadline) throw new Error(`${service.title} does not answer at ${url}: ${reasonOf(error)}`)
      await delay(50)
    }
  }
}

/** A refused connection to a name with several addresses has its reasons inside, and no message. */
function reasonOf(error: unknown): string {
  return error instanceof AggregateError ? error.errors.map(reasonOf).join(', ') : (error as Error).message
}

/** The servers run under accounts of their own when root starts them, and must be able to reach their files. */
function temporaryFolder(): string {
  if (process.getuid?.() !== 0) return tmpdir()
  return [tmpdir(), '/tmp', '/var/tmp'].find(isOpenToAll) ?? tmpdir()
}

function isOpenToAll(folder: string): boolean {
  const isOpen = ((statSync(folder, { throwIfNoEntry: false })?.mode ?? 0) & 0o001) !== 0
  return isOpen && (dirname(folder) === folder || isOpenToAll(dirname(folder)))
}

async function runCommand([program = '', ...args]: string[], urls: Record<string, string>): Promise<number> {
  const path = join(import.meta.dirname, '..', 'node_modules', '.bin') + delimiter + process.env.PATH
  const child = spawn(program, args, { stdio: 'inherit', env: { ...process.env, ...urls, PATH: path } })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    // A terminal sends Ctrl-C to the command by itself; twice would be "stop at once".
    process.on(signal, () => (signal === 'SIGINT' && process.stdin.isTTY ? undefined : child.kill(signal)))
  }
  const [code, signal]: [number | null, NodeJS.Signals | null] = (await once(child, 'exit')) as never
  return code === 0 && lost ? 1 : (code ?? 128 + constants.signals[signal ?? 'SIGKILL'])
}

async function untilInterrupted(urls: Record<string, string>): Promise<number> {
  for (const [name, url] of Object.entries(urls)) console.log(`export ${name}='${url}'`)
  console.error('services: running until Ctrl-C')
  // A promise alone does not keep a process alive.
  const waiting = setInterval(() => {}, 1_000_000)
  await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM'), once(process, 'SIGHUP')])
  clearInterval(waiting)
  return 0
}
