import { randomInt } from 'node:crypto'

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
  const [x, y] = [numberOf(a), numberOf(b)]
  return x.length - y.length || (x < y ? -1 : x > y ? 1 : 0)
}

/** The highest number that every database has. */
const MAX_NUMBER = 2n ** 63n - 1n

/** Whether this text can be the name of a row. */
export function isSeq(text: unknown): text is string {
  return typeof text === 'string' && /^[1-9]\d{0,18}-\d{1,15}$/.test(text) && BigInt(numberOf(text)) <= MAX_NUMBER
}
