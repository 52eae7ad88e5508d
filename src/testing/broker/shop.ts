import assert from 'node:assert/strict'
import type { Clock } from '../../base/index.ts'
import { HapaxError, silentLogger } from '../../base/index.ts'
import type { ConsumerOptions } from '../../consumer/index.ts'
import type {
  Consumer,
  Delivery,
  Destination,
  FailedMessage,
  HandlerContext,
  Store,
  Subscription,
  Worker,
} from '../../contracts/index.ts'
import { createHapax, type Hapax, type HapaxOptions } from '../../hapax.ts'
import { defineMessage, type MessageType, type PublishOptions } from '../../message/index.ts'
import type { WorkerOptions } from '../../worker/index.ts'
import { altered } from '../altered.ts'
import { until } from '../wait.ts'

/** A transaction that writes rows. */
export interface RowTx {
  insert(table: string, row: object): void
}

/** A store whose rows can be looked at: what `memory()` of hapax/memory gives. */
export interface RowStore extends Store<RowTx, RowTx> {
  rows(table: string): readonly object[]
}

interface Ping {
  readonly id: string
  /** Makes the message larger. */
  readonly pad?: string
}

const Ping: MessageType<Ping> = defineMessage<Ping>('ping')

/** Pings keyed by the first letter of their id. */
export const KeyedPing: MessageType<Ping> = defineMessage<Ping>('ping', { key: ({ id }) => id.slice(0, 1) })

/** What a shop is made of. */
export interface ShopOptions extends Partial<HapaxOptions<RowTx, RowTx>> {
  readonly rows: RowStore
}

/** An application with a hapax: it writes its message's id as an effect. */
export class Shop {
  readonly hapax: Hapax<RowTx>
  readonly #rows: RowStore
  /** The ids that handlers were called with, in order. */
  readonly calls: string[] = []

  constructor({ rows, ...options }: ShopOptions) {
    this.#rows = rows
    this.hapax = createHapax({ store: rows, source: '/shop', logger: silentLogger, ...options })
  }

  /** A consumer of pings; `handler` may do more, or fail. */
  consumer(
    options: ConsumerOptions = {},
    handler: (ctx: HandlerContext<RowTx>) => unknown = () => {},
    type: MessageType<Ping> = Ping,
  ): Consumer<RowTx> {
    const consumer = this.hapax.consumer('billing', options)
    return consumer.on(type, async (_, ctx) => {
      this.calls.push(ctx.message.id)
      await handler(ctx)
      ctx.tx.insert('effects', { id: ctx.message.id })
    })
  }

  /** Starts a worker; it stops with the shop. */
  async work(options: WorkerOptions<RowTx>): Promise<Worker> {
    const worker = this.hapax.worker({ pollMs: 20, ...options })
    await worker.start()
    return worker
  }

  /** Publishes pings in one transaction. */
  async publish(ids: readonly string[], options: PublishOptions = {}, data: Partial<Ping> = {}): Promise<void> {
    const drafts = ids.map((id) => Ping.of({ ...data, id }, { ...options, id }))
    await this.hapax.transaction((tx) => this.hapax.publishMany(tx, drafts))
  }

  /** The ids of the committed effects, in order. */
  get effects(): readonly string[] {
    return this.#rows.rows('effects').map((row) => (row as { readonly id: string }).id)
  }

  /** Waits until each of these has taken effect. */
  async untilEffects(ids: readonly string[]): Promise<void> {
    const missing = (): readonly string[] => {
      const there = new Set(this.effects)
      return ids.filter((id) => !there.has(id))
    }
    await until(
      () => missing().length === 0,
      () => `the effects of ${missing().slice(0, 20).join(' ')}`,
    )
  }

  /** Each of these has taken effect once, and nothing else has. */
  assertEffects(ids: readonly string[]): void {
    assert.deepEqual([...this.effects].sort(), [...ids].sort())
  }

  /** Waits until so many messages are in the failed store, and gives them, oldest first. */
  async failed(count: number): Promise<readonly FailedMessage[]> {
    let failed: readonly FailedMessage[] = []
    const there = async (): Promise<boolean> => {
      failed = await this.hapax.failed.list()
      return failed.length >= count
    }
    await until(there, () => `${count} failed messages; there are ${failed.length}`)
    assert.equal(failed.length, count)
    return failed.toReversed()
  }

  close(): Promise<void> {
    return this.hapax.close()
  }
}

/** The same destination, which sends each message twice. */
export function twice(destination: Destination): Destination {
  return {
    ...{ name: destination.name, features: destination.features },
    prepare: () => destination.prepare(),
    publish: (messages, signal, settle) => {
      destination.publish(messages, signal, () => {})
      destination.publish(messages, signal, settle)
    },
    close: () => destination.close(),
  }
}

/** The same subscription; `see` may settle a delivery in its own way. */
export function watchedBy(subscription: Subscription, see: (delivery: Delivery) => Delivery): Subscription {
  return {
    ...{ name: subscription.name, features: subscription.features },
    open: ({ receive, ...options }) =>
      subscription.open({ ...options, receive: (deliveries) => receive(deliveries.map(see)) }),
  }
}

/** A store that is unavailable for a given number of transactions. */
export function outage(store: RowStore, times: number): { readonly store: Store<RowTx>; left: number } {
  const state = { store, left: times }
  const unlessAway = async <T>(call: () => Promise<T>): Promise<T> => {
    if (state.left <= 0) return call()
    state.left -= 1
    throw new HapaxError('store-unavailable', 'the database is away')
  }
  state.store = altered(store, {
    transactions: { run: (options, opening, body) => unlessAway(() => store.transactions.run(options, opening, body)) },
    inbox: { store: (options, deliveries) => unlessAway(() => store.inbox.store(options, deliveries)) },
  })
  return state
}

/** A clock that can be made faster, so that long pauses are short. */
export class HurriedClock implements Clock {
  #speed = 1
  #base = { at: performance.now(), shows: 0 }

  set speed(speed: number) {
    this.#base = { at: performance.now(), shows: this.monotonic() }
    this.#speed = speed
  }

  now(): number {
    return Date.now()
  }

  monotonic(): number {
    return this.#base.shows + (performance.now() - this.#base.at) * this.#speed
  }

  after(ms: number, call: () => void): () => void {
    const timer = setTimeout(call, ms / this.#speed)
    return () => clearTimeout(timer)
  }
}
