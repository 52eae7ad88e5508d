import type { AuditRow, Change, Commit, Effect, FailedRecord, LeavingRow, ReceiptRow, WaitingRow } from './database.ts'
import { checkLeases, type Outside } from './lease-checker.ts'
import type { Ack, Arrival } from './sim-broker.ts'

/** What a message should have come to, by what its handler does. */
export type Expected = 'effect' | 'failed' | 'either'

/** A message that a consumer was given, by a broker or locally. */
interface Offered {
  readonly consumer: string
  readonly source: string
  readonly id: string
  readonly expected: Expected
  /** Its handler, or another one in its transaction, commits behind our back. */
  readonly breaks: boolean
  /** Another handler committed behind our back and then the process died, or its link: nobody could write it down. */
  readonly mayVanish: boolean
}

/** Everything that is known about a history. */
export interface Evidence {
  readonly commits: readonly Commit[]
  readonly acks: readonly Ack[]
  readonly arrivals: readonly Arrival[]
  readonly offered: readonly Offered[]
  /** Ids of messages whose handlers were cut off, where nobody could tell what became of their transactions. */
  readonly cutOff: ReadonlySet<string>
  /** Consumers whose handlers publish one message with each effect. */
  readonly publishing: ReadonlySet<string>
  /** What leased handlers did outside. */
  readonly outside?: Outside | undefined
  /** Why it did not come to rest, if it did not. */
  readonly unsettled: string | undefined
}

/** An invariant of FAILURES that does not hold. */
export interface Violation {
  readonly invariant: 'I1' | 'I2' | 'I3' | 'I4' | 'I5' | 'I6' | 'I7' | 'I8'
  readonly what: string
}

/** The type of what a consumer's hook publishes when a message has failed for good. */
export const GIVEN_UP = 'given up'
/** Failures that are not final: hooks are not called for them. */
const UNDECIDED: readonly string[] = ['broken-atomicity', 'unknown-effect', 'conflict']

/** Checks the invariants I1 to I8 of a history; I3 is about leased consumers. */
export function check(evidence: Evidence): readonly Violation[] {
  const { commits, outside } = evidence
  const violations = new Checker(evidence).check()
  return outside === undefined ? violations : [...violations, ...checkLeases(commits, outside)]
}

/** When a row was written, and when that was committed. */
interface Times {
  readonly writtenAt: number
  readonly committedAt: number
}

interface Known<Row> extends Times {
  readonly row: Row
}

/** A commit as the checks read it. */
interface Reading {
  readonly at: number
  readonly effects: readonly { effect: Effect; writtenAt: number }[]
  readonly receipts: readonly ReceiptRow[]
  readonly inboxIn: readonly Known<WaitingRow>[]
  readonly inboxOut: readonly WaitingRow[]
  readonly failedIn: readonly FailedRecord[]
  readonly failedOut: readonly FailedRecord[]
  readonly outboxIn: readonly Known<LeavingRow>[]
  readonly outboxOut: readonly LeavingRow[]
  readonly receiptsOut: readonly ReceiptRow[]
  readonly audit: readonly AuditRow[]
}

class Checker {
  readonly #evidence: Evidence
  readonly #violations: Violation[] = []
  readonly #breaks = new Set<string>()
  readonly #effects = new Map<string, number>()
  readonly #taken = new Set<string>()
  readonly #receipts = new Set<string>()
  readonly #inbox = new Map<number, Known<WaitingRow>>()
  readonly #failed = new Map<number, FailedRecord>()
  readonly #outbox = new Map<number, Known<LeavingRow>>()
  readonly #sentOnce = new Map<string, Known<LeavingRow>>()
  readonly #arrived = new Set<string>()
  readonly #removed = new Set<string>()
  readonly #discarded = new Set<string>()
  readonly #retried = new Set<string>()

  constructor(evidence: Evidence) {
    this.#evidence = evidence
    for (const each of evidence.offered) if (each.breaks) this.#breaks.add(name(each.consumer, each))
  }

