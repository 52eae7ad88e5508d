import { randomUUID } from 'node:crypto'
import {
  type Consumer,
  type ConsumerOptions,
  createHapax,
  defineMessage,
  type Hapax,
  type IncomingMessage,
  type Store,
  silentLogger,
  type Worker,
} from 'hapax'
import type { ClaimStore } from 'hapax/contracts'
import { memoryBroker } from 'hapax/memory-broker'
import { fingerprint, messageKey } from '../../../src/message/index.ts'
import type { RigTx } from '../databases.ts'

const Placed = defineMessage<{ readonly n: number }>('order.placed')

/** A database to work on, with a table for effects. */
export interface Ground {
  readonly store: Store<RigTx, unknown>
  /** Writes one row per number, with one statement. */
  write(tx: RigTx, numbers: readonly number[]): Promise<unknown>
}

/** A piece of work whose cost is counted. */
export interface Job {
  /** How often it is done while it is counted. */
  readonly times: number
  /** How often a worker looks depends on the time that things take. */
  readonly paced: boolean
  open(ground: Ground): Opened
}

/** Work that is ready to be done; only `run` is counted. */
export interface Opened {
  before?(): Promise<void>
  run(): Promise<unknown>
  close(): Promise<void>
}

export type JobName = keyof typeof jobs

/** What is counted on every SQL store. */
export const jobs = {
  'one message': {
    times: 10,
    paced: false,
    open: (ground) => direct(ground, 1, (hapax) => each(hapax, ground, 'one')),
  },
  'a group of 100': {
    times: 3,
    paced: false,
    open: (ground) => direct(ground, 100, (hapax) => each(hapax, ground, 'hundred', { group: { size: 100 } })),
  },
  'onMany of 500': {
    times: 3,
    paced: false,
    open: (ground) =>
      direct(ground, 500, (hapax) =>
        hapax.consumer('many', { group: { size: 500 } }).onMany(
          Placed,
          async (items, { tx }) =>
            void (await ground.write(
              tx,
              items.map(({ data }) => data.n),
            )),
        ),
      ),
  },
  '100 deliveries to the inbox': {
    times: 3,
    paced: false,
    open: (ground) => direct(ground, 100, (hapax) => each(hapax, ground, 'stored', { receive: 'store' })),
  },
  'a first request': { times: 10, paced: false, open: (ground) => requesting(ground, () => randomUUID()) },
  'a request that came before': { times: 10, paced: false, open: (ground) => requesting(ground, () => 'known') },
  'a transaction that publishes': { times: 10, paced: false, open: (ground) => publishing(ground, 'relay') },
  'a transaction that publishes locally': { times: 10, paced: false, open: (ground) => publishing(ground, 'local') },
  '1,000 local messages by a worker, in groups of 100': { times: 1, paced: true, open: (ground) => draining(ground) },
  '1,000 messages by a relay': { times: 1, paced: true, open: (ground) => relaying(ground) },
} as const satisfies Record<string, Job>

type On = Hapax<RigTx, unknown>

function hapaxOn({ store }: Ground, delivery: 'relay' | 'local' = 'relay'): On {
  return createHapax({ store, source: '/costs', delivery, logger: silentLogger })
}

function each(hapax: On, ground: Ground, name: string, options: ConsumerOptions = {}): Consumer<RigTx> {
  return hapax.consumer(name, options).on(Placed, async ({ n }, { tx }) => void (await ground.write(tx, [n])))
}

function direct(ground: Ground, size: number, consumerOf: (hapax: On) => Consumer<RigTx>): Opened {
  const hapax = hapaxOn(ground)
  const consumer = consumerOf(hapax)
  const run = (): Promise<unknown> => {
    const messages = fresh(size)
    const [only] = messages
    return size === 1 && only ? consumer.handle(only) : consumer.handleMany(messages)
  }
  return { run, close: () => hapax.close() }
}

function fresh(count: number): IncomingMessage[] {
  return Array.from({ length: count }, (_, n) => ({
    id: randomUUID(),
    source: '/costs',
    type: Placed.type,
    data: { n },
  }))
}

function publishing(ground: Ground, delivery: 'relay' | 'local'): Opened {
  const hapax = hapaxOn(ground, delivery)
  each(hapax, ground, 'published')
  const run = (): Promise<unknown> =>
    hapax.transaction(async (tx) => {
      await ground.write(tx, [1])
      await hapax.publish(tx, Placed, { n: 1 })
    })
  return { run, close: () => hapax.close() }
}

/** A request as the store has it: the receipt and what is known come with BEGIN, the response goes with COMMIT. */
function requesting(ground: Ground, idOf: () => string): Opened {
  const { store } = ground
  const body = Buffer.from('{"order":17}')
  const response = { status: 201, headers: [['content-type', 'application/json']], body } as const
  const run = (): Promise<unknown> => {
    const [consumer, source, id] = ['http:costs', 'POST /orders ~ada', idOf()]
    const key = { messageKey: messageKey(source, id), id }
    const message = { ...key, source, type: 'http.request', key: null, attributes: '{}', data: body }
    const messages = [{ ...message, fingerprint: fingerprint(body) }]
    const opening = { kind: 'take', consumer, token: randomUUID(), messages, responses: true } as const
    return store.transactions.run(
      { lockTimeoutMs: 1_000, idleTimeoutMs: 60_000 },
      opening,
      async ({ tx, existing }) => {
        if (existing.size > 0) return { value: undefined, writes: undefined }
        await ground.write(tx, [1])
        return { value: undefined, writes: { response: { consumer, ...key, response, keepMs: 60_000 } } }
      },
    )
  }
  return { run, before: async () => void (await store.schema.ready()), close: () => store.close() }
}

const THOUSAND = 1_000

/** Fills before each run, which is not counted, and drains. */
function draining(ground: Ground): Opened {
  const hapax = hapaxOn(ground, 'local')
  // A size of its own: the one that a group finds by itself depends on the time that it takes.
  const consumer = each(hapax, ground, 'drained', { group: { size: 100 } })
  return {
    before: () => fill(hapax),
    run: () => drained(hapax.worker({ consume: [consumer] })),
    close: () => hapax.close(),
  }
}

function relaying(ground: Ground): Opened {
  const hapax = hapaxOn(ground)
  return {
    before: () => fill(hapax),
    run: () => drained(hapax.worker({ relay: memoryBroker().topic('orders') })),
    close: () => hapax.close(),
  }
}

async function fill(hapax: On): Promise<void> {
  const drafts = Array.from({ length: THOUSAND }, (_, n) => Placed.of({ n }))
  await hapax.transaction((tx) => hapax.publishMany(tx, drafts))
}

async function drained(worker: Worker): Promise<void> {
  await worker.start()
  await worker.drain()
  await worker.stop()
}

/** What is counted on Redis. */
export const leasedJobs = {
  'one leased message': 1,
  '100 leased messages': 100,
} as const

/** Leased messages, handled as they are delivered together. */
export function leasing(store: ClaimStore, size: number): Opened {
  const hapax = createHapax({ store, source: '/costs', logger: silentLogger })
  const leased = hapax.leased('leased', { retentionMs: 60_000 }).on(Placed, async () => {})
  return { run: () => leased.handleMany(fresh(size)), close: () => hapax.close() }
}
