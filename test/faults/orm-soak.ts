import { setTimeout as sleep } from 'node:timers/promises'
import { createHapax, defineMessage, type IncomingMessage, silentLogger } from 'hapax'
import { expect } from 'vitest'
import type { Checker } from '../support/databases.ts'
import { ORDERS, type OrmApplication } from '../support/orms.ts'
import { seeded, shuffled } from '../support/seeded.ts'

export interface OrmSoakOptions {
  readonly seed: number
  readonly messages: number
  /** Deliveries at the same time. */
  readonly inFlight: number
  /** Connections of the application's pool. */
  readonly max: number
  /** The name of the application at the server. */
  readonly application: string
  readonly deadlineMs: number
}

export interface OrmSoakResult {
  /** Ids without a row of business, or without a message in the outbox. */
  readonly lost: readonly string[]
  /** Ids with more than one of either. */
  readonly doubled: readonly string[]
  /** Messages in the inbox and in the failed store. */
  readonly left: number
  /** What happened on the way. */
  readonly faults: Faults
  readonly seconds: number
}

interface Faults {
  /** Backends that were terminated. */
  terminated: number
  /** How often somebody else had all connections. */
  exhausted: number
  /** Handlers that threw, and handlers that never ended. */
  thrown: number
  hung: number
  /** Deliveries that were not acknowledged, and came again. */
  again: number
}

const Placed = defineMessage<{ order: string }>('order.placed')
const Paid = defineMessage<{ order: string }>('order.paid')

/** How long a handler may take: less than the longest time in which the pool is used up. */
const TIMEOUT_MS = 2_000

/**
 * Handles messages through an ORM, each delivered two or three times, while backends are terminated at random and somebody else uses up the
 * pool from time to time. Ends when every delivery is acknowledged and the inbox is empty.
 */
export async function ormSoak<Tx extends object>(
  application: OrmApplication<Tx>,
  checker: Checker,
  options: OrmSoakOptions,
): Promise<OrmSoakResult> {
  const began = performance.now()
  const faults: Faults = { terminated: 0, exhausted: 0, thrown: 0, hung: 0, again: 0 }
  const random = seeded(options.seed)
  const hapax = createHapax({ store: application.store, source: '/orm-soak', logger: silentLogger })
  const met = new Set<string>()
  const consumer = hapax
    .consumer('orders', {
      timeoutMs: TIMEOUT_MS,
      retry: { attempts: 1_000, minDelayMs: 10, maxDelayMs: 200 },
    })
    .on(Placed, async ({ order }, { tx }) => {
      await application.order(tx, order)
      await hapax.publishMany(tx, [Paid.of({ order }, { key: order })])
      // Not only in its first attempt, which may be cut off before it comes so far.
      const fault = met.has(order) ? undefined : faultOf(order)
      met.add(order)
      if (fault === undefined) return
      faults[fault] += 1
      if (fault === 'thrown') throw new Error('not the first time')
      await application.hang(tx)
    })
  const worker = hapax.worker({ consume: [consumer], pollMs: 50 })
  await worker.start()

  const over = new AbortController()
  const chaos = [
    terminating(checker, options.application, seeded(options.seed + 1), over.signal, faults),
    exhausting(application, options.max, seeded(options.seed + 2), over.signal, faults),
  ]
  try {
    const deadline = AbortSignal.timeout(options.deadlineMs)
    const deliveries = deliveriesOf(options.messages, random)
    const deliver = async (): Promise<void> => {
      for (let next = deliveries.pop(); next !== undefined; next = deliveries.pop()) {
        deadline.throwIfAborted()
        const acknowledged = await consumer.handle(next).then(
          ({ ack }) => ack,
          () => false,
        )
        if (acknowledged) continue
        faults.again += 1
        deliveries.unshift(next)
      }
    }
    await Promise.all(Array.from({ length: options.inFlight }, deliver))
  } finally {
    over.abort()
    await Promise.all(chaos)
  }
  await expect.poll(() => countLeft(checker), { timeout: options.deadlineMs, interval: 100 }).toBe(0)
  await worker.stop()
  const verdict = await judged(checker, options.messages)
  await expectNoLeak(application, checker, options)
  await hapax.close()
  return { ...verdict, faults, seconds: (performance.now() - began) / 1000 }
}

/** What a message meets once. */
function faultOf(order: string): 'thrown' | 'hung' | undefined {
  const number = Number(order)
  if (number % 150 === 7) return 'hung'
  return number % 20 === 3 ? 'thrown' : undefined
}

