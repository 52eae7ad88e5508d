// The input of `receipts import`. Values are read byte for byte: an id that was trimmed, or that kept its CSV quotes, would be a different id.

import type { ProcessedMessage } from '../admin/index.ts'
import { fieldOf, isHapaxError, safe } from '../base/index.ts'
import { CsvReader, type CsvRecord } from './csv.ts'
import { CliError } from './io/errors.ts'

export const INPUT_FORMATS = ['lines', 'csv', 'ndjson'] as const
export type InputFormat = (typeof INPUT_FORMATS)[number]

/** A condition on a CSV column or a JSON field. */
export interface Condition {
  readonly column: string
  readonly value: string
  /** Whether the condition is negated. */
  readonly not: boolean
}

interface InputOptions {
  readonly format: InputFormat
  /** The column or field that contains the id. */
  readonly id: string
  /** Column names for CSV without a header line. */
  readonly columns: readonly string[] | undefined
  readonly where: readonly Condition[]
}

type Chunks = AsyncIterable<Uint8Array | string>

/** The messages of one input, and statistics of the rows read so far. */
export class ReceiptsInput {
  /** Number of lines, rows or objects, including those without an id. */
  read = 0
  /** Those without an id. */
  empty = 0
  /** Those excluded by `where`. */
  leftOut = 0
  /** The line of the last row read. */
  line = 0
  columns: readonly string[] | undefined
  first: ProcessedMessage | undefined
  last: ProcessedMessage | undefined
  readonly #options: InputOptions
  readonly #met = new Set<Condition>()

  constructor(options: InputOptions) {
    this.#options = options
    this.columns = options.columns
    if (options.columns !== undefined) this.#assertColumns(options.columns)
  }

  /** Conditions with a value that no row has had so far. */
  get unmet(): readonly Condition[] {
    return this.#options.where.filter((condition) => !this.#met.has(condition))
  }

  async *messages(chunks: Chunks): AsyncGenerator<ProcessedMessage> {
    const { format } = this.#options
    const texts = withoutMark(chunks)
    const rows = format === 'csv' ? this.#csv(texts) : this.#lines(texts, format === 'ndjson' ? objectOf : idOf)
    for await (const row of rows) {
      this.read += 1
      const message = this.#messageOf(row)
      if (message === undefined) continue
      this.first ??= message
      this.last = message
      yield message
    }
  }

  #messageOf(row: Row | undefined): ProcessedMessage | undefined {
    if (row !== undefined && !this.#isWanted(row)) {
      this.leftOut += 1
      return undefined
    }
    const id = row?.(this.#options.id)
    if (id === undefined || id === '') {
      this.empty += 1
      return undefined
    }
    const [source, type] = [row?.('source'), row?.('type')]
    return { id, ...(source && { source }), ...(type && { type }) }
  }

  /** What is not there is neither equal nor unequal: a field that is misspelt must not let everything through. */
  #isWanted(row: Row): boolean {
    const answers = this.#options.where.map((condition) => {
      const found = row(condition.column)
      if (found === condition.value) this.#met.add(condition)
      return found !== undefined && (found === condition.value) !== condition.not
    })
    return !answers.includes(false)
  }

  /** Undefined for an empty line. */
  async *#lines(
    texts: AsyncIterable<string>,
    rowOf: (text: string, line: number, id: string) => Row,
  ): AsyncGenerator<Row | undefined> {
    for await (const bytes of linesOf(texts)) {
      this.line += 1
      const text = decoded(bytes, this.line)
      yield text === '' ? undefined : rowOf(text, this.line, this.#options.id)
    }
  }

  async *#csv(texts: AsyncIterable<string>): AsyncGenerator<Row | undefined> {
    for await (const { line, fields } of recordsOf(texts)) {
      this.line = line
      if (this.columns === undefined) {
        this.columns = this.#assertColumns(fields.map((field) => decoded(field, line)))
        continue
      }
      if (fields.length === 1 && fields[0] === '') {
        yield undefined
        continue
      }
      if (fields.length !== this.columns.length) {
        const [some, columns] = [fields.length, this.columns.length]
        throw new CliError('usage', `expected ${columns} fields on line ${line}, one for each column, got ${some}`)
      }
      const places = new Map(this.columns.map((column, index) => [column, index]))
      yield (column) => {
        const field = fields[places.get(column) ?? -1]
        return field === undefined ? undefined : decoded(field, line)
      }
    }
  }

  #assertColumns(columns: readonly string[]): readonly string[] {
    const { id, where } = this.#options
    const given = this.#options.columns !== undefined
    for (const name of [id, ...where.map(({ column }) => column)]) {
      if (columns.filter((column) => column === name).length === 1) continue
      const place = given ? 'among --columns' : 'in the first line'
      throw new CliError(
        'usage',
        `expected one column ${safe(name)} ${place}, got ${safe(columns.join(', ').slice(0, 200))}`,
        ['--id names the column of the ids; --columns names all columns, where the first line is a row already'],
      )
    }
    return columns
  }
}

