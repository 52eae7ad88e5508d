import { beforeEach, describe, expect, it } from 'vitest'
import type { Clock } from '../../src/base/clock.ts'
import type { Audit } from '../../src/contracts/admin.ts'
import type { RetryRow } from '../../src/contracts/rows.ts'
import type { Look, Opening, Share, Unit, UnitOptions, Writes } from '../../src/contracts/store.ts'
import { LANES } from '../../src/message/lanes.ts'
import type { StoredMessage } from '../../src/message/message.ts'
import { messageKey } from '../../src/message/message.ts'
import { type MemoryStore, type MemoryTx, memory } from '../../src/stores/memory/index.ts'

const options: UnitOptions = { lockTimeoutMs: 10_000, idleTimeoutMs: 10_000 }
const plain: Opening = { kind: 'plain' }

let now: number
/** Whether every look at the clock is later than the one before. */
let ticking: boolean
let store: MemoryStore

const clock: Clock = {
  now: () => (ticking ? ++now : now),
  monotonic: () => now,
  after: (ms, call) => {
    const timer = setTimeout(call, ms)
    return () => clearTimeout(timer)
  },
}

beforeEach(() => {
  now = 1_000_000
  ticking = false
  store = memory({ clock })
})

function message(id: string, type = 'tested', key: string | null = null): StoredMessage {
  const fingerprint = '0123456789abcdef'
  const data = new TextEncoder().encode(id)
  return {
    messageKey: messageKey('/test', id),
    source: '/test',
    id,
    type,
    key,
    attributes: '{}',
    data,
    fingerprint,
  }
}

function take(...ids: string[]): Opening {
  return { kind: 'take', consumer: 'tester', token: `token of ${ids}`, messages: ids.map((id) => message(id)) }
}

function retry(id: string, delayMs = 0, key: string | null = null): RetryRow {
  const ordered = key !== null
  return {
    consumer: 'tester',
    message: message(id, 'tested', key),
    ordered,
    attempts: 0,
    starts: 0,
    delayMs,
    error: null,
  }
}

/** Everything that waits for `tester`, or on the relay `default`. */
async function look(table: 'inbox' | 'outbox' = 'inbox', other: Partial<Share> = {}): Promise<Look> {
  const scope = table === 'inbox' ? 'tester' : 'default'
  const lanes = [...Array(LANES).keys()]
  const [found] = await store.workers.look([
    { table, scope, types: ['tested'], lanes, limit: 100, after: new Map(), ...other },
  ])
  return found as Look
}

/** The seqs of what waits, by id. */
async function seqs(): Promise<Record<string, string>> {
  const rows = store.rows('hapax_inbox') as { seq: string; message: StoredMessage }[]
  return Object.fromEntries(rows.map((row) => [row.message.id, row.seq]))
}

function claimed(...wanted: (string | undefined)[]): Promise<readonly string[]> {
  const opening = { kind: 'claim', seqs: wanted.map(String), locked: 'skip' } as const
  return run(opening, (unit) => [...unit.claimed.values()].map((row) => row.message.id))
}

const audit: Audit = { actor: 'me', action: 'retry' }
const error = { name: 'Error', message: 'no' }

/** One transaction of the store that commits what `body` did. */
function run<T>(
  opening: Opening,
  body: (unit: Unit<MemoryTx>) => T | Promise<T>,
  writes: Writes = {},
  other = {},
): Promise<T> {
  return store.transactions.run({ ...options, ...other }, opening, async (unit) => ({
    value: await body(unit),
    writes,
  }))
}

