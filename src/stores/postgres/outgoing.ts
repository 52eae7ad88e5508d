import { NotSent } from '../sql/index.ts'
import { type Cargo, carries, type Field, fly } from './flight.ts'
import type { PgClient, PgResult } from './pg.ts'
import type { PreparedNames } from './prepared.ts'
import { type MutableResult, type ResultKit, resultKit } from './result-kit.ts'
import type { Bound } from './wire.ts'

/**
 * The statements of a handler on their way to the server. Those that are sent in one moment travel together, and so do those that come
 * while others are under way; they run in the order in which they came. Without that, each would wait for the answer to the one before.
 */
export class Outgoing {
  readonly #client: PgClient
  readonly #names: PreparedNames
  readonly #kit: ResultKit | undefined
  #waiting: Departure[] = []
  #busy = false

  constructor(client: PgClient, names: PreparedNames) {
    this.#client = client
    this.#names = names
    this.#kit = resultKit(client)
  }

  send(text: string, params: readonly unknown[] | undefined): Promise<PgResult> {
    // Without values a text may hold several statements, and a client may get something else than a text: `pg` knows what to do.
    if (this.#kit === undefined || typeof text !== 'string' || !params?.length || params.length > MOST_VALUES) {
      if (!this.#busy && this.#waiting.length === 0) return this.#alone(text, params)
      return this.#departing((resolve, reject) => ({ send: () => this.#asPg(text, params).then(resolve, reject) }))
    }
    const kit = this.#kit
    return this.#departing((resolve, reject) => {
      const name = this.#names.ofRepeated(this.#client, text)
      return new HandlerStatement(kit, name, text, params.map(kit.mapValue), resolve, reject)
    })
  }

  /** Sends at once; what comes while it is under way waits here, because `pg` warns of a client that is busy. */
  #alone(text: string, params: readonly unknown[] | undefined): Promise<PgResult> {
    const answer = this.#client.query(text, params)
    if (!(answer instanceof Promise)) return answer
    this.#busy = true
    const next = (): void => process.nextTick(() => this.#next())
    answer.then(next, next)
    return answer
  }

  /** Asynchronous, because `pg` throws at once what it cannot take: nobody would catch that later. */
  async #asPg(text: string, params: readonly unknown[] | undefined): Promise<PgResult> {
    return this.#client.query(text, params)
  }

  /** Sends all that has come so far: the client is about to be used for something else, which `pg` puts behind it. */
  depart(): void {
    while (this.#waiting.length > 0) this.#next()
  }

  #departing(departure: (resolve: (result: PgResult) => void, reject: (error: unknown) => void) => Departure) {
    const sent = new Promise<PgResult>((resolve, reject) => {
      this.#waiting.push(departure(resolve, reject))
      this.#schedule()
    })
    // An error comes from the socket; what matters is which statement it belongs to.
    return sent.catch((error: unknown) => {
      if (error instanceof Error) Error.captureStackTrace(error)
      throw error
    })
  }

  /** Not at once: the rest of this moment may have more to send. */
  #schedule(): void {
    if (this.#busy) return
    this.#busy = true
    process.nextTick(() => this.#next())
  }

  #next(): void {
    const departures = this.#take()
    if (departures.length === 0) {
      this.#busy = false
      return
    }
    const [first] = departures
    const sent = first instanceof HandlerStatement ? this.#fly(departures.filter(isStatement)) : first?.send()
    // Those who waited go on first, and may send more.
    sent?.then(() => process.nextTick(() => this.#next()))
  }

  /** Statements that can travel together, from the first one on; or something else, alone. */
  #take(): readonly Departure[] {
    const end = this.#waiting.findIndex((each) => !isStatement(each))
    return this.#waiting.splice(0, end === -1 ? this.#waiting.length : Math.max(1, end))
  }

  async #fly(statements: readonly HandlerStatement[]): Promise<void> {
    try {
      if (!carries(this.#client)) throw new Error('the client of this transaction has changed')
      await fly(this.#client, statements)
      for (const statement of statements) statement.settle(undefined)
    } catch (thrown) {
      const error = thrown instanceof NotSent ? thrown.cause : thrown
      const ended = statements.findIndex((statement) => !statement.done)
      for (const [index, statement] of statements.entries()) statement.settle(index === ended ? error : behind(error))
    }
  }
}

/** `pg` takes the number in a description of more for a negative one, and throws where nobody can catch it. */
const MOST_VALUES = 32_767

/** A statement, or something that travels alone. */
type Departure = HandlerStatement | { send(): Promise<void> }

function isStatement(departure: Departure): departure is HandlerStatement {
  return departure instanceof HandlerStatement
}

/** The error of statements behind one that failed: what the server says if they are sent one by one. */
function behind(error: unknown): unknown {
  if (typeof error !== 'object' || error === null || !('severity' in error) || error.severity !== 'ERROR') return error
  const what = 'current transaction is aborted, commands ignored until end of transaction block'
  return Object.assign(new Error(what, { cause: error }), { severity: 'ERROR', code: '25P02' })
}

/** A handler's statement, whose result is what `pg` would make of it. */
class HandlerStatement implements Cargo {
  readonly name: string
  readonly text: string
  readonly values: readonly Bound[]
  /** Whether the server has run it. */
  done = false
  readonly #result: MutableResult
  readonly #resolve: (result: PgResult) => void
  readonly #reject: (error: unknown) => void
  #thrown: { readonly error: unknown } | undefined

  constructor(
    kit: ResultKit,
    name: string,
    text: string,
    values: readonly Bound[],
    resolve: (result: PgResult) => void,
    reject: (error: unknown) => void,
  ) {
    this.name = name
    this.text = text
    this.values = values
    this.#result = kit.result()
    this.#resolve = resolve
    this.#reject = reject
  }

  columns(fields: readonly Field[]): void {
    this.#result.addFields(fields)
  }

  row(values: readonly (string | null)[]): void {
    try {
      this.#result.addRow(this.#result.parseRow(values))
    } catch (error) {
      // A type parser of the user's threw. The statement itself has run.
      this.#thrown ??= { error }
    }
  }

  complete(tag: string): void {
    this.done = true
    this.#result.addCommandComplete({ text: tag })
  }

  /** When the whole flight has ended; `error` is that of a statement which has not run. */
  settle(error: unknown): void {
    if (!this.done) this.#reject(error)
    else if (this.#thrown !== undefined) this.#reject(this.#thrown.error)
    else this.#resolve(this.#result)
  }
}
