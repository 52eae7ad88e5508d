import assert from 'node:assert/strict'
import { HapaxError, Permanent, workerName } from '../../base/index.ts'
import type { Rescheduled, Trace } from '../../contracts/index.ts'
import type { Past, PastFailure } from '../../message/index.ts'
import { recordFailure } from '../../message/index.ts'
import { altered } from '../altered.ts'
import { failedOne } from './admin/failed-world.ts'
import type { Case } from './case.ts'
import { TestDestination } from './doubles.ts'
import { leased, seqOf, work } from './leased/world.ts'
import { type AnyStore, AT_ONCE, assertOutcome, Ping, type Reader, type World } from './world.ts'

/** Attempt, message and worker of each failure that is remembered; every one has its time, in order. */
function told({ history }: Past): readonly string[] {
  const times = history.map(({ at }) => at.getTime())
  assert.deepEqual(
    times,
    times.toSorted((a, b) => a - b),
  )
  for (const { worker } of history) assert.equal(worker, workerName())
  return history.map(({ attempt, kind, message }) => `${attempt}${kind === undefined ? '' : ` ${kind}`} ${message}`)
}

/** What a place remembers of a message. */
async function past(world: World, id: string, where: 'inbox' | 'outbox' | 'failed'): Promise<Past> {
  const found = (await world.store.admin.trace(id)).find((trace) => trace.where === where)
  return (found as Extract<Trace, { where: typeof where }>) ?? assert.fail(`${id} is not in ${where}`)
}

/** A reader whose attempts fail, each with a text of its own. */
function failing(world: World, attempts: number): Reader {
  let failures = 0
  return world.reader(() => Promise.reject(Object.assign(new TypeError(`no ${++failures}`), { code: 'E_NO' })), {
    retry: { ...AT_ONCE, attempts },
  })
}

function numbers(from: number, to: number): readonly number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index)
}

