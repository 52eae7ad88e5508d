// What differs between databases when an ORM is in between: how a session is looked at before it is used, and how it is ended from inside.

import { type Isolation, WriterQueue } from '../../base/index.ts'
import type { Param, Result, SqlDatabase, Statement, TransactionOptions } from '../../contracts/index.ts'
import {
  asBoolean,
  asNumber,
  assertLocks,
  assertMode,
  asText,
  BUSY_TIMEOUT_MS,
  Changed,
  isAsBefore,
  MYSQL_ONLY,
  mysqlReset,
  mysqlSession,
  mysqlSuited,
  OpenedFile,
  Patience,
  placed,
  SESSION,
  withoutNumbers,
} from '../../stores/sql/index.ts'

/** Sends one statement in the transaction that is being opened. */
export type Send = (statement: Statement) => Promise<Result>

/** The options of a transaction that a database with one writer looks at. */
type Turns = Pick<TransactionOptions, 'signal' | 'lockTimeoutMs'>

/** What a database needs around the transactions of an ORM. */
export interface Ground {
  /** Runs a whole transaction, or a statement outside of any: one after the other where there is one writer. */
  during<T>(options: Turns, run: () => Promise<T>): Promise<T>
  /** The ORM has begun a transaction: makes it one that hapax can use. */
  begin(options: Turns, send: Send): Promise<void>
  /** Statements that come before all others. Their answers go to `opened`. */
  readonly first: readonly Statement[]
  /** Throws `Changed` if a handler has left something behind in the session: it is ended, and another one does the work. */
  opened(client: object | undefined, answer: Result | undefined, send: Send): Promise<void> | void
  /** A statement as every driver of this database takes it; undefined: this database leaves it out. */
  form(statement: Statement): Statement | undefined
  /** Undoes what an opening that has failed leaves behind in the session. */
  readonly afterFailure: Statement | undefined
  /** Ends the session in which it is sent; undefined: that must not be done. */
  readonly kill: Statement | undefined
  /** The level for transactions that ask for none. */
  readonly isolation: Isolation | undefined
  readonly mostBytes: number
  /**
   * Whether a statement outside of transactions commits by itself. A session of MySQL whose autocommit is off, from the start or since a
   * handler has turned it off, would keep its locks and its view of the rows until something else ends the transaction.
   */
  readonly commits: boolean
}

/** What is needed on this database; one for each connection, because it learns. */
export function groundOf(database: SqlDatabase, killable: boolean): Ground {
  if (database === 'postgres') return new PostgresGround(killable)
  return database === 'mysql' ? new MysqlGround(killable) : new SqliteGround()
}

const UNCHANGED = (statement: Statement): Statement => statement
const AT_ONCE = <T>(_: Turns, run: () => Promise<T>): Promise<T> => run()
const AS_IT_IS = (): Promise<void> => Promise.resolve()

class PostgresGround implements Ground {
  readonly during = AT_ONCE
  readonly begin = AS_IT_IS
  readonly first: readonly Statement[] = [
    { text: SESSION.text.replace(/ as state$/, ' as state, pg_backend_pid() as session'), params: [] },
  ]
  readonly form = UNCHANGED
  readonly afterFailure = undefined
  readonly kill: Statement | undefined
  readonly isolation = undefined
  readonly commits = true
  /** Bytes travel as two hexadecimal digits each, and a JavaScript string holds half a gigabyte at most. */
  readonly mostBytes: number = 2 ** 28 - 2 ** 16
  /** Stands for clients that cannot be reached, by the number of their backend. */
  readonly #backends = new Map<number, object>()

  constructor(killable: boolean) {
    this.kill = killable ? { text: 'select pg_terminate_backend(pg_backend_pid())', params: [] } : undefined
  }