  check(): readonly Violation[] {
    for (const event of this.#events()) event.check()
    this.#end()
    return this.#violations
  }

  /** Commits, acks and arrivals in the order in which they happened. */
  #events(): { at: number; check: () => void }[] {
    const { commits, acks, arrivals } = this.#evidence
    const events = [
      ...commits.map((commit) => ({ at: commit.at, check: () => this.#commit(read(commit)) })),
      ...acks.map((ack) => ({ at: ack.at, check: () => this.#ack(ack) })),
      ...arrivals.map((arrival) => ({ at: arrival.at, check: () => this.#arrival(arrival) })),
    ]
    return events.sort((a, b) => a.at - b.at)
  }

  #wrong(invariant: Violation['invariant'], what: string): void {
    this.#violations.push({ invariant, what })
  }

  #commit(commit: Reading): void {
    this.#checkEffects(commit)
    this.#checkGivenUp(commit)
    this.#checkReceipts(commit)
    this.#checkOrder(commit)
    this.#checkRemovals(commit)
    this.#apply(commit)
  }

  #checkEffects({ effects, receipts, inboxOut, outboxIn, inboxIn }: Reading): void {
    for (const { effect } of effects) {
      const who = name(effect.consumer, effect)
      const count = (this.#effects.get(who) ?? 0) + 1
      this.#effects.set(who, count)
      // Whoever tries a message again whose handler has committed by itself, or may have, decides that it takes effect again.
      const feared = this.#breaks.has(who) || this.#evidence.cutOff.has(effect.id)
      const decided = feared && this.#retried.has(who)
      if (count > 1 && !decided) this.#wrong('I2', `${who} took effect ${count} times`)
      if (this.#breaks.has(who)) continue
      const taken =
        receipts.some((row) => name(row.consumer, row) === who) ||
        inboxOut.some((row) => name(row.consumer, row.message) === who)
      if (!taken) this.#wrong('I4', `${who} took effect without its receipt`)
      if (!this.#evidence.publishing.has(effect.consumer)) continue
      const published = [...outboxIn, ...inboxIn].filter(({ row }) => causeOf(row) === effect.id).length
      if (published === 0) this.#wrong('I4', `${who} took effect without the message it publishes`)
    }
    for (const { row } of outboxIn) {
      if (row.message.type === GIVEN_UP) continue
      const cause = causeOf(row)
      if (cause === undefined || [...this.#breaks].some((who) => who.endsWith(` ${cause}`))) continue
      const known = effects.some(({ effect }) => effect.id === cause) || this.#sentOnce.has(sentName(row))
      if (!known) this.#wrong('I4', `${row.message.id} was published without the effect of ${cause}`)
    }
  }

  /** What a hook publishes is committed with the final failure, once; a hook that failed leaves nothing. */
  #checkGivenUp({ failedIn, outboxIn, audit }: Reading): void {
    // What a person does to a failed message is no failure.
    if (audit.length > 0) return
    const published = outboxIn.filter(({ row }) => row.message.type === GIVEN_UP && !this.#sentOnce.has(sentName(row)))
    const final = failedIn.filter(
      ({ seq, origin, consumer, reason, error }) =>
        origin === 'inbox' &&
        !this.#failed.has(seq) &&
        this.#evidence.publishing.has(consumer) &&
        !UNDECIDED.includes(reason) &&
        error.onFailed === undefined,
    )
    const causes = published.map(({ row }) => causeOf(row)).sort()
    const expected = final.map(({ message }) => message.id).sort()
    if (causes.join() === expected.join()) return
    this.#wrong('I4', `the final failures of ${expected} were committed with what follows from those of ${causes}`)
  }

  /** A receipt stands for an effect, or for a message that is kept. */
  #checkReceipts({ receipts, effects, inboxIn, failedIn, audit }: Reading): void {
    for (const receipt of receipts) {
      const who = name(receipt.consumer, receipt)
      const stands =
        effects.some(({ effect }) => name(effect.consumer, effect) === who) ||
        inboxIn.some(({ row }) => name(row.consumer, row.message) === who) ||
        failedIn.some((row) => name(row.consumer, row.message) === who) ||
        audit.some((row) => row.action === 'edit') ||
        this.#breaks.has(who)
      if (!stands) this.#wrong('I1', `the receipt of ${who} stands for nothing`)
    }
  }

  /** What was written after another one of its key had been committed takes effect after it. */
  #checkOrder({ effects, inboxOut }: Reading): void {
    const gone = new Set(inboxOut.map((row) => row.seq))
    for (const [place, { effect }] of effects.entries()) {
      const who = name(effect.consumer, effect)
      const own = inboxOut.find((row) => row.ordered && name(row.consumer, row.message) === who)
      const known = own && this.#inbox.get(own.seq)
      if (known === undefined) continue
      for (const { row: older, committedAt } of this.#inbox.values()) {
        const before = older.ordered && older.consumer === effect.consumer && committedAt < known.writtenAt
        if (!before || older.message.key !== known.row.message.key || older.seq === known.row.seq) continue
        const place2 = effects.findIndex((each) => each.effect.id === older.message.id)
        if (gone.has(older.seq) && place2 < place) continue
        this.#wrong('I6', `${who} took effect before ${older.message.id} of the same key`)
      }
    }
  }

  /** Whatever leaves a table went somewhere. */
  #checkRemovals(commit: Reading): void {
    const { effects, inboxOut, inboxIn, failedIn, failedOut, outboxOut, audit, receiptsOut } = commit
    const byHand = (message: { id: string }): boolean => audit.some((row) => row.id === message.id)
    for (const { consumer, message } of inboxOut) {
      const who = name(consumer, message)
      const went =
        effects.some(({ effect }) => name(effect.consumer, effect) === who) ||
        failedIn.some((row) => name(row.consumer, row.message) === who) ||
        this.#failedHas(who, 'inbox') ||
        byHand(message) ||
        this.#breaks.has(who)
      if (!went) this.#wrong('I1', `${who} left the inbox for nowhere`)
    }
    for (const { consumer, message } of failedOut) {
      if (byHand(message) || inboxIn.some(({ row }) => row.message.id === message.id)) continue
      this.#wrong('I1', `${name(consumer, message)} left the failed store for nowhere`)
    }
    for (const row of outboxOut) {
      const { message } = row
      const went =
        this.#arrived.has(sentName(row)) ||
        failedIn.some((each) => each.message.id === message.id) ||
        this.#failedHas(name(row.relay, message), 'outbox')
      if (!went && !byHand(message)) this.#wrong('I7', `${message.id} left the outbox and had not arrived`)
    }
    for (const row of receiptsOut) {
      const who = name(row.consumer, row)
      const waits = [...this.#inbox.values()].some((each) => name(each.row.consumer, each.row.message) === who)
      if (waits || this.#failedHas(who, 'inbox')) this.#wrong('I1', `the receipt of ${who} was deleted while it waits`)
    }
  }

  #failedHas(who: string, origin: FailedRecord['origin']): boolean {
    for (const row of this.#failed.values()) {
      if (row.origin === origin && name(row.consumer, row.message) === who) return true
    }
    return false
  }

  /** Where nobody can tell what a handler did that was cut off, a message that was processed may be shown as failed, too. */
  #isFeared(who: string): boolean {
    const rows = [...this.#failed.values()].filter((row) => name(row.consumer, row.message) === who)
    return rows.every((row) => row.reason === 'broken-atomicity')
  }

  #apply(commit: Reading): void {
    for (const row of commit.receiptsOut) this.#receipts.delete(name(row.consumer, row))
    for (const row of commit.receipts) {
      this.#receipts.add(name(row.consumer, row))
      this.#taken.add(name(row.consumer, row))
    }
    for (const row of commit.inboxOut) this.#inbox.delete(row.seq)
    for (const known of commit.inboxIn) this.#inbox.set(known.row.seq, { ...known, ...this.#firstTimes(known) })
    for (const row of commit.failedOut) this.#failed.delete(row.seq)
    for (const row of commit.failedIn) this.#failed.set(row.seq, row)
    for (const row of commit.outboxOut) {
      this.#outbox.delete(row.seq)
      this.#removed.add(sentName(row))
    }
    for (const known of commit.outboxIn) {
      if (!this.#outbox.has(known.row.seq) && !this.#sentOnce.has(sentName(known.row))) {
        this.#sentOnce.set(sentName(known.row), known)
      }
      this.#outbox.set(known.row.seq, { ...known, ...this.#firstTimes(known) })
    }
    for (const row of commit.audit) {
      if (row.action === 'discard') this.#discarded.add(name(row.consumer, row))
      if (row.action === 'retry') this.#retried.add(name(row.consumer, row))
    }
  }

  /** An update does not make a row younger. */
  #firstTimes({ row, writtenAt, committedAt }: Known<WaitingRow | LeavingRow>): Times {
    const known = this.#inbox.get(row.seq) ?? this.#outbox.get(row.seq)
    if (known === undefined) return { writtenAt, committedAt }
    return { writtenAt: known.writtenAt, committedAt: known.committedAt }
  }

  #ack(ack: Ack): void {
    const who = name(ack.consumer, ack)
    if (!this.#taken.has(who) && !this.#failedHas(who, 'inbox'))
      this.#wrong('I5', `${who} was acked before it was taken`)
  }

  #arrival(arrival: Arrival): void {
    const sent = `${arrival.relay}: ${arrival.source} ${arrival.id}`
    const first = !this.#arrived.has(sent)
    this.#arrived.add(sent)
    const own = this.#sentOnce.get(sent)
    if (own === undefined) this.#wrong('I4', `${sent} arrived and had not been committed`)
    if (own === undefined || !first || arrival.key === null) return
    for (const { row: older, committedAt } of this.#outbox.values()) {
      const before = older.relay === arrival.relay && committedAt < own.writtenAt && older.message.key === arrival.key
      if (before && !this.#arrived.has(sentName(older))) {
        this.#wrong('I6', `${sent} arrived before ${older.message.id} of the same key`)
      }
    }
  }

  #end(): void {
    const { offered, unsettled } = this.#evidence
    if (unsettled !== undefined) this.#wrong('I8', unsettled)
    for (const each of offered) this.#endOf(each)
    for (const [sent, { row }] of this.#sentOnce) {
      const waits = [...this.#outbox.values()].some((known) => sentName(known.row) === sent)
      const failed = this.#failedHas(name(row.relay, row.message), 'outbox')
      const done = this.#arrived.has(sent) || failed || this.#discarded.has(name(row.relay, row.message))
      if (!done && !waits) this.#wrong('I7', `${sent} was never published`)
    }
    for (const { row } of this.#inbox.values()) {
      const who = name(row.consumer, row.message)
      if (!this.#receipts.has(who)) this.#wrong('I1', `${who} waits without a receipt`)
      if (row.heldAt !== null) this.#endOfHeld('inbox', row.seq, who)
    }
    for (const { row } of this.#outbox.values()) {
      if (row.heldAt !== null) this.#endOfHeld('outbox', row.seq, name(row.relay, row.message))
    }
  }

  /** What holds its key is shown in the failed store. */
  #endOfHeld(origin: FailedRecord['origin'], seq: number, who: string): void {
    const shown = [...this.#failed.values()].some((row) => row.origin === origin && row.heldSeq === seq)
    if (!shown) this.#wrong('I1', `${who} holds its key and nobody sees it`)
  }

  /** Each message ends in exactly one place. */
  #endOf({ consumer, source, id, expected, breaks, mayVanish }: Offered): void {
    const who = name(consumer, { source, id })
    const effect = this.#effects.has(who)
    const waits = [...this.#inbox.values()].some(({ row }) => name(row.consumer, row.message) === who)
    const failed = this.#failedHas(who, 'inbox')
    const discarded = this.#discarded.has(who)
    if (!effect && !waits && !failed && !discarded) {
      if (!mayVanish) this.#wrong('I1', `${who} is nowhere`)
    } else if (expected === 'effect' && !effect && !waits && !discarded)
      this.#wrong('I1', `${who} failed without a reason`)
    const shown = failed && !(this.#evidence.cutOff.has(id) && this.#isFeared(who))
    if (effect && (waits || shown) && !breaks) this.#wrong('I1', `${who} took effect and waits as well`)
    if (expected === 'failed' && effect) this.#wrong('I1', `${who} took effect although its handler cannot succeed`)
  }
}

function read({ at, changes }: Commit): Reading {
  const known = <Row>(change: Change): Known<Row> => ({
    row: change.after as Row,
    writtenAt: change.writtenAt,
    committedAt: at,
  })
  const of = (table: Change['table']): Change[] => changes.filter((change) => change.table === table)
  const into = (table: Change['table']): Change[] => of(table).filter((change) => change.after !== undefined)
  const fresh = (table: Change['table']): Change[] => into(table).filter((change) => change.before === undefined)
  const out = <Row>(table: Change['table']): Row[] =>
    of(table)
      .filter((change) => change.after === undefined && change.before !== undefined)
      .map((change) => change.before as Row)
  return {
    at,
    effects: fresh('effects').map((change) => ({ effect: change.after as Effect, writtenAt: change.writtenAt })),
    receipts: fresh('receipts').map((change) => change.after as ReceiptRow),
    receiptsOut: out('receipts'),
    inboxIn: into('inbox').map(known<WaitingRow>),
    inboxOut: out('inbox'),
    failedIn: into('failed').map((change) => change.after as FailedRecord),
    failedOut: out('failed'),
    outboxIn: into('outbox').map(known<LeavingRow>),
    outboxOut: out('outbox'),
    audit: fresh('audit').map((change) => change.after as AuditRow),
  }
}

function name(consumer: string, { source, id }: { source: string; id: string }): string {
  return `${consumer}: ${source} ${id}`
}

function sentName({ relay, message }: LeavingRow): string {
  return `${relay}: ${message.source} ${message.id}`
}

/** The id of the message in whose handler this one was published. */
function causeOf({ message }: { message: { attributes: string } }): string | undefined {
  const cause = /"causationId":"([^"]*)"/.exec(message.attributes)
  return cause?.[1]
}
