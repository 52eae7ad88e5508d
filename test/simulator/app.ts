import {
  type Consumer,
  createHapax,
  defineMessage,
  type FailedHook,
  type Hapax,
  type IncomingMessage,
  type Leased,
  type LeasedContext,
  Permanent,
  type Store,
  silentLogger,
} from 'hapax'
import { pause } from '../../src/base/clock.ts'
import type { Delivery, Destination, Subscription } from '../../src/contracts/broker.ts'
import { coreOf } from '../../src/leased/leased.ts'
import { decodeArrival } from '../../src/message/arrival.ts'
import { messageKey } from '../../src/message/message.ts'
import { GIVEN_UP } from './checker.ts'
import type { MessagePlan, Scenario } from './scenario.ts'
import { isLeased, LEASE_MS, POLL_MS, TAKEOVER_MS, TIMEOUT_MS } from './scenario.ts'
import type { SimProvider } from './sim-provider.ts'
import type { SimTx } from './sim-store.ts'
import type { Process } from './world.ts'

/** What is published and consumed. */
export const Ordered = defineMessage<{ id: string; key?: string | undefined }>('ordered')
/** What handlers publish. */
const Billed = defineMessage<{ of: string }>('billed')

/** What is published with a final failure. */
const GivenUp = defineMessage<{ of: string }>(GIVEN_UP)

/** The source of everything that is published. */
export const SOURCE = '/shop'
/** The consumer of all scenarios. */
export const BILLING = 'billing'

/** Counts the calls of handlers over all processes. */
export class Calls {
  readonly #counts = new Map<string, number>()

  has(id: string): boolean {
    return this.#counts.has(id)
  }

  next(id: string): number {
    const count = (this.#counts.get(id) ?? 0) + 1
    this.#counts.set(id, count)
    return count
  }
}

/** What an application is made of. */
export interface AppOptions {
  readonly scenario: Scenario
  /** Others do not even know the consumer. */
  readonly consumes: boolean
  readonly process: Process
  readonly store: Store<SimTx>
  readonly calls: Calls
  readonly subscription: Subscription
  readonly destination: Destination
  readonly provider: SimProvider
  /** What is in the inbox, without asking. */
  readonly waiting: () => readonly string[]
  /** A bug on purpose: the key that a call carries, by its fence. */
  readonly key?: ((key: string, fence: number) => string) | undefined
}

/** One process of the application: the real engine on the fake store and the fake broker. */
export class App {
  readonly process: Process
  readonly hapax: Hapax<SimTx>
  readonly consumer: Consumer<SimTx> | Leased<SimTx> | undefined
  readonly #options: AppOptions

  constructor(options: AppOptions) {
    const { process, store, scenario } = options
    const { clock, random } = process
    this.#options = options
    this.process = process
    const delivery = scenario.route === 'local' ? 'local' : 'relay'
    this.hapax = createHapax({ store, source: SOURCE, delivery, clock, random, logger: silentLogger })
    const make = isLeased(scenario.route) ? () => this.#leased() : () => this.#consumer()
    this.consumer = options.consumes ? make() : undefined
  }

  #consumer(): Consumer<SimTx> {
    const { route, order, group, many, onError, attempts, cleanup } = this.#options.scenario
    const consumer = this.hapax.consumer(BILLING, {
      receive: route === 'direct' || route === 'handle' ? 'direct' : 'store',
      order,
      group: { size: group },
      onError,
      timeoutMs: TIMEOUT_MS,
      lockTimeoutMs: 1_000,
      retentionMs: cleanup ? 1_000 : RETENTION_MS,
      retry: { attempts, minDelayMs: 10, maxDelayMs: 100 },
    })
    if (many) {
      consumer.onMany(Ordered, async (items, { tx, publish }) => {
        for (const { message } of items) {
          await this.#handle(message, tx, () =>
            publish(Billed, { of: message.id }, { causationId: message.id, ...keyed(message) }),
          )
        }
      })
    } else {
      consumer.on(Ordered, async (_data, { tx, message, publish }) => {
        await this.#handle(message, tx, () => publish(Billed, { of: message.id }, keyed(message)))
      })
    }
    // With local delivery nobody would consume it.
    return route === 'local' ? consumer : consumer.onFailed(Ordered, this.#givenUp)
  }

