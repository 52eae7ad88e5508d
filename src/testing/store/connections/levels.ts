import assert from 'node:assert/strict'
import { atEachLevel, type Case } from '../case.ts'
import { assertOutcome } from '../world.ts'

/** The levels in the words of the database. */
export const levels: readonly Case[] = atEachLevel([
  {
    name: 'a handler has the isolation level that its consumer asks for, and its neighbour that of the database',
    needs: ['sessions'],
    run: async (world) => {
      const seen: string[] = []
      const look = async (tx: unknown): Promise<void> => {
        seen.push((await world.database.server?.isolation(tx)) ?? '')
      }
      await world.hapax().transaction(look)
      assertOutcome(await world.reader(({ tx }) => look(tx)).deliver('a'), 'processed')
      await world.hapax().transaction(look)
      assert.deepEqual(seen, [seen[0], world.isolation, seen[0]])
    },
  },
])
