import { expected, object } from '../base/index.ts'
import { MAX_RESULT_BYTES, serialised } from './effect-rules.ts'

type Fields = Readonly<Record<string, unknown>>

/** Where the notes of a message are kept, as JSON. */
interface NotesPlace {
  read(): Promise<string | null>
  write(notes: string): Promise<void>
}

/** What the attempts at a message wrote down for people to read: of two fields of one name the later one. */
export class Notes {
  readonly #place: NotesPlace
  #own: Fields = {}
  /** Those of earlier attempts, once they were looked for. */
  #earlier: Fields | undefined
  #writing: Promise<unknown> | undefined

  constructor(place: NotesPlace) {
    this.#place = place
  }

  /** What is being written, if anything was; it does not reject. */
  get writing(): Promise<unknown> | undefined {
    return this.#writing
  }

  /** Adds fields; rejects if they could not be written. */
  async add(fields: Fields): Promise<void> {
    object('note', fields)
    const own = { ...this.#own, ...fields }
    const text = serialised(own)
    if (text === undefined) expected('note', 'an object that can be written as JSON', fields)
    if (!fits(text)) expected('notes', `at most ${MAX_RESULT_BYTES} bytes as JSON`, fields)
    this.#own = own
    const written = (this.#writing ?? Promise.resolve()).then(() => this.#write(own, text))
    this.#writing = written.catch(() => {})
    await written
  }

  /** Those of earlier attempts go first if there is no room for all. */
  async #write(own: Fields, text: string): Promise<void> {
    this.#earlier ??= JSON.parse((await this.#place.read()) ?? '{}')
    const all = serialised({ ...this.#earlier, ...own })
    await this.#place.write(all !== undefined && fits(all) ? all : text)
  }
}

function fits(text: string): boolean {
  return Buffer.byteLength(text) <= MAX_RESULT_BYTES
}
