import { beforeEach, describe, expect, it } from 'vitest'
import type { Clock } from '../../src/core/clock.ts'
import { messageKey } from '../../src/core/identity.ts'
import type { StoredMessage } from '../../src/core/message.ts'
import type { Opening, RetryRow, Unit, UnitOptions, Writes } from '../../src/core/store.ts'
import { type MemoryStore, type MemoryTx, memory } from '../../src/stores/memory.ts'

const options: UnitOptions = { lockTimeoutMs: 10_000, idleTimeoutMs: 10_000 }
const plain: Opening = { kind: 'plain' }
const types = new Map([['tester', ['tested']]])

let now: number
let store: MemoryStore

const clock: Clock = {
  now: () => now,
  monotonic: () => now,
  after: (ms, call) => {
    const timer = setTimeout(call, ms)
    return () => clearTimeout(timer)
  },
}

beforeEach(() => {
  now = 1_000_000
  store = memory({ clock })
})

function message(id: string, type = 'tested'): StoredMessage {
  const fingerprint = '0123456789abcdef'
  const data = new TextEncoder().encode(id)
  return {
    messageKey: messageKey('/test', id),
    source: '/test',
    id,
    type,
    key: null,
    attributes: '{}',
    data,
    fingerprint,
  }
}

function take(...ids: string[]): Opening {
  return { kind: 'take', consumer: 'tester', token: `token of ${ids}`, messages: ids.map((id) => message(id)) }
}

function retry(id: string, delayMs = 0): RetryRow {
  return { consumer: 'tester', message: message(id), attempts: 0, starts: 0, delayMs, error: null }
}

/** One transaction of the store that commits what `body` did. */
function run<T>(
  opening: Opening,
  body: (unit: Unit<MemoryTx>) => T | Promise<T>,
  writes: Writes = {},
  other = {},
): Promise<T> {
  return store.transaction({ ...options, ...other }, opening, async (unit) => ({ value: await body(unit), writes }))
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
      await store.writeOutbox(tx, [{ relay: 'default', message: message('2'), delayMs: 0 }])
      throw new Error('of the handler')
    })
    await expect(failing).rejects.toThrow('of the handler')
    await store.transaction(options, take('1'), async ({ tx }) => {
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
    await expect(store.writeOutbox(tx, [])).rejects.toMatchObject({ code: 'transaction-closed' })
    await expect(store.assertTransaction({} as MemoryTx)).rejects.toMatchObject({ code: 'not-in-transaction' })
    await run(plain, (unit) =>
      expect(memory().assertTransaction(unit.tx)).rejects.toMatchObject({ code: 'not-in-transaction' }),
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
      await expect(store.status()).rejects.toMatchObject({ code: 'nested-transaction' })
      await memory().status()
    })
    await store.close()
    await expect(store.status()).rejects.toMatchObject({ code: 'closed' })
  })
})

describe('the inbox in memory', () => {
  it('gives out what is due, the oldest first, and counts the starts', async () => {
    const inbox = [retry('later', 500), retry('1'), retry('2'), { ...retry('x'), consumer: 'other' }]
    await run(plain, () => undefined, { inbox })
    expect(await store.nextDueMs(types)).toBe(0)
    const rows = { limit: 10, except: [], started: false, hideMs: 0 }
    const due = await store.due(types, rows)
    expect(due.map(({ message: { id }, starts }) => [id, starts])).toEqual([
      ['1', 1],
      ['2', 1],
    ])
    await run(
      { kind: 'claim', seqs: due.map(({ seq }) => seq), locked: 'skip' },
      ({ claimed }) => expect(claimed.size).toBe(2),
      {},
    )
    expect(await store.nextDueMs(types)).toBe(500)
    now += 500
    expect(await store.due(types, rows)).toMatchObject([{ message: { id: 'later' } }])
    expect(await store.nextDueMs(new Map([['nobody', ['tested']]]))).toBeUndefined()
  })

  it('moves a message to the failed store and back', async () => {
    await run(take('1'), () => undefined, { inbox: [retry('1')] })
    const [row] = await store.due(types, { limit: 1, except: [], started: false, hideMs: 0 })
    const seq = row?.seq ?? ''
    const error = { name: 'Error', message: 'no' }
    expect(await store.reschedule({ seq, attempts: 1, lost: 0, delayMs: 100, error })).toBe(true)
    expect(await store.status()).toMatchObject({
      consumers: [{ consumer: 'tester', receipts: 1, retrying: 1, waiting: 0 }],
    })
    expect(await store.fail({ seq, attempts: 2, reason: 'permanent', error })).toBe(true)
    expect(await store.fail({ seq, attempts: 2, reason: 'permanent', error })).toBe(false)
    const [failed] = await store.failedList({ consumer: 'tester', reason: 'permanent', limit: 10 })
    expect(failed).toMatchObject({ attempts: 2, error, message: { id: '1' } })
    expect((await store.trace('1')).map(({ where }) => where)).toEqual(['receipt', 'failed'])
    expect(await store.failedRetry(failed?.seq ?? '')).toBe(true)
    expect(await store.failedRetry(failed?.seq ?? '')).toBe(false)
    expect(await store.inboxRow('tester', message('1').messageKey)).toMatchObject({ attempts: 0, starts: 0 })
  })

  it('delivers a message to all who listen, each once', async () => {
    await store.subscribe('listed', ['tested'])
    expect(await store.isSubscribed('listed', 'tested')).toBe(true)
    const rows = [{ message: message('1'), consumers: ['known', 'listed'], delayMs: 0 }]
    const results = await run(plain, async ({ tx }) => [
      await store.writeLocal(tx, rows),
      await store.writeLocal(tx, rows),
    ])
    expect(results).toEqual([[{ consumers: 2, fresh: 2 }], [{ consumers: 2, fresh: 0 }]])
    expect(store.rows('hapax_inbox')).toHaveLength(2)
  })
})
