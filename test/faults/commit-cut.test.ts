import { type ConsumerOptions, createHapax, defineMessage, type Hapax, type IncomingMessage, silentLogger } from 'hapax'
import type { Clock } from 'hapax/contracts'
import { describe, expect, it } from 'vitest'
import {
  asText,
  type Checker,
  countEffects,
  type DurableStore,
  durableStores,
  insertEffect,
  makePlace,
  openStore,
  type RigTx,
  table,
  terminateAll,
} from '../support/databases.ts'
import { inLanes } from '../support/lanes.ts'
import { oneInTest } from '../support/runs.ts'
import { type Fault, TcpProxy } from '../support/tcp-proxy.ts'

/** SQLite has no link that could be cut. */
const stores = oneInTest(
  durableStores().filter((store) => store !== 'sqlite'),
  'postgres',
)
const ROUNDS = 20
const cuts = ['drop', 'swallow'] as const satisfies readonly Fault[]
const meaning = { drop: 'before it arrives', swallow: 'before its answer arrives' }
const Order = defineMessage<{ id: string }>('order')
const Echo = defineMessage<{ id: string }>('echo')
const options: ConsumerOptions = { retry: { attempts: 3, minDelayMs: 0, maxDelayMs: 0 }, lockTimeoutMs: 20_000 }

/** A hapax behind a proxy, and a checker beside it. */
interface Rig extends AsyncDisposable {
  readonly checker: Checker
  readonly proxy: TcpProxy
  readonly hapax: Hapax<RigTx>
  /** The attempts that handlers saw, by message. */
  readonly attempts: Map<string, number[]>
}

async function openRig(store: DurableStore, delivery: 'relay' | 'local' = 'relay'): Promise<Rig> {
  const checker = await makePlace(store)
  const proxy = await TcpProxy.open(store, checker.place.url)
  const hapax = createHapax({
    store: await openStore(checker.place, { url: proxy.url }),
    source: '/cut',
    delivery,
    logger: silentLogger,
  })
  return {
    checker,
    proxy,
    hapax,
    attempts: new Map(),
    [Symbol.asyncDispose]: async () => {
      await hapax.close()
      await proxy[Symbol.asyncDispose]()
      await checker[Symbol.asyncDispose]()
    },
  }
}

/** A consumer that writes one effect for each message; `during` runs behind it, still inside the transaction. */
function consumerOf(
  rig: Rig,
  name: string,
  extra: ConsumerOptions = {},
  during: (id: string, call: number) => unknown = () => {},
) {
  const { hapax, attempts, checker } = rig
  return hapax.consumer(name, { ...options, ...extra }).on(Order, async ({ id }, { tx, attempt }) => {
    const seen = attempts.get(id) ?? []
    attempts.set(id, seen)
    seen.push(attempt)
    await tx.query(insertEffect(checker.place, name, id))
    await during(id, seen.length)
  })
}

/** Unknown commits, and what became of each. */
function resolutions(hapax: Hapax<RigTx>): string[] {
  const told: string[] = []
  hapax.events.on('commit-unknown', ({ messages }) => told.push(`unknown ${messages.map(({ id }) => id).join(' ')}`))
  hapax.events.on('commit-resolved', ({ messages, resolved }) =>
    told.push(`${resolved} ${messages.map(({ id }) => id).join(' ')}`),
  )
  return told
}

function order(id: string): IncomingMessage {
  return { id, source: '/shop', type: 'order', data: { id } }
}

/** Every id took effect once, and nothing waits or has failed. */
async function expectOnce({ checker }: Rig, consumer: string, ids: readonly string[]): Promise<void> {
  expect(await countEffects(checker)).toEqual(new Map(ids.map((id) => [`${consumer} ${id}`, 1])))
  for (const name of ['inbox', 'failed'] as const) {
    expect(await checker.query(`select * from ${table(checker.place, name)}`)).toEqual([])
  }
}

