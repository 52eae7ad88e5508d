import assert from 'node:assert/strict'
import type { HapaxEvents, Isolation } from '../../base/index.ts'
import { type ErrorCode, isHapaxError, silentLogger } from '../../base/index.ts'
import type { ConsumerOptions } from '../../consumer/index.ts'
import type {
  Consumer,
  Entry,
  HandlerContext,
  Leased,
  Look,
  Outcome,
  Share,
  Store,
  Worker,
} from '../../contracts/index.ts'
import { createHapax, type Hapax, type HapaxOptions } from '../../hapax.ts'
import type { IncomingMessage, StoredMessage } from '../../message/index.ts'
import { ALL_LANES, defineMessage, type MessageType, messageKey } from '../../message/index.ts'
import type { WorkerOptions } from '../../worker/index.ts'
import { until } from '../wait.ts'
import type { HarnessFeatures, TestDatabase } from './harness.ts'

export { type Gate, gate } from '../wait.ts'

/** The transaction of whatever store is tested: the suite only passes it on. */
export type Tx = unknown
export type Context = HandlerContext<Tx>
export type AnyHapax = Hapax<Tx, Tx>
export type AnyStore = Store<Tx, Tx>

export interface Count {
  readonly n: number
}

/** The message that the cases deliver, and one that their handlers publish. */
export const Ping: MessageType<Count> = defineMessage<Count>('ping')
export const Pong: MessageType<Count> = defineMessage<Count>('pong', { key: ({ n }) => `key ${n}` })

/** Retries that are due at once. */
export const AT_ONCE = { attempts: 3, minDelayMs: 0, maxDelayMs: 0 } as const

/** What a reader is made of. */
export interface ReaderOptions extends ConsumerOptions {
  readonly hapax?: AnyHapax
  readonly name?: string
}

/** A consumer of pings. */
export interface Reader {
  readonly hapax: AnyHapax
  readonly consumer: Consumer<Tx>
  /** The ids that the handler was called with, in order. */
  readonly calls: readonly string[]
  deliver(id: unknown, more?: Partial<IncomingMessage>): Promise<Outcome>
  deliverMany(ids: readonly string[]): Promise<readonly Outcome[]>
}

/** One case's database, and what is made on it. */
export class World {
  readonly database: TestDatabase<Tx, Tx>
  readonly features: HarnessFeatures
  readonly isolation: Isolation | undefined
  readonly #workers: Worker[] = []

  constructor(database: TestDatabase<Tx, Tx>, features: HarnessFeatures, isolation: Isolation | undefined) {
    this.database = database
    this.features = features
    this.isolation = isolation
  }

  get store(): AnyStore {
    return this.database.store
  }

  hapax(options: Partial<HapaxOptions<Tx, Tx>> = {}): AnyHapax {
    return createHapax({ store: this.store, source: '/test', logger: silentLogger, ...options })
  }

  /** A hapax on another store of the same database, as another process would have it. */
  async rival(options: Partial<HapaxOptions<Tx, Tx>> = {}): Promise<AnyHapax> {
    return this.hapax({ store: await this.database.another(), ...options })
  }

