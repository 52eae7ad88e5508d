import { randomFillSync, randomUUID } from 'node:crypto'
import { able } from './options.ts'

/** Chance as the engine sees it. Injected, so that a simulator can replay a history. */
export interface Random {
  /** A number in [0, 1), for jitter. */
  number(): number
  /** A fresh token, as the text of a random UUID. */
  token(): string
  /** Random bytes, for the ids that hapax mints. */
  bytes(count: number): Uint8Array
}

// Drawn in bulk: one call to the operating system's source costs as much as a hundred ids.
const pool = new Uint8Array(4096)
let used = pool.length

function pooledBytes(count: number): Uint8Array {
  if (count > pool.length) return randomFillSync(new Uint8Array(count))
  if (used + count > pool.length) {
    randomFillSync(pool)
    used = 0
  }
  used += count
  return pool.slice(used - count, used)
}

/** The random source that was given, or the one of this process. */
export function randomOption(given: Random | undefined): Random {
  if (given === undefined) return systemRandom
  return able('random', 'an object with number, token and bytes', given, ['number', 'token', 'bytes'])
}

/** The random source of this process. */
export const systemRandom: Random = {
  number: () => Math.random(),
  token: () => randomUUID(),
  bytes: pooledBytes,
}
