import { silentLogger } from 'hapax'
import { expect, it } from 'vitest'
import { type State, systemClock } from '../../src/base/index.ts'
import { Unserved } from '../../src/worker/unserved.ts'

/** What a consumer is warned of after two looks that found this. */
function warned(consumer: string, oldestMs: number | undefined): readonly string[] {
  const lines: string[] = []
  const logger = { ...silentLogger, warn: (_: object, message: string) => void lines.push(message) }
  const unserved = new Unserved({ workers: { list: async () => [] }, clock: systemClock, logger })
  const counts = { waiting: 1, retrying: 0, held: 0, failed: 0, unknownEffects: 0, workers: 0 }
  const others = { relays: [], failed: [], workers: { alive: 0, stuck: 0, dead: 0 }, rows: [] }
  const state: State = { consumers: [{ consumer, ...counts, oldestMs }], ...others }
  for (const _ of ['once', 'again']) unserved.watch(state)
  return lines
}

it('requests that somebody works on do not wait for a worker', () => {
  expect(warned('http:orders', undefined)).toEqual([])
  expect(warned('http:orders', 1_000)).toHaveLength(1)
  expect(warned('billing', undefined)).toHaveLength(1)
})
