import { EventEmitter, once } from 'node:events'
import { realpathSync } from 'node:fs'
import { dirname } from 'node:path'
import { type Keeper, keep, newDirectory, release, untilReady } from '../../scripts/services/instance.ts'
import { kafkaMock as kafka } from '../../scripts/services/kafka.ts'
import { kafkaBroker } from '../../scripts/services/kafka-broker.ts'
import type { Instruction, News, Order } from '../../scripts/services/keeper.ts'
import { mariadb as mysql } from '../../scripts/services/mariadb.ts'
import { nats } from '../../scripts/services/nats.ts'
import { freePort } from '../../scripts/services/port.ts'
import { postgres } from '../../scripts/services/postgres.ts'
import { prometheus } from '../../scripts/services/prometheus.ts'
import { rabbitmq } from '../../scripts/services/rabbitmq.ts'
import { redis, redisSentinel } from '../../scripts/services/redis.ts'
import { type Command, LOOPBACK, type Startable } from '../../scripts/services/service.ts'
import type { Host } from './clusters/network.ts'
import { neededServers } from './servers.ts'

const services = {
  postgres,
  mysql,
  rabbitmq,
  nats,
  redis,
  sentinel: redisSentinel,
  kafka,
  'kafka-broker': kafkaBroker,
  prometheus,
}

type PrivateServerName = keyof typeof services

export interface PrivateServerOptions {
  /** More arguments of the server's command line. @default none */
  readonly args?: readonly string[]
  /** Small files of its directory, by name, beside those of the shared one or instead of them. @default none */
  readonly files?: Readonly<Record<string, string>>
  /** A command prefix, given the directory of its files. @default nothing */
  readonly under?: (directory: string) => Command
  /** How its files are made, from the directory for them and that of the programs. @default as for the shared one */
  readonly prepare?: (directory: string, programs: string) => Command[]
  /** Where it runs. @default on this machine's loopback address */
  readonly host?: Pick<Host, 'address' | 'namespace'>
  /** @default a free one */
  readonly port?: number
}

const startDeadlineMs = 120_000

/** Why there is none here, or undefined: the installed programs are used, not a container or a server that was named. */
export function noPrivateServer(name: PrivateServerName): string | undefined {
  const needed = name === 'kafka-broker' ? 'kafka' : name === 'sentinel' ? 'redis' : name
  if (needed !== 'prometheus' && !neededServers().includes(needed))
    return 'left out by HAPAX_TEST_STORES or HAPAX_TEST_BROKERS'
  return services[name].find() === undefined ? `${services[name].title} is not installed here` : undefined
}

/** Starts a server of a test's own, set up as the shared one is. It ends with the test's process, and its data with it. */
export async function privateServer(
  name: PrivateServerName,
  { args = [], files, under, prepare, host, port: wanted }: PrivateServerOptions = {},
): Promise<PrivateServer> {
  const service = services[name]
  const installation = service.find()
  if (installation === undefined) throw new Error(`expected ${service.title} to be installed here`)
  const { user, launch, from } = installation
  const [port, directory] = [wanted ?? (await freePort()), newDirectory(service)]
  const address = host?.address ?? LOOPBACK
  const usual = launch({ directory, port, address })
  const server = new PrivateServer(service, service.url(port, address), {
    directory,
    user,
    namespace: host?.namespace,
    launch: {
      ...withArguments(usual, args, under?.(directory) ?? []),
      ...(files && { files: { ...usual.files, ...files } }),
      ...(prepare && { prepare: prepare(directory, dirname(realpathSync(from))) }),
    },
  })
  try {
    await server.untilReady()
  } catch (error) {
    await server[Symbol.asyncDispose]()
    throw error
  }
  return server
}

function withArguments(launch: Order['launch'], args: readonly string[], under: readonly string[]): Order['launch'] {
  if (launch.server === undefined) return launch
  const { command, stop } = launch.server
  return { ...launch, server: { command: [...under, ...command, ...args] as unknown as Command, stop } }
}

/** A server that a test can kill, pause, and start again on the same port and data. */
export class PrivateServer implements AsyncDisposable {
  readonly url: string
  /** Its working directory: data, settings, and the log. */
  readonly directory: string
  readonly #service: Startable
  readonly #keeper: Keeper
  readonly #news = new EventEmitter()
  #log: string | undefined

  constructor(service: Startable, url: string, order: Order) {
    this.url = url
    this.directory = order.directory
    this.#service = service
    this.#keeper = keep(order, 'channel')
    this.#keeper.process.on('message', (news: News) => this.#learn(news))
    void this.#keeper.ended.then(
      (said) => this.#learn({ ended: said }),
      (error: unknown) => this.#learn({ ended: String(error) }),
    )
  }

  /** Ends the server at once, and resolves when it has. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    if (this.#log === undefined) await this.#tell({ signal }, 'ended')
  }

  /** Lets the server end in its own way, as a service manager does. */
  async stop(): Promise<void> {
    await this.resume()
    await this.kill('SIGTERM')
  }

  /** Starts it after its end, and resolves when it answers. */
  async start(): Promise<void> {
    if (this.#log === undefined) throw new Error(`expected ${this.#service.title} to have ended before it starts again`)
    await this.#tell('start', 'running')
    await this.untilReady()
  }

  /** Stops all its processes where they are: connections stay open, and nobody answers. */
  async pause(): Promise<void> {
    if (this.#log === undefined) await this.#tell({ signal: 'SIGSTOP' }, 'signalled')
  }

  async resume(): Promise<void> {
    if (this.#log === undefined) await this.#tell({ signal: 'SIGCONT' }, 'signalled')
  }

  async untilReady(): Promise<void> {
    try {
      await untilReady(this.#service, this.url, {
        deadlineMs: startDeadlineMs,
        hasEnded: () => this.#log !== undefined,
      })
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${this.#log ?? ''}`)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await release(this.#keeper)
  }

  async #tell(instruction: Instruction, until: 'ended' | 'running' | 'signalled'): Promise<void> {
    const done = once(this.#news, until)
    this.#keeper.process.send(instruction, () => {})
    await Promise.race([done, this.#keeper.ended])
  }

  #learn(news: News): void {
    const name = typeof news === 'string' ? news : 'ended'
    if (name !== 'signalled') this.#log = typeof news === 'string' ? undefined : news.ended
    this.#news.emit(name)
  }
}
