import { setTimeout as delay, setImmediate } from 'node:timers/promises'
import { createHapax, type Destination, defineMessage, HapaxError, silentLogger } from 'hapax'
import type { Clock, Confirmation, OutboxMessage, OutgoingMessage } from 'hapax/contracts'
import { type MemoryStore, memory } from 'hapax/memory'
import { describe, expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { altered } from '../../src/testing/altered.ts'
import { answering } from '../../src/testing/promised.ts'

interface Data {
  readonly key: string
  readonly pad?: string
}

const Sent = defineMessage<Data>('sent', { key: ({ key }) => key })
const CONFIRMED: Confirmation = { status: 'confirmed' }

type Answer = (message: OutgoingMessage) => Confirmation | Promise<Confirmation>

/** A clock that does not see it when the machine stands still: else a relay would rightly say that nothing was confirmed for long. */
function steadyClock(): Clock {
  let [at, shows] = [performance.now(), 0]
  const monotonic = (): number => {
    const now = performance.now()
    shows += Math.min(now - at, 100)
    at = now
    return shows
  }
  return { ...systemClock, monotonic }
}

/** A relay from a memory store, the ids that arrived, and a way to publish. */
async function relay(answer: Answer, store = memory(), keepsOrder = false) {
  const options = { clock: steadyClock(), maxMessageBytes: 2_000_000 }
  const hapax = createHapax({ store, source: '/test', logger: silentLogger, ...options })
  onTestFinished(() => hapax.close())
  const arrived: string[] = []
  const destination: Destination = {
    name: 'a test',
    features: { keepsOrder },
    prepare: async () => {},
    publish: answering(async (message) => {
      const sent = await answer(message)
      if (sent.status === 'confirmed') arrived.push(message.id)
      return sent
    }),
    close: async () => {},
  }
  const publish = (data: Data, id: string) => hapax.transaction((tx) => hapax.publish(tx, Sent, data, { id }))
  /** Many at once, each of a key of its own. */
  const fill = (count: number) =>
    hapax.transaction((tx) => {
      const drafts = Array.from({ length: count }, (_, n) => Sent.of({ key: `k${n}` }, { id: `m${n}` }))
      return hapax.publishMany(tx, drafts)
    })
  const worker = hapax.worker({ relay: destination, pollMs: 20 })
  return { hapax, worker, arrived, publish, fill }
}

describe('a relay', () => {
  it('I6: keeps the order of a key that is too much for one batch, also when one of it is nacked', async () => {
    let nacked = false
    const { worker, arrived, publish } = await relay(async ({ id }) => {
      await delay(1)
      if (id !== '3' || nacked) return CONFIRMED
      nacked = true
      return { status: 'failed', error: new Error('nacked') }
    })
    const pad = 'x'.repeat(900_000)
    const ids = Array.from({ length: 40 }, (_, n) => String(n))
    for (const id of ids) await publish({ key: 'k', pad }, id)
    await worker.start()
    await expect.poll(() => arrived.length).toBe(ids.length)
    expect(arrived).toEqual(ids)
  })

  it('I8: lets go of what it could not write down, and of what stands behind it', async () => {
    const store = memory()
    let away = true
    const flaky = instead(store, 'postpone', async (postpone, rows) => {
      if (away) throw new HapaxError('store-unavailable', 'away')
      return postpone(rows)
    })
    const nacks = { status: 'failed', error: new Error('nacked') } as const
    const { worker, arrived, publish } = await relay(({ id }) => (away && id === 'a1' ? nacks : CONFIRMED), flaky)
    for (const key of ['a', 'b', 'c']) for (const n of [1, 2, 3]) await publish({ key }, `${key}${n}`)
    await worker.start()
    await expect.poll(() => arrived.includes('c3')).toBe(true)
    away = false
    await expect.poll(() => store.rows('hapax_outbox').length).toBe(0)
    for (const key of ['a', 'b', 'c']) {
      const first = [...new Set(arrived.filter((id) => id.startsWith(key)))]
      expect(first).toEqual([`${key}1`, `${key}2`, `${key}3`])
    }
  })

  it('D30: leaves a message alone that does not come through, while others do', async () => {
    let sent = 0
    const { hapax, worker, arrived, publish } = await relay(({ key }) => {
      if (key !== 'stuck') return CONFIRMED
      sent += 1
      return { status: 'unavailable', error: new Error('no leader') }
    })
    let down = 0
    hapax.events.on('relay-down', () => {
      down += 1
    })
    await worker.start()
    await publish({ key: 'first' }, 'first')
    await expect.poll(() => arrived.length).toBe(1)
    await publish({ key: 'stuck' }, 'stuck')
    for (let n = 0; n < 100; n++) {
      await publish({ key: `k${n}` }, `m${n}`)
      await delay(2)
    }
    await expect.poll(() => arrived.length).toBe(101)
    expect(down).toBe(0)
    expect(sent).toBeLessThan(20)
  })

  it('D30: goes on after a broker that does not answer', async () => {
    const hurried: Clock = { ...systemClock, after: (ms, call) => systemClock.after(ms / 1_000, call) }
    const hapax = createHapax({ store: memory(), source: '/test', logger: silentLogger, clock: hurried })
    onTestFinished(() => hapax.close())
    let calls = 0
    const destination: Destination = {
      name: 'a test',
      features: { keepsOrder: true },
      prepare: async () => {},
      publish: (_messages, _signal, settle) => (++calls === 1 ? undefined : settle(0, CONFIRMED)),
      close: async () => {},
    }
    const worker = hapax.worker({ relay: destination, pollMs: 20 })
    await worker.start()
    await hapax.transaction((tx) => hapax.publish(tx, Sent, { key: 'k' }))
    await worker.drain()
    expect(calls).toBeGreaterThan(1)
  })

  it('D21: deletes many confirmed messages at once, also if they are confirmed one by one', async () => {
    const store = memory()
    let deletes = 0
    const counted = instead(store, 'confirm', (confirm, ...args) => {
      deletes += 1
      return confirm(...args)
    })
    let last = Promise.resolve()
    const { worker, fill } = await relay(async () => {
      last = last.then(() => setImmediate())
      await last
      return CONFIRMED
    }, counted)
    await fill(1_000)
    const began = performance.now()
    await worker.start()
    await worker.drain()
    expect(store.rows('hapax_outbox')).toEqual([])
    // Rows wait ten milliseconds for company: where the process gets little time, there may be a delete in each of them.
    expect(deletes).toBeLessThan(Math.max(100, (performance.now() - began) / 10))
  })

  it.for([
    [true, '{'],
    [false, '{'],
    [true, '{"headers":5}'],
    [true, '{"headers":{"a":null}}'],
    [false, '{"time":7}'],
  ] as const)(
    'D30: is not stopped by a row that is no message (order kept: %s, %s)',
    async ([keepsOrder, attributes]) => {
      // As somebody leaves it who writes into the table by hand.
      const spoilt = instead(memory(), 'read', async (read, seqs) => {
        const rows = await read(seqs)
        const spoil = ({ message }: OutboxMessage) => (message.id === 'bad' ? { ...message, attributes } : message)
        return rows.map((row) => ({ ...row, message: spoil(row) }))
      })
      const { hapax, worker, arrived, publish } = await relay(() => CONFIRMED, spoilt, keepsOrder)
      for (const id of ['before', 'bad', 'behind']) await publish({ key: 'k' }, id)
      await publish({ key: 'other' }, 'good')
      await worker.start()
      const failed = async () => (await hapax.failed.list()).map(({ message: { id }, reason }) => [id, reason])
      await expect.poll(failed).toEqual([['bad', 'refused-by-broker']])
      await expect.poll(() => arrived.toSorted()).toEqual(['before', 'good'])
    },
  )

  it('D5: a row that somebody keeps locked stops nothing, and is not sent again and again', async () => {
    const store = memory()
    let locked: string | undefined
    const partly = instead(store, 'confirm', async (confirm, seqs, keep) => {
      const free = seqs.filter((seq) => seq !== locked)
      await confirm(free, keep)
      return seqs.filter((seq) => seq === locked)
    })
    const { worker, arrived, publish } = await relay(() => CONFIRMED, partly)
    await publish({ key: 'a' }, 'a1')
    locked = String((store.rows('hapax_outbox')[0] as { seq: number }).seq)
    await worker.start()
    await expect.poll(() => arrived).toContain('a1')
    await publish({ key: 'a' }, 'a2')
    for (let n = 1; n < 60; n++) {
      await publish({ key: 'b' }, `b${n}`)
      await delay(2)
    }
    await expect.poll(() => arrived.filter((id) => id.startsWith('b')).length).toBe(59)
    await expect.poll(() => arrived).toContain('a2')
    expect(arrived.filter((id) => id === 'a1').length).toBeLessThan(20)
    await expect.poll(() => store.rows('hapax_outbox')).toHaveLength(1)
    locked = undefined
    await expect.poll(() => store.rows('hapax_outbox').length).toBe(0)
    expect(new Set(arrived).size).toBe(61)
  })

  it('D5: stop waits until what was confirmed is deleted', async () => {
    const store = memory()
    const slow = instead(store, 'confirm', async (confirm, ...args) => {
      await delay(50)
      return confirm(...args)
    })
    const asked = Promise.withResolvers<void>()
    const answer = Promise.withResolvers<Confirmation>()
    const { worker, publish } = await relay(() => {
      asked.resolve()
      return answer.promise
    }, slow)
    await publish({ key: 'a' }, 'a')
    await worker.start()
    await asked.promise
    const stopped = worker.stop()
    await expect.poll(() => store.rows('hapax_workers')).toEqual([])
    answer.resolve(CONFIRMED)
    await stopped
    expect(store.rows('hapax_outbox')).toEqual([])
  })

  it('H11: sends no more of a key once it is stopped', async () => {
    const store = memory()
    const asked: string[] = []
    const answer = Promise.withResolvers<Confirmation>()
    const { worker, arrived, publish } = await relay(({ id }) => {
      asked.push(id)
      return answer.promise
    }, store)
    for (const id of ['1', '2', '3']) await publish({ key: 'k' }, id)
    await worker.start()
    await expect.poll(() => asked).toEqual(['1'])
    const stopped = worker.stop()
    await expect.poll(() => store.rows('hapax_workers')).toEqual([])
    answer.resolve(CONFIRMED)
    await stopped
    expect([asked, arrived]).toEqual([['1'], ['1']])
    expect(store.rows('hapax_outbox')).toHaveLength(2)
  })

  it('H11: sends nothing of what it reads when it is stopped', async () => {
    const store = memory()
    const reading = Promise.withResolvers<void>()
    const read = Promise.withResolvers<void>()
    const slow = instead(store, 'read', async (rows, ...args) => {
      reading.resolve()
      await read.promise
      return rows(...args)
    })
    const { worker, arrived, publish } = await relay(() => CONFIRMED, slow, true)
    await publish({ key: 'a' }, 'a')
    await worker.start()
    await reading.promise
    const stopped = worker.stop()
    await expect.poll(() => store.rows('hapax_workers')).toEqual([])
    read.resolve()
    await stopped
    expect(arrived).toEqual([])
  })

  it.each(['refused', 'failed'] as const)(
    'D14 D30: is not down because a message waits behind one of its key that was %s',
    async (status) => {
      const store = memory()
      let answered = 0
      const { hapax, worker, arrived, publish } = await relay(
        ({ id }) => {
          if (id === 'first') answered += 1
          if (id === 'first') return { status, error: new Error('not taken') }
          if (id === 'behind') return { status: 'unavailable', error: new Error('the one before it was not taken') }
          return CONFIRMED
        },
        store,
        true,
      )
      let down = 0
      hapax.events.on('relay-down', () => {
        down += 1
      })
      for (const id of ['first', 'behind']) await publish({ key: 'k' }, id)
      await worker.start()
      await expect.poll(() => answered).toBeGreaterThan(0)
      await publish({ key: 'other' }, 'other')
      await worker.drain()
      expect([arrived, down]).toEqual([['other'], 0])
      expect(store.rows('hapax_outbox')).toHaveLength(2)
    },
  )

  it('I9: has no more than 2,000 messages under way', async () => {
    const answers: ((sent: Confirmation) => void)[] = []
    const { worker, fill } = await relay(() => new Promise((resolve) => answers.push(resolve)))
    await fill(3_000)
    await worker.start()
    await expect.poll(() => answers.length).toBe(2_000)
    for (const answered of answers.splice(0, 1_000)) answered(CONFIRMED)
    await expect.poll(() => answers.length).toBe(2_000)
    for (const answered of answers) answered(CONFIRMED)
    await worker.drain()
  })

  it('D30: does not send the rest when the broker is down', async () => {
    let sent = 0
    const { hapax, worker, fill } = await relay(() => {
      sent += 1
      return { status: 'unavailable', error: new Error('no leader') }
    })
    const sentUntilDown: number[] = []
    hapax.events.on('relay-down', () => sentUntilDown.push(sent))
    await fill(5_000)
    await worker.start()
    await expect.poll(() => sentUntilDown.length).toBeGreaterThan(1)
    expect(sentUntilDown[1]).toBeLessThanOrEqual(4_000)
  })

  it.each<[string, Destination['publish']]>([
    [
      'throws',
      () => {
        throw new Error('not connected')
      },
    ],
    [
      'rejects',
      async () => {
        throw new Error('not connected')
      },
    ],
    ['settles with nothing', (_messages, _signal, settle) => settle(0, undefined as never)],
    ['settles with something else', (_messages, _signal, settle) => settle(0, { status: 'ok' } as never)],
    [
      'settles twice',
      (_messages, _signal, settle) => {
        settle(0, CONFIRMED)
        settle(0, { status: 'failed', error: new Error('no') })
      },
    ],
    [
      'settles what it was not given, and then throws',
      (_messages, _signal, settle) => {
        settle(1, CONFIRMED)
        throw new Error('no')
      },
    ],
  ])('D30: goes on after a destination that %s', async (_, first) => {
    const store = memory()
    const hapax = createHapax({ store, source: '/test', logger: silentLogger })
    onTestFinished(() => hapax.close())
    let calls = 0
    const destination: Destination = {
      name: 'a test',
      features: { keepsOrder: false },
      prepare: async () => {},
      publish: (messages, signal, settle) => (++calls === 1 ? first(messages, signal, settle) : settle(0, CONFIRMED)),
      close: async () => {},
    }
    await hapax.transaction((tx) => hapax.publish(tx, Sent, { key: 'a' }))
    const worker = hapax.worker({ relay: destination, pollMs: 20 })
    await worker.start()
    await expect.poll(() => store.rows('hapax_outbox')).toEqual([])
    await worker.stop()
  })

  it('H11: sends nothing after it was stopped at once', async () => {
    const reading = Promise.withResolvers<void>()
    const read = Promise.withResolvers<void>()
    const slow = instead(memory(), 'read', async (rows, ...args) => {
      reading.resolve()
      await read.promise
      return rows(...args)
    })
    const { worker, arrived, publish } = await relay(() => CONFIRMED, slow)
    await publish({ key: 'a' }, 'a')
    await worker.start()
    await reading.promise
    const stopped = worker.stop({ deadlineMs: 0 })
    await delay(1)
    read.resolve()
    await stopped
    expect(arrived).toEqual([])
  })

  it('D6: does not send again and again what cannot be deleted', async () => {
    const store = memory()
    let tries = 0
    const refuses = instead(store, 'confirm', () => {
      tries += 1
      return Promise.reject(new HapaxError('store-unavailable', 'permission denied'))
    })
    const { worker, arrived, publish } = await relay(() => CONFIRMED, refuses)
    for (const key of ['a', 'b']) await publish({ key }, key)
    await worker.start()
    await expect.poll(() => tries).toBeGreaterThan(3)
    await delay(500)
    expect(arrived.length).toBeLessThan(20)
    await worker.stop()
  })

  it('D20: postpones many messages at once, so that the database has time for others', async () => {
    let writes = 0
    const counted = instead(memory(), 'postpone', (postpone, ...args) => {
      writes += 1
      return postpone(...args)
    })
    const { hapax, worker, fill } = await relay(() => ({ status: 'failed', error: new Error('nack') }), counted)
    let retrying = 0
    hapax.events.on('relay-retrying', () => {
      retrying += 1
    })
    await fill(1_000)
    await worker.start()
    await expect.poll(() => retrying).toBeGreaterThanOrEqual(1_000)
    await worker.stop()
    expect(writes).toBeLessThan(100)
  })
})

type Outbox = MemoryStore['outbox']

/** The store, with a method of ours in the place of one of its outbox. */
function instead<Name extends keyof Outbox>(
  store: MemoryStore,
  name: Name,
  ours: (own: Outbox[Name], ...args: Parameters<Outbox[Name]>) => ReturnType<Outbox[Name]>,
): MemoryStore {
  const replaced = (...args: Parameters<Outbox[Name]>): ReturnType<Outbox[Name]> => ours(store.outbox[name], ...args)
  return altered(store, { outbox: { [name]: replaced } })
}