describe('a transaction in memory', () => {
  it('commits the rows of the handler with the receipt', async () => {
    await run(take('1'), ({ tx }) => {
      tx.insert('orders', { id: 1 })
      expect(tx.rows('orders')).toEqual([{ id: 1 }])
      expect(store.rows('orders')).toEqual([])
    })
    expect(store.rows('orders')).toEqual([{ id: 1 }])
    expect(store.rows('hapax_receipts')).toMatchObject([{ consumer: 'tester', id: '1', token: 'token of 1' }])
  })

  it('takes everything back when the handler throws, or when it is asked to', async () => {
    await run(take('0'), () => undefined, { inbox: [retry('0')] })
    const before = ['hapax_receipts', 'hapax_inbox', 'hapax_outbox'].map((table) => store.rows(table))
    const failing = run(take('1'), async ({ tx }) => {
      tx.insert('orders', { id: 1 })
      await store.transactions.enter(tx).writeOutbox([{ relay: 'default', message: message('2'), delayMs: 0 }])
      throw new Error('of the handler')
    })
    await expect(failing).rejects.toThrow('of the handler')
    await store.transactions.run(options, take('1'), async ({ tx }) => {
      tx.insert('orders', { id: 2 })
      return { value: undefined, writes: undefined }
    })
    expect(store.rows('orders')).toEqual([])
    expect(['hapax_receipts', 'hapax_inbox', 'hapax_outbox'].map((table) => store.rows(table))).toEqual(before)
  })

  it('answers the receipts that were there before', async () => {
    await run(take('1'), () => undefined)
    const existing = await run(take('1', '2'), (unit) => unit.existing)
    expect([...existing.values()]).toMatchObject([{ id: '1', token: 'token of 1', takenAt: new Date(now) }])
    expect(store.rows('hapax_receipts')).toHaveLength(2)
  })

  it('keeps its handle to itself', async () => {
    const tx = await run(plain, (unit) => unit.tx)
    expect(() => tx.insert('orders', {})).toThrow('has settled')
    expect(() => tx.rows('orders')).toThrow('has settled')
    expect(() => store.transactions.enter(tx)).toThrow(expect.objectContaining({ code: 'transaction-closed' }))
    expect(() => store.transactions.enter({} as MemoryTx)).toThrow(
      expect.objectContaining({ code: 'not-in-transaction' }),
    )
    await run(plain, (unit) =>
      expect(() => memory().transactions.enter(unit.tx)).toThrow(
        expect.objectContaining({ code: 'not-in-transaction' }),
      ),
    )
    await run(plain, (unit) => expect(() => unit.tx.insert('hapax_inbox', {})).toThrow('one of your own'))
  })

  it('runs after the one before it, or is busy after the lock timeout', async () => {
    const holding = Promise.withResolvers<void>()
    const release = Promise.withResolvers<void>()
    const holder = run(take('1'), () => {
      holding.resolve()
      return release.promise
    })
    await holding.promise
    await expect(run(take('1'), () => undefined, {}, { lockTimeoutMs: 1 })).rejects.toMatchObject({ code: 'busy' })
    const next = run(take('1'), ({ existing }) => existing.size)
    release.resolve()
    await holder
    expect(await next).toBe(1)
  })

  it('ends by the signal, and the late handler is refused', async () => {
    const controller = new AbortController()
    const later = Promise.withResolvers<void>()
    const late = Promise.withResolvers<unknown>()
    const body = async ({ tx }: Unit<MemoryTx>): Promise<void> => {
      tx.insert('orders', { id: 'early' })
      controller.abort(new Error('timeout'))
      await later.promise
      try {
        tx.insert('orders', { id: 'late' })
      } catch (error) {
        late.resolve(error)
      }
    }
    await expect(run(take('1'), body, {}, { signal: controller.signal })).rejects.toThrow('timeout')
    later.resolve()
    expect(await late.promise).toMatchObject({ code: 'transaction-closed' })
    expect(store.rows('orders')).toEqual([])
    expect(await run(take('1'), ({ existing }) => existing.size)).toBe(0)
  })

  it('A28: refuses at once a call that would wait for itself', async () => {
    await run(take('1'), async () => {
      await expect(run(take('2'), () => undefined)).rejects.toMatchObject({ code: 'nested-transaction' })
      await expect(store.admin.status()).rejects.toMatchObject({ code: 'nested-transaction' })
      await memory().admin.status()
    })
    await store.close()
    await expect(store.admin.status()).rejects.toMatchObject({ code: 'closed' })
  })
})

