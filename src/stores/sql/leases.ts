import type { Audit, EffectEnd, EffectRef, EffectRow, InboxRow, Lease, Result, Store } from '../../contracts/index.ts'
import { CONTROL, CONTROL_MS, type SqlCalls } from './calls.ts'
import type { Dialect } from './dialect/dialect.ts'
import { asEffect, asInboxRow } from './rows.ts'
import { asSeq, asText, asUuid } from './values.ts'

type Methods = 'lease' | 'renew' | 'beginEffect' | 'endEffect' | 'effects' | 'settleEffect'

/** Leaves out rows that have to wait for older ones of their key. */
type NotBlocked<Tx> = (tx: Tx, rows: InboxRow[]) => Promise<readonly InboxRow[]>

/** What leased consumers need of an SQL database: leases on rows of the inbox, and the journal of effects. */
export class SqlLeases<Tx> implements Pick<Store<Tx>, Methods> {
  readonly #calls: SqlCalls<Tx, never>
  readonly #dialect: Dialect
  readonly #notBlocked: NotBlocked<Tx>

  constructor(calls: SqlCalls<Tx, never>, dialect: Dialect, notBlocked: NotBlocked<Tx>) {
    this.#calls = calls
    this.#dialect = dialect
    this.#notBlocked = notBlocked
  }

  lease(seqs: readonly string[], token: string, leaseMs: number): Promise<readonly InboxRow[]> {
    const { leases } = this.#dialect
    return this.#calls.claiming(leases.lockDue(seqs, token), async (tx, { rows: found }) => {
      const rows = await this.#notBlocked(tx, found.map(asInboxRow))
      const ours = rows.map((row) => row.seq)
      const last = ours.length === 0 ? undefined : [leases.lease(ours, token, leaseMs)]
      return { value: rows.map((row) => ({ ...row, leaseToken: token, fence: row.fence + 1 })), last }
    })
  }

  async renew(leases: readonly Lease[], leaseMs: number): Promise<ReadonlySet<string>> {
    if (leases.length === 0) return new Set()
    const free = await this.#renewable(leases)
    if (free.length > 0) await this.#calls.run(this.#dialect.leases.renew(free, leaseMs), CONTROL_MS)
    const { rows } = await this.#calls.run(this.#dialect.leases.leased(leases), CONTROL_MS)
    return new Set(rows.map((row) => asSeq(row['seq'])))
  }

  /** What somebody has locked nobody can take either; the others do not wait for it. */
  async #renewable(leases: readonly Lease[]): Promise<readonly Lease[]> {
    const statement = this.#dialect.leases.renewable?.(leases)
    if (statement === undefined) return leases
    const free = new Set((await this.#calls.run(statement, CONTROL_MS)).rows.map((row) => asSeq(row['seq'])))
    return leases.filter(({ seq }) => free.has(seq))
  }

  async beginEffect(
    lease: Lease,
    leaseMs: number,
    effect: EffectRef,
    again: boolean,
  ): Promise<{ readonly before: EffectRow | undefined } | undefined> {
    const { leases } = this.#dialect
    const beforeOf = ([row]: Result['rows']): EffectRow | undefined =>
      row === undefined || row['state'] === null ? undefined : asEffect(effect, row)
    const { rows } = await this.#calls.short(leases.lockEffect(lease, effect), ({ rows: found }) => {
      if (found.length === 0) return undefined
      const state = beforeOf(found)?.state
      const open = state === undefined || state === 'not-done' || (again && state !== 'done')
      const prolonged = leases.renew([lease], leaseMs)
      return open ? [prolonged, leases.beginEffect(effect, lease.token)] : [prolonged]
    })
    return rows.length === 0 ? undefined : { before: beforeOf(rows) }
  }

  endEffect(lease: Lease, effect: EffectRef, end: EffectEnd): Promise<boolean> {
    const { leases } = this.#dialect
    return this.#calls.move(leases.lockEffect(lease, effect), [leases.endEffect(effect, lease.token, end)], CONTROL)
  }

  async effects(consumer: string, messageKey: string): Promise<readonly EffectRow[]> {
    const { rows } = await this.#calls.run(this.#dialect.leases.effects(consumer, messageKey))
    return rows.map((row) => asEffect({ consumer, messageKey }, row))
  }

  async settleEffect(effect: EffectRef, end: EffectEnd, audit: Audit): Promise<boolean> {
    const { leases, operator } = this.#dialect
    const { rows } = await this.#calls.short(leases.lockOpenEffect(effect, end), ({ rows: [row] }) => {
      if (row === undefined) return undefined
      const about = { consumer: effect.consumer, source: asText(row['source']), id: asText(row['id']) }
      const subject = { origin: 'inbox', ...about, type: asText(row['type']) } as const
      return [leases.endEffect(effect, asUuid(row['token']), end), operator.auditOther(audit, subject)]
    })
    return rows.length > 0
  }
}
