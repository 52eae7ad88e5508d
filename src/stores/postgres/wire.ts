import { HapaxError } from '../../base/index.ts'

/** A value as it is bound: text, or bytes as they are. */
export type Bound = string | Uint8Array | null

/**
 * Writes the messages of one flight into one buffer: Parse, Bind, Describe and Execute of several statements, and one Sync. Written here
 * and not by `pg`, which makes a buffer of each message.
 */
export class FlightWriter {
  #buffer: Buffer
  #length = 0

  constructor(bytes = 1024) {
    this.#buffer = Buffer.allocUnsafe(bytes)
  }

  /** Names a statement; an empty name is that of the statement that the next Parse replaces. */
  parse(name: string, text: string): void {
    const begun = this.#begin(PARSE)
    this.#text(name)
    this.#text(text)
    // Every statement says itself of which types its parameters are.
    this.#int16(0)
    this.#end(begun)
  }

  /** Asks for the columns of a statement. */
  describe(name: string): void {
    const begun = this.#begin(DESCRIBE)
    this.#byte(STATEMENT)
    this.#text(name)
    this.#end(begun)
  }

  /** Binds the values of a statement and executes it; the result is text. */
  execute(name: string, values: readonly Bound[]): void {
    const begun = this.#begin(BIND)
    this.#text('')
    this.#text(name)
    this.#formats(values)
    this.#int16(values.length)
    for (const value of values) this.#value(value)
    this.#int16(0)
    this.#end(begun)
    this.#append(EXECUTE)
  }

  /** All of it, with the Sync at its end. */
  sync(): Buffer {
    this.#append(SYNC)
    return this.#buffer.subarray(0, this.#length)
  }

  #formats(values: readonly Bound[]): void {
    // None means that all of them are texts.
    const formats = values.some(isBytes) ? values : NO_VALUES
    this.#int16(formats.length)
    for (const value of formats) this.#int16(isBytes(value) ? 1 : 0)
  }

  #value(value: Bound): void {
    if (value === null) this.#int32(-1)
    else if (isBytes(value)) {
      this.#int32(value.byteLength)
      this.#append(value)
    } else this.#string(value)
  }

  #string(value: string): void {
    const bytes = Buffer.byteLength(value)
    this.#int32(bytes)
    this.#reserve(bytes)
    this.#length += this.#buffer.write(value, this.#length, bytes, 'utf8')
  }

  #begin(code: number): number {
    this.#byte(code)
    const begun = this.#length
    this.#int32(0)
    return begun
  }

  #end(begun: number): void {
    this.#buffer.writeInt32BE(this.#length - begun, begun)
  }

  #byte(value: number): void {
    this.#reserve(1)
    this.#buffer[this.#length++] = value
  }

  #int16(value: number): void {
    this.#reserve(2)
    this.#length = this.#buffer.writeInt16BE(value, this.#length)
  }

  #int32(value: number): void {
    this.#reserve(4)
    this.#length = this.#buffer.writeInt32BE(value, this.#length)
  }

  /** A text with a zero at its end. */
  #text(text: string): void {
    // At most three bytes per unit: measuring a short text costs more than the room that is left over.
    this.#reserve(text.length * 3 + 1)
    this.#length += this.#buffer.write(text, this.#length, 'utf8')
    this.#buffer[this.#length++] = 0
  }

  #append(bytes: Uint8Array): void {
    this.#reserve(bytes.byteLength)
    this.#buffer.set(bytes, this.#length)
    this.#length += bytes.byteLength
  }

  #reserve(bytes: number): void {
    const needed = this.#length + bytes
    if (needed <= this.#buffer.byteLength) return
    if (needed > MAX_BYTES) throw tooLarge(needed)
    const grown = Buffer.allocUnsafe(Math.min(MAX_BYTES, Math.max(needed, 2 * this.#buffer.byteLength)))
    this.#buffer.copy(grown, 0, 0, this.#length)
    this.#buffer = grown
  }
}

function isBytes(value: Bound): value is Uint8Array {
  return typeof value === 'object' && value !== null
}

function tooLarge(bytes: number): HapaxError {
  return new HapaxError('too-large', `expected statements of at most ${MAX_BYTES} bytes, got ${bytes}`)
}

/** What PostgreSQL takes at once; it ends the connection over what is larger. */
const MAX_BYTES = 2 ** 30 - 1024

const NO_VALUES: readonly Bound[] = []

const [PARSE, BIND, DESCRIBE, STATEMENT] = [0x50, 0x42, 0x44, 0x53]
/** Execute the portal without a name, all rows of it. */
const EXECUTE = Uint8Array.of(0x45, 0, 0, 0, 9, 0, 0, 0, 0, 0)
const SYNC = Uint8Array.of(0x53, 0, 0, 0, 4)