describe('the inbox in memory', () => {
  it('D18: lists what is equally old in the order in which it came, also while time goes on', async () => {
    const ids = Array.from({ length: 10 }, (_, index) => `${index}`)
    await run(plain, () => undefined, { inbox: ids.map((id) => retry(id)) })
    const known = await seqs()
    ticking = true
    const { entries } = await look()
    expect(entries.map(({ seq }) => seq)).toEqual(ids.map((id) => known[id]))
  })

  it('lists what is due, the oldest first, and when the next one is', async () => {
    const inbox = [retry('later', 500), retry('1'), retry('2'), { ...retry('x'), consumer: 'other' }]
    await run(plain, () => undefined, { inbox })
    const { 1: first, 2: second, later } = await seqs()
    const found = await look()
    expect(found.entries.map((entry) => entry.seq)).toEqual([first, second])
    expect(found.nextMs).toBe(500)
    expect(await claimed(second, first)).toEqual(['1', '2'])
    now += 500
    expect((await look()).entries).toMatchObject([{ seq: later, dueMs: 0, key: null, held: false, deaths: 0 }])
    expect(await look('inbox', { types: ['another'] })).toEqual({ entries: [], nextMs: undefined, after: new Map() })
    expect((await look('inbox', { lanes: [] })).entries).toEqual([])
  })

  it('claims a row of a key only with every older one, and never a held one', async () => {
    const inbox = [retry('a1', 500, 'a'), retry('b1', 0, 'b'), retry('a2', 0, 'a'), retry('b2', 0, 'b')]
    await run(plain, () => undefined, { inbox })
    const { a1, a2, b1, b2 } = await seqs()
    expect(await claimed(b2)).toEqual([])
    expect(await claimed(a2, b2, b1)).toEqual(['b1', 'b2'])
    await store.inbox.fail({
      seq: String(a1),
      attempts: 1,
      reason: 'permanent',
      error,
      entry: '{}',
      leaseToken: null,
      hold: true,
    })
    expect(await claimed(a1, a2)).toEqual([])
    expect((await look()).entries).toMatchObject([{ seq: a1, key: 'a', held: true }])
    expect(await store.keys.list(10)).toMatchObject([
      { origin: 'inbox', scope: 'tester', key: 'a', id: 'a1', waiting: 1 },
    ])
    expect(await store.keys.release('inbox', 'tester', 'a', audit)).toBe(true)
    expect(await store.keys.release('inbox', 'tester', 'a', audit)).toBe(false)
    expect(await claimed(a2)).toEqual(['a2'])
    expect(await store.failed.list({ limit: 10 })).toMatchObject([{ message: { id: 'a1' }, held: false }])
  })

  it('goes through the keys of a lane page by page', async () => {
    const keys = Array.from({ length: 500 }, (_, index) => `key ${index}`)
    await run(plain, () => undefined, { inbox: keys.map((key) => retry(key, 0, key)) })
    const seen = new Set<string | null>()
    let pages = 0
    let after: ReadonlyMap<number, string> = new Map()
    do {
      const page = await look('inbox', { limit: 64, after })
      for (const { key, lane } of page.entries) if (pages === 0 || after.has(lane)) seen.add(key)
      after = page.after
      pages += 1
    } while (after.size > 0)
    expect(pages).toBeGreaterThan(1)
    expect(seen.size).toBe(500)
  })

  it('moves a message to the failed store and back', async () => {
    await run(take('1'), () => undefined, { inbox: [retry('1')] })
    const seq = String((await seqs())['1'])
    expect(
      await store.inbox.reschedule({ seq, attempts: 1, lost: 0, delayMs: 100, error, entry: '{}', leaseToken: null }),
    ).toBe(true)
    expect(await store.admin.status({ exact: true })).toMatchObject({
      consumers: [{ consumer: 'tester', receipts: 1, retrying: 1, waiting: 0 }],
    })
    expect(
      await store.inbox.fail({
        seq,
        attempts: 2,
        reason: 'permanent',
        error,
        entry: '{}',
        leaseToken: null,
        hold: false,
      }),
    ).toBe(true)
    expect(
      await store.inbox.fail({
        seq,
        attempts: 2,
        reason: 'permanent',
        error,
        entry: '{}',
        leaseToken: null,
        hold: false,
      }),
    ).toBe(false)
    const [failed] = await store.failed.list({ consumer: 'tester', reason: 'permanent', limit: 10 })
    expect(failed).toMatchObject({ attempts: 2, error, message: { id: '1' }, held: false })
    expect((await store.admin.trace('1')).map(({ where }) => where)).toEqual(['receipt', 'failed'])
    expect(await store.failed.retry(failed?.seq ?? '', audit)).toBe(true)
    expect(await store.failed.retry(failed?.seq ?? '', audit)).toBe(false)
    expect(store.rows('hapax_inbox')).toMatchObject([{ attempts: 0, starts: 0 }])
    expect(await store.inbox.find('tester', message('1').messageKey)).toBeDefined()
    expect((await store.admin.trace('1')).map(({ where }) => where)).toEqual(['receipt', 'inbox', 'audit'])
  })

  it('puts an edited message into the place of a held one', async () => {
    await run(take('1', '2'), () => undefined, { inbox: [retry('1', 0, 'a'), retry('2', 0, 'a')] })
    const rows = await seqs()
    await store.inbox.fail({
      seq: String(rows['1']),
      attempts: 1,
      reason: 'permanent',
      error,
      entry: '{}',
      leaseToken: null,
      hold: true,
    })
    const [failed] = await store.failed.list({ limit: 1 })
    const seq = failed?.seq ?? ''
    expect(failed?.held).toBe(true)
    await expect(store.failed.edit(seq, message('2', 'tested', 'a'), audit)).rejects.toMatchObject({ code: 'conflict' })
    expect(await store.failed.edit(seq, message('1b', 'tested', 'a'), { ...audit, action: 'edit' })).toBe(true)
    expect(await store.failed.retry(seq, audit)).toBe(false)
    expect(await claimed(rows['1'], rows['2'])).toEqual(['1b', '2'])
    expect(await store.failed.list({ replaced: true, limit: 1 })).toMatchObject([{ replacedBy: '1b', held: false }])
    expect(await store.failed.count({})).toBe(0)
    expect(await run(take('1b'), ({ existing }) => existing.size)).toBe(1)
  })

  it('delivers a message to all who listen, each once', async () => {
    await store.subscriptions.add('listed', ['tested'], true)
    await store.subscriptions.add('known', ['tested'], true)
    expect(await store.subscriptions.list()).toContainEqual({ consumer: 'listed', type: 'tested', ordered: true })
    const consumers = [{ name: 'known', ordered: false }]
    const rows = [{ message: message('1', 'tested', 'a'), consumers, delayMs: 0 }]
    const results = await run(plain, async ({ tx }) => [
      await store.transactions.enter(tx).writeLocal(rows),
      await store.transactions.enter(tx).writeLocal(rows),
    ])
    expect(results).toMatchObject([[{ consumers: 2, fresh: 2 }], [{ consumers: 2, fresh: 0, rows: [] }]])
    const inbox = store.rows('hapax_inbox') as { consumer: string; ordered: boolean }[]
    expect(inbox.map((row) => [row.consumer, row.ordered])).toEqual([
      ['listed', true],
      ['known', true],
    ])
  })
})

