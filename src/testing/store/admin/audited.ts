import assert from 'node:assert/strict'
import type { AuditQuery } from '../../../admin/index.ts'
import type { Case } from '../case.ts'
import { type AnyHapax, assertRejects } from '../world.ts'
import { BY, failedOne, failedOnes } from './failed-world.ts'

/** The audit, page by page. */
async function audit(hapax: AnyHapax, query: AuditQuery, limit: number): Promise<readonly string[]> {
  const found: string[] = []
  let before: string | undefined
  do {
    const page = await hapax.audit.list({ ...query, limit, ...(before !== undefined && { before }) })
    found.push(...page.rows.map(({ action, actor, id }) => `${action} ${actor} ${id}`))
    before = page.before
  } while (before !== undefined)
  return found
}

const HOUR_MS = 3_600_000

export const audited: readonly Case[] = [
  {
    name: 'the audit is listed newest first, by actor, action, consumer and time, in pages',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a', 'b', 'c'])
      const { hapax } = reader
      const seq = async (id: string): Promise<string> => (await failedOne(hapax, id)).seq
      await hapax.failed.note(await seq('a'), BY)
      await hapax.failed.retry(await seq('a'), { actor: 'bob' })
      await hapax.failed.discard(await seq('b'), BY)
      await world.store.admin.audit({ action: 'cleanup', actor: 'cron' }, {})
      const all = ['cleanup cron null', 'discard ada b', 'retry bob a', 'note ada a']
      for (const limit of [1, 2, 4, 100]) assert.deepEqual(await audit(hapax, {}, limit), all)
      assert.deepEqual(await audit(hapax, { actor: 'ada' }, 1), ['discard ada b', 'note ada a'])
      assert.deepEqual(await audit(hapax, { action: 'retry' }, 1), ['retry bob a'])
      assert.deepEqual(await audit(hapax, { scope: 'billing', actor: 'bob' }, 1), ['retry bob a'])
      assert.deepEqual(await audit(hapax, { scope: 'other' }, 1), [])
      const [entry] = (await hapax.audit.list({ action: 'discard' })).rows
      assert.ok(entry)
      const { seq: _, at, ...rest } = entry
      assert.deepEqual(rest, {
        ...{ action: 'discard', actor: 'ada', note: 'because', origin: 'inbox', scope: 'billing' },
        ...{ source: '/sender', id: 'b', type: 'ping' },
      })
      const [before, after] = [new Date(at.getTime() - HOUR_MS), new Date(at.getTime() + HOUR_MS)]
      assert.deepEqual(await audit(hapax, { since: before, until: after }, 100), all)
      assert.deepEqual(await audit(hapax, { since: after }, 100), [])
      assert.deepEqual(await audit(hapax, { until: before }, 100), [])
      for (const origin of ['inbox', 'outbox'] as const)
        await world.store.admin.audit({ action: 'pause', actor: origin }, { origin, consumer: 'both' })
      await world.store.admin.audit({ action: 'import', actor: 'eve' }, { consumer: 'both' })
      for (const origin of ['inbox', 'outbox'] as const) {
        const its = ['import eve null', `pause ${origin} null`]
        assert.deepEqual(await audit(hapax, { scope: 'both', origin }, 1), its)
      }
    },
  },
  {
    name: 'audit entries of one millisecond are listed in their order, page by page',
    needs: ['setting times'],
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a'])
      const { hapax } = reader
      const { seq } = await failedOne(hapax, 'a')
      const actors = ['zoe', 'bob', 'eve', 'ada', 'mia']
      for (const actor of actors) await hapax.failed.note(seq, { actor, note: 'seen' })
      await world.database.sameTime()
      const all = actors.map((actor) => `note ${actor} a`).reverse()
      for (const limit of [1, 2, 9]) assert.deepEqual(await audit(hapax, {}, limit), all)
      const traces = await hapax.explain('a')
      assert.deepEqual(
        traces.flatMap((trace) => (trace.where === 'audit' ? [trace.actor] : [])),
        actors,
      )
    },
  },
  {
    name: 'a note about a failed message is kept in the audit, and changes nothing else',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a'])
      const { hapax } = reader
      const before = await failedOne(hapax, 'a')
      await hapax.failed.note(before.seq, { actor: 'ada', note: 'waits for the bank' })
      assert.deepEqual(await failedOne(hapax, 'a'), before)
      const traces = (await hapax.explain('a')).flatMap((trace) => (trace.where === 'audit' ? [trace] : []))
      assert.deepEqual(
        traces.map(({ action, actor, note }) => [action, actor, note]),
        [['note', 'ada', 'waits for the bank']],
      )
      await assertRejects(hapax.failed.note('999-1', { note: 'x' }), 'not-found')
      for (const by of [undefined, {}, { note: '' }, { note: 'x'.repeat(1_001) }, { note: 'x', who: 'ada' }]) {
        await assertRejects(hapax.failed.note(before.seq, by as never), 'invalid-option')
      }
    },
  },
  {
    name: 'lists of what waits, and of the audit, refuse invalid options',
    run: async (world) => {
      const { messages, audit: log } = world.hapax()
      const wrong: readonly object[] = [
        ...[{ limit: 0 }, { limit: 1001 }, { since: 5 }, { until: new Date(Number.NaN) }, { signal: {} }],
        ...[{ before: '' }, { before: 'x' }, { before: '1' }, { source: '/sender' }, { scope: '' }, { scope: 7 }],
      ]
      for (const query of wrong) {
        await assertRejects(messages.list(query), 'invalid-option')
        await assertRejects(log.list(query), 'invalid-option')
      }
      for (const query of [{ origin: 'sent' }, { state: 'open' }, { key: '' }, { id: '\ud800' }, { type: null }]) {
        await assertRejects(messages.list(query as never), 'invalid-option')
      }
      for (const query of [{ action: 'drop' }, { actor: '' }, { origin: 'sent' }]) {
        await assertRejects(log.list(query as never), 'invalid-option')
      }
      await assertRejects(messages.get('inbox', '7'), 'invalid-option')
      await assertRejects(messages.why('failed' as never, '7-7'), 'invalid-option')
      await assertRejects(messages.retries({ limit: 0 }), 'invalid-option')
      assert.equal(await messages.get('outbox', '7-7'), undefined)
    },
  },
]