/** Each message twice, every fourth three times, in any order. */
function deliveriesOf(messages: number, random: () => number): IncomingMessage[] {
  const once = Array.from({ length: messages }, (_, index): IncomingMessage => {
    const id = String(index)
    return { id, source: '/shop', type: Placed.type, data: { order: id } }
  })
  return shuffled([...once, ...once, ...once.filter((_, index) => index % 4 === 0)], random)
}

/** Terminates backends of the application, one after the other. */
async function terminating(
  checker: Checker,
  application: string,
  random: () => number,
  over: AbortSignal,
  faults: Faults,
): Promise<void> {
  while (!over.aborted) {
    const ended = await checker.query(
      `select pg_terminate_backend(pid) from (
        select pid from pg_stat_activity where application_name = '${application}' order by random() limit 1) as one`,
    )
    faults.terminated += ended.length
    await sleep(20 + 80 * random())
  }
}

/** Takes all connections of the pool, at times for longer than a handler may take, and gives them back. */
async function exhausting<Tx extends object>(
  { pool }: OrmApplication<Tx>,
  max: number,
  random: () => number,
  over: AbortSignal,
  faults: Faults,
): Promise<void> {
  // The first time early: a short run is over after a second.
  for (let waitMs = 200; !over.aborted; waitMs = 300 + 1_500 * random()) {
    await sleep(waitMs, undefined, { signal: over }).catch(() => {})
    if (over.aborted) return
    const taken = await Promise.all(Array.from({ length: max }, () => take(pool)))
    faults.exhausted += 1
    await sleep(random() < 0.2 ? TIMEOUT_MS * 1.5 : 400 * random(), undefined, { signal: over }).catch(() => {})
    for (const giveBack of taken) giveBack()
  }
}

/** Takes one connection; it may be terminated meanwhile. */
async function take(pool: OrmApplication<object>['pool']): Promise<() => void> {
  const client = await pool.connect().catch(() => undefined)
  if (client === undefined) return () => {}
  const heard = (): void => {}
  client.on('error', heard)
  return () => {
    client.off('error', heard)
    client.release()
  }
}

async function countLeft({ query, place: { schema } }: Checker): Promise<number> {
  const rows = await query(
    `select (select count(*) from ${schema}.inbox) + (select count(*) from ${schema}.failed) as left_over`,
  )
  return Number(rows[0]?.['left_over'])
}

async function judged(checker: Checker, messages: number): Promise<Pick<OrmSoakResult, 'lost' | 'doubled' | 'left'>> {
  const { schema } = checker.place
  const orders = await countsOf(checker, `select id, count(*) as n from ${schema}.${ORDERS} group by id`)
  const paid = await countsOf(checker, `select key as id, count(*) as n from ${schema}.outbox group by key`)
  const ids = Array.from({ length: messages }, (_, index) => String(index))
  const counts = (id: string): number[] => [orders.get(id) ?? 0, paid.get(id) ?? 0]
  return {
    lost: ids.filter((id) => counts(id).includes(0)),
    doubled: ids.filter((id) => counts(id).some((n) => n > 1)),
    left: await countLeft(checker),
  }
}

async function countsOf(checker: Checker, text: string): Promise<ReadonlyMap<string, number>> {
  return new Map((await checker.query(text)).map((row) => [String(row['id']), Number(row['n'])]))
}

/** All connections are back in the pool, the server has no others, and all of them can be used at the same time. */
async function expectNoLeak<Tx extends object>(
  application: OrmApplication<Tx>,
  checker: Checker,
  options: OrmSoakOptions,
): Promise<void> {
  await expectAtRest(application, checker, options)
  const { promise: all, resolve } = Promise.withResolvers<void>()
  let open = 0
  const opened = Array.from({ length: options.max }, () =>
    application.own(async () => {
      open += 1
      if (open === options.max) resolve()
      await all
    }),
  )
  await Promise.all(opened)
  await expectAtRest(application, checker, options)
}

async function expectAtRest<Tx extends object>(
  { pool }: OrmApplication<Tx>,
  checker: Checker,
  { max, application }: OrmSoakOptions,
): Promise<void> {
  const atRest = { inUse: 0, waiting: 0, open: 0, tooMany: 0 }
  const now = async (): Promise<typeof atRest> => {
    const rows = await checker.query(
      `select count(*) as sessions, count(*) filter (where state <> 'idle') as open
      from pg_stat_activity where application_name = '${application}'`,
    )
    return {
      inUse: pool.totalCount - pool.idleCount,
      waiting: pool.waitingCount,
      open: Number(rows[0]?.['open']),
      tooMany: Math.max(0, Number(rows[0]?.['sessions']) - max),
    }
  }
  await expect.poll(now).toEqual(atRest)
}
