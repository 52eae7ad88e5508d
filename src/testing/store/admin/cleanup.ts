import assert from 'node:assert/strict'
import type { DoctorOptions } from '../../../admin/index.ts'
import { Permanent, pause, systemClock } from '../../../base/index.ts'
import { type Case, parallelOnly } from '../case.ts'
import { assertOutcome, assertRejects, gate, Pong, type World } from '../world.ts'

const OLD = { consumer: 'billing', olderThanMs: 1 } as const
const HOUR_MS = 3_600_000
const GIVE_UP_MS = 40_000

/** Waits until so many receipts are older than a millisecond by the database's clock. */
async function aged(world: World, count: number, consumer = 'billing'): Promise<void> {
  const begun = systemClock.monotonic()
  let found = -1
  while (found !== count) {
    assert.ok(systemClock.monotonic() - begun < GIVE_UP_MS, `expected ${count} receipts to age, got ${found}`)
    found = await world.cleanable(consumer)
    if (found !== count) await pause(systemClock, 2)
  }
}

const receipts: readonly Case[] = [
  {
    name: 'deletes receipts that are old and finished; what comes again after that is new',
    run: async (world) => {
      const reader = world.reader()
      for (const id of ['a', 'b', 'c']) await reader.deliver(id)
      await aged(world, 3)
      assert.deepEqual(await reader.hapax.cleanup({ ...OLD, by: { actor: 'ada' } }), { receipts: 3 })
      await world.assertPlaces('a', [])
      assert.deepEqual(await reader.hapax.cleanup(OLD), { receipts: 0 })
      assertOutcome(await reader.deliver('a'), 'processed')
    },
  },
  {
    name: 'G2: a receipt stays while its message waits, is held or failed',
    run: async (world) => {
      const bad = new Set(['failed', 'held'])
      const reader = world.reader(
        async (ctx) => {
          if (bad.has(ctx.message.id)) throw new Permanent('bad')
          await world.database.effect(ctx.tx, ctx.message.id)
        },
        { order: 'wait' },
      )
      await reader.deliver('failed')
      await reader.deliver('held', { key: 'k' })
      await reader.deliver('behind', { key: 'k' })
      await reader.deliver('done')
      await world.drain(reader)
      await reader.deliver('waiting')
      await aged(world, 1)
      assert.deepEqual(await reader.hapax.cleanup(OLD), { receipts: 1 })
      await world.assertPlaces('done', [])
      await world.assertPlaces('failed', ['failed', 'receipt'])
      await world.assertPlaces('held', ['failed', 'inbox', 'receipt'])
      for (const id of ['behind', 'waiting']) await world.assertPlaces(id, ['inbox', 'receipt'])
      bad.clear()
      await reader.hapax.failed.retryAll({ all: true })
      await world.drain(reader)
      await world.assertEffects(['behind', 'done', 'failed', 'held', 'waiting'])
      await aged(world, 4)
      assert.deepEqual(await reader.hapax.cleanup(OLD), { receipts: 4 })
    },
  },
  {
    name: 'a receipt stays while its message is replaced and shown in failed',
    run: async (world) => {
      const bad = new Set(['a'])
      const reader = world.reader(({ message }) => {
        if (bad.has(message.id)) throw new Permanent('bad')
      })
      await reader.deliver('a')
      const [failed] = await reader.hapax.failed.list()
      const { id } = await reader.hapax.failed.edit(failed?.seq as string, { n: 2 })
      await world.drain(reader)
      await aged(world, 1)
      assert.deepEqual(await reader.hapax.cleanup(OLD), { receipts: 1 })
      await world.assertPlaces(id, [])
      await world.assertPlaces('a', ['audit', 'failed', 'receipt'])
    },
  },
  {
    name: 'G2: a receipt stays while its message is being handled',
    skip: parallelOnly,
    run: async (world) => {
      const begun = gate()
      const go = gate()
      const reader = world.reader(
        async (ctx) => {
          begun.open()
          await go.passed
          await world.database.effect(ctx.tx, ctx.message.id)
        },
        { receive: 'store' },
      )
      await reader.deliver('a')
      const idle = world.reader(undefined, { hapax: world.hapax(), name: 'other' })
      await idle.deliver('b')
      await aged(world, 1, 'other')
      const worker = await world.worker(reader)
      await begun.passed
      assert.deepEqual(await reader.hapax.cleanup(OLD), { receipts: 0 })
      go.open()
      await worker.drain()
      await world.assertPlaces('a', ['receipt'])
    },
  },
  {
    name: 'G6: keeps what is younger, by the clock of the database',
    run: async (world) => {
      const ahead = { ...systemClock, now: () => Date.now() + 100 * HOUR_MS }
      const reader = world.reader(undefined, { hapax: world.hapax({ clock: ahead }) })
      await reader.deliver('a')
      await aged(world, 1)
      assert.deepEqual(await reader.hapax.cleanup({ ...OLD, olderThanMs: HOUR_MS }), { receipts: 0 })
      await world.assertPlaces('a', ['receipt'])
    },
  },
  {
    name: 'leaves the receipts of other consumers alone',
    run: async (world) => {
      const reader = world.reader()
      const other = world.reader(undefined, { hapax: reader.hapax, name: 'other' })
      for (const each of [reader, other]) for (const id of ['a', 'b']) await each.deliver(id)
      await aged(world, 2)
      assert.deepEqual(await reader.hapax.cleanup(OLD), { receipts: 2 })
      assertOutcome(await other.deliver('a'), 'duplicate')
      assertOutcome(await other.deliver('b'), 'duplicate')
    },
  },
  {
    name: 'G3: goes through the receipts page by page and misses none',
    run: async (world) => {
      const reader = world.reader(({ message }) => {
        if (message.id.endsWith('3')) throw new Permanent('bad')
      })
      const ids = Array.from({ length: 20 }, (_, n) => `m${n}`)
      await reader.deliverMany(ids)
      await aged(world, 18)
      const steps: number[] = []
      let after: string | undefined
      do {
        const step = await world.store.admin.clean({ kind: 'receipts', consumer: 'billing', after }, 1, 6)
        steps.push(step.deleted)
        after = step.after
      } while (after !== undefined)
      assert.equal(
        steps.reduce((sum, each) => sum + each, 0),
        18,
      )
      assert.ok(
        steps.length >= 4 && steps.every((each) => each <= 6),
        `expected steps of at most 6, got ${steps.join(', ')}`,
      )
      for (const id of ids) await world.assertPlaces(id, id.endsWith('3') ? ['failed', 'receipt'] : [])
    },
  },
  {
    name: 'a dry run counts and deletes nothing',
    run: async (world) => {
      const reader = world.reader(({ message }) => {
        if (message.id === 'bad') throw new Permanent('bad')
      })
      for (const id of ['a', 'b', 'bad']) await reader.deliver(id)
      await aged(world, 2)
      assert.deepEqual(await reader.hapax.cleanup({ ...OLD, dryRun: true }), { receipts: 2 })
      await world.assertPlaces('a', ['receipt'])
      assert.deepEqual(await reader.hapax.cleanup({ ...OLD, olderThanMs: HOUR_MS, dryRun: true }), { receipts: 0 })
    },
  },
]