describe('the outbox in memory', () => {
  it('keeps what was confirmed, and holds the key of what was refused', async () => {
    const outbox = ['1', '2'].map((id) => ({ relay: 'default', message: message(id, 'tested', 'a'), delayMs: 0 }))
    await run(plain, () => undefined, { outbox })
    const [first, second] = (await look('outbox')).entries.map((entry) => entry.seq)
    await store.outbox.postpone([{ seq: String(first), delayMs: 100, error, entry: '{}' }])
    expect((await look('outbox')).entries).toMatchObject([{ seq: first, dueMs: 100 }])
    expect(await store.outbox.refuse({ seq: String(first), reason: 'permanent', error, entry: '{}', hold: true })).toBe(
      true,
    )
    expect((await look('outbox')).entries).toMatchObject([{ seq: first, held: true }])
    const [failed] = await store.failed.list({ origin: 'outbox', limit: 1 })
    expect(failed).toMatchObject({ consumer: 'default', attempts: 2, held: true })
    expect(await store.failed.discard(failed?.seq ?? '', { ...audit, action: 'discard' })).toBe(true)
    await store.outbox.confirm([String(first), String(second)], true)
    expect(store.rows('hapax_outbox')).toEqual([])
    const [sent] = await store.sent.list({ limit: 10 })
    expect(sent).toMatchObject({ relay: 'default', message: { id: '2' } })
    expect(await store.sent.republish(sent?.seq ?? '', { ...audit, action: 'republish' })).toBe(true)
    expect(store.rows('hapax_outbox')).toMatchObject([{ message: { id: '2' }, attempts: 0 }])
  })
})