/** The text of a column or field; undefined if there is none. */
type Row = (column: string) => string | undefined

function idOf(text: string, line: number, id: string): Row {
  const looks = isCsv(text, line, id) ? 'csv' : /^\s*(\{\s*("|$)|\[\s*([{"]|$))/.test(text) ? 'ndjson' : undefined
  if (looks !== undefined) {
    const got = `expected an id on line ${line}, got what looks like ${looks}: ${safe(text.slice(0, 80))}`
    throw new CliError('usage', got, [`--format ${looks} reads it as such`])
  }
  if (text.includes('\r')) {
    const got = `a carriage return without a line feed: ${safe(text.slice(0, 80))}`
    throw new CliError('usage', `expected an id on line ${line}, got ${got}`)
  }
  return (column) => (column === id ? text : undefined)
}

/** Whether a line has a quoted field at its beginning or its end, or is the header of several columns. */
function isCsv(text: string, line: number, id: string): boolean {
  if (/^".*"([,;\t]|$)|[,;\t]".*"$/.test(text)) return true
  const fields = text.split(/[,;\t]/)
  return line === 1 && fields.length > 1 && fields.includes(id)
}

function objectOf(text: string, line: number, id: string): Row {
  const value = parsed(text)
  const isText = (name: string): boolean => ['string', 'undefined'].includes(typeof fieldOf(value, name))
  if (typeof fieldOf(value, id) !== 'string' || !isText('source') || !isText('type')) {
    const what = id === 'id' ? 'an id' : `a text ${safe(id)}`
    throw new CliError(
      'usage',
      `expected line ${line} to be a JSON object with ${what}, got ${safe(text.slice(0, 80))}`,
    )
  }
  return (column) => {
    const field = fieldOf(value, column)
    return field === undefined || field === null ? undefined : String(field)
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

async function* recordsOf(texts: AsyncIterable<string>): AsyncGenerator<CsvRecord> {
  const reader = new CsvReader()
  try {
    for await (const text of texts) yield* reader.push(text)
    yield* reader.end()
  } catch (error) {
    throw isHapaxError(error, 'invalid-payload') ? new CliError('usage', error.message) : error
  }
}

/** Lines without their terminator (LF or CRLF), which the last one may lack. */
async function* linesOf(texts: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = ''
  for await (const text of texts) {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) yield line.endsWith('\r') ? line.slice(0, -1) : line
  }
  if (rest !== '') yield rest
}

const MARK = '\xef\xbb\xbf'

/**
 * The bytes as one character each, without a leading byte order mark. Each value is decoded separately, so that an error can name its line.
 */
async function* withoutMark(chunks: Chunks): AsyncGenerator<string> {
  let begin: string | undefined = ''
  for await (const chunk of chunks) {
    const text = Buffer.from(chunk).toString('latin1')
    if (begin === undefined) yield text
    else {
      begin += text
      if (begin.length < MARK.length) continue
      yield begin.startsWith(MARK) ? begin.slice(MARK.length) : begin
      begin = undefined
    }
  }
  if (begin !== undefined) yield begin
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Refuses invalid UTF-8: replacement characters would make different ids equal, and match no delivered id. */
function decoded(bytes: string, line: number): string {
  try {
    return utf8.decode(Buffer.from(bytes, 'latin1'))
  } catch {
    const got = safe(Buffer.from(bytes, 'latin1').toString().slice(0, 80))
    throw new CliError('usage', `expected line ${line} to be UTF-8, got ${got}`)
  }
}
