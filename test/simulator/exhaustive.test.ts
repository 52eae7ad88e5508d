import { expect, test } from 'vitest'
import { cases, walk } from './exhaustive.ts'

/** How long larger cases are walked: with a broken link they have up to 75,000 interleavings, with a death more than 100,000. */
const SECONDS = Number(process.env['HAPAX_WALK_SECONDS'] ?? 6)

test.for(cases)('keeps the invariants in all interleavings: $name', { timeout: 900_000 }, async (each) => {
  const { histories, complete, failures } = await walk(each, each.small ? 300 : SECONDS)
  process.stdout.write(`${each.name}: ${histories} interleavings${complete ? ', all of them' : ''}\n`)
  expect(failures).toEqual([])
  if (each.small) expect(complete).toBe(true)
})

test('finds by enumeration that a receipt was not locked', { timeout: 300_000 }, async () => {
  const [first] = cases
  const { failures } = await walk(first as (typeof cases)[number], 300, 'A27')
  expect(failures[0]?.violations[0]?.invariant).toBe('I2')
})
