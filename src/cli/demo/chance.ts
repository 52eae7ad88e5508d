import { hash } from 'node:crypto'

/**
 * A number in [0, 1) that follows from the seed and from what it decides: the same in every process and in any order, so
 * that a seed brings the same faults again.
 */
export function chance(seed: number, ...what: readonly (string | number)[]): number {
  return Number.parseInt(hash('sha256', JSON.stringify([seed, ...what])).slice(0, 8), 16) / 2 ** 32
}