describe('workers in memory', () => {
  it('count on the rows of the dead', async () => {
    await run(plain, () => undefined, { inbox: [retry('1'), retry('2')] })
    const { 1: first, 2: second } = await seqs()
    const hello = { name: 'host', ttlMs: 100, serves: '{}' }
    await store.workers.join({ ...hello, id: 'a' })
    await store.workers.join({ ...hello, id: 'b' })
    expect(await store.workers.note('a', { seqs: [String(first)], alone: true }, false)).toEqual([])
    now += 101
    expect(await store.workers.note('b', { seqs: [String(second)], alone: false }, true)).toMatchObject([
      { id: 'a', alive: false, silentMs: 101, inHand: 1 },
      { id: 'b', alive: true, inHand: 1 },
    ])
    expect(await store.workers.bury()).toBe(1)
    expect(store.rows('hapax_inbox')).toMatchObject([
      { starts: 1, crashes: 1 },
      { starts: 0, crashes: 0 },
    ])
    expect((await look()).entries).toMatchObject([{ deaths: 1 }, { deaths: 0 }])
    expect(await store.workers.note('a', { seqs: [], alone: false }, true)).toBeUndefined()
    await store.workers.leave('b')
    expect(store.rows('hapax_workers')).toEqual([])
  })

  it('are heard while a handler runs, and stay when it is rolled back', async () => {
    await store.workers.join({ id: 'a', name: 'host', ttlMs: 100, serves: '{}' })
    const failing = run(plain, async () => {
      expect(await store.workers.note('a', { seqs: ['7'], alone: false }, false)).toEqual([])
      throw new Error('of the handler')
    })
    await expect(failing).rejects.toThrow('of the handler')
    expect(store.rows('hapax_workers')).toMatchObject([{ inHand: ['7'] }])
  })
})

describe('cleaning in memory', () => {
  it('deletes receipts that are old and finished, a page at a time', async () => {
    await run(take('1', '2', '3'), () => undefined, { inbox: [retry('2')] })
    now += 1000
    await run(take('4'), () => undefined)
    const all = { kind: 'receipts', consumer: 'tester', after: undefined, dryRun: true } as const
    expect(await store.admin.clean(all, 500, 10)).toMatchObject({ deleted: 2, after: undefined })
    let after: string | undefined
    let deleted = 0
    do {
      const step = await store.admin.clean({ kind: 'receipts', consumer: 'tester', after }, 500, 1)
      deleted += step.deleted
      after = step.after
    } while (after !== undefined)
    expect(deleted).toBe(2)
    expect(
      store
        .rows('hapax_receipts')
        .map((row) => (row as { id: string }).id)
        .sort(),
    ).toEqual(['2', '4'])
    expect(await store.admin.checkup()).toMatchObject([{ level: 'warning' }])
  })
})
