import { expect, test } from 'vitest'
import { cases, walk } from './exhaustive.ts'

/** What is not walked to its end is walked so far. */
const CAP = Number(process.env['HAPAX_WALK'] ?? 4_000)

test.for(cases)('keeps the invariants in all interleavings: $name', { timeout: 300_000 }, async (each) => {
  const { histories, complete, failures } = await walk(each, CAP)
  process.stdout.write(`${each.name}: ${histories} interleavings${complete ? ', all of them' : ''}\n`)
  expect(failures).toEqual([])
})

test('walks small cases to their end', { timeout: 300_000 }, async () => {
  const [first] = cases
  const { complete, histories } = await walk(first as (typeof cases)[number], 50_000)
  expect(complete).toBe(true)
  expect(histories).toBeGreaterThan(50)
})

test('finds by enumeration that a receipt was not locked', { timeout: 300_000 }, async () => {
  const [first] = cases
  const { failures } = await walk(first as (typeof cases)[number], 50_000, 'A27')
  expect(failures[0]?.violations[0]?.invariant).toBe('I2')
})
