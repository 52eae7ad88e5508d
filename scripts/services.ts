// Runs a command with the servers that the tests need: `npm run services -- vitest run test/stores`. Without a command, it
// keeps them running until Ctrl-C. Each server is the one that a URL in the environment names, or a private, disposable instance.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:os'
import { delimiter, join } from 'node:path'
import { leftToOtherRun } from '../test/support/runs.ts'
import { neededServers, serverVariables } from '../test/support/servers.ts'
import { fromMaven } from './servers/kafka.ts'
import { services as all, onlyInstalled } from './services/all.ts'
import { canInstall, install } from './services/apt.ts'
import { composeAnswers, composeLaunch, imageVariable } from './services/compose.ts'
import { type Keeper, keep, newDirectory, release, untilReady } from './services/instance.ts'
import { kafkaBroker } from './services/kafka-broker.ts'
import type { Order } from './services/keeper.ts'
import { pgbouncer } from './services/pgbouncer.ts'
import { freePort } from './services/port.ts'
import { type Installable, type Installation, LOOPBACK, type Service } from './services/service.ts'

/** How a server is provided. */
type Origin = { how: 'given'; url: string } | { how: 'private'; installation: Installation } | { how: 'compose' }

const startDeadlineMs = { given: 0, private: 120_000, compose: 600_000 }
const keepers: Keeper[] = []
let lost = false

process.exitCode = await main(process.argv.slice(process.argv[2] === '--' ? 3 : 2))

async function main(command: string[]): Promise<number> {
  try {
    installOrSkip(onlyInstalled)
    await fetchOrSkip()
    const urls = await openAll(originsOfAll(all.filter(({ name }) => neededServers().includes(name))))
    const behind = urls[serverVariables.postgres]
    if (behind !== undefined) Object.assign(urls, await openAll(originsOf([pgbouncer(behind)])))
    return command.length > 0 ? await runCommand(command, urls) : await untilInterrupted(urls)
  } catch (error) {
    console.error(`services: ${(error as Error).message}`)
    return 1
  } finally {
    await Promise.all(keepers.map(release))
  }
}

/** Decides for all servers before any is started. Optional ones are installed separately, so that their failure affects no other. */
function originsOfAll(services: Service[]): [Service, Origin][] {
  const required = services.filter((service) => !maySkip(service))
  return [...originsOf(required), ...originsOf(services.filter(maySkip))]
}

/** Given, installed, installed now, by Docker Compose, or left out where that is allowed. */
function originsOf(services: Service[]): [Service, Origin][] {
  const absent = services.filter((service) => originOf(service) === undefined)
  const complaint = absent.length > 0 && canInstall() ? installAll(absent) : undefined
  const stillAbsent = absent.filter((service) => originOf(service) === undefined)
  const compose = stillAbsent.some(inCompose) && composeAnswers()
  const missing = stillAbsent.filter((service) => !(compose && inCompose(service)))
  if (!missing.every(maySkip)) throw new Error(absenceMessage(missing, complaint))
  for (const { title } of missing) reportSkipped(title, complaint)
  const found = services.filter((service) => !missing.includes(service))
  return found.map((service) => [service, originOf(service) ?? { how: 'compose' }])
}

/** Installs what tests start themselves. */
function installOrSkip(servers: readonly Installable[]): void {
  const absent = servers.filter((server) => server.find() === undefined)
  if (absent.length === 0) return
  const complaint = canInstall() ? installAll(absent) : undefined
  for (const { title, find, debianPackages } of absent) {
    if (find() === undefined) reportSkipped(`${title} (Debian: ${debianPackages.join(' ')})`, complaint)
  }
}

/** A real Kafka, which the tests that need one start themselves; `npm test` runs none of them. */
async function fetchOrSkip(): Promise<void> {
  const isLeftOut = leftToOtherRun(join(import.meta.dirname, '..')).includes('test/faults/clusters/*.test.ts')
  if (isLeftOut || !neededServers().includes('kafka') || kafkaBroker.find() !== undefined) return
  console.error('services: fetching Apache Kafka')
  await fromMaven().catch((error: Error) => reportSkipped(kafkaBroker.title, error.message))
}