const inbox: readonly Case[] = [
  {
    name: 'five failures are told in order, with time, attempt, worker and error, while it waits and when it has failed',
    run: async (world) => {
      const reader = failing(world, 5)
      assertOutcome(await reader.deliver('a'), 'retrying')
      const [first, ...others] = (await past(world, 'a', 'inbox')).history
      assert.deepEqual([first?.name, first?.code, others], ['TypeError', 'E_NO', []])
      await world.drain(reader)
      const failed = await failedOne(reader.hapax, 'a')
      assert.deepEqual(told(failed), ['1 no 1', '2 no 2', '3 no 3', '4 no 4', '5 no 5'])
      assert.deepEqual([failed.failures, failed.history[0]], [5, first])
      assert.deepEqual(await reader.hapax.failed.get(failed.seq), failed)
      assert.deepEqual(told(await past(world, 'a', 'failed')), told(failed))
      const [taken] = await reader.hapax.explain('a')
      for (const { at } of failed.history)
        assert.ok(at >= (taken as Trace).at && Number(at) <= Number(failed.failedAt) + 1)
    },
  },
  {
    name: 'of twelve failures the last ten are kept, and that there were twelve',
    run: async (world) => {
      const reader = failing(world, 13)
      await reader.deliver('a')
      const seq = await seqOf(world, 'a')
      for (const attempts of numbers(2, 12)) assert.ok(await world.store.inbox.reschedule(attempt(seq, attempts)))
      const waiting = await past(world, 'a', 'inbox')
      assert.deepEqual([waiting.failures, waiting.history.map((each) => each.attempt)], [12, numbers(3, 12)])
      await world.drain(reader)
      const failed = await failedOne(reader.hapax, 'a')
      assert.deepEqual([failed.failures, failed.history.map((each) => each.attempt)], [13, numbers(4, 13)])
    },
  },
  {
    name: 'a row that never failed has no history, and what fails on arrival has one entry',
    run: async (world) => {
      const { hapax, consumer } = world.reader(undefined, { receive: 'store', onMismatch: 'conflict' })
      await consumer.handle({ id: 'a', source: '/sender', type: 'ping', data: { n: 1 } })
      assert.partialDeepStrictEqual(await past(world, 'a', 'inbox'), { failures: 0, history: [] })
      const outcome = await consumer.handle({ id: 'a', source: '/sender', type: 'ping', data: { n: 2 } })
      assertOutcome(outcome, 'conflict')
      const failed = await failedOne(hapax, 'a')
      assert.deepEqual(
        [failed.failures, failed.history.map(({ attempt, code }) => [attempt, code])],
        [1, [[0, 'conflict']]],
      )
    },
  },
  {
    name: 'A1: a failed attempt whose record had no reply is told once',
    run: async (world) => {
      const reader = failing(world, 9)
      await reader.deliver('a')
      const row = attempt(await seqOf(world, 'a'), 2)
      assert.ok(await world.store.inbox.reschedule(row))
      assert.ok(await world.store.inbox.reschedule(row))
      const lost = { ...row, lost: 1 }
      assert.ok(await world.store.inbox.reschedule(lost))
      assert.ok(await world.store.inbox.reschedule(lost))
      const { failures, history } = await past(world, 'a', 'inbox')
      assert.deepEqual([failures, history.map((each) => each.attempt)], [3, [1, 2, 2]])
    },
  },
  {
    name: 'two processes that had the same row are both told',
    run: async (world) => {
      await failing(world, 9).deliver('a')
      const seq = await seqOf(world, 'a')
      for (const worker of ['one', 'two']) assert.ok(await world.store.inbox.reschedule(attempt(seq, 2, worker)))
      const { failures, history } = await past(world, 'a', 'inbox')
      assert.deepEqual([failures, history.map((each) => each.worker)], [3, [workerName(), 'one', 'two']])
    },
  },
  {
    name: 'lost transactions are told, and use up no attempt',
    run: async (world) => {
      let calls = 0
      const hapax = world.hapax({ store: losing(world.store) })
      const handler = () => (++calls > 2 ? Promise.reject(new Permanent('never')) : undefined)
      const reader = world.reader(handler, { hapax, receive: 'store' })
      await reader.deliver('a')
      await world.worker(reader)
      await world.until(async () => (await hapax.failed.count()) === 1)
      assert.deepEqual(told(await failedOne(hapax, 'a')), ['0 lost cut', '0 lost cut', '1 never'])
    },
  },
  {
    name: 'errors of any size and with any characters leave a short history',
    run: async (world) => {
      const texts = [`${'x'.repeat(1_000_000)}`, `a\0b\n\r\u2028\ud800${'𝄞'.repeat(500)}`, '"\\"{}\n1 1 {}', '']
      const reader = world.reader((ctx) => Promise.reject(new Error(texts[ctx.attempt - 1])), {
        retry: { ...AT_ONCE, attempts: texts.length },
      })
      await reader.deliver('a')
      await world.drain(reader)
      const { history } = await failedOne(reader.hapax, 'a')
      assert.deepEqual(
        history.map((each) => each.attempt),
        [1, 2, 3, 4],
      )
      const [long, odd, quoted, empty] = history as [PastFailure, PastFailure, PastFailure, PastFailure]
      assert.match(long.message, /^x{299}…$/)
      assert.match(odd.message, /^a\0b\n\r\u2028\ufffd(𝄞)+…$/u)
      assert.deepEqual([odd.message.length <= 300, quoted.message, empty.message], [true, texts[2], ''])
    },
  },
]

const people: readonly Case[] = [
  ...(['none', 'wait'] as const).map(
    (order): Case => ({
      name: `a retry continues the history, an edit begins a new one (order: ${order})`,
      run: async (world) => {
        let failures = 0
        const reader = world.reader(() => Promise.reject(new Permanent(`no ${++failures}`)), { order })
        const status = order === 'wait' ? 'held' : 'failed'
        assertOutcome(await reader.deliver('a', { key: 'k' }), order === 'wait' ? 'stored' : status)
        await world.drain(reader)
        const { hapax } = reader
        const { seq } = await failedOne(hapax, 'a')
        await hapax.failed.retry(seq)
        assert.deepEqual(told(await past(world, 'a', 'inbox')), ['1 no 1'])
        await world.drain(reader)
        const again = await failedOne(hapax, 'a')
        assert.deepEqual([again.seq, again.held, told(again)], [seq, order === 'wait', ['1 no 1', '1 no 2']])
        if (order === 'wait') assert.deepEqual(told(await past(world, 'a', 'inbox')), told(again))
        await hapax.failed.edit(seq, { n: 2 }, { id: 'b' })
        assert.deepEqual(told(await past(world, 'b', 'inbox')), [])
        await world.drain(reader)
        assert.deepEqual(told(await failedOne(hapax, 'b')), ['1 no 3'])
        assert.deepEqual(told(await past(world, 'a', 'failed')), ['1 no 1', '1 no 2'])
      },
    }),
  ),
  {
    name: 'a released key leaves the history with the failed message',
    run: async (world) => {
      const reader = world.reader(() => Promise.reject(new Permanent('never')), { order: 'wait' })
      await reader.deliver('a', { key: 'k' })
      await world.drain(reader)
      await reader.hapax.keys.release({ origin: 'inbox', scope: 'billing', key: 'k' })
      assert.deepEqual(told(await failedOne(reader.hapax, 'a')), ['1 never'])
    },
  },
]