  #leased(): Leased<SimTx> {
    const { order, attempts } = this.#options.scenario
    const retry = { attempts, minDelayMs: 10, maxDelayMs: 100 }
    const leased = this.hapax.leased(BILLING, { leaseMs: LEASE_MS, maxDurationMs: 4 * LEASE_MS, order, retry })
    leased.on(Ordered, (_data, context) => this.#handleLeased(context))
    return leased.onFailed(Ordered, this.#givenUp)
  }

  readonly #givenUp: FailedHook<{ id: string }, SimTx> = async ({ id }, _error, { publish }) => {
    await publish(GivenUp, { of: id })
  }

  async #handleLeased(context: LeasedContext<SimTx>): Promise<void> {
    const { scenario, calls, process } = this.#options
    const { message } = context
    const { behaviour } = scenario.messages.find(({ id }) => id === message.id) ?? { behaviour: { kind: 'ok' } }
    const call = calls.next(message.id)
    const trouble = 'times' in behaviour && call <= behaviour.times ? behaviour.kind : undefined
    if (trouble === 'slow') await pause(process.clock, 5 * LEASE_MS)
    for (const name of scenario.leased.effects) await this.#callOutside(name, context)
    if (trouble === 'kills') {
      process.kill()
      await new Promise(() => {})
    }
    if (trouble === 'fails') throw new Error('not now')
    if (behaviour.kind === 'permanent') throw new Permanent('never')
    context.complete(async (tx) => {
      if (trouble === 'violates') await tx.violate()
      await tx.effect(BILLING, message)
      if (trouble === 'swallows') await tx.violate().catch(() => {})
      if (behaviour.kind !== 'commits') return
      await tx.commit()
      if (behaviour.throws) throw new Error('after its own commit')
    })
    await context.publish(Billed, { of: message.id }, keyed(message))
  }

  #callOutside(name: string, { effect, message, fence }: LeasedContext<SimTx>): Promise<string> {
    const { process, provider, scenario, key: changed } = this.#options
    const { onUnknown, timeoutMs } = scenario.leased
    const { id, source } = message
    const what = { messageKey: messageKey(source, id), id, name }
    return effect(name, (key) => provider.call(process, what, changed?.(key, fence) ?? key), {
      onUnknown: onUnknown === 'verify' ? (key) => provider.ask(process, key) : onUnknown,
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    })
  }

  async #handle(
    message: { id: string; source: string; key?: string },
    tx: SimTx,
    publish: () => Promise<unknown>,
  ): Promise<void> {
    const { scenario, calls } = this.#options
    const { behaviour } = scenario.messages.find(({ id }) => id === message.id) ?? { behaviour: { kind: 'ok' } }
    const call = calls.next(message.id)
    const effect = (): Promise<void> => tx.effect(BILLING, message)
    if (behaviour.kind === 'swallows' && call <= behaviour.times) {
      await effect()
      await tx.violate().catch(() => {})
      return
    }
    if ('times' in behaviour && call <= behaviour.times) await this.#trouble(behaviour.kind, tx, effect)
    if (behaviour.kind === 'permanent') {
      await effect()
      throw new Permanent('never')
    }
    await effect()
    if (behaviour.kind === 'commits') {
      await tx.commit()
      if (behaviour.throws) throw new Error('after its own commit')
    }
    if (scenario.route !== 'local') await publish()
  }

  async #trouble(kind: string, tx: SimTx, effect: () => Promise<void>): Promise<void> {
    const { process } = this.#options
    if (kind === 'fails') {
      await effect()
      throw new Error('not now')
    }
    if (kind === 'violates') await tx.violate()
    if (kind === 'slow') await pause(process.clock, 3 * TIMEOUT_MS)
    if (kind === 'kills') {
      process.kill()
      await new Promise(() => {})
    }
  }

  async start(): Promise<void> {
    const { subscription, destination, scenario } = this.#options
    const { route, keepSent, cleanup } = scenario
    if (route === 'handle') return this.#pump(subscription)
    if (route === 'driven') return void this.#drive()
    const consumer = this.consumer as Consumer<SimTx>
    const worker = this.hapax.worker({
      ...(route === 'relay' ? {} : { consume: [route === 'local' ? consumer : consumer.from(subscription)] }),
      ...(route === 'local' ? {} : { relay: destination }),
      ...(keepSent ? { keepSentMs: RETENTION_MS } : {}),
      takeoverMs: TAKEOVER_MS,
      pollMs: POLL_MS,
      cleanup,
    })
    await worker.start()
  }

  /** Works whatever is in the inbox, again and again. */
  async #drive(): Promise<void> {
    const { waiting, process } = this.#options
    for (;;) {
      for (const seq of waiting())
        await coreOf(this.consumer as Consumer<SimTx>)
          .work([seq])
          .catch(() => {})
      await pause(process.clock, LEASE_MS)
    }
  }

  /** Publishes messages, each in a transaction of its own, again and again until it is committed. */
  async publish(messages: readonly MessagePlan[]): Promise<void> {
    for (const { id, key, now } of messages) {
      await this.#untilDone(() =>
        this.hapax.transaction(async (tx) => {
          await this.hapax.publish(tx, Ordered, { id }, { id, now, ...(key === undefined ? {} : { key }) })
          await tx.lock(`order of ${id}`)
        }),
      )
    }
  }

  /** What a person does about failed messages, a few times. */
  async operate(): Promise<void> {
    const { process, scenario } = this.#options
    for (let turn = 0; turn < 3; turn++) {
      await pause(process.clock, 50 * 10 ** turn)
      await this.#operateOnce(scenario.operator).catch(() => {})
    }
  }

  async #operateOnce(what: Scenario['operator']): Promise<void> {
    const [failed] = await this.hapax.failed.list({ limit: 1 })
    if (failed === undefined) return
    const { seq, origin, consumer, message } = failed
    if (what === 'settle') await this.#settle(seq)
    if (what === 'retry') await this.hapax.failed.retry(seq)
    if (what === 'discard') await this.hapax.failed.discard(seq)
    if (what === 'release' && message.key !== null)
      await this.hapax.keys.release({ origin, scope: consumer, key: message.key })
  }

  /** Says what the provider knows of the calls that nobody else knows about. */
  async #settle(seq: string): Promise<void> {
    const { provider } = this.#options
    for (const { name, state, messageKey: of } of await this.hapax.failed.effects(seq)) {
      if (state !== 'started' && state !== 'unknown') continue
      const done = provider.sent.some((call) => call.messageKey === of && call.name === name)
      await this.hapax.failed.settle(seq, { effect: name, as: done ? 'done' : 'not-done' })
      return
    }
    await this.hapax.failed.retry(seq)
  }

  async #untilDone(work: () => Promise<unknown>): Promise<void> {
    for (;;) {
      try {
        await work()
        return
      } catch {
        await pause(this.#options.process.clock, RETRY_MS)
      }
    }
  }

  /** Takes deliveries by `handleMany`, as an application without workers would. */
  async #pump(subscription: Subscription): Promise<void> {
    const { group } = this.#options.scenario
    const waiting: Delivery[] = []
    const receive = (deliveries: readonly Delivery[]): void => {
      waiting.push(...deliveries)
      void Promise.resolve().then(() => this.#take(waiting.splice(0)))
    }
    await subscription.open({
      types: 'all',
      prefetch: { messages: 2 * group, bytes: 1_000 },
      receive,
      report: () => {},
    })
  }

  async #take(deliveries: readonly Delivery[]): Promise<void> {
    if (deliveries.length === 0) return
    try {
      const outcomes = await (this.consumer as Consumer<SimTx>).handleMany(
        deliveries.map(({ arrival }) => decodeArrival(arrival, {}, MAX_BYTES)),
      )
      for (const [index, delivery] of deliveries.entries()) {
        if (outcomes[index]?.ack) delivery.ack()
        else delivery.retry(RETRY_MS)
      }
    } catch {
      for (const delivery of deliveries) delivery.retry(RETRY_MS)
    }
  }
}

/** A message as a sender sends it. */
export function incoming(id: string, key: string | undefined): IncomingMessage {
  return { id, source: SOURCE, type: Ordered.type, data: { id }, ...(key === undefined ? {} : { key }) }
}

function keyed({ key }: { key?: string }): { key?: string } {
  return key === undefined ? {} : { key }
}

const RETRY_MS = 200
const MAX_BYTES = 1_000_000
const RETENTION_MS = 3_600_000
