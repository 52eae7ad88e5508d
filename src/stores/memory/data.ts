import type { Clock } from '../../base/index.ts'
import type { Audit, AuditSubject, Endpoint, Origin, Pause, SentMessage } from '../../contracts/index.ts'
import { newMark, seqOf } from '../../message/index.ts'
import type {
  AuditRow,
  EffectEntry,
  FailedEntry,
  KeptResponse,
  LeavingRow,
  OperationRow,
  ReceiptRow,
  RelayRow,
  SampleRow,
  SubscriptionRow,
  WaitingRow,
} from './rows.ts'

/** The tables of hapax by name, and what every new row needs: a number and a time. */
export class Data {
  readonly clock: Clock
  readonly tables: Tables = new Tables()
  readonly receipts: Table<ReceiptRow> = this.tables.table('hapax_receipts')
  readonly responses: Table<KeptResponse> = this.tables.table('hapax_responses')
  readonly inbox: Table<WaitingRow> = this.tables.table('hapax_inbox')
  readonly outbox: Table<LeavingRow> = this.tables.table('hapax_outbox')
  readonly failed: Table<FailedEntry> = this.tables.table('hapax_failed')
  readonly effects: Table<EffectEntry> = this.tables.table('hapax_effects')
  readonly sent: Table<SentMessage> = this.tables.table('hapax_sent')
  readonly audit: Table<AuditRow> = this.tables.table('hapax_audit')
  readonly subscriptions: Table<SubscriptionRow> = this.tables.table('hapax_subscriptions')
  readonly relays: Table<RelayRow> = this.tables.table('hapax_relays')
  readonly endpoints: Table<Endpoint> = this.tables.table('hapax_endpoints')
  readonly operations: Table<OperationRow> = this.tables.table('hapax_operations')
  readonly pauses: Table<Pause> = this.tables.table('hapax_pauses')
  readonly samples: Table<SampleRow> = this.tables.table('hapax_samples')
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

  /** Writes down what a person did by hand. */
  note(audit: Audit, about: AuditSubject): void {
    const seq = this.nextSeq()
    this.audit.set(seq, { seq, at: this.now(), ...audit, ...about })
  }
}

/** One table: immutable rows by key. Until `commit`, `rollback` takes every change back. */
export class Table<Row extends object> {
  readonly #rows = new Map<string, Row>()
  /** How the rows were before each change that is not committed yet, oldest first. */
  readonly #log: { readonly key: string; readonly row: Row | undefined }[] = []

  get(key: string): Row | undefined {
    return this.#rows.get(key)
  }

  all(): Row[] {
    return [...this.#rows.values()]
  }

  set(key: string, row: Row): void {
    this.#log.push({ key, row: this.#rows.get(key) })
    this.#rows.set(key, row)
  }

  delete(key: string): boolean {
    this.#log.push({ key, row: this.#rows.get(key) })
    return this.#rows.delete(key)
  }

  /** The rows without the changes that are not committed yet. */
  committed(): readonly Row[] {
    const copy = new Map(this.#rows)
    this.#undo(copy)
    return [...copy.values()]
  }

  commit(): void {
    this.#log.length = 0
  }

  rollback(): void {
    this.#undo(this.#rows)
    this.#log.length = 0
  }

  #undo(rows: Map<string, Row>): void {
    for (const { key, row } of this.#log.toReversed()) {
      if (row === undefined) rows.delete(key)
      else rows.set(key, row)
    }
  }
}

/** Tables that change together. */
export class Tables {
  readonly #tables = new Map<string, Table<object>>()

  /** The table of this name. What its rows are is known by those who use the name. */
  table<Row extends object>(name: string): Table<Row> {
    const table = this.#tables.get(name) ?? new Table()
    this.#tables.set(name, table)
    return table as Table<Row>
  }

  /** The rows of a table without the changes that are not committed yet. */
  committed(name: string): readonly object[] {
    return this.table(name).committed()
  }

  commit(): void {
    for (const table of this.#tables.values()) table.commit()
  }

  rollback(): void {
    for (const table of this.#tables.values()) table.rollback()
  }
}
