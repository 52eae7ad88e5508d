import assert from 'node:assert/strict'
import { assertRefused, toolCalls } from '../tool-inputs.ts'
import type { Case } from './case.ts'
import { failedOne, failedOnes } from './failed-world.ts'

export const tools: readonly Case[] = [
  {
    name: 'K18: a tool takes nothing that says less, or something else, than a person could have meant',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a', 'b'])
      const { seq } = await failedOne(reader.hapax, 'a')
      await assertRefused(toolCalls(reader.hapax, seq))
      for (const id of ['a', 'b']) await world.assertPlaces(id, ['failed', 'receipt'])
    },
  },
  {
    name: 'K18: everything is changed only by the word for it',
    run: async (world) => {
      const { reader } = await failedOnes(world, ['a', 'b'])
      const { failed } = reader.hapax
      const where = { consumer: 'billing', type: 'ping' }
      const mutable: { consumer?: string; type?: string } = { ...where, consumer: 'other' }
      const none = failed.discardAll(mutable)
      // What the caller does to its object afterwards is its own business.
      delete mutable.consumer
      assert.equal((await none).done, 0)
      assert.equal(await failed.count(), 2)
      assert.equal((await failed.discardAll({ all: true })).done, 2)
      assert.equal(await failed.count(where), 0)
    },
  },
]