  /** A consumer whose handler writes its message's id as an effect, unless it is given another one. */
  reader(
    handler: (ctx: Context, data: Count) => unknown = (ctx) => this.database.effect(ctx.tx, ctx.message.id),
    { hapax = this.hapax(), name = 'billing', ...options }: ReaderOptions = {},
  ): Reader {
    const calls: string[] = []
    const consumer = hapax.consumer(name, { retry: AT_ONCE, lockTimeoutMs: 20_000, ...this.#isolation, ...options })
    consumer.on(Ping, (data, ctx) => {
      calls.push(ctx.message.id)
      return handler(ctx, data)
    })
    return {
      hapax,
      consumer,
      calls,
      deliver: (id, more) => consumer.handle(ping(id, more)),
      deliverMany: (ids) => consumer.handleMany(ids.map((id) => ping(id))),
    }
  }

  /** Starts a worker; it is stopped when the case ends. */
  async worker(
    { hapax, consumer }: Pick<Reader, 'hapax'> & { consumer?: Consumer<Tx> | Leased<Tx> },
    options: WorkerOptions<Tx> = {},
  ): Promise<Worker> {
    const consume = consumer === undefined ? [] : [consumer]
    const worker = hapax.worker({ consume, pollMs: 20, ...options })
    this.#workers.push(worker)
    await worker.start()
    return worker
  }

  /** What a look finds in the inbox of billing, in all lanes. */
  async look(share: Partial<Share> = {}): Promise<Look> {
    const all = {
      table: 'inbox',
      scope: 'billing',
      types: ['ping'],
      lanes: ALL_LANES,
      limit: 640,
      after: new Map(),
      all: true,
    } as const
    const [look] = await this.store.workers.look([{ ...all, ...share }])
    return look as Look
  }

  /** The entry of a message that waits in the inbox of billing. */
  async entry(id: string, share: Partial<Share> = {}): Promise<Entry | undefined> {
    const seq = await this.store.inbox.find(share.scope ?? 'billing', messageKey('/sender', id))
    return (await this.look(share)).entries.find((entry) => entry.seq === seq)
  }

  /** Simulates the death of a process that had these messages in hand, alone or among others, and its detection. */
  async crash(seqs: readonly string[], alone = false): Promise<void> {
    const id = crypto.randomUUID()
    await this.store.workers.join({ id, name: id, ttlMs: 1, serves: '{}' })
    assert.ok(await this.store.workers.note(id, { seqs, alone }, false))
    await this.until(async () => (await this.store.workers.bury()) > 0)
  }

  /** The seqs of what is due in the inbox of billing. */
  async due(): Promise<readonly string[]> {
    return (await this.look()).entries.map((entry) => entry.seq)
  }

  /** The message of an inbox row. */
  async waiting(seq: string): Promise<StoredMessage | undefined> {
    const options = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }
    const opening = { kind: 'claim', seqs: [seq], locked: 'skip' } as const
    return this.store.transactions.run(options, opening, async ({ claimed }) => ({
      value: claimed.get(seq)?.message,
      writes: undefined,
    }))
  }

  /** Waits until something holds. */
  until(holds: () => Promise<boolean> | boolean): Promise<void> {
    return until(holds)
  }

  /**
   * Works the inbox until nothing is due. Also waits for messages that the database gave up in favour of others too often: they are
   * put off for a moment, and `drain` of a worker does not wait for a later attempt.
   */
  async drain(reader: Pick<Reader, 'hapax'> & { consumer: Consumer<Tx> | Leased<Tx> }): Promise<void> {
    const putOff: HapaxEvents['rolled-back'][] = []
    const ignore = reader.hapax.events.on('rolled-back', (event) => {
      if (isHapaxError(event.error, 'transaction-conflict')) putOff.push(event)
    })
    const worker = await this.worker(reader)
    await worker.drain()
    for (let each = putOff.shift(); each !== undefined; each = putOff.shift()) {
      await this.#untilSettled(each)
      await worker.drain()
    }
    ignore()
    await worker.stop()
  }

  #untilSettled({ consumer, message: { source, id } }: HapaxEvents['rolled-back']): Promise<void> {
    const key = messageKey(source, id)
    return until(
      async () => (await this.store.inbox.find(consumer, key)) === undefined,
      `${id}, which was put off after conflicts, leaves the inbox`,
    )
  }

  /** The committed effects, in the order of their text. */
  async assertEffects(expected: readonly string[]): Promise<void> {
    assert.deepEqual([...(await this.database.effects())].sort(), [...expected].sort())
  }

  /** How many receipts of finished messages are older than a millisecond, by the database's clock. */
  async cleanable(consumer: string): Promise<number> {
    return (await this.store.admin.clean({ kind: 'receipts', consumer, after: undefined, dryRun: true }, 1, 10_000))
      .deleted
  }

  /** Where the message is: its receipts, and its row in inbox or failed; the audit only where a case asks for it. */
  async assertPlaces(id: string, expected: readonly string[]): Promise<void> {
    const traces = (await this.store.admin.trace(id)).filter(
      ({ where }) => where !== 'audit' || expected.includes('audit'),
    )
    assert.deepEqual(traces.map((trace) => trace.where).sort(), [...expected].sort())
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#workers.map((worker) => worker.stop()))
    await this.database.close()
  }

  get #isolation(): { isolation?: Isolation } {
    return this.isolation === undefined ? {} : { isolation: this.isolation }
  }
}

/** A delivery. */
export function ping(id: unknown, more: Partial<IncomingMessage> = {}): IncomingMessage {
  return { id: id as string, source: '/sender', type: 'ping', data: { n: 1 }, ...more }
}

/** The outcome has this status, acknowledges accordingly, and carries an error with this code, if one is given. */
export function assertOutcome(outcome: Outcome | undefined, status: Outcome['status'], code?: ErrorCode): void {
  const shown = `${outcome?.status} ${outcome?.error ?? ''}`
  assert.equal(outcome?.status, status, shown)
  assert.equal(outcome.ack, status !== 'busy' && status !== 'rolled-back', shown)
  if (code !== undefined) assert.ok(isHapaxError(outcome.error, code), `expected the code ${code}, got ${shown}`)
}

/** The promise rejects with a HapaxError of this code. */
export function assertRejects(promise: Promise<unknown>, code: ErrorCode): Promise<void> {
  return assert.rejects(promise, (error: unknown) => {
    assert.ok(isHapaxError(error, code), `expected the code ${code}, got ${error}`)
    return true
  })
}

/** The statuses of outcomes, sorted. */
export function statuses(outcomes: readonly Outcome[]): readonly string[] {
  return outcomes.map(({ status }) => status).sort()
}