const others: readonly Case[] = [
  {
    name: 'a relay tells what the broker did not take, and what it refused',
    run: async (world) => {
      const hapax = world.hapax()
      const relay = new TestDestination((_, times) => {
        return times === 1
          ? { status: 'failed', error: new Error('nacked') }
          : { status: 'refused', error: new Error('too large') }
      })
      for (const id of ['a', 'b']) {
        await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { id, ...(id === 'a' && { key: 'k' }) }))
      }
      await world.worker({ hapax }, { relay })
      await world.until(async () => (await hapax.failed.count()) === 2)
      for (const id of ['a', 'b']) {
        const failed = await failedOne(hapax, id)
        assert.deepEqual([failed.failures, told(failed)], [2, ['1 nacked', '2 too large']])
      }
      assert.deepEqual(told(await past(world, 'a', 'outbox')), ['1 nacked', '2 too large'])
      const { seq } = await failedOne(hapax, 'b')
      await hapax.failed.retry(seq)
      await world.until(async () => (await hapax.failed.count()) === 2)
      assert.deepEqual(told(await failedOne(hapax, 'b')), ['1 nacked', '2 too large', '1 too large'])
    },
  },
  {
    name: 'of twelve refusals of a broker the last ten are kept',
    run: async (world) => {
      const hapax = world.hapax()
      await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, { id: 'a' }))
      const { entries } = await world.look({ table: 'outbox', scope: 'default', types: [] })
      const [seq = ''] = entries.map((entry) => entry.seq)
      const failure = recordFailure({ worker: workerName(), redact: (text) => text }, new Error('no'))
      for (const _ of numbers(1, 12)) await world.store.outbox.postpone([{ seq, delayMs: 0, ...failure }])
      const { failures, history } = await past(world, 'a', 'outbox')
      assert.deepEqual([failures, history.map((each) => each.attempt)], [12, numbers(3, 12)])
    },
  },
  {
    name: 'B8: an effect whose outcome is unknown is told, and again after a retry',
    run: async (world) => {
      const sms = leased(world, (ctx) => ctx.effect('send', () => Promise.reject(new Error('timeout'))))
      assertOutcome(await sms.handle({ id: 'a', source: '/sender', type: 'ping', data: { n: 1 } }), 'held')
      const [failed] = await world.store.failed.list({ limit: 10 })
      assert.deepEqual(codes(failed), ['1 unknown-effect'])
      await world.store.failed.retry(failed?.seq as string, { actor: 'me', action: 'retry' })
      await work(world, sms)
      const [again] = await world.store.failed.list({ limit: 10 })
      assert.deepEqual(codes(again), ['1 unknown-effect', '1 unknown-effect'])
    },
  },
  {
    name: 'the end of a message that ends its process every time is told, after what failed before',
    run: async (world) => {
      const reader = failing(world, 9)
      await reader.deliver('a')
      const seq = await seqOf(world, 'a')
      for (const alone of [false, false, true, true, true]) await world.crash([seq], alone)
      await world.worker(reader)
      await world.until(async () => (await reader.hapax.failed.count()) === 1)
      const failed = await failedOne(reader.hapax, 'a')
      assert.deepEqual([codes(failed), failed.history[1]?.kind], [['1 E_NO', '1 crash-loop'], 'lost'])
    },
  },
]

function codes(row: Past | undefined): readonly string[] {
  return row?.history.map(({ attempt, code }) => `${attempt} ${code}`) ?? []
}

/** A failed attempt as a process would record it. */
function attempt(seq: string, attempts: number, worker = workerName()): Rescheduled {
  const failure = recordFailure({ worker, redact: (text) => text }, new Error('later'))
  return { seq, attempts, lost: 0, delayMs: 0, leaseToken: null, ...failure }
}

/** The same store on a link that breaks whenever a handler has worked a row of the inbox. */
function losing(store: AnyStore): AnyStore {
  const run: AnyStore['transactions']['run'] = (options, opening, body) =>
    store.transactions.run(options, opening, async (unit) => {
      const end = await body(unit)
      if (opening.kind === 'claim') throw new HapaxError('transaction-lost', 'cut')
      return end
    })
  return altered(store, { transactions: { run } })
}

export const histories: readonly Case[] = [...inbox, ...people, ...others]
