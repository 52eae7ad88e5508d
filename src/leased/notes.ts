import { expected, object } from '../base/index.ts'
import { MAX_RESULT_BYTES, serialised } from './effect-rules.ts'

type Fields = Readonly<Record<string, unknown>>

/** Where the notes of a message are stored, as JSON. */
interface NotesPlace {
  read(): Promise<string | null>
  write(notes: string): Promise<void>
}

/** The notes that attempts at a message leave for people to read. Of two fields with one name, the later one is kept. */
export class Notes {
  readonly #place: NotesPlace
  #own: Fields = {}
  /** The notes of earlier attempts, once they have been read. */
  #earlier: Fields | undefined
  #writing: Promise<unknown> | undefined

  constructor(place: NotesPlace) {
    this.#place = place
  }

  /** The last write, if there was one; it never rejects. */
  get writing(): Promise<unknown> | undefined {
    return this.#writing
  }

  /** Adds fields. Resolves when they are stored; rejects if they are no JSON, too long, or could not be written. */
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

  /** If there is no room for all, the notes of earlier attempts are dropped: those of this one are worth more. */
  async #write(own: Fields, text: string): Promise<void> {
    this.#earlier ??= JSON.parse((await this.#place.read()) ?? '{}')
    const all = serialised({ ...this.#earlier, ...own })
    await this.#place.write(all !== undefined && fits(all) ? all : text)
  }
}

function fits(text: string): boolean {
  return Buffer.byteLength(text) <= MAX_RESULT_BYTES
}
