// A streaming CSV reader (RFC 4180). It is strict: ambiguous input is an error that names its line.

import { HapaxError } from '../base/index.ts'

/** A record, and the line on which it begins, counted from 1. */
export interface CsvRecord {
  readonly line: number
  readonly fields: readonly string[]
}

/** The reader's position: before a field, in an unquoted field, in a quoted one, or after its closing quote. */
type State = 'before' | 'plain' | 'quoted' | 'closed'

/** The characters that end a run of plain text in an unquoted field, and in a quoted one. */
const ENDS = { plain: /[",\r\n]/g, quoted: /["\n]/g }

/**
 * Fields keep every character, including spaces. Lines end with LF or CRLF, which the last one may lack. Works on any text whose
 * characters below 128 are ASCII, so that bytes may be passed as one character each.
 */
export class CsvReader {
  #state: State = 'before'
  #line = 1
  #begun = 1
  #field = ''
  #fields: string[] = []
  /** A carriage return at the end of a chunk, held until the next character is known. */
  #rest = ''

  /** The records that end in this chunk. */
  push(piece: string): CsvRecord[] {
    const records: CsvRecord[] = []
    const text = this.#rest + piece
    this.#rest = ''
    for (let at = 0; at < text.length; ) {
      const character = text[at] ?? ''
      if (this.#state === 'quoted' || (this.#state !== 'closed' && !'",\r\n'.includes(character))) {
        at = this.#run(text, at)
        continue
      }
      at += 1
      if (character === '\r') {
        if (at === text.length) this.#rest = character
        else if (text[at] !== '\n') throw this.#malformed('a carriage return without a line feed')
      } else if (character === '\n') records.push(this.#record())
      else if (character === ',') this.#next()
      else if (character === '"') this.#quote()
      else throw this.#malformed('a character after a closing quote')
    }
    return records
  }

  /** The last record, if its line is unterminated. */
  end(): CsvRecord[] {
    if (this.#rest !== '') throw this.#malformed('a carriage return without a line feed')
    if (this.#state === 'quoted') throw this.#malformed('an unterminated quote')
    if (this.#state !== 'before' || this.#fields.length > 0) return [this.#record()]
    return []
  }

  /** Consumes plain characters up to the next special one; returns its position. */
  #run(text: string, from: number): number {
    if (this.#state === 'before') this.#state = 'plain'
    const ends = this.#state === 'quoted' ? ENDS.quoted : ENDS.plain
    ends.lastIndex = from
    const to = ends.exec(text)?.index ?? text.length
    this.#field += text.slice(from, to)
    if (this.#state !== 'quoted' || to === text.length) return to
    if (text[to] === '"') this.#state = 'closed'
    else {
      this.#field += '\n'
      this.#line += 1
    }
    return to + 1
  }

  #quote(): void {
    if (this.#state === 'plain') throw this.#malformed('a quote inside an unquoted field')
    // A second quote after a closing one is an escaped quote.
    if (this.#state === 'closed') this.#field += '"'
    this.#state = 'quoted'
  }

  #next(): void {
    this.#fields.push(this.#field)
    this.#field = ''
    this.#state = 'before'
  }

  #record(): CsvRecord {
    this.#next()
    const record = { line: this.#begun, fields: this.#fields }
    this.#fields = []
    this.#line += 1
    this.#begun = this.#line
    return record
  }

  #malformed(what: string): HapaxError {
    const message = `expected CSV, got ${what} on line ${this.#line}, in the record that begins on line ${this.#begun}`
    return new HapaxError('invalid-payload', message)
  }
}