  opened(client: object | undefined, answer: Result | undefined): void {
    // A session that cannot be ended would come again and again.
    if (client === undefined && this.kill === undefined) return
    if (!isAsBefore(client ?? this.#backend(answer), answer)) throw new Changed()
  }

  #backend(answer: Result | undefined): object {
    const pid = asNumber(answer?.rows[0]?.['session'])
    const known = this.#backends.get(pid) ?? {}
    // Numbers of backends that are gone: to forget the others too only means to trust them once more.
    if (this.#backends.size >= REMEMBERED) this.#backends.clear()
    this.#backends.set(pid, known)
    return known
  }
}

const REMEMBERED = 1_000

class MysqlGround implements Ground {
  readonly during = AT_ONCE
  readonly begin = AS_IT_IS
  readonly first: readonly Statement[] = [mysqlSession.question]
  readonly afterFailure: Statement = mysqlReset
  readonly kill: Statement | undefined
  readonly commits = false
  isolation: Isolation | undefined
  mostBytes: number = Number.POSITIVE_INFINITY
  #mariadb = false

  constructor(killable: boolean) {
    this.kill = killable ? { text: 'kill connection_id()', params: [] } : undefined
  }

  readonly form = (statement: Statement): Statement | undefined =>
    this.#mariadb && statement.text.startsWith(MYSQL_ONLY) ? undefined : statement

  async opened(_client: object | undefined, answer: Result | undefined, send: Send): Promise<void> {
    const row = answer?.rows[0]
    this.#mariadb = /mariadb/i.test(asText(row?.['version']))
    // Most drivers write bytes into the text, as two digits each.
    this.mostBytes = asNumber(row?.['packet']) / 2 - MARGIN
    if (/uncommitted/i.test(asText(row?.['isolation'])) && this.isolation === undefined) {
      // Begun at a level that hapax cannot work on: begun again at the next one.
      this.isolation = 'read committed'
      throw new Changed()
    }
    assertLocks(asText(row?.['version']))
    assertMode(asText(row?.['sql_mode']))
    if (asBoolean(row?.['unsuited'])) await send(mysqlSuited)
    if (row?.['link'] === null) await send(mysqlSession.mark())
  }
}

/** Room for what surrounds the values. */
const MARGIN = 1024

class SqliteGround implements Ground {
  readonly first = []
  readonly afterFailure = undefined
  readonly kill = undefined
  readonly isolation = undefined
  readonly commits = true
  /** What SQLite takes unless it was built otherwise. */
  readonly mostBytes = 1_000_000_000 - MARGIN
  readonly #queue = new WriterQueue()
  /** Null: in memory. Undefined: no transaction has begun yet. */
  #file: OpenedFile | null | undefined
  opened(): void {}

  /** Not every driver binds numbered parameters by position. */
  form({ text, params }: Statement): Statement {
    const { text: plain, places } = withoutNumbers(text)
    return places === undefined ? { text, params } : { text: plain, params: placed(places, params).map(orNull) }
  }

  async during<T>({ signal, lockTimeoutMs }: Turns, run: () => Promise<T>): Promise<T> {
    this.#file?.assertThere()
    const turn = await new Patience(lockTimeoutMs, signal).turn(this.#queue)
    try {
      return await turn.run(run)
    } finally {
      turn.end()
    }
  }

  /** Begun anew as a writer: one that reads first could not write once another has written. Other processes are waited for. */
  async begin({ signal, lockTimeoutMs }: Turns, send: Send): Promise<void> {
    await send(ROLLBACK)
    if (this.#file === undefined) this.#file = openedFile(await send(FILE))
    const { rows } = await send({ text: 'pragma busy_timeout', params: [] })
    const usual = asNumber(Object.values(rows[0] ?? {})[0] ?? 0)
    // SQLite itself would block the event loop while it waits, also for another connection of this process.
    await send(patient(BUSY_TIMEOUT_MS))
    try {
      await new Patience(lockTimeoutMs, signal).untilDone(() => send(BEGIN))
    } finally {
      await send(patient(usual))
    }
  }
}

function patient(ms: number): Statement {
  return { text: `pragma busy_timeout = ${Math.trunc(ms)}`, params: [] }
}

function orNull(value: Param | null | undefined): Param {
  return value ?? null
}

function openedFile({ rows }: Result): OpenedFile | null {
  const file = rows[0]?.['file']
  return typeof file === 'string' && file !== '' ? new OpenedFile(file) : null
}

const FILE: Statement = { text: `select file from pragma_database_list where name = 'main'`, params: [] }
const ROLLBACK: Statement = { text: 'rollback', params: [] }
const BEGIN: Statement = { text: 'begin immediate', params: [] }