function numbered(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}-${index}`)
}

describe.each(stores)('%s: the link is cut at COMMIT', (store) => {
  describe.each(cuts)('%s', (fault) => {
    const calls = fault === 'drop' ? 2 : 1

    it(`A1: a first delivery is processed once, cut ${meaning[fault]}`, async () => {
      await using rig = await openRig(store)
      const consumer = consumerOf(rig, 'first', {}, (_, call) => void (call === 1 && rig.proxy.arm(fault)))
      const resolved = resolutions(rig.hapax)
      const ids = numbered('first', ROUNDS)
      for (const id of ids) expect(await consumer.handle(order(id))).toEqual({ status: 'processed', ack: true })
      const became = fault === 'drop' ? 'not-committed' : 'committed'
      expect(resolved).toEqual(ids.flatMap((id) => [`unknown ${id}`, `${became} ${id}`]))
      expect([...rig.attempts.values()]).toEqual(ids.map(() => Array(calls).fill(1)))
      for (const id of ids) expect(await consumer.handle(order(id))).toMatchObject({ status: 'duplicate' })
      await expectOnce(rig, 'first', ids)
    })

    it(`A1: what a handler publishes locally is published once, cut ${meaning[fault]}`, async () => {
      await using rig = await openRig(store, 'local')
      const { hapax, checker, proxy } = rig
      const audit = hapax.consumer('audit', options).on(Echo, async ({ id }, { tx }) => {
        await tx.query(insertEffect(checker.place, 'audit', id))
      })
      const calls = new Map<string, number>()
      const first = hapax.consumer('first', options).on(Order, async ({ id }, { publish }) => {
        const call = (calls.get(id) ?? 0) + 1
        calls.set(id, call)
        await publish(Echo, { id })
        if (call === 1) proxy.arm(fault)
      })
      const ids = numbered('echo', ROUNDS)
      for (const id of ids) expect(await first.handle(order(id))).toEqual({ status: 'processed', ack: true })
      const worker = hapax.worker({ consume: [audit] })
      await worker.start()
      await worker.drain()
      await worker.stop()
      await expectOnce(rig, 'audit', ids)
    })

    it(`A1: a group is processed once, cut ${meaning[fault]}`, async () => {
      await using rig = await openRig(store)
      const consumer = consumerOf(rig, 'group', { group: { size: 5 } }, (id, call) => {
        if (call === 1 && id.endsWith('of-4')) rig.proxy.arm(fault)
      })
      const all: string[] = []
      for (let round = 0; round < ROUNDS; round++) {
        const ids = numbered(`group-${round}-of`, 5)
        all.push(...ids)
        const outcomes = await consumer.handleMany(ids.map(order))
        expect(outcomes.map(({ status }) => status)).toEqual(Array(5).fill('processed'))
      }
      expect([...rig.attempts.values()]).toEqual(all.map(() => Array(calls).fill(1)))
      await expectOnce(rig, 'group', all)
    })

    it(`A1: a message from the inbox is processed once, cut ${meaning[fault]}`, async () => {
      await using rig = await openRig(store)
      const extra = { receive: 'store', concurrency: 1 } as const
      // Not the commit of anything that the worker writes of itself meanwhile.
      const arm = (): unknown => rig.proxy.arm(fault, undefined, /insert into \S*(effects|business)/i)
      const consumer = consumerOf(rig, 'inbox', extra, (_, call) => void (call === 1 && arm()))
      const processed: string[] = []
      rig.hapax.events.on('processed', ({ message }) => processed.push(message.id))
      const ids = numbered('inbox', ROUNDS)
      const stored = await consumer.handleMany(ids.map(order))
      expect(stored.map(({ status }) => status)).toEqual(ids.map(() => 'stored'))
      const worker = rig.hapax.worker({ consume: [consumer] })
      await worker.start()
      await worker.drain()
      await worker.stop()
      expect(processed.sort()).toEqual([...ids].sort())
      expect([...rig.attempts.values()]).toEqual(ids.map(() => Array(calls).fill(1)))
      await expectOnce(rig, 'inbox', ids)
    })

    it(`A1: deliveries are stored once, cut ${meaning[fault]}`, async () => {
      await using rig = await openRig(store)
      const { checker } = rig
      const consumer = consumerOf(rig, 'stored', { receive: 'store' })
      // What a connection was used for once may travel as a whole from then on.
      expect(await consumer.handle(order('before'))).toMatchObject({ status: 'stored' })
      const all = ['before']
      for (let round = 0; round < ROUNDS; round++) {
        const ids = numbered(`stored-${round}-of`, 5)
        all.push(...ids)
        const cut = rig.proxy.arm(fault)
        const outcomes = await consumer.handleMany([order('before'), ...ids.map(order)])
        await cut
        expect(outcomes.map(({ status }) => status)).toEqual(['duplicate', ...ids.map(() => 'stored')])
      }
      const rows = await checker.query(`select id from ${table(checker.place, 'inbox')} order by seq`)
      expect(rows.map((row) => asText(row['id']))).toEqual(all)
      await workOff(rig.hapax.worker({ consume: [consumer] }))
      await expectOnce(rig, 'stored', all)
    })

    it(`C1: the record of a failure is written once, cut ${meaning[fault]}`, async () => {
      await using rig = await openRig(store)
      const { checker } = rig
      const consumer = consumerOf(rig, 'record', {}, (_, call) => {
        if (call > 1) return
        rig.proxy.arm(fault)
        throw new Error('flaw')
      })
      const ids = numbered('record', ROUNDS)
      for (const id of ids) expect(await consumer.handle(order(id))).toMatchObject({ status: 'retrying', ack: true })
      const rows = await checker.query(`select id, attempts from ${table(checker.place, 'inbox')} order by seq`)
      expect(rows.map((row) => [asText(row['id']), Number(row['attempts'])])).toEqual(ids.map((id) => [id, 1]))
      expect(await countEffects(checker)).toEqual(new Map())
      await workOff(rig.hapax.worker({ consume: [consumer] }))
      expect([...rig.attempts.values()]).toEqual(ids.map(() => [1, 2]))
      await expectOnce(rig, 'record', ids)
    })

    it(`A1: hapax.transaction rejects with commit-unknown, cut ${meaning[fault]}`, async () => {
      await using rig = await openRig(store)
      const { checker, hapax, proxy } = rig
      for (let round = 0; round < ROUNDS; round++) {
        const transaction = hapax.transaction(async (tx) => {
          await tx.query(insertEffect(checker.place, 'own', `own-${round}`))
          await hapax.publish(tx, Order, { id: `own-${round}` })
          proxy.arm(fault)
        })
        await expect(transaction).rejects.toMatchObject({ name: 'HapaxError', code: 'commit-unknown' })
      }
      const committed = fault === 'swallow' ? ROUNDS : 0
      expect((await countEffects(checker)).size).toBe(committed)
      expect(await checker.query(`select id from ${table(checker.place, 'outbox')}`)).toHaveLength(committed)
    })
  })

  it('A1: another process is told busy while the commit is on its way, and the effect happens once', async () => {
    await using rig = await openRig(store)
    await using other = await openOther(rig)
    let held = false
    const consumer = consumerOf(rig, 'held', {}, (_, call) => {
      if (call === 1) void rig.proxy.arm('hold').then(() => (held = true))
    })
    const twin = consumerOf({ ...rig, hapax: other.hapax }, 'held', { lockTimeoutMs: 50 })
    const first = consumer.handle(order('held'))
    await until(() => held)
    expect(await twin.handle(order('held'))).toMatchObject({ status: 'busy', ack: false })
    rig.proxy.cut()
    expect(await first).toMatchObject({ status: 'processed' })
    expect(await twin.handle(order('held'))).toMatchObject({ status: 'duplicate' })
    await expectOnce(rig, 'held', ['held'])
  })

  it('A1: another process is told duplicate while only the answer is missing, and the effect happened once', async () => {
    await using rig = await openRig(store)
    await using other = await openOther(rig)
    let held = false
    const consumer = consumerOf(rig, 'held', {}, (_, call) => {
      if (call === 1) void rig.proxy.arm('hold-answer').then(() => (held = true))
    })
    const twin = consumerOf({ ...rig, hapax: other.hapax }, 'held')
    const first = consumer.handle(order('held'))
    await until(() => held)
    expect(await twin.handle(order('held'))).toMatchObject({ status: 'duplicate' })
    rig.proxy.cut()
    expect(await first).toMatchObject({ status: 'processed' })
    expect(rig.attempts.get('held')).toEqual([1])
    await expectOnce(rig, 'held', ['held'])
  })

  it('H7: a commit that is never answered is given up in time, and the effect happens once', async () => {
    await using rig = await openRig(store)
    await using other = await openOther(rig, rig.proxy.url, fastClock)
    const consumer = consumerOf({ ...rig, hapax: other.hapax }, 'silent', {}, (_, call) => {
      if (call === 1) void rig.proxy.arm('hold')
    })
    await deliverUntilAcked(consumer, [order('silent')])
    await expectOnce(rig, 'silent', ['silent'])
    rig.proxy.cut()
  })
})

describe.each(stores)('%s: the link is cut elsewhere', (store) => {
  it('H8: a connection that turns out to be broken at BEGIN is replaced by another one', async () => {
    await using rig = await openRig(store)
    // A stall is no time that passes: a connection that broke is replaced only soon after the start.
    await using other = await openOther(rig, rig.proxy.url, slowClock)
    const consumer = consumerOf({ ...rig, hapax: other.hapax }, 'begin')
    const ids = numbered('begin', ROUNDS)
    for (const id of ids) {
      void rig.proxy.arm('drop', /^\s*(begin|start transaction)/i)
      expect(await consumer.handle(order(id))).toMatchObject({ status: 'processed' })
    }
    expect([...rig.attempts.values()]).toEqual(ids.map(() => [1]))
    await expectOnce(rig, 'begin', ids)
  })

  it.each(cuts)("C15: a cut at the handler's own statement uses up no attempt (%s)", async (fault) => {
    await using rig = await openRig(store)
    const consumer = consumerOf(rig, 'middle')
    const ids = numbered('middle', ROUNDS)
    for (const id of ids) {
      void rig.proxy.arm(fault, /insert into \S*(effects|business)/i)
      expect(await consumer.handle(order(id))).toMatchObject({
        status: 'rolled-back',
        ack: false,
        error: { code: 'transaction-lost' },
      })
      expect(await consumer.handle(order(id))).toMatchObject({ status: 'processed' })
    }
    expect([...rig.attempts.values()]).toEqual(ids.map(() => [1, 1]))
    await expectOnce(rig, 'middle', ids)
  })

  it("C15: a cut at the handler's own statement uses up no attempt of a message from the inbox", async () => {
    await using rig = await openRig(store)
    const consumer = consumerOf(rig, 'middle', { receive: 'store', concurrency: 1 })
    const ids = numbered('middle', 3)
    await consumer.handleMany(ids.map(order))
    void rig.proxy.arm('drop', /insert into \S*(effects|business)/i)
    const worker = rig.hapax.worker({ consume: [consumer], pollMs: 20 })
    await worker.start()
    await until(async () => (await countEffects(rig.checker)).size === ids.length)
    await worker.stop()
    expect([...rig.attempts.values()].flat()).toEqual([1, 1, 1, 1])
    await expectOnce(rig, 'middle', ids)
  })

  it('C2: a link that breaks again and again is no crash of the process', async () => {
    await using rig = await openRig(store)
    const consumer = consumerOf(rig, 'broken', { receive: 'store', concurrency: 1 })
    await consumer.handle(order('broken'))
    const worker = rig.hapax.worker({ consume: [consumer], pollMs: 20 })
    let broken = 0
    const breakNext = (): void => {
      // What a transaction with a handler begins with, and nothing else.
      void rig.proxy.arm('drop', /(?<!release )savepoint hapax(?:; end)?\s*$/i).then(() => {
        broken += 1
        if (broken < 10) breakNext()
      })
    }
    breakNext()
    await worker.start()
    await until(async () => (await countEffects(rig.checker)).size === 1)
    await worker.stop()
    expect(broken).toBe(10)
    expect(rig.attempts.get('broken')).toEqual([1])
    await expectOnce(rig, 'broken', ['broken'])
  })

  it('H9: 500 messages take effect once while every connection is ended again and again', async () => {
    await using rig = await openRig(store)
    const consumer = consumerOf(rig, 'storm', { concurrency: 4 })
    const ids = numbered('storm', 500)
    let over = false
    let ended = 0
    const storm = (async () => {
      for (let done = 0; !over; done = (await countEffects(rig.checker)).size) {
        ended += await terminateAll(rig.checker)
        // The next blow falls after some progress, not after some time.
        await until(async () => over || (await countEffects(rig.checker)).size >= done + 10)
      }
    })()
    await inLanes(4, ids, (id) => deliverUntilAcked(consumer, [order(id)]))
    over = true
    await storm
    expect(ended).toBeGreaterThan(10)
    expect(new Set([...rig.attempts.values()].flat())).toEqual(new Set([1]))
    await expectOnce(rig, 'storm', ids)
  })

  it('A25: 300 messages take effect once although the database goes away in the middle', async () => {
    await using rig = await openRig(store)
    const consumer = consumerOf(rig, 'outage', { concurrency: 4 })
    const ids = numbered('outage', 300)
    let refused = 0
    const outage = (async () => {
      await until(async () => (await countEffects(rig.checker)).size >= 100)
      await rig.proxy.refuse()
      await until(() => refused > 4)
      await rig.proxy.accept()
    })()
    await inLanes(4, ids, (id) =>
      deliverUntilAcked(consumer, [order(id)], (code) => {
        expect(['store-unavailable', 'commit-unknown']).toContain(code)
        refused += 1
      }),
    )
    await outage
    await expectOnce(rig, 'outage', ids)
  })
})

/** Another hapax on the same tables, by its own way to the server. */
async function openOther(
  { checker }: Rig,
  url: string = checker.place.url,
  clock: Clock | undefined = undefined,
): Promise<AsyncDisposable & { hapax: Hapax<RigTx> }> {
  const store = await openStore(checker.place, { url })
  const hapax = createHapax({ store, source: '/cut', logger: silentLogger, ...(clock && { clock }) })
  return { hapax, [Symbol.asyncDispose]: () => hapax.close() }
}

const FASTER = 4
const SLOWER = 10
/** A clock on which deadlines of half a minute are short, and still longer than a busy machine keeps a handler waiting. */
const fastClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now() * FASTER,
  after: (ms, call) => {
    const timer = setTimeout(call, ms / FASTER)
    return () => clearTimeout(timer)
  },
}

const slowClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now() / SLOWER,
  after: (ms, call) => {
    const timer = setTimeout(call, ms)
    return () => clearTimeout(timer)
  },
}

/** Does what a broker does: what is not acknowledged comes again. */
async function deliverUntilAcked(
  consumer: ReturnType<typeof consumerOf>,
  messages: readonly IncomingMessage[],
  thrown: (code: unknown) => void = () => {},
): Promise<void> {
  for (let waiting = messages; waiting.length > 0; ) {
    try {
      const outcomes = await consumer.handleMany(waiting)
      waiting = waiting.filter((_, index) => !outcomes[index]?.ack)
    } catch (error) {
      thrown((error as { code?: unknown }).code)
      await pause(20)
    }
  }
}

async function workOff(worker: ReturnType<Hapax<RigTx>['worker']>): Promise<void> {
  await worker.start()
  await worker.drain()
  await worker.stop()
}

async function until(condition: () => unknown): Promise<void> {
  while (!(await condition())) await pause(5)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
