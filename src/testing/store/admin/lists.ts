import assert from 'node:assert/strict'
import type { EffectQuery, ListResult, ReceiptQuery } from '../../../admin/index.ts'
import { NotDone } from '../../../base/index.ts'
import type { Case } from '../case.ts'
import { assertRejects, Ping, ping, type World } from '../world.ts'

const HOUR_MS = 3_600_000

/** The ids of all pages of this size. */
async function all<T>(page: (after: string | undefined) => Promise<ListResult<T>>, id: (row: T) => string) {
  const ids: string[] = []
  let after: string | undefined
  do {
    const found = await page(after)
    ids.push(...found.rows.map(id))
    after = found.after
  } while (after !== undefined)
  return ids
}

/** A hapax whose consumer `sms` has made calls: `a` is done, `b` unknown, `c` not done. */
async function calls(world: World) {
  const hapax = world.hapax()
  const sms = hapax.leased('sms', { retry: { attempts: 1, minDelayMs: 0 } })
  sms.on(Ping, async (_, ctx) => {
    await ctx.note({ seen: true })
    await ctx.effect('send', async () => {
      if (ctx.message.id === 'b') throw new Error('no answer')
      if (ctx.message.id === 'c') throw new NotDone('refused')
      return 'fine'
    })
    await ctx.effect('log', async () => 'fine')
  })
  for (const id of ['a', 'b', 'c']) await sms.handle(ping(id))
  return hapax
}

export const lists: readonly Case[] = [
  {
    name: 'imported receipts keep out what another inbox has processed, whatever its payload, and only that',
    run: async (world) => {
      const hapax = world.hapax()
      const billing = world.reader(undefined, { hapax, onMismatch: 'conflict' })
      await billing.deliver('before')
      const ids = ['a', 'before', 'a', ...Array.from({ length: 1_000 }, (_, n) => `old-${n}`)]
      const options = { consumer: 'billing', source: '/sender' }
      assert.deepEqual(await hapax.receipts.import(ids, { ...options, dryRun: true }), { imported: 1_001, existing: 1 })
      assert.deepEqual(await hapax.receipts.import(ids, options), { imported: 1_001, existing: 1 })
      assert.deepEqual(await hapax.receipts.import(ids, options), { imported: 0, existing: 1_002 })
      await hapax.receipts.import([{ id: 'other', type: 'pong' }], { ...options, consumer: 'audit' })
      for (const id of ['a', 'old-0', 'old-999', 'before']) {
        assert.equal((await billing.deliver(id)).status, 'duplicate', id)
      }
      for (const id of ['new', 'other']) assert.equal((await billing.deliver(id)).status, 'processed', id)
      assert.deepEqual(await hapax.failed.list(), [])
    },
  },
  {
    name: 'receipts are listed in pages, by consumer and time, each of them once',
    run: async (world) => {
      const hapax = world.hapax()
      const billing = world.reader(undefined, { hapax })
      const audit = world.reader(undefined, { hapax, name: 'audit' })
      for (const id of ['a', 'b', 'c', 'd', 'e']) await billing.deliver(id)
      for (const id of ['a', 'z']) await audit.deliver(id)
      const ids = (query: ReceiptQuery) =>
        all(
          (after) => hapax.receipts.list({ ...query, ...(after !== undefined && { after }) }),
          ({ consumer, id }) => `${consumer} ${id}`,
        )
      const everything = ['audit a', 'audit z', ...['a', 'b', 'c', 'd', 'e'].map((id) => `billing ${id}`)]
      for (const limit of [1, 2, 3, 1000]) assert.deepEqual((await ids({ limit })).sort(), everything)
      assert.deepEqual((await ids({ consumer: 'audit' })).sort(), ['audit a', 'audit z'])
      assert.deepEqual(await ids({ consumer: 'none' }), [])
      const { rows } = await hapax.receipts.list({ consumer: 'audit', limit: 1 })
      const [{ source, type, takenAt } = { source: '', type: '', takenAt: new Date(0) }] = rows
      assert.deepEqual([source, type], ['/sender', 'ping'])
      const hourAgo = new Date(takenAt.getTime() - HOUR_MS)
      const inAnHour = new Date(takenAt.getTime() + HOUR_MS)
      assert.equal((await ids({ since: hourAgo, until: inAnHour })).length, 7)
      assert.deepEqual(await ids({ since: inAnHour }), [])
      assert.deepEqual(await ids({ until: hourAgo }), [])
    },
  },
  {
    name: 'receipts of UUIDv7 ids are listed newest first',
    run: async (world) => {
      const reader = world.reader()
      const ids = [
        '018f0000-0000-7000-8000-000000000001',
        '018f0000-0001-7000-8000-000000000001',
        '019a0000-0000-7000-8000-000000000001',
      ]
      for (const id of ids) await reader.deliver(id)
      const { rows, after } = await reader.hapax.receipts.list({ consumer: 'billing', limit: 2 })
      assert.deepEqual(
        rows.map(({ id }) => id),
        [ids[2], ids[1]],
      )
      assert.equal((await reader.hapax.receipts.list({ limit: 2, after: after as string })).rows[0]?.id, ids[0])
    },
  },
  {
    name: 'effects are listed in pages, by consumer, state and time, with their messages, and without notes',
    run: async (world) => {
      const hapax = await calls(world)
      const named = (query: EffectQuery) =>
        all(
          (after) => hapax.effects.list({ ...query, ...(after !== undefined && { after }) }),
          ({ message, name, state }) => `${message?.id} ${name} ${state}`,
        )
      const everything = ['a log done', 'a send done', 'b send unknown', 'c send not-done']
      for (const limit of [1, 3, 1000]) assert.deepEqual((await named({ limit })).sort(), everything)
      assert.deepEqual(await named({ state: 'unknown' }), ['b send unknown'])
      assert.deepEqual(await named({ state: 'not-done', consumer: 'sms' }), ['c send not-done'])
      assert.deepEqual(await named({ state: 'started' }), [])
      assert.deepEqual(await named({ consumer: 'none' }), [])
      const { rows } = await hapax.effects.list({ state: 'unknown' })
      const [row] = rows
      assert.deepEqual([row?.consumer, row?.attempts, row?.error?.message], ['sms', 1, 'no answer'])
      const later = new Date((row?.lastAt.getTime() ?? 0) + HOUR_MS)
      assert.deepEqual(await named({ since: later }), [])
      assert.deepEqual((await named({ until: later })).sort(), everything)
    },
  },
  {
    name: 'a list with invalid options is refused',
    run: async (world) => {
      const { receipts, effects } = world.hapax()
      const wrong: readonly object[] = [
        ...[{ limit: 0 }, { limit: 1001 }, { consumer: '' }, { since: 5 }, { until: new Date(Number.NaN) }],
        ...[{ after: '' }, { after: 'x' }, { after: 'WzFd' }, { signal: {} }, { source: '/sender' }],
      ]
      for (const query of wrong) {
        await assertRejects(receipts.list(query), 'invalid-option')
        await assertRejects(effects.list(query), 'invalid-option')
      }
      await assertRejects(effects.list({ state: 'open' as 'done' }), 'invalid-option')
    },
  },
]