const others: readonly Case[] = [
  {
    name: 'cleans published messages and the audit, the oldest first, of one relay at a time',
    run: async (world) => {
      const hapax = world.hapax()
      for (const [id, relay] of [
        ['a', 'default'],
        ['b', 'partners'],
        ['c', 'default'],
        ['d', 'default'],
      ] as const) {
        await hapax.transaction((tx) => hapax.publish(tx, Pong, { n: 1 }, { id, relay }))
      }
      const lanes = Array.from({ length: 64 }, (_, lane) => lane)
      const shares = ['default', 'partners'].map(
        (scope) => ({ table: 'outbox', scope, types: [], lanes, limit: 100, after: new Map() }) as const,
      )
      const looks = await world.store.workers.look(shares)
      await world.store.outbox.confirm(
        looks.flatMap(({ entries }) => entries.map(({ seq }) => seq)),
        true,
      )
      const ids = async (): Promise<readonly string[]> =>
        (await hapax.sent.list()).map(({ message }) => message.id).sort()
      assert.deepEqual(await ids(), ['a', 'b', 'c', 'd'])
      const none = await world.store.admin.clean({ kind: 'sent', relay: 'default' }, HOUR_MS, 100)
      assert.deepEqual([none.deleted, none.after], [0, undefined])
      const seqs = (await hapax.sent.list()).map(({ seq }) => seq)
      for (const seq of seqs) await hapax.sent.republish(seq)
      let deleted = 0
      const begun = systemClock.monotonic()
      while (deleted < 3) {
        assert.ok(systemClock.monotonic() - begun < GIVE_UP_MS, `expected 3 rows to age, got ${deleted}`)
        const step = await world.store.admin.clean({ kind: 'sent', relay: 'default' }, 1, 2)
        assert.ok(step.deleted <= 2)
        deleted += step.deleted
      }
      assert.deepEqual(await ids(), ['b'])
      const audits = async (): Promise<number> => {
        const traces = await Promise.all(['a', 'b', 'c', 'd'].map((id) => hapax.explain(id)))
        return traces.flat().filter(({ where }) => where === 'audit').length
      }
      assert.equal(await audits(), 4)
      assert.equal((await world.store.admin.clean({ kind: 'audit' }, HOUR_MS, 100)).deleted, 0)
      while ((await audits()) > 0) {
        assert.ok(systemClock.monotonic() - begun < GIVE_UP_MS)
        await world.store.admin.clean({ kind: 'audit' }, 1, 3)
      }
    },
  },
  {
    name: 'doctor finds nothing wrong with a healthy store',
    run: async (world) => {
      const findings = await world.hapax().doctor()
      assert.deepEqual(
        findings.filter(({ level }) => level === 'error'),
        [],
      )
      for (const { check, message } of findings) assert.ok(check !== '' && message !== '')
    },
  },
  {
    name: 'doctor reports held keys, failed messages and missing workers, and what to do',
    run: async (world) => {
      const reader = world.reader(
        ({ message }) => {
          if (message.id === 'a') throw new Permanent('bad')
        },
        { order: 'wait' },
      )
      await reader.deliver('a', { key: 'k' })
      await reader.deliver('b', { key: 'k' })
      await world.drain(reader)
      const findings = (await reader.hapax.doctor()).filter(({ level }) => level !== 'ok')
      for (const name of ['failed', 'held keys', 'workers']) {
        const finding = findings.find(({ check }) => check === name)
        assert.ok(finding && finding.advice !== '', `expected a finding about ${name}`)
      }
    },
  },
  {
    name: 'doctor warns of tables that are larger or older than they should be, and leaves the others alone',
    run: async (world) => {
      const reader = world.reader(
        ({ message }) => {
          if (message.id === 'bad') throw new Permanent('bad')
        },
        { hapax: world.hapax({ delivery: 'relay' }) },
      )
      const growth = async (options?: DoctorOptions): Promise<readonly string[]> =>
        (await reader.hapax.doctor(options)).filter(({ check }) => check === 'growth').map(({ message }) => message)
      await reader.deliver('bad')
      await reader.hapax.failed.discardAll({ all: true })
      for (const id of ['bad', 'b', 'c']) await reader.deliver(id)
      const later = world.reader(undefined, { hapax: reader.hapax, name: 'later', receive: 'store' })
      for (const id of ['d', 'e']) await later.deliver(id)
      await reader.hapax.transaction((tx) => reader.hapax.publishMany(tx, [Pong.of({ n: 1 }), Pong.of({ n: 2 })]))
      await aged(world, 3)
      assert.deepEqual(await growth(), ['no table has grown beyond its limit'])
      const many = await growth({ maxRows: { inbox: 1, outbox: 1 } })
      assert.deepEqual([...many].sort(), [
        'inbox has about 2 rows, more than 1',
        'outbox has about 2 rows, more than 1',
      ])
      let old: readonly string[] = []
      // Rows that were written within the last millisecond are not older than one.
      await world.until(async () => {
        old = await growth({ maxAgeMs: { receipts: 1, audit: 1, inbox: 1 } })
        return old.length === 3
      })
      assert.deepEqual(
        old.map((message) => message.replace(/is .* old$/, 'is old').replace(/more than .* old$/, 'old')).sort(),
        ['billing has receipts that are old', 'the oldest row of audit is old', 'the oldest row of inbox is old'],
      )
      await assertRejects(growth({ maxRows: { inbox: 0 } }), 'invalid-option')
    },
  },
  {
    name: 'doctor reports which migrations are missing',
    needs: ['migrations'],
    open: { migrated: false },
    run: async (world) => {
      const [finding, ...more] = await world.hapax().doctor()
      assert.deepEqual([finding?.check, finding?.level, more], ['schema', 'error', []])
    },
  },
]

export const cleanup: readonly Case[] = [...receipts, ...others]
