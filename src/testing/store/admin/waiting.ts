import assert from 'node:assert/strict'
import type { WaitingState, WaitingWhere } from '../../../contracts/index.ts'
import type { Case } from '../case.ts'
import { assertRejects, type World } from '../world.ts'
import { FAILURE, hold, idsOf, publish, put, retryLater, stored } from './waiting-world.ts'

const HOUR_MS = 3_600_000
const UUID = '019a8c3e-5b0e-7d44-9d3b-0f6f1f0c7a11'

/** Conditions with texts that mean something to a database. */
const HOSTILE = [
  `x'; delete from effects; --`,
  `"'\`\\\\'; $1 ? :a @b {} %s %00`,
  'a\0b',
  '\u0001%00\0',
  '%',
  '__proto__',
  "縗\u005c'ソ表",
]

/** Leases a row of the inbox for an hour. */
async function lease({ store }: World, seq: string | undefined): Promise<void> {
  assert.equal((await store.inbox.lease([seq ?? ''], crypto.randomUUID(), HOUR_MS)).length, 1)
}

export const waiting: readonly Case[] = [
  {
    name: 'what waits is listed with what is known of it, without its payload, and one with it',
    run: async (world) => {
      const data = Buffer.from('{"big":12345678901234567890}')
      const seqs = await put(world, [stored('a', { key: 'k', data })], { ordered: true })
      await retryLater(world, seqs.get('a'), HOUR_MS)
      const { rows, before } = await world.store.admin.waiting('inbox', {}, undefined, 10)
      const [row] = rows
      assert.ok(row)
      assert.equal(before, undefined)
      const { createdAt, dueAt, history, ...rest } = row
      assert.deepEqual(rest, {
        ...{
          seq: seqs.get('a'),
          origin: 'inbox',
          scope: 'billing',
          source: '/sender',
          id: 'a',
          type: 'ping',
          key: 'k',
        },
        ...{ state: 'retrying', ordered: true, attempts: 1, bytes: data.length, heldAt: null, failures: 1 },
        error: FAILURE.error,
      })
      assert.equal(history[0]?.message, 'no answer')
      assert.ok(Math.abs(dueAt.getTime() - createdAt.getTime() - HOUR_MS) < 60_000)
      const one = await world.store.admin.one('inbox', row.seq)
      assert.deepEqual(one?.row, row)
      assert.deepEqual(Buffer.from(one.message.data), data)
      assert.equal(one.message.messageKey, stored('a').messageKey)
      assert.equal(await world.store.admin.one('outbox', row.seq), undefined)
      assert.equal(await world.store.admin.one('inbox', `${row.seq.split('-')[0]}-1`), undefined)
    },
  },
  {
    name: 'what waits is found by consumer, type, key, id, state and time, with order and without, newest first',
    run: async (world) => {
      const orders = [stored('o1', { key: 'k' }), stored('o2', { key: 'k' }), stored('o3', { key: 'other' })]
      const ordered = await put(world, orders, { ordered: true })
      const loose = [stored('l1', { key: 'k', type: 'pong' }), stored(UUID, { key: 'k' }), stored('l3'), stored('l4')]
      const seqs = await put(world, loose, { consumer: 'audit' })
      await hold(world, ordered.get('o1'))
      await retryLater(world, seqs.get('l1'), HOUR_MS)
      await retryLater(world, ordered.get('o3'), 0)
      await lease(world, seqs.get('l3'))
      const cases: readonly (readonly [WaitingWhere, readonly string[]])[] = [
        [{}, ['l4', 'l3', UUID, 'l1', 'o3', 'o2', 'o1']],
        [{ scope: 'audit' }, ['l4', 'l3', UUID, 'l1']],
        [{ scope: 'none' }, []],
        [{ type: 'pong' }, ['l1']],
        [{ key: 'k', scope: 'billing' }, ['o2', 'o1']],
        [{ key: 'k', scope: 'audit' }, [UUID, 'l1']],
        [{ key: 'k', scope: 'billing', state: 'held' }, ['o1']],
        [{ key: 'k' }, [UUID, 'l1', 'o2', 'o1']],
        [{ key: 'none' }, []],
        [{ id: UUID }, [UUID]],
        [{ id: UUID, scope: 'billing' }, []],
        [{ id: 'l4' }, ['l4']],
        [{ state: 'held' }, ['o1']],
        [{ state: 'held', scope: 'audit' }, []],
        [{ state: 'retrying' }, ['l1', 'o3']],
        [{ state: 'retrying', scope: 'billing' }, ['o3']],
        [{ state: 'retrying', type: 'pong' }, ['l1']],
        [{ state: 'leased' }, ['l3']],
        [{ state: 'waiting' }, ['l4', UUID, 'o2']],
      ]
      for (const [where, expected] of cases) {
        for (const limit of [1, 2, 100]) {
          assert.deepEqual(await idsOf(world, where, { limit }), expected, `${JSON.stringify(where)} by ${limit}`)
        }
      }
    },
  },
  {
    name: 'the outbox is listed in the same way, with its relays',
    run: async (world) => {
      await publish(world, ['p1', 'p2'], 'k')
      await publish(world, [UUID])
      const all = await world.store.admin.waiting('outbox', {}, undefined, 10)
      const seqs = new Map(all.rows.map(({ id, seq }) => [id, seq]))
      assert.deepEqual([...seqs.keys()], [UUID, 'p2', 'p1'])
      assert.deepEqual(
        all.rows.map(({ origin, scope, ordered, state }) => [origin, scope, ordered, state]),
        [false, true, true].map((ordered) => ['outbox', 'default', ordered, 'waiting']),
      )
      const { outbox } = world.store
      await outbox.postpone([{ seq: seqs.get(UUID) ?? '', delayMs: HOUR_MS, ...FAILURE }])
      assert.ok(await outbox.refuse({ seq: seqs.get('p1') ?? '', reason: 'refused', ...FAILURE, hold: true }))
      const found = (where: WaitingWhere) => idsOf(world, where, { origin: 'outbox', limit: 2 })
      assert.deepEqual(await found({ key: 'k' }), ['p2', 'p1'])
      assert.deepEqual(await found({ key: 'k', scope: 'other' }), [])
      assert.deepEqual(await found({ scope: 'default', state: 'held' }), ['p1'])
      assert.deepEqual(await found({ state: 'held' }), ['p1'])
      assert.deepEqual(await found({ state: 'leased' }), [])
      assert.deepEqual(await found({ id: UUID }), [UUID])
      assert.deepEqual(await found({ state: 'retrying' }), [UUID])
      assert.deepEqual(
        (await world.store.admin.retries('outbox', 10)).map(({ id, attempts }) => [id, attempts]),
        [[UUID, 1]],
      )
    },
  },
  {
    name: 'times are those of the database: from one on, and before another',
    run: async (world) => {
      await put(world, [stored('a')])
      const [row] = (await world.store.admin.waiting('inbox', {}, undefined, 1)).rows
      const at = row?.createdAt.getTime() ?? 0
      const found = (since?: number, until?: number) =>
        idsOf(world, {
          ...(since !== undefined && { since: new Date(since) }),
          ...(until !== undefined && { until: new Date(until) }),
        })
      assert.deepEqual(await found(at), ['a'])
      assert.deepEqual(await found(at + 1), [])
      assert.deepEqual(await found(undefined, at), [])
      assert.deepEqual(await found(undefined, at + 1), ['a'])
      assert.deepEqual(await found(-8.64e15, 8.64e15), ['a'])
      assert.deepEqual(await found(8.64e15), [])
      assert.deepEqual(await found(0, -8.64e15), [])
    },
  },
  {
    name: 'pages have no gaps and no repeats while messages come and go',
    run: async (world) => {
      const ids = Array.from({ length: 60 }, (_, n) => `m${n}`)
      const messages = ids.map((id, n) => stored(id, { key: `k${n % 3}`, type: n % 2 === 0 ? 'even' : 'odd' }))
      const seqs = await put(world, messages, { ordered: true })
      for (const id of ids.slice(0, 40)) await hold(world, seqs.get(id)).catch(() => {})
      const wheres: readonly WaitingWhere[] = [{}, { key: 'k1' }, { type: 'even' }, { state: 'held' }]
      for (const [round, where] of wheres.entries()) {
        const expected = await idsOf(world, where, { limit: 1_000 })
        const gone = new Set<string>()
        let n = 0
        const between = async (): Promise<void> => {
          n += 1
          await put(world, [stored(`new ${round} ${n}`, { key: 'k1', type: 'even' })], { ordered: true })
          // One that was listed already, and one that was not.
          for (const id of [expected[n], expected[expected.length - n]]) {
            const seq = id === undefined ? undefined : (seqs.get(id) ?? '')
            if (seq === undefined || !(await world.store.failed.list({ limit: 1_000 })).some(({ held }) => held))
              continue
            const failed = (await world.store.failed.list({ limit: 1_000 })).find(({ message }) => message.id === id)
            if (failed === undefined) continue
            gone.add(id ?? '')
            await world.store.failed.discard(failed.seq, { action: 'discard', actor: 'test' })
          }
        }
        const found = await idsOf(world, where, { limit: 7, between })
        assert.equal(new Set(found).size, found.length, 'no repeats')
        const stayed = expected.filter((id) => !gone.has(id))
        assert.deepEqual(
          stayed.filter((id) => !found.includes(id)),
          [],
          'no gaps',
        )
        assert.deepEqual(
          found.filter((id) => !expected.includes(id)),
          [],
          'nothing that came later',
        )
      }
    },
  },
  {
    name: 'a look is bounded: it may find nothing although there is more',
    run: async (world) => {
      await put(world, [stored('needle', { type: 'rare' })])
      await put(
        world,
        Array.from({ length: 2_100 }, (_, n) => stored(`hay ${n}`)),
      )
      let before: string | undefined
      const looks: number[] = []
      do {
        const page = await world.store.admin.waiting('inbox', { type: 'rare' }, before, 10)
        looks.push(page.rows.length)
        before = page.before
      } while (before !== undefined && looks.length < 10)
      assert.equal(
        looks.reduce((sum, each) => sum + each),
        1,
      )
      // A store in memory reads all of it.
      assert.ok(!world.features.durable || looks.length === 3, `${looks}`)
      assert.deepEqual(await idsOf(world, { type: 'rare', since: new Date(Date.now() - 24 * HOUR_MS) }), ['needle'])
      const all = await idsOf(world, {}, { limit: 700 })
      assert.equal(new Set(all).size, 2_101)
      assert.deepEqual([all[0], all.at(-1)], ['hay 2099', 'needle'])
    },
  },
  {
    name: 'of many that hold their key, or are tried again, each is found once',
    run: async (world) => {
      const many = Array.from({ length: 1_050 }, (_, n) => stored(`m${n}`, { key: `k${n}` }))
      await put(world, many, { ordered: true })
      const rows = await everySeq(world)
      const fail = (seq: string, at: number) => (at < 1_020 ? hold(world, seq) : retryLater(world, seq, HOUR_MS))
      // Several at once share a write to the disk.
      for (let at = 0; at < rows.length; at += 5) {
        await Promise.all(rows.slice(at, at + 5).map((seq, offset) => fail(seq, at + offset)))
      }
      for (const state of ['held', 'retrying'] as const) {
        const found = await idsOf(world, { state }, { limit: 300 })
        assert.deepEqual([found.length, new Set(found).size], state === 'held' ? [1_020, 1_020] : [30, 30])
      }
      const retries = await world.store.admin.retries('inbox', 10)
      assert.ok(retries.length <= 10)
      assert.deepEqual([...new Set(retries.map(({ state }) => state))], retries.length === 0 ? [] : ['retrying'])
    },
  },
  {
    name: 'what stands in front of a message is what came before it with its key, if that counts',
    run: async (world) => {
      const messages = ['a', 'b', 'c'].map((id) => stored(id, { key: 'k' }))
      const seqs = await put(world, [...messages, stored('x', { key: 'other' })], { ordered: true })
      const loose = await put(world, messages, { consumer: 'audit' })
      const ahead = async (id: string, of = seqs) => world.store.admin.ahead('inbox', of.get(id) ?? '')
      assert.equal(await ahead('a'), undefined)
      assert.equal(await ahead('x'), undefined)
      assert.equal(await ahead('c', loose), undefined)
      assert.equal(await world.store.admin.ahead('inbox', '999999-1'), undefined)
      await hold(world, seqs.get('a'))
      const before = await ahead('c')
      assert.deepEqual([before?.count, before?.first.id, before?.first.state], [2, 'a', 'held'])
      await publish(world, ['p1', 'p2'], 'k')
      const [last] = (await world.store.admin.waiting('outbox', {}, undefined, 1)).rows
      const outgoing = await world.store.admin.ahead('outbox', last?.seq ?? '')
      assert.deepEqual([outgoing?.count, outgoing?.first.id, outgoing?.first.scope], [1, 'p1', 'default'])
      await put(
        world,
        Array.from({ length: 1_100 }, (_, n) => stored(`m${n}`, { key: 'k' })),
        { ordered: true },
      )
      const [newest] = (await world.store.admin.waiting('inbox', { key: 'k' }, undefined, 1)).rows
      assert.equal((await world.store.admin.ahead('inbox', newest?.seq ?? ''))?.count, 1_000)
    },
  },
  {
    name: 'retries are listed by when they are due',
    run: async (world) => {
      const seqs = await put(world, [stored('late'), stored('soon'), stored('never failed')])
      const keyed = await put(world, [stored('keyed', { key: 'k' }), stored('held', { key: 'h' })], { ordered: true })
      await retryLater(world, seqs.get('late'), 3 * HOUR_MS)
      await retryLater(world, seqs.get('soon'), HOUR_MS)
      await retryLater(world, keyed.get('keyed'), 2 * HOUR_MS)
      await hold(world, keyed.get('held'))
      const ids = async (limit: number) => (await world.store.admin.retries('inbox', limit)).map(({ id }) => id)
      assert.deepEqual(await ids(10), ['soon', 'keyed', 'late'])
      assert.deepEqual(await ids(1), ['soon'])
      assert.deepEqual(await world.store.admin.retries('outbox', 10), [])
      // Among so many others that not all of them are read.
      await put(
        world,
        Array.from({ length: 1_500 }, (_, n) => stored(`m${n}`)),
      )
      assert.deepEqual(
        (await ids(10)).filter((id) => id !== 'keyed'),
        ['soon', 'late'],
      )
    },
  },
  {
    name: 'a message that waits for its next attempt is tried at once where a person asks for it, and others are left alone',
    run: async (world) => {
      const hapax = world.hapax()
      const seqs = await put(world, [stored('a'), stored('b', { type: 'pong' }), stored('fresh')])
      const keyed = await put(world, [stored('first', { key: 'k' }), stored('behind', { key: 'k' })], { ordered: true })
      const held = await put(world, [stored('held', { key: 'h' })], { ordered: true })
      for (const seq of [seqs.get('a'), seqs.get('b'), keyed.get('first')]) await retryLater(world, seq, HOUR_MS)
      await hold(world, held.get('held'))
      // Keys whose first row waits stand aside.
      await world.until(async () => !(await world.due()).includes(keyed.get('behind') ?? ''))
      const by = { actor: 'ada', note: 'the bank is back' }
      await hapax.messages.retry('inbox', seqs.get('a') ?? '', by)
      assert.ok(((await world.entry('a'))?.dueMs ?? 1) <= 0)
      const [entry] = (await hapax.audit.list({ actor: 'ada' })).rows
      assert.deepEqual(
        [entry?.action, entry?.origin, entry?.scope, entry?.id, entry?.note],
        ['retry', 'inbox', 'billing', 'a', 'the bank is back'],
      )
      for (const seq of [seqs.get('a'), seqs.get('fresh'), held.get('held'), '999999-1']) {
        await assertRejects(hapax.messages.retry('inbox', seq ?? ''), 'not-found')
      }
      assert.equal(await hapax.messages.countRetrying({ type: 'pong' }), 1)
      assert.equal((await hapax.messages.retryAll({ scope: 'other' })).done, 0)
      assert.equal((await hapax.messages.retryAll({ type: 'pong' })).done, 1)
      assert.ok(((await world.entry('first'))?.dueMs ?? 0) > 0)
      const told: string[] = []
      const rest = await hapax.messages.retryAll({ scope: 'billing' }, { by, onResult: ({ seq }) => told.push(seq) })
      // Those that were made due are still among those that were tried before.
      assert.deepEqual(rest, { done: 1, gone: 2, errors: 0, stopped: false })
      assert.equal(told.length, 3)
      const order: string[] = []
      const { consumer } = world.reader(({ message }) => order.push(message.id), { hapax, order: 'wait' })
      const worker = await world.worker({ hapax, consumer })
      await worker.drain()
      assert.ok(order.indexOf('first') < order.indexOf('behind'), order.join())
      assert.ok(order.includes('a'))
    },
  },
  {
    name: 'a message of a relay that the broker did not accept is sent at once where a person asks for it',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'relay' })
      await publish(world, ['p1', 'p2'])
      const newest = async () => (await world.store.admin.waiting('outbox', {}, undefined, 1)).rows[0]
      const { seq = '' } = (await newest()) ?? {}
      await world.store.outbox.postpone([{ seq, delayMs: HOUR_MS, ...FAILURE }])
      const late = await newest()
      assert.deepEqual(await hapax.messages.retryAll({ origin: 'outbox', scope: 'default' }), {
        ...{ done: 1, gone: 0, errors: 0, stopped: false },
      })
      const soon = await newest()
      assert.ok(late !== undefined && soon !== undefined && soon.seq === late.seq && soon.dueAt < late.dueAt)
      await assertRejects(hapax.messages.retry('outbox', seq), 'not-found')
    },
  },
  {
    name: 'a lease that has run out is not in hand any more',
    run: async (world) => {
      const seqs = await put(world, [stored('a')])
      const seq = seqs.get('a') ?? ''
      assert.equal((await world.store.inbox.lease([seq], crypto.randomUUID(), 1)).length, 1)
      const state = async (): Promise<WaitingState | undefined> =>
        (await world.store.admin.one('inbox', seq))?.row.state
      await world.until(async () => (await state()) === 'waiting')
      assert.deepEqual(await idsOf(world, { state: 'leased' }), [])
      assert.deepEqual(await idsOf(world, { state: 'waiting' }), ['a'])
    },
  },
  {
    name: 'K15: conditions with hostile texts find what has exactly these, and harm nothing',
    run: async (world) => {
      const messages = HOSTILE.map((text, n) => stored(`${text} ${n}`, { key: text, type: text }))
      await put(world, messages, { ordered: true })
      const loose = await put(world, [stored('plain', { key: 'plain' })], { consumer: 'audit' })
      assert.equal(loose.size, 1)
      for (const [n, text] of HOSTILE.entries()) {
        const id = `${text} ${n}`
        for (const where of [{ key: text }, { type: text }, { id }, { key: text, scope: 'billing', type: text, id }]) {
          assert.deepEqual(await idsOf(world, where), [id], JSON.stringify(where))
        }
        for (const state of ['held', 'retrying', 'waiting'] as const) {
          assert.deepEqual(await idsOf(world, { scope: text, state }), [], JSON.stringify(text))
        }
        assert.deepEqual(await idsOf(world, { scope: text, key: text }), [], JSON.stringify(text))
        const entries = await world.store.admin.audited({ actor: text, scope: text }, undefined, 10)
        assert.deepEqual(entries, { rows: [], before: undefined })
      }
      assert.equal((await idsOf(world, {})).length, HOSTILE.length + 1)
    },
  },
]

async function everySeq({ store }: World): Promise<readonly string[]> {
  const seqs: string[] = []
  let before: string | undefined
  do {
    const page = await store.admin.waiting('inbox', {}, before, 1_000)
    seqs.push(...page.rows.map(({ seq }) => seq))
    before = page.before
  } while (before !== undefined)
  return seqs.reverse()
}
