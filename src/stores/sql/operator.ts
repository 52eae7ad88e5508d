import type { Random } from '../../base/index.ts'
import { HapaxError, isHapaxError } from '../../base/index.ts'
import type {
  Audit,
  AuditSubject,
  Cleanable,
  CleanablePage,
  Cleaned,
  CleanupStep,
  FailedFilter,
  FailedGroup,
  FailedMessage,
  FailedWhere,
  Finding,
  HeldKey,
  Origin,
  Result,
  Row,
  SentFilter,
  SentMessage,
  SentWhere,
  Statement,
  Store,
} from '../../contracts/index.ts'
import type { StoredMessage } from '../../message/index.ts'
import { laneOf } from '../../message/index.ts'
import type { Dialect } from './dialect/dialect.ts'
import type { LeaseDialect } from './dialect/leases.ts'
import type { OperatorDialect } from './dialect/operator.ts'
import { asFailed, asGroup, asHeldKey, asLocked, asSent, asSubscription } from './operator-rows.ts'
import { asMessage, asSeq, asText } from './values.ts'

/** How statements reach the database. */
export interface OperatorTools {
  /** One statement; it may be repeated. */
  run(statement: Statement): Promise<Result>
  /** One transaction: a statement, and those that follow from its answer; undefined rolls back. Resolves to that answer. */
  short(first: Statement, then: (answer: Result) => readonly Statement[] | undefined): Promise<Result>
  readonly random: Random
}

/** How often a change is tried when others are in its way, or the link breaks. */
const MAX_RUNS = 5

type Operations =
  | 'subscriptions'
  | 'unsubscribe'
  | 'moveRelay'
  | 'failedList'
  | 'failedCount'
  | 'failedGroups'
  | 'failedSeqs'
  | 'failedGet'
  | 'failedRetry'
  | 'failedEdit'
  | 'failedDiscard'
  | 'heldKeys'
  | 'releaseKey'
  | 'sentList'
  | 'sentSeqs'
  | 'sentRepublish'
  | 'cleanup'
  | 'cleanable'
  | 'audit'
  | 'checkup'

/**
 * What people do by hand. Every change is one short transaction: it locks the row that it is about,
 * so of two people one finds nothing, and writes what it did to the audit.
 *
 * When the link breaks during the commit, nobody knows whether it happened. The change is then made again: if its row is
 * still there, it had not happened, and happens now. If the row is gone, it did happen, by this call or by somebody else's
 * in between: that cannot be told, and is reported as `commit-unknown`. (An edit can be told by the id it left behind.)
 */
export class SqlOperator implements Pick<Store<never>, Operations> {
  readonly #dialect: Dialect
  readonly #sql: OperatorDialect
  readonly #leases: LeaseDialect
  readonly #tools: OperatorTools

  constructor(dialect: Dialect, tools: OperatorTools) {
    this.#dialect = dialect
    this.#sql = dialect.operator
    this.#leases = dialect.leases
    this.#tools = tools
  }

