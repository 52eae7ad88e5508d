// Observes the commands sent on a `mysql2` connection by promises, callbacks or an ORM: all of them pass through one method.

import { MYSQL_SAVEPOINTS, Reaching, reachOf } from './reach.ts'

/** A statement, or another command of the protocol. */
interface Command {
  readonly sql?: unknown
  /** The text of a statement that is being prepared. */
  readonly query?: unknown
  /** Of one that was prepared before. */
  readonly statement?: { readonly query?: unknown } | undefined
  /** Begins to send it; null: there is nothing to wait for. */
  start?: (...args: unknown[]) => unknown
  readonly onResult?: ((error: unknown) => void) | null
  emit?(event: 'error', error: unknown): unknown
}

interface Packet {
  offset: number
  isError(): boolean
  asError(encoding: unknown): { readonly errno?: unknown }
}

/** The connection that the promise API wraps. */
interface Link {
  addCommand(command: Command): unknown
  handlePacket?: (packet?: Packet) => unknown
  readonly clientEncoding?: unknown
  readonly config?: { readonly multipleStatements?: unknown; readonly clientFlags?: unknown }
}

const known = new WeakMap<object, MysqlSent>()

/** Observes a `mysql2` connection from now on; undefined: its commands cannot be observed. */
export function mysqlSent(client: object): MysqlSent | undefined {
  const { connection = client }: { connection?: object } = client
  const before = known.get(connection)
  if (before !== undefined || !isLink(connection)) return before
  const sent = new MysqlSent(connection)
  known.set(connection, sent)
  return sent
}

function isLink(connection: object): connection is Link {
  return 'addCommand' in connection && typeof connection.addCommand === 'function'
}

/** What the handlers of a transaction send on a connection. */
export class MysqlSent {
  /** Whether something was sent, since they began, that may end a transaction. */
  mayHaveEnded = false
  #reaching: Reaching | undefined
  /** Whether they have a transaction on this connection. */
  #open = false
  /** Whether they may still send something: what ends the transaction afterwards is not theirs. */
  #running = true
  /** What the server has ended it by: statements behind that would commit by themselves. */
  #end: { readonly error: unknown } | undefined

  constructor(link: Link) {
    const several = takesSeveral(link)
    const { addCommand, handlePacket } = link
    link.addCommand = (command) => {
      this.#note(command, several)
      return addCommand.call(link, command)
    }
    // Here and not where its sender gets it: the next statement of the queue is sent before that.
    link.handlePacket = (packet) => {
      if (this.#open && packet?.isError()) this.#failed(packet, link.clientEncoding)
      return handlePacket?.call(link, packet)
    }
  }

  /** How far it reaches, from the first time that this is asked for: most of what is sent is looked at elsewhere. */
  get reaching(): Reaching {
    this.#reaching ??= new Reaching()
    return this.#reaching
  }

  /** What is sent from now on is of handlers, inside a transaction. */
  begin(): void {
    this.mayHaveEnded = false
    this.#open = true
    this.#running = true
    this.#end = undefined
  }

  /** They have ended: what is sent from now on ends their transaction. */
  ended(): void {
    this.#running = false
  }

  /** Their transaction is over. */
  over(): void {
    this.#open = false
    this.#end = undefined
  }

  #note(command: Command, several: boolean): void {
    const text = textOf(command)
    if (text === undefined) {
      if (Object.getPrototypeOf(command)?.constructor?.name !== 'CloseStatement') this.#mayEnd()
      return
    }
    if (!keepsOpen(text, several)) this.#mayEnd()
    this.#reaching?.add(reachOf(text, MYSQL_SAVEPOINTS))
    if (this.#open) this.#hold(command, typeof text === 'string' && ROLLBACK.test(text))
  }

  #mayEnd(): void {
    this.mayHaveEnded ||= this.#running
  }

  /** Once the server has ended the transaction, a statement fails as the one did by which that came, and is not sent. */
  #hold(command: Command, isRollback: boolean): void {
    const { start } = command
    // `mysql2` skips what could not be prepared, by a method of its own.
    if (start === undefined || Object.hasOwn(command, 'start')) return
    command.start = (...args) => {
      if (isRollback) this.over()
      if (this.#end === undefined) return start.apply(command, args)
      if (command.onResult) command.onResult(this.#end.error)
      else command.emit?.('error', this.#end.error)
      return null
    }
  }

  #failed(packet: Packet, encoding: unknown): void {
    const { offset } = packet
    const error = packet.asError(encoding)
    packet.offset = offset
    if (ENDING.has(error.errno)) this.#end ??= { error }
  }
}

function textOf({ sql, query, statement }: Command): unknown {
  return sql ?? query ?? statement?.query
}

/** By the option of `mysql2`, or by the flag of the protocol. */
function takesSeveral({ config }: Link): boolean {
  const flags = config?.clientFlags
  return config?.multipleStatements === true || (typeof flags === 'number' && (flags & MULTI_STATEMENTS) !== 0)
}

const MULTI_STATEMENTS = 65_536

/**
 * Whether a statement cannot have ended a transaction, nor begun to: one that reads or writes rows. On MySQL a procedure can commit,
 * a function or a trigger cannot.
 */
export function keepsOpen(text: unknown, several: boolean): boolean {
  if (typeof text !== 'string') return false
  return BORDER.test(text) || (ROWS.test(text) && !(several && text.includes(';')))
}

/** The guard of hapax, moved on between two messages of a group. */
const BORDER =
  /^\/\*(?:!\d+ release savepoint hapax \*\/|M!\d+ begin not atomic release savepoint hapax; \*\/ savepoint hapax \/\*M!\d+ ; end \*\/)$/

const ROWS =
  /^(?:\s|\(|--(?=\s)[^\n]*\n|#[^\n]*\n|\/\*(?![!M])[^*]*\*\/|\/\*M!\d+ set statement innodb_lock_wait_timeout = \S+ for \*\/)*(?:select|insert|update|delete|replace|with|values|do|savepoint|release\s+savepoint|rollback\s+to)\b/i

const ROLLBACK = /^\s*rollback(?:\s+work)?\s*;?\s*$/i

/** Errors after which InnoDB has rolled back everything: ER_LOCK_DEADLOCK, ER_CHECKREAD, ER_AUTOINC_READ_FAILED. */
const ENDING: ReadonlySet<unknown> = new Set([1213, 1020, 1467])
