import { createHapax, defineMessage, type Hapax, type Store, silentLogger, type Worker } from 'hapax'
import { type MemoryBroker, memoryBroker } from 'hapax/memory-broker'
import type { RigTx } from '../../../support/databases.ts'

interface Order {
  readonly id: string
  readonly key: string
  readonly n: number
}

const key = ({ key }: Order): string => key
/** The same order three times: through the relay and a broker, inside the database, and for a call of the outside world. */
const Placed = defineMessage<Order>('order.placed', { key })
const Packed = defineMessage<Order>('order.packed', { key, delivery: 'local' })
const Texted = defineMessage<Order>('order.texted', { key, delivery: 'local' })

/** What each order has to lead to, once: the tables of the effects. None of them has a key. */
export const effectTables = ['billed', 'packed', 'texted'] as const

const KEYS = 12
const PUBLISHERS = 2
const PAUSE_MS = 150

/** The tables of the shop, as texts that every database understands. */
export function shopTables(serial: string): string[] {
  const word = 'varchar(60) not null'
  return [
    `create table shop_keys (name ${word} primary key, n integer not null)`,
    `create table orders (id ${word} primary key, name ${word}, n integer not null)`,
    ...effectTables.map(
      (name) =>
        `create table ${name} (${serial}, id ${word}, name ${word}, n integer not null, seen integer not null, attempt integer not null)`,
    ),
    ...effectTables.map((name) => `create index ${name}_seen on ${name} (name, n)`),
    `insert into shop_keys (name, n) values ${Array.from({ length: KEYS }, (_, index) => `('key-${index}', 0)`).join(', ')}`,
  ]
}

/** Somebody who sends text messages, once for each key that he is given. */
class Provider {
  readonly sent = new Map<string, string>()
  calls = 0

  async send(idempotencyKey: string, id: string): Promise<string> {
    this.calls += 1
    await new Promise((resolve) => setTimeout(resolve, 2))
    if (!this.sent.has(idempotencyKey)) this.sent.set(idempotencyKey, id)
    return idempotencyKey
  }
}

/** What all processes of the shop share, beside the database. */
export class Outside {
  readonly broker: MemoryBroker = memoryBroker()
  readonly provider = new Provider()
}

export interface SiteOptions {
  readonly name: string
  readonly store: Store<RigTx, never>
  readonly outside: Outside
  /** How long a transaction of a handler or of a publisher may take. @default those of hapax */
  readonly timeoutMs?: number
}

/** A process of the shop: takes orders, relays and handles them. What was acknowledged to its customers is `acknowledged`. */
export class Site implements AsyncDisposable {
  readonly acknowledged = new Set<string>()
  /** Why customers got no acknowledgement, by code. */
  readonly refusals = new Map<string, number>()
  readonly hapax: Hapax<RigTx, never>
  readonly worker: Worker
  readonly #name: string
  readonly #limits: { readonly timeoutMs?: number }
  #next = 0
  #open: Promise<void>[] = []
  #closed = false

  constructor({ name, store, outside, timeoutMs }: SiteOptions) {
    this.#name = name
    this.hapax = createHapax({ store, source: '/shop', logger: silentLogger })
    const limits = timeoutMs === undefined ? {} : { timeoutMs }
    this.#limits = limits
    const retry = { minDelayMs: 50, maxDelayMs: 500 }
    const billing = this.hapax.consumer('billing', { order: 'wait', concurrency: 3, retry, ...limits })
    billing.on(Placed, (order, { tx, attempt }) => record(tx, 'billed', order, attempt))
    const packing = this.hapax.consumer('packing', { order: 'wait', concurrency: 3, retry, ...limits })
    packing.on(Packed, (order, { tx, attempt }) => record(tx, 'packed', order, attempt))
    const texting = this.hapax.leased('texting', { order: 'wait', concurrency: 3, leaseMs: 5_000, retry })
    texting.on(Texted, async (order, ctx) => {
      await ctx.effect('send', (idempotencyKey) => outside.provider.send(idempotencyKey, order.id), {
        onUnknown: 'retry-same-key',
      })
      ctx.complete((tx) => record(tx, 'texted', order, ctx.attempt))
    })
    const queue = outside.broker.queue('billing', { topic: 'shop', single: true })
    this.worker = this.hapax.worker({
      relay: outside.broker.topic('shop'),
      consume: [billing.from(queue), packing, texting],
      pollMs: 200,
    })
  }

  async start(): Promise<void> {
    await this.worker.start()
    this.#open = Array.from({ length: PUBLISHERS }, () => this.#publish())
  }

  /** No more orders; what was taken is handled. */
  async stopTaking(): Promise<void> {
    this.#closed = true
    await Promise.all(this.#open)
  }

  async #publish(): Promise<void> {
    while (!this.#closed) {
      this.#next += 1
      const id = `${this.#name}-${this.#next}`
      try {
        await this.hapax.transaction((tx) => this.#place(tx, id), { isolation: 'read committed', ...this.#limits })
        this.acknowledged.add(id)
      } catch (error) {
        const { code = String(error) } = error as { code?: string }
        this.refusals.set(code, (this.refusals.get(code) ?? 0) + 1)
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    }
  }

  /** The key's row is locked until the commit, so that the numbers of a key are in the order of the commits. */
  async #place(tx: RigTx, id: string): Promise<void> {
    const key = `key-${Math.floor(Math.random() * KEYS)}`
    const { rows } = await tx.query(`select n from shop_keys where name = '${key}' for update`)
    const n = Number((rows[0] as { n: unknown }).n) + 1
    await tx.query(`update shop_keys set n = ${n} where name = '${key}'`)
    await tx.query(`insert into orders (id, name, n) values ('${id}', '${key}', ${n})`)
    for (const type of [Placed, Packed, Texted])
      await this.hapax.publish(tx, type, { id, key, n }, { id: `${id}/${type.type}` })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true
    await this.worker.stop({ deadlineMs: 1_000 }).catch(() => {})
    await this.hapax.close()
  }
}

/** With the last number of its key that was there before. */
async function record(tx: RigTx, table: string, { id, key, n }: Order, attempt: number): Promise<void> {
  await tx.query(`insert into ${table} (id, name, n, seen, attempt)
    select '${id}', '${key}', ${n}, coalesce(max(n), 0), ${attempt} from ${table} where name = '${key}'`)
}
