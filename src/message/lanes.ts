import { hash } from 'node:crypto'
import type { StoredMessage } from './message.ts'

/** How many slices inbox and outbox have. Fixed for ever: the number is written into the rows. */
export const LANES = 64

export const ALL_LANES: readonly number[] = Array.from({ length: LANES }, (_, lane) => lane)

/**
 * The lane of a message: by its key where order counts, so that a key stays together, else by its identity, so that a busy
 * key is everybody's work. SQL computes the same: the first byte of SHA-256 of the key, the last byte of the message key.
 */
export function laneOf({ key, messageKey }: StoredMessage, ordered: boolean): number {
  if (ordered && key !== null) return laneOfKey(key)
  return Number.parseInt(messageKey.slice(-2), 16) % LANES
}

/** The lane of the messages of a key whose order counts. */
export function laneOfKey(key: string): number {
  return (hash('sha256', key, 'buffer')[0] as number) % LANES
}

/**
 * Which lanes are a worker's: each lane belongs to the worker with the highest hash of (worker, lane). When one comes or
 * goes, only its own lanes change hands.
 */
export function lanesOf(worker: string, workers: readonly string[]): readonly number[] {
  const seeds = workers.map(seedOf)
  return ALL_LANES.filter((lane) => heaviest(String(lane), workers, seeds) === worker)
}

/** The worker that something belongs to. */
export function ownerOf(thing: string, workers: readonly string[]): string | undefined {
  return heaviest(thing, workers, workers.map(seedOf))
}

function heaviest(thing: string, workers: readonly string[], seeds: readonly number[]): string | undefined {
  let best: string | undefined
  let most = -1
  for (const [index, worker] of workers.entries()) {
    const weight = mixed(fnv(thing, seeds[index] as number))
    if (weight > most || (weight === most && worker > (best as string))) {
      best = worker
      most = weight
    }
  }
  return best
}

/** The hash of what every pair with this worker begins with. */
function seedOf(worker: string): number {
  return fnv(`${worker}/`, 0x811c9dc5)
}

/** FNV-1a with a final mix: cheap, and even enough for this. */
function fnv(text: string, seed: number): number {
  let value = seed
  for (let index = 0; index < text.length; index++) value = Math.imul(value ^ text.charCodeAt(index), 0x01000193)
  return value
}

function mixed(hashed: number): number {
  let value = Math.imul(hashed ^ (hashed >>> 16), 0x85ebca6b)
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35)
  return (value ^ (value >>> 16)) >>> 0
}
