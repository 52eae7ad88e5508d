import { isHapaxError } from '../../base/index.ts'
import type { OutboxMessage, Store } from '../../contracts/index.ts'
import { CONTROL, type SqlCalls } from './calls.ts'
import type { Dialect } from './dialect/dialect.ts'
import { asOutboxMessage } from './rows.ts'
import { asBoolean, asSeq, asText } from './values.ts'

type Methods = 'outboxRows' | 'confirm' | 'postpone' | 'refuse' | 'recordRelay'

/** What relays need of an SQL database. */
export class SqlOutbox<Tx> implements Pick<Store<Tx>, Methods> {
  readonly #calls: SqlCalls<Tx, never>
  readonly #dialect: Dialect

  constructor(calls: SqlCalls<Tx, never>, dialect: Dialect) {
    this.#calls = calls
    this.#dialect = dialect
  }

  async outboxRows(seqs: readonly string[]): Promise<readonly OutboxMessage[]> {
    return (await this.#calls.run(this.#dialect.outboxRows(seqs))).rows.map(asOutboxMessage)
  }

  async confirm(seqs: readonly string[], keep: boolean): Promise<readonly string[]> {
    const gone = keep ? await this.#deleteFree(seqs, true) : await this.#delete(seqs)
    if (gone === seqs.length) return []
    // Another relay may have deleted the others, or others stand aside behind them, or somebody has them locked.
    const left = await this.#left(seqs)
    if (left.length === 0 || keep) return left
    return (await this.#deleteFree(left, false)) === left.length ? [] : this.#left(left)
  }

  async postpone(rows: Parameters<Store<Tx>['postpone']>[0]): Promise<void> {
    for (const statement of this.#dialect.postpone(rows)) await this.#calls.run(statement)
  }

  refuse(row: Parameters<Store<Tx>['refuse']>[0]): Promise<boolean> {
    const dialect = this.#dialect
    const then = row.hold
      ? [dialect.holdOutbox(row)]
      : [dialect.aside.forwardBehind('outbox', [row.seq]), dialect.deleteOutbox([row.seq])]
    return this.#calls.move(dialect.lockOutbox(row.seq), [dialect.refuseToFailed(row), ...then])
  }

  async recordRelay(name: string, destination: string): Promise<string> {
    await this.#calls.run(this.#dialect.recordRelay(name, destination))
    const { rows } = await this.#calls.run(this.#dialect.relay(name))
    return rows[0] === undefined ? destination : asText(rows[0]['destination'])
  }

  async #left(seqs: readonly string[]): Promise<readonly string[]> {
    return (await this.#calls.run(this.#dialect.outboxSeqs(seqs))).rows.map((row) => asSeq(row['seq']))
  }

  /** Hardly ever is a row locked: to lock them all beforehand would cost as much as to delete them. */
  async #delete(seqs: readonly string[]): Promise<number> {
    try {
      return (await this.#calls.run(this.#dialect.deleteConfirmed(seqs))).affected
    } catch (error) {
      if (!isHapaxError(error, 'transaction-conflict')) throw error
      return this.#deleteFree(seqs, false)
    }
  }

  /** Deletes what nobody has locked. */
  async #deleteFree(seqs: readonly string[], keep: boolean): Promise<number> {
    const dialect = this.#dialect
    const { rows } = await this.#calls.short(
      dialect.lockFree(seqs),
      ({ rows: found }) => {
        const free = found.map((row) => asSeq(row['seq']))
        if (free.length === 0) return undefined
        const followed = found.filter((row) => asBoolean(row['followed'])).map((row) => asSeq(row['seq']))
        return [
          ...(keep ? [dialect.copyToSent(free)] : []),
          ...(followed.length > 0 ? [dialect.aside.forwardBehind('outbox', followed)] : []),
          dialect.deleteOutbox(free),
        ]
      },
      CONTROL,
    )
    return rows.length
  }
}
