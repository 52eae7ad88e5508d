import assert from 'node:assert/strict'
import type { BulkResult } from '../../../admin/index.ts'
import { HapaxError, isHapaxError, Permanent } from '../../../base/index.ts'
import type { Case } from '../case.ts'
import { assertOutcome, assertRejects, type Reader, type World } from '../world.ts'
import { audits, BY, failedOne } from './failed-world.ts'

const CHECKED = { effectsChecked: true } as const

/** A reader with two failed messages: `broken` may have committed some of its effects, `plain` none. */
async function bothFailed(world: World): Promise<Reader> {
  const bad = new Set(['broken', 'plain'])
  const reader = world.reader(async ({ tx, message }, { n }) => {
    const { id } = message
    if (bad.delete(id)) {
      throw id === 'plain' ? new Permanent('no') : new HapaxError('broken-atomicity', 'it has committed by itself')
    }
    await world.database.effect(tx, `${message.causationId ?? id} ${n}`)
  })
  for (const id of [...bad]) assertOutcome(await reader.deliver(id), 'failed')
  return reader
}

/** The result of each row of a bulk change. */
function told(results: readonly BulkResult[]): readonly unknown[] {
  return results.map((each) => (each.result === 'error' && isHapaxError(each.error) ? each.error.code : each.result))
}

export const unchecked: readonly Case[] = [
  {
    name: 'a message with broken atomicity is only retried once its effects are confirmed as checked, and the audit records that',
    run: async (world) => {
      const reader = await bothFailed(world)
      const { failed } = reader.hapax
      const { seq } = await failedOne(reader.hapax, 'broken')
      await assertRejects(failed.retry(seq), 'effects-unchecked')
      await assertRejects(failed.retry(seq, { ...BY, effectsChecked: false }), 'effects-unchecked')
      await world.drain(reader)
      await world.assertPlaces('broken', ['failed', 'receipt'])
      await world.assertEffects([])
      await failed.retry(seq, { ...BY, ...CHECKED })
      await world.drain(reader)
      await world.assertEffects(['broken 1'])
      assert.deepEqual(await audits(reader.hapax, 'broken'), [['retry', 'ada', 'effects checked: because']])
    },
  },
  {
    name: 'a message with broken atomicity is only edited once its effects are confirmed as checked',
    run: async (world) => {
      const reader = await bothFailed(world)
      const { failed } = reader.hapax
      const { seq } = await failedOne(reader.hapax, 'broken')
      await assertRejects(failed.edit(seq, { n: 2 }), 'effects-unchecked')
      assert.equal((await failed.get(seq))?.replacedBy, null)
      await failed.edit(seq, { n: 2 }, { by: { actor: 'ada' }, ...CHECKED })
      await world.drain(reader)
      await world.assertEffects(['broken 2'])
      assert.deepEqual(await audits(reader.hapax, 'broken'), [['edit', 'ada', 'effects checked']])
    },
  },
  {
    name: 'a bulk retry skips and counts messages with broken atomicity, unless their effects are confirmed as checked',
    run: async (world) => {
      const reader = await bothFailed(world)
      const { failed } = reader.hapax
      const results: BulkResult[] = []
      const onResult = (each: BulkResult): unknown => results.push(each)
      const summary = await failed.retryAll({ all: true }, { onResult })
      assert.deepEqual(summary, { done: 1, gone: 0, errors: 1, stopped: false })
      assert.deepEqual(told(results), ['effects-unchecked', 'done'])
      await world.drain(reader)
      await world.assertEffects(['plain 1'])
      await world.assertPlaces('broken', ['failed', 'receipt'])
      const checked = await failed.retryAll({ all: true }, { by: BY, ...CHECKED })
      assert.deepEqual(checked, { done: 1, gone: 0, errors: 0, stopped: false })
      await world.drain(reader)
      await world.assertEffects(['broken 1', 'plain 1'])
      assert.deepEqual(await audits(reader.hapax, 'broken'), [['retry', 'ada', 'effects checked: because']])
    },
  },
  {
    name: 'an operation run by workers stores whether effects were checked, and reports the messages it skipped',
    run: async (world) => {
      const reader = await bothFailed(world)
      const { operations } = reader.hapax
      await world.worker(reader)
      const ended = async (id: string) => {
        await world.until(async () => (await operations.get(id))?.state === 'done')
        return operations.get(id)
      }
      const plain = await ended((await operations.begin({ kind: 'retry', all: true })).id)
      assert.deepEqual([plain?.total, plain?.done, plain?.errors], [2, 1, 1])
      assert.equal(plain?.error?.code, 'effects-unchecked')
      const begun = await operations.begin({ kind: 'retry', all: true, by: BY, ...CHECKED })
      assert.equal(begun.kind === 'retry' && begun.effectsChecked, true)
      const checked = await ended(begun.id)
      assert.deepEqual([checked?.total, checked?.done, checked?.errors], [1, 1, 0])
      assert.equal(checked?.note, 'effects checked: because')
      await world.until(async () => (await world.database.effects()).length === 2)
      await assertRejects(operations.begin({ kind: 'discard', all: true, ...CHECKED }), 'invalid-option')
    },
  },
  {
    name: 'a message with broken atomicity can be discarded like any other',
    run: async (world) => {
      const reader = await bothFailed(world)
      await reader.hapax.failed.discard((await failedOne(reader.hapax, 'broken')).seq)
      await world.assertPlaces('broken', ['receipt'])
    },
  },
]
