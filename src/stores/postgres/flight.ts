// Several statements in one round trip. `pg` sends one statement with values at a time; a flight is a query object of our own, as
// `pg-cursor` is one, that writes all of them at once, with one Sync: a failing statement stops the rest, as in a script.

import { unstorable } from '../../base/index.ts'
import { NotSent } from '../sql/index.ts'
import { type Bound, FlightWriter } from './wire.ts'

/** A column, as the server describes it. */
export interface Field {
  readonly name: string
  readonly dataTypeID: number
}

/** One statement of a flight, and what takes its result. */
export interface Cargo {
  /** The name under which the server keeps its plan; empty: it is parsed and planned each time. */
  readonly name: string
  readonly text: string
  readonly values: readonly Bound[]
  columns(fields: readonly Field[]): void
  row(values: readonly (string | null)[]): void
  /** `tag` is what the server says of a command that is done, such as `INSERT 0 1`. */
  complete(tag: string): void
}

/** What the flights of one client share. */
class Link {
  /** Columns of the statements that the server knows by name. */
  readonly known: Map<string, readonly Field[]> = new Map()
  /** The flight that is under way. */
  flight: Flight | undefined

  constructor(connection: PgWire) {
    connection.on('parseComplete', () => this.flight?.parsed())
  }
}

/** What flights use of the connection inside a client of `pg`. */
interface PgWire {
  readonly stream: { write(bytes: Uint8Array): unknown }
  on(event: 'parseComplete', listener: () => void): unknown
  sendCopyFail(message: string): void
}

/** A client that takes query objects. */
interface Carrier {
  readonly connection: PgWire
  query(flight: Flight): unknown
}

const links = new WeakMap<object, Link>()

/**
 * Whether flights can be sent by this client. One on native bindings, and what only looks like `pg`, cannot; nor can one whose `query` was
 * replaced by a plugin, which expects a promise.
 */
export function carries(client: object): client is Carrier {
  if (Object.hasOwn(client, 'query')) return false
  if (links.has(client)) return true
  const { connection, native }: { connection?: Partial<PgWire>; native?: unknown } = client
  if (native || typeof connection?.on !== 'function' || typeof connection.sendCopyFail !== 'function') return false
  return typeof connection.stream?.write === 'function'
}

/** Sends statements together. Rejects with the error of the first one that failed; those behind it were not run. */
export function fly<C extends Cargo>(client: Carrier, cargo: readonly C[]): Promise<readonly C[]> {
  return new Promise((resolve, reject) => {
    client.query(new Flight(linkOf(client), cargo, (error) => (error === undefined ? resolve(cargo) : reject(error))))
  })
}

function linkOf(client: Carrier): Link {
  let link = links.get(client)
  if (link === undefined) {
    link = new Link(client.connection)
    links.set(client, link)
  }
  return link
}

/** The query object. Its methods are called by the client, one after the other as the answers come. */
class Flight {
  /** The client wraps it when its queries have a time limit. */
  callback: (error: unknown) => void
  readonly #link: Link
  readonly #cargo: readonly Cargo[]
  /** The names that are being parsed, in their order. */
  readonly #parsing: string[] = []
  /** The last statement without a name: it can be bound again as long as none is parsed after it. */
  #unnamed: { readonly text: string; fields: readonly Field[] } | undefined
  #at = 0

  constructor(link: Link, cargo: readonly Cargo[], ended: (error: unknown) => void) {
    this.#link = link
    this.#cargo = cargo
    this.callback = ended
  }

  submit(connection: PgWire): Error | null {
    try {
      const bytes = this.#written()
      this.#link.flight = this
      this.#enter()
      connection.stream.write(bytes)
      return null
    } catch (error) {
      return new NotSent(error instanceof Error ? unsent(error) : error)
    }
  }

  #written(): Buffer {
    const writer = new FlightWriter()
    const fresh = new Set<string>()
    let unnamed: string | undefined
    for (const { name, text, values } of this.#cargo) {
      const there = name === '' ? text === unnamed : fresh.has(name) || this.#link.known.has(name)
      if (!there) {
        writer.parse(name, text)
        writer.describe(name)
        this.#parsing.push(name)
        if (name === '') unnamed = text
        else fresh.add(name)
      }
      writer.execute(name, values)
    }
    return writer.sync()
  }

  /** A statement was parsed, and stays so even if the transaction is rolled back. */
  parsed(): void {
    const name = this.#parsing.shift()
    if (name === undefined) return
    if (name === '') this.#unnamed = { text: this.#cargo[this.#at]?.text ?? '', fields: NO_FIELDS }
    else this.#link.known.set(name, NO_FIELDS)
  }

  handleRowDescription({ fields }: { readonly fields: readonly Field[] }): void {
    const cargo = this.#cargo[this.#at]
    if (cargo === undefined) return
    if (cargo.name !== '') this.#link.known.set(cargo.name, fields)
    else if (this.#unnamed !== undefined) this.#unnamed.fields = fields
    cargo.columns(fields)
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    this.#cargo[this.#at]?.row(fields)
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    this.#cargo[this.#at]?.complete(text)
    this.#at += 1
    this.#enter()
  }

  handleEmptyQuery(): void {
    this.handleCommandComplete({ text: '' })
  }

  handleReadyForQuery(): void {
    this.#link.flight = undefined
    this.callback(undefined)
  }

  handleError(error: unknown): void {
    this.#link.flight = undefined
    this.callback(error)
  }

  handleCopyInResponse(connection: PgWire): void {
    connection.sendCopyFail('a flight has nothing to copy')
  }

  handleCopyData(): void {}

  handlePortalSuspended(): void {}

  /** The server describes a statement only when it is parsed. */
  #enter(): void {
    const cargo = this.#cargo[this.#at]
    if (cargo === undefined) return
    const fields = cargo.name !== '' ? this.#link.known.get(cargo.name) : this.#again(cargo)
    if (fields !== undefined && fields.length > 0) cargo.columns(fields)
  }

  #again({ text }: Cargo): readonly Field[] | undefined {
    return this.#unnamed?.text === text ? this.#unnamed.fields : undefined
  }
}

/** A text has an end in JavaScript, and so has a buffer. */
function unsent(error: Error): Error {
  return error instanceof RangeError ? unstorable(error) : error
}

const NO_FIELDS: readonly Field[] = []
