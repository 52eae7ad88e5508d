import { isHapaxError } from '../../../base/index.ts'
import type { AuditSubject, StoreOutbox } from '../../../contracts/index.ts'
import { CONTROL } from '../calls.ts'
import { asOutboxMessage } from '../rows.ts'
import { asBoolean, asSeq, asText } from '../values.ts'
import { rowsOf, type SqlParts } from './context.ts'

/** What waits for brokers in an SQL database. */
export function sqlOutbox(parts: SqlParts): StoreOutbox {
  const { calls, dialect } = parts
  return {
    read: async (seqs, aged) => (await rowsOf(parts, dialect.outbox.read(seqs, aged))).map(asOutboxMessage),
    confirm: async (seqs, keep) => {
      const gone = keep ? await deleteFree(parts, seqs, true) : await deleteAll(parts, seqs)
      if (gone === seqs.length) return []
      // Another relay may have deleted the others, or others stand aside behind them, or they are locked.
      const left = await leftOf(parts, seqs)
      if (left.length === 0 || keep) return left
      return (await deleteFree(parts, left, false)) === left.length ? [] : leftOf(parts, left)
    },
    postpone: async (rows) => {
      for (const statement of dialect.outbox.postpone(rows)) await calls.run(statement)
    },
    refuse: (row) => {
      const then = row.hold
        ? [dialect.outbox.hold(row)]
        : [dialect.aside.outbox.forwardBehind([row.seq]), dialect.outbox.delete([row.seq])]
      const copy = [dialect.failing.outbox(row), dialect.held.outbox.keepNumber(row.seq)]
      return calls.move(dialect.outbox.lock(row.seq), [...copy, ...then])
    },
    recordRelay: async (name, destination, move) => {
      if (move === undefined) await calls.run(dialect.relays.record(name, destination))
      else {
        const about: AuditSubject = { origin: 'outbox', consumer: name }
        // Made again, it says the same; only the audit has it twice.
        await calls.short(dialect.relays.move(name, destination), () => [dialect.admin.audit(move, about)])
      }
      const [row] = await rowsOf(parts, dialect.relays.get(name))
      return row === undefined ? destination : asText(row['destination'])
    },
  }
}

async function leftOf(parts: SqlParts, seqs: readonly string[]): Promise<readonly string[]> {
  return (await rowsOf(parts, parts.dialect.outbox.left(seqs))).map((row) => asSeq(row['seq']))
}

/** Hardly ever is a row locked: to lock them all beforehand would cost as much as to delete them. */
async function deleteAll(parts: SqlParts, seqs: readonly string[]): Promise<number> {
  try {
    return (await parts.calls.run(parts.dialect.outbox.deleteConfirmed(seqs))).affected
  } catch (error) {
    if (!isHapaxError(error, 'transaction-conflict')) throw error
    return deleteFree(parts, seqs, false)
  }
}

/** Deletes what is not locked. */
async function deleteFree({ calls, dialect }: SqlParts, seqs: readonly string[], keep: boolean): Promise<number> {
  const { rows } = await calls.short(
    dialect.outbox.lockFree(seqs),
    ({ rows: found }) => {
      const free = found.map((row) => asSeq(row['seq']))
      if (free.length === 0) return undefined
      const followed = found.filter((row) => asBoolean(row['followed'])).map((row) => asSeq(row['seq']))
      return [
        ...(keep ? [dialect.sent.copy(free)] : []),
        ...(followed.length > 0 ? [dialect.aside.outbox.forwardBehind(followed)] : []),
        dialect.outbox.delete(free),
      ]
    },
    CONTROL,
  )
  return rows.length
}
