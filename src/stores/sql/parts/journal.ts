import type { EffectRef, EffectRow, Result, StoreJournal } from '../../../contracts/index.ts'
import { CONTROL } from '../calls.ts'
import { asEffect } from '../rows.ts'
import { asText, asUuid } from '../values.ts'
import { rowsOf, type SqlParts } from './context.ts'

/** The journal of outside calls in an SQL database. */
export function sqlJournal(parts: SqlParts): StoreJournal {
  const { calls, dialect } = parts
  return {
    begin: async (lease, leaseMs, effect, again) => {
      const { rows } = await calls.short(dialect.journal.lock(lease, effect), ({ rows: found }) => {
        if (found.length === 0) return undefined
        const state = beforeOf(effect, found)?.state
        const open = state === undefined || state === 'not-done' || (again && state !== 'done')
        const prolonged = dialect.leases.renew([lease], leaseMs)
        return open ? [prolonged, dialect.journal.begin(effect, lease.token)] : [prolonged]
      })
      return rows.length === 0 ? undefined : { before: beforeOf(effect, rows) }
    },
    end: (lease, effect, end) =>
      calls.move(dialect.journal.lock(lease, effect), [dialect.journal.end(effect, lease.token, end)], CONTROL),
    of: async (consumer, messageKey) =>
      (await rowsOf(parts, dialect.journal.of(consumer, messageKey))).map((row) =>
        asEffect({ consumer, messageKey }, row),
      ),
    settle: async (effect, end, audit, retried = false) => {
      const { lockOpen, lockSettled } = dialect.journal
      const locked = retried ? lockSettled(effect) : lockOpen(effect, end)
      const { rows } = await calls.short(locked, ({ rows: [row] }) => {
        if (row === undefined) return undefined
        const about = { consumer: effect.consumer, source: asText(row['source']), id: asText(row['id']) }
        const subject = { origin: 'inbox', ...about, type: asText(row['type']) } as const
        return [dialect.journal.end(effect, asUuid(row['token']), end), dialect.admin.audit(audit, subject)]
      })
      return rows.length > 0
    },
  }
}

function beforeOf(effect: EffectRef, [row]: Result['rows']): EffectRow | undefined {
  return row === undefined || row['state'] === null ? undefined : asEffect(effect, row)
}
