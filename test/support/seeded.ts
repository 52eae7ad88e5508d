import { randomInt } from 'node:crypto'

/** The seed of this run: `HAPAX_TEST_SEED`, or a new one. Name it where a test fails. */
export const seed: number = Number(process.env['HAPAX_TEST_SEED'] ?? randomInt(1, 2 ** 31))

/** A repeatable source of numbers in [0, 1) (mulberry32). */
export function seeded(start: number): () => number {
  let state = start | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** The same items in another order. */
export function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const result = [...items]
  for (let index = result.length - 1; index > 0; index--) {
    const other = Math.floor(random() * (index + 1))
    ;[result[index], result[other]] = [result[other] as T, result[index] as T]
  }
  return result
}