  async subscriptions(): Promise<readonly { consumer: string; type: string; ordered: boolean }[]> {
    return (await this.#rows(this.#sql.subscriptions)).map(asSubscription)
  }

  unsubscribe(consumer: string, audit: Audit): Promise<boolean> {
    return this.#change(this.#sql.lockSubscriptions(consumer), () => [
      this.#sql.unsubscribe(consumer),
      this.#sql.auditOther(audit, { consumer }),
    ])
  }

  /** Made again, it says the same; only the audit has it twice. */
  async moveRelay(name: string, destination: string, audit: Audit): Promise<void> {
    const about: AuditSubject = { origin: 'outbox', consumer: name }
    await this.#tools.short(this.#sql.moveRelay(name, destination), () => [this.#sql.auditOther(audit, about)])
  }

  async failedList(filter: FailedFilter): Promise<readonly FailedMessage[]> {
    return (await this.#rows(this.#sql.failedList(filter))).map(asFailed)
  }

  async failedCount(where: FailedWhere): Promise<number> {
    return this.#count(this.#sql.failedCount(where))
  }

  async failedGroups(where: FailedWhere, limit: number): Promise<readonly FailedGroup[]> {
    return (await this.#rows(this.#sql.failedGroups(where, limit))).map(asGroup)
  }

  async failedSeqs(where: FailedWhere, after: string | undefined, limit: number): Promise<readonly string[]> {
    return (await this.#rows(this.#sql.failedSeqs(where, after, limit))).map((row) => asSeq(row['seq']))
  }

  async failedGet(seq: string): Promise<FailedMessage | undefined> {
    const [row] = await this.#rows(this.#sql.failedGet(seq))
    return row && asFailed(row)
  }

  failedRetry(seq: string, audit: Audit): Promise<boolean> {
    const sql = this.#sql
    return this.#change(sql.failedLock(seq, false), (row) => {
      const { origin, held } = asLocked(row)
      return [
        held === null ? sql.copyBack(seq, origin) : sql.unhold(origin, held),
        sql.auditFailed(seq, audit),
        sql.deleteFailed(seq),
      ]
    })
  }

  async failedEdit(seq: string, message: StoredMessage, audit: Audit): Promise<boolean> {
    const failed = await this.failedGet(seq)
    if (failed === undefined) return false
    if (failed.origin === 'inbox') await this.#assertNew(failed.consumer, message)
    return this.#change(
      this.#sql.failedLock(seq, false),
      (row) => this.#edit(seq, message, audit, row),
      async () => (await this.failedGet(seq))?.replacedBy === message.id,
    )
  }

  #edit(seq: string, message: StoredMessage, audit: Audit, row: Row): readonly Statement[] {
    const sql = this.#sql
    const { origin, consumer, held } = asLocked(row)
    const place = held === null ? sql.copyEdited(seq, origin, message) : sql.replaceHeld(origin, held, message)
    const receipt = origin === 'inbox' ? [sql.insertReceipt(consumer, this.#tools.random.token(), message)] : []
    return [...receipt, place, sql.auditFailed(seq, audit), sql.failedReplaced(seq, message.id)]
  }

  /** The receipt's key decides at last; this is for a clear word in time. */
  async #assertNew(consumer: string, { messageKey, id }: StoredMessage): Promise<void> {
    const taken = await this.#rows(this.#dialect.receipts(consumer, [messageKey]))
    if (taken.length === 0) return
    throw new HapaxError('conflict', `expected a new id, but ${consumer} has taken a message with the id ${id}`, {
      fields: { consumer, id },
    })
  }

  failedDiscard(seq: string, audit: Audit): Promise<boolean> {
    const sql = this.#sql
    return this.#change(sql.failedLock(seq, true), (row) => {
      const { origin, held } = asLocked(row)
      return [
        ...(held === null ? [] : this.#deleteHeld(origin, held)),
        sql.auditFailed(seq, audit),
        sql.deleteFailed(seq),
      ]
    })
  }

  async heldKeys(limit: number): Promise<readonly HeldKey[]> {
    return (await this.#rows(this.#sql.heldKeys(limit))).map(asHeldKey)
  }

  releaseKey(origin: Origin, scope: string, key: string, audit: Audit): Promise<boolean> {
    const sql = this.#sql
    return this.#change(sql.lockHeld(origin, scope, key), (row) => {
      const seq = asSeq(row['seq'])
      const [source, id, type] = [asText(row['source']), asText(row['id']), asText(row['type'])]
      return [
        ...(row['failed_seq'] == null ? [sql.heldToFailed(origin, seq)] : []),
        sql.failedLetGo(origin, seq),
        ...this.#deleteHeld(origin, seq),
        sql.auditOther(audit, { origin, consumer: scope, source, id, type }),
      ]
    })
  }

  /** What stands aside behind it is looked at from now on. */
  #deleteHeld(origin: Origin, seq: string): readonly Statement[] {
    return [this.#dialect.aside.forwardBehind(origin, [seq]), this.#sql.deleteHeld(origin, seq)]
  }

  async sentList(filter: SentFilter): Promise<readonly SentMessage[]> {
    return (await this.#rows(this.#sql.sentList(filter))).map(asSent)
  }

  async sentSeqs(where: SentWhere, after: string | undefined, limit: number): Promise<readonly string[]> {
    return (await this.#rows(this.#sql.sentSeqs(where, after, limit))).map((row) => asSeq(row['seq']))
  }

  /** Made again, it is published once more under the same id, as any message of the outbox may be. */
  sentRepublish(seq: string, audit: Audit): Promise<boolean> {
    return this.#change(this.#sql.sentGet(seq), (row) => {
      const message = asMessage(row)
      const { source, id, type } = message
      return [
        this.#sql.republish(seq, laneOf(message, true)),
        this.#sql.auditOther(audit, { origin: 'outbox', consumer: asText(row['relay']), source, id, type }),
      ]
    })
  }

  async cleanup(step: CleanupStep, olderThanMs: number, limit: number): Promise<Cleaned> {
    const cleaned = await this.#sql.cleanup((statement) => this.#tools.run(statement), step, olderThanMs, limit)
    if (step.kind !== 'receipts') return cleaned
    // The journal of a message goes when its receipt has gone; here or in a later round.
    await this.#tools.run(this.#leases.forget(step.consumer, step.after ?? FIRST_KEY, cleaned.after ?? LAST_KEY))
    return cleaned
  }

  cleanable(consumer: string, olderThanMs: number, page: CleanablePage): Promise<Cleanable> {
    return this.#sql.cleanable((statement) => this.#tools.run(statement), consumer, olderThanMs, page)
  }

  async audit(audit: Audit, about: AuditSubject): Promise<void> {
    await this.#tools.run(this.#sql.auditOther(audit, about))
  }

  checkup(): Promise<readonly Finding[]> {
    return this.#sql.checkup((statement) => this.#tools.run(statement))
  }

  async #rows(statement: Statement): Promise<readonly Row[]> {
    return (await this.#tools.run(statement)).rows
  }

  async #count(statement: Statement): Promise<number> {
    return Number((await this.#rows(statement))[0]?.['count'] ?? 0)
  }

  /** One change of the row that `first` finds; false: it finds none. `mine` tells whether a lost commit was ours. */
  async #change(
    first: Statement,
    then: (row: Row) => readonly Statement[],
    mine: () => Promise<boolean> = () => Promise.resolve(false),
  ): Promise<boolean> {
    let unknown: unknown
    for (let run = 1; ; run++) {
      let sent = false
      const follow = ({ rows: [row] }: Result): readonly Statement[] | undefined => {
        sent = row !== undefined
        return row && then(row)
      }
      try {
        const { rows } = await this.#tools.short(first, follow)
        if (rows.length > 0) return true
        if (unknown === undefined) return false
        if (await mine()) return true
        throw commitUnknown(unknown)
      } catch (error) {
        if (sent && isLost(error)) unknown = error
        const again = error === unknown || isHapaxError(error, 'transaction-conflict')
        if (!again || run === MAX_RUNS) throw unknown === undefined ? error : commitUnknown(unknown)
      }
    }
  }
}

/** Whether the link was lost: if that was after the last statements were sent, they may have been committed. */
function isLost(error: unknown): boolean {
  return (['commit-unknown', 'store-unavailable', 'transaction-lost'] as const).some((code) =>
    isHapaxError(error, code),
  )
}

function commitUnknown(cause: unknown): HapaxError {
  return new HapaxError(
    'commit-unknown',
    'the connection was lost while committing, and it could not be learnt whether this call made the change: look at the message before it is made again',
    { cause },
  )
}

/** Keys of messages are UUIDs. */
const FIRST_KEY = '00000000-0000-0000-0000-000000000000'
const LAST_KEY = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
