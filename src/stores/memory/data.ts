import type { Clock } from '../../base/index.ts'
import type { Audit, AuditSubject, EffectRow, Origin, SentMessage } from '../../contracts/index.ts'
import { newMark, seqOf } from '../../message/index.ts'
import type { AuditRow, FailedEntry, LeavingRow, ReceiptRow, RelayRow, SubscriptionRow, WaitingRow } from './rows.ts'
import { type Table, Tables } from './tables.ts'

/** The tables of hapax by name, and what every new row needs: a number and a time. */
export class Data {
  readonly clock: Clock
  readonly tables: Tables = new Tables()
  readonly receipts: Table<ReceiptRow> = this.tables.table('hapax_receipts')
  readonly inbox: Table<WaitingRow> = this.tables.table('hapax_inbox')
  readonly outbox: Table<LeavingRow> = this.tables.table('hapax_outbox')
  readonly failed: Table<FailedEntry> = this.tables.table('hapax_failed')
  readonly effects: Table<EffectRow> = this.tables.table('hapax_effects')
  readonly sent: Table<SentMessage> = this.tables.table('hapax_sent')
  readonly audit: Table<AuditRow> = this.tables.table('hapax_audit')
  readonly subscriptions: Table<SubscriptionRow> = this.tables.table('hapax_subscriptions')
  readonly relays: Table<RelayRow> = this.tables.table('hapax_relays')
  #lastSeq = 0

  constructor(clock: Clock) {
    this.clock = clock
  }

  /** Like a sequence of a database: numbers of what was rolled back are not given out again. */
  nextSeq(): string {
    this.#lastSeq += 1
    return seqOf(this.#lastSeq, newMark())
  }

  now(): Date {
    return new Date(this.clock.now())
  }

  /** The table that a failed message came from. */
  queue(origin: Origin): Table<WaitingRow> | Table<LeavingRow> {
    return origin === 'inbox' ? this.inbox : this.outbox
  }

  /** Writes down what somebody did by hand. */
  note(audit: Audit, about: AuditSubject): void {
    const seq = this.nextSeq()
    this.audit.set(seq, { seq, at: this.now(), ...audit, ...about })
  }
}
