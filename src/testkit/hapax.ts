import { AssertionError } from 'node:assert'
import { flag, HapaxError, noOthers, positiveInteger, silentLogger, systemClock } from '../base/index.ts'
import { type MemoryBroker, memoryBroker } from '../brokers/memory/index.ts'
import type { Store, Worker } from '../contracts/index.ts'
import { createHapax, type Hapax, type HapaxOptions } from '../hapax.ts'
import type { MessageType } from '../message/index.ts'
import { type MemoryStore, type MemoryTx, memory } from '../stores/memory/index.ts'
import { type TestClock, testClock } from './clock.ts'
import { forwarding } from './crashable.ts'
import { type PublishedMessage, PublishedMessages } from './published.ts'
import { type StoreTools, toolsOf } from './tools.ts'

/** Options of `testHapax`: those of `createHapax`, all of which may be left out. */
export interface TestHapaxOptions<Tx, Own> extends Partial<Omit<HapaxOptions<Tx, Own>, 'clock'>> {
  /** @default a memory store, whose due times follow `clock` */
  readonly store?: Store<Tx, Own>
  /** @default a clock that runs as usual and can be advanced */
  readonly clock?: TestClock
  /** One that several hapaxes share. @default a new one */
  readonly broker?: MemoryBroker
}

/** Options of `drain`. */
export interface DrainOptions {
  /** Whether to leap to what is due later, such as a retry in some minutes, until nothing waits. @default false */
  readonly leap?: boolean
  /** How long it may take. @default 5_000 */
  readonly timeoutMs?: number
}

/** A hapax for tests, and what belongs to it. */
export interface TestHapax<Tx, Own = Tx> {
  readonly hapax: Hapax<Tx, Own>
  /** For relays and subscriptions: `broker.topic('shop')`, `broker.queue('billing', { topic: 'shop' })`. */
  readonly broker: MemoryBroker
  readonly clock: TestClock
  /**
   * What was published and committed, by `hapax.transaction` and by handlers, in order. What you publish in a transaction that you
   * opened yourself is not seen here.
   */
  readonly published: readonly PublishedMessage[]
  /** The first published message of this type whose data contain these; fails if there is none. */
  expectPublished(type: string | MessageType<never, unknown>, data?: unknown): PublishedMessage
  /** The committed rows of a table of the memory store. */
  rows(table: string): readonly object[]
  /**
   * Waits until workers that were started have nothing to do, and the broker has nothing to deliver. What failed for good, and keys
   * that it holds, stay.
   */
  drain(workers: Worker | readonly Worker[], options?: DrainOptions): Promise<void>
  /** Empties the store (the memory store, or one of `testPostgres`) and forgets what was published. Stop workers before. */
  reset(): Promise<void>
  /** Stops its workers and closes the hapax. */
  close(): Promise<void>
}

/** Creates a hapax for a test: a memory store unless another is given, a memory broker, a clock, and no log. */
export function testHapax<Tx = MemoryTx, Own = MemoryTx>(options: TestHapaxOptions<Tx, Own> = {}): TestHapax<Tx, Own> {
  const { store: given, clock = testClock(), broker = memoryBroker(), ...rest } = options
  const known = given === undefined ? memoryIn(clock) : givenStore(given)
  const published = new PublishedMessages()
  // Without a store it is one of memory, and `Tx` is its transaction: the default of the type parameter.
  const current = known.current as () => Store<Tx, Own>
  const store = forwarding(current, (writes) => published.add(writes))
  // Which kind of hapax it is depends on a type that is not known here.
  const hapax: Hapax<Tx, Own> = createHapax<Store<Tx, Own>>({
    source: '/test',
    logger: silentLogger,
    ...rest,
    store,
    clock,
  } as never)
  return {
    hapax,
    broker,
    clock,
    published: published.all,
    expectPublished: (type, data) => published.expect(type, data),
    rows: (table) => known.rows(table),
    drain: (workers, draining = {}) => drain([workers].flat(), known.tools, broker, draining),
    reset: async () => {
      await known.tools().reset()
      published.clear()
    },
    close: () => hapax.close(),
  }
}

/** A store, and what the kit can do with it. */
interface Known {
  current(): unknown
  rows(table: string): readonly object[]
  tools(): StoreTools
}

function memoryIn(clock: TestClock): Known {
  let store: MemoryStore = memory({ clock })
  const waiting = (): number[] =>
    ['hapax_inbox', 'hapax_outbox'].flatMap((table) => store.rows(table).flatMap((row) => dueAt(row)))
  const tools: StoreTools = {
    reset: async () => {
      store = memory({ clock })
    },
    nextMs: async () => {
      const all = waiting()
      return all.length === 0 ? undefined : Math.min(...all) - clock.now()
    },
    move: async (ms) => clock.advance(Math.ceil(ms)),
  }
  return { current: () => store, rows: (table) => store.rows(table), tools: () => tools }
}

/** When a row is due that is not held. */
function dueAt(row: { availableAt?: unknown; heldAt?: unknown }): number[] {
  return typeof row.availableAt === 'number' && row.heldAt === null ? [row.availableAt] : []
}

function givenStore(store: object): Known {
  return {
    current: () => store,
    rows: (table) => {
      const { rows }: { rows?: unknown } = store
      if (typeof rows !== 'function') throw unable('rows', 'a memory store')
      return rows.call(store, table)
    },
    tools: () => {
      const tools = toolsOf.get(store)
      if (tools === undefined)
        throw unable('reset and leap', 'the memory store of testHapax, or the store of testPostgres')
      return tools
    },
  }
}

function unable(what: string, needs: string): HapaxError {
  return new HapaxError('invalid-option', `expected the store to be ${needs}: ${what} can do nothing with another one`)
}

async function drain(
  workers: readonly Worker[],
  tools: () => StoreTools,
  broker: MemoryBroker,
  options: DrainOptions,
): Promise<void> {
  noOthers('options of drain', options, ['leap', 'timeoutMs'])
  const leap = flag('leap', options.leap, false)
  const limitMs = positiveInteger('timeoutMs', options.timeoutMs, 5_000)
  const end = systemClock.monotonic() + limitMs
  for (;;) {
    await Promise.all(workers.map((worker) => worker.drain()))
    const nextMs = leap ? await tools().nextMs() : undefined
    if (broker.unsettled === 0 && nextMs === undefined) return
    if (systemClock.monotonic() > end) throw late(limitMs, broker.unsettled)
    if (nextMs !== undefined && nextMs > 0) await tools().move(nextMs + 1)
    for (const worker of workers) worker.wake()
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

function late(limitMs: number, unsettled: number): AssertionError {
  const broker = unsettled === 0 ? '' : `; ${unsettled} messages are in the broker, waiting or not acknowledged`
  return new AssertionError({ message: `there was still something to do after ${limitMs} ms${broker}` })
}
