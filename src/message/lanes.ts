import { hash, randomInt } from 'node:crypto'
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
  return hash('sha256', key, 'buffer').readUInt8(0) % LANES
}

/**
 * Which lanes are a worker's: each lane belongs to the worker with the highest hash of (worker, lane). When one comes or
 * goes, only its own lanes change hands.
 */
export function lanesOf(worker: string, workers: readonly string[]): readonly number[] {
  const seeded = workers.map(seededOf)
  return ALL_LANES.filter((lane) => heaviest(String(lane), seeded) === worker)
}

/** Which lanes would be a worker's if their owners were gone: each lane of others has one such worker. */
export function nextLanesOf(worker: string, workers: readonly string[]): readonly number[] {
  const seeded = workers.map(seededOf)
  return ALL_LANES.filter((lane) => {
    const owner = heaviest(String(lane), seeded)
    const others = seeded.filter((each) => each.worker !== owner)
    return owner !== worker && heaviest(String(lane), others) === worker
  })
}

/** The worker that something belongs to. */
export function ownerOf(thing: string, workers: readonly string[]): string | undefined {
  return heaviest(thing, workers.map(seededOf))
}

/** A worker, and the hash of what every pair with it begins with. */
interface Seeded {
  readonly worker: string
  readonly seed: number
}

function seededOf(worker: string): Seeded {
  return { worker, seed: fnv(`${worker}/`, 0x811c9dc5) }
}

function heaviest(thing: string, workers: readonly Seeded[]): string | undefined {
  let best: string | undefined
  let most = -1
  for (const { worker, seed } of workers) {
    const weight = mixed(fnv(thing, seed))
    if (weight > most || (weight === most && best !== undefined && worker > best)) {
      best = worker
      most = weight
    }
  }
  return best
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

// What names a row is its number and a random mark, as one text. The number finds the row and says which one is older. It does not say
// which row is meant: a replica that is promoted before it has received everything gives numbers out again.

/** Marks are below this: 48 bits, a number that every language and database has. */
const MARKS = 2 ** 48

/** A mark for a new row. */
export function newMark(): number {
  return randomInt(MARKS - 1)
}

/** The name of a row. */
export function seqOf(number: string | number, mark: string | number): string {
  return `${number}-${mark}`
}

/** The number of a row, by which it is found. */
export function numberOf(seq: string): string {
  const at = seq.indexOf('-')
  return at < 0 ? seq : seq.slice(0, at)
}

/** The mark of a row, which tells it from others that have, or had, its number. */
export function markOf(seq: string): string {
  return seq.slice(seq.indexOf('-') + 1)
}

/** The older row first. */
export function compareSeq(a: string, b: string): number {
  const length = lengthOfNumber(a)
  const longer = length - lengthOfNumber(b)
  if (longer !== 0) return longer
  // Without cutting the numbers out: sorting a look would leave thousands of texts behind.
  for (let at = 0; at < length; at++) {
    const difference = a.charCodeAt(at) - b.charCodeAt(at)
    if (difference !== 0) return difference
  }
  return 0
}

function lengthOfNumber(seq: string): number {
  const at = seq.indexOf('-')
  return at < 0 ? seq.length : at
}

/** The highest number that every database has. */
const MAX_NUMBER = 2n ** 63n - 1n

/** Whether this text can be the name of a row. */
export function isSeq(text: unknown): text is string {
  return typeof text === 'string' && /^[1-9]\d{0,18}-\d{1,15}$/.test(text) && BigInt(numberOf(text)) <= MAX_NUMBER
}
