import assert from 'node:assert/strict'
import { Permanent } from '../../../base/index.ts'
import type { Case } from '../case.ts'
import { TestDestination } from '../doubles.ts'
import { AT_ONCE, Ping } from '../world.ts'

export const minutes: readonly Case[] = [
  {
    name: 'a worker that stops has written what was processed, repeated, retried, failed and sent',
    run: async (world) => {
      const hapax = world.hapax()
      let flaky = true
      const reader = world.reader(
        ({ message }) => {
          if (message.id === 'bad') throw new Permanent('no')
          if (message.id === 'flaky' && flaky) {
            flaky = false
            throw new Error('once')
          }
        },
        { hapax, retry: AT_ONCE },
      )
      const relay = new TestDestination()
      const worker = await world.worker({ hapax, consumer: reader.consumer }, { relay })
      for (const id of ['a', 'b', 'a', 'bad', 'flaky']) await reader.deliver(id)
      await hapax.transaction(async (tx) => {
        for (const n of [1, 2, 3]) await hapax.publish(tx, Ping, { n })
      })
      await worker.drain()
      await worker.stop()
      const found = await hapax.history()
      const sum = (scope: string, name: 'done' | 'duplicates' | 'retried' | 'failed'): number =>
        found.filter((each) => each.scope === scope).reduce((total, each) => total + each[name], 0)
      assert.deepEqual(
        (['done', 'duplicates', 'retried', 'failed'] as const).map((name) => sum('billing', name)),
        [3, 1, 1, 1],
      )
      assert.equal(sum('default', 'done'), 3)
      const aged = found.filter(({ scope }) => scope === 'default').reduce((total, each) => total + each.aged, 0)
      assert.ok(aged >= 1 && aged <= 3, `the age of ${aged} messages is known`)
      assert.deepEqual(await hapax.history({ sinceMs: 1 }).then((rows) => rows.filter(({ at }) => at > new Date())), [])
    },
  },
]
