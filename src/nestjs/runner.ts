import {
  type BeforeApplicationShutdown,
  Logger,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type OnModuleDestroy,
  type OnModuleInit,
} from '@nestjs/common'
import type { DiscoveryService, ExternalContextCreator, MetadataScanner } from '@nestjs/core'
import { expected, HapaxError, systemClock, within } from '../base/index.ts'
import type { Worker } from '../contracts/index.ts'
import { type AnyConsumer, type Registered, register } from './consumers.ts'
import { discover, type Found } from './discovery.ts'
import {
  type AnyHapax,
  closed,
  type HapaxModuleOptions,
  type OpenHapax,
  opened,
  refuseClosedStore,
  type Settings,
  settingsOf,
} from './options.ts'
import { getHapaxToken, getRunnerToken } from './tokens.ts'

/** What a runner needs of Nest. */
export interface Nest {
  readonly discovery: DiscoveryService
  readonly scanner: MetadataScanner
  readonly external: ExternalContextCreator
}

/**
 * Runs the hapax of one `HapaxModule`: finds the methods that take its messages, starts the worker when the application has started, and
 * stops it when the application shuts down.
 */
export class HapaxRunner
  implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy, BeforeApplicationShutdown, OnApplicationShutdown
{
  /** The name of its `HapaxModule`. */
  readonly name: string
  readonly #hapax: OpenHapax
  readonly #settings: Settings
  readonly #options: HapaxModuleOptions
  readonly #nest: Nest
  readonly #logger = new Logger('HapaxModule')
  #registered: ReadonlyMap<string, Registered> = new Map()
  #worker: Worker | undefined
  #stopping: Promise<void> | undefined
  #shutDownBy = 0
  #reminder: NodeJS.Timeout | undefined

  constructor(name: string, hapax: AnyHapax, options: HapaxModuleOptions, nest: Nest) {
    this.name = name
    this.#hapax = opened(hapax)
    this.#settings = settingsOf(options)
    this.#options = options
    this.#nest = nest
  }

  /** The worker; undefined before the application has started, with `worker: false`, and where there is nothing to do. */
  get worker(): Worker | undefined {
    return this.#worker
  }

  /** The names of the consumers. */
  get consumers(): readonly string[] {
    return [...this.#registered.keys()]
  }

  /** A consumer that the decorators made, to hand it messages by `handle`. Its handlers are those of the providers. */
  consumer(name: string): AnyConsumer {
    const found = this.#registered.get(name)
    return found?.consumer ?? expected('consumer', `one that has handlers (${this.consumers.join(', ')})`, name)
  }

  /** Resolves if the store replies. */
  async reach(): Promise<void> {
    await this.#hapax.status()
  }

  /** Registers the handlers, so that whatever starts later may publish to them. */
  async onModuleInit(): Promise<void> {
    const { discovery, scanner, external } = this.#nest
    const tokens = discovery.getProviders().map(({ token }) => token)
    refuseTwins(this.name, tokens)
    const found = discover(discovery, scanner)
    for (const each of found) refuseLost(each, tokens)
    const own = found.filter(({ hapax }) => hapax === this.name)
    this.#registered = register(this.#hapax, own, this.#settings, external)
    await refuseClosedStore(this.#options, this.#hapax)
    if (this.#settings.migrate) await this.#hapax.migrate?.()
  }

  async onApplicationBootstrap(): Promise<void> {
    const worker = this.#newWorker()
    if (worker === undefined) return
    this.#worker = worker
    await worker.start()
    this.#reminder = setTimeout(() => this.#remind(), REMIND_MS).unref()
  }

  /** Takes no more messages. What runs goes on: other modules may still be needed. */
  onModuleDestroy(): void {
    clearTimeout(this.#reminder)
    const { shutdownMs } = this.#settings
    this.#shutDownBy = systemClock.now() + shutdownMs + WIND_UP_MS
    this.#stopping = this.#worker?.stop({ deadlineMs: shutdownMs })
    // It is awaited by the next hook.
    this.#stopping?.catch(() => {})
  }

  /** Waits for running handlers. */
  async beforeApplicationShutdown(): Promise<void> {
    await this.#stopping
  }

  /** Closes what hapax opened. */
  async onApplicationShutdown(): Promise<void> {
    const left = Math.max(MIN_CLOSE_MS, this.#shutDownBy - systemClock.now())
    const late = (): void =>
      this.#logger.warn('hapax was not closed in time: a transaction or a request is still running')
    await within(systemClock, left, this.#hapax.close(), late)
    closed(this.#options)
  }

  #newWorker(): Worker | undefined {
    const { worker } = this.#settings
    if (worker === false) return undefined
    const consume = [...this.#registered.values()].map(({ consumed }) => consumed)
    if (consume.length === 0 && worker.relay === undefined && worker.relays === undefined) return undefined
    return this.#hapax.worker({ ...worker, consume })
  }

  /** Nest does not tell whether somebody listens for it. */
  #remind(): void {
    if (process.listenerCount('SIGTERM') > 0) return
    this.#logger.warn(
      'nothing listens for SIGTERM: call app.enableShutdownHooks(), so that running handlers can finish',
    )
  }
}

/** How long after the start a missing call of `enableShutdownHooks` is reported: it may come after the start. */
const REMIND_MS = 10_000
/** What a worker takes beyond its deadline at most: aborted handlers roll back, and subscriptions close. */
const WIND_UP_MS = 10_000
const MIN_CLOSE_MS = 1_000

function refuseTwins(name: string, tokens: readonly unknown[]): void {
  const token = getRunnerToken(name)
  if (tokens.filter((each) => each === token).length < 2) return
  const what = `expected one HapaxModule of the name ${name}, got a second one: give it another name`
  throw new HapaxError('invalid-option', what)
}

function refuseLost({ hapax, label }: Found, tokens: readonly unknown[]): void {
  if (tokens.includes(getHapaxToken(hapax))) return
  throw new HapaxError('invalid-option', `expected a HapaxModule of the name ${hapax} for ${label}, got none`)
}
