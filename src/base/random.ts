import { randomFillSync, randomUUID } from 'node:crypto'
import type { Clock } from './clock.ts'
import { able } from './options.ts'

/** The source of randomness. Injected, so that a simulator can replay a history. */
export interface Random {
  /** A number in [0, 1), for jitter. */
  number(): number
  /** A fresh token, as the text of a random UUID. */
  token(): string
  /** Random bytes, for the ids that hapax mints. */
  bytes(count: number): Uint8Array
}

// Filled in bulk, because one call to the random source of the system costs as much as a hundred ids.
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

/** Checks the option `random`; the default is the random source of this process. */
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

/** Returns a function that mints UUIDv7 ids: 48 bits of time, a counter that keeps ids of one process rising, random bits. */
export function uuidv7Source(clock: Clock, random: Random): () => string {
  let lastMs = 0
  let counter = 0
  return () => {
    const now = clock.now()
    const bytes = random.bytes(10)
    if (now > lastMs) {
      lastMs = now
      counter = (((bytes[0] ?? 0) << 8) | (bytes[1] ?? 0)) & 0x7ff
    } else if (++counter > 0xfff) {
      lastMs += 1
      counter = 0
    }
    const variant = ((bytes[2] ?? 0) & 0x3f) | 0x80
    return format(hex(lastMs, 12) + hex(0x7000 | counter, 4) + hex(variant, 2) + toHex(bytes.subarray(3, 10)))
  }
}

const UUIDV7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i

/** The 48 bits of time of a UUIDv7, as 12 lower-case hexadecimal digits; undefined for any other text. */
export function uuidv7Time(text: string): string | undefined {
  if (text.length !== 36 || !UUIDV7.test(text)) return undefined
  return (text.slice(0, 8) + text.slice(9, 13)).toLowerCase()
}

/** 32 hexadecimal digits with the dashes of a UUID. */
export function format(digits: string): string {
  return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-${digits.slice(12, 16)}-${digits.slice(16, 20)}-${digits.slice(20)}`
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0')
}

function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')
}