function reportSkipped(what: string, complaint: string | undefined): void {
  console.error(`services: ${what} not found, tests that need it are skipped${complaint ? `\n${complaint}` : ''}`)
}

function maySkip({ otherwise }: Service): boolean {
  return otherwise.includes('skip')
}

function inCompose({ otherwise }: Service): boolean {
  return otherwise.includes('container')
}

function originOf(service: Service): Origin | undefined {
  const url = process.env[serverVariables[service.name]]
  if (url) return { how: 'given', url }
  if (process.env[imageVariable(service.name)]) return { how: 'compose' }
  const installation = service.find()
  return installation && { how: 'private', installation }
}

function installAll(services: readonly Installable[]): string | undefined {
  const packages = services.flatMap((service) => service.debianPackages)
  console.error(`services: installing ${packages.join(' and ')} with apt-get`)
  return install(packages)
}

function absenceMessage(services: Service[], complaint: string | undefined): string {
  const titles = services.map((service) => service.title).join(' and ')
  const variables = services.map((service) => serverVariables[service.name]).join(' and ')
  const packages = services.flatMap((service) => service.debianPackages).join(' ')
  return [
    `${titles} not found. Do one of these:`,
    `  - install it here (Debian: apt-get install ${packages})`,
    '  - start Docker, and compose.yaml is used',
    `  - set ${variables} to the URL of a server that tests may fill with schemas, databases, queues and streams`,
    '  - leave it out: HAPAX_TEST_STORES=memory,sqlite, HAPAX_TEST_BROKERS=none',
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

async function open(service: Service, origin: Origin): Promise<string> {
  const start = performance.now()
  const { url, described, keeper } = origin.how === 'given' ? given(service, origin.url) : await launch(service, origin)
  const hasEnded = () => keeper?.process.exitCode != null || keeper?.process.signalCode != null
  const name = await untilReady(service, url, { deadlineMs: startDeadlineMs[origin.how], hasEnded })
  await service.prepareSharing?.(url)
  const seconds = ((performance.now() - start) / 1000).toFixed(1)
  console.error(`services: ${name}, ${described} (${seconds} s)`)
  return url
}

interface Opening {
  readonly url: string
  readonly described: string
  readonly keeper?: Keeper
}

function given(service: Service, url: string): Opening {
  return { url, described: `from ${serverVariables[service.name]}` }
}

async function launch(service: Service, origin: Exclude<Origin, { how: 'given' }>): Promise<Opening> {
  const port = await freePort()
  const url = service.url(port)
  const directory = newDirectory(service)
  if (origin.how === 'compose') {
    const keeper = keepAlive(service, { directory, user: undefined, launch: composeLaunch(service.name, port) })
    return { url, keeper, described: 'a container of Docker Compose' }
  }
  const { from, user, launch } = origin.installation
  return {
    url,
    keeper: keepAlive(service, { directory, user, launch: launch({ directory, port, address: LOOPBACK }) }),
    described: from,
  }
}

function keepAlive(service: Service, order: Order): Keeper {
  const keeper = keep(order)
  void keeper.ended.then((said) => {
    if (keeper.process.stdin?.writableEnded) return
    lost = true
    console.error(`services: ${service.title} stopped unexpectedly\n${said.trimEnd()}`)
  })
  keepers.push(keeper)
  return keeper
}

async function runCommand([program = '', ...args]: string[], urls: Record<string, string>): Promise<number> {
  const path = join(import.meta.dirname, '..', 'node_modules', '.bin') + delimiter + process.env.PATH
  const child = spawn(program, args, { stdio: 'inherit', env: { ...process.env, ...urls, PATH: path } })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    // A terminal sends Ctrl-C to the command as well; a second signal would mean "stop at once".
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
