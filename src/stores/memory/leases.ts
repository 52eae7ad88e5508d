// Leases on rows of the inbox, and the journal of outside calls, which is written under them.

import type { Audit, EffectEnd, EffectRef, EffectRow, InboxRow, Lease } from '../../contracts/index.ts'
import { SETTLED } from '../../contracts/index.ts'
import type { Data } from './data.ts'
import { ageOf, notBlocked } from './inbox.ts'
import { bySeq, type EffectEntry, receiptKey, subjectOf, type WaitingRow } from './rows.ts'

/** Gives rows that are due a token, the next fence, and time until the lease ends. */
export function lease(data: Data, seqs: readonly string[], token: string, leaseMs: number): readonly InboxRow[] {
  const now = data.clock.now()
  const found = seqs
    .flatMap((seq) => data.inbox.get(seq) ?? [])
    .filter((row) => row.heldAt === null && (row.availableAt <= now || row.leaseToken === token))
  return notBlocked(data, found).map((row) => {
    const leased = { ...row, leaseToken: token, fence: row.fence + 1, ...dueIn(data, leaseMs) }
    data.inbox.set(row.seq, leased)
    return { ...leased, ageMs: ageOf(data, row) }
  })
}

function dueIn(data: Data, ms: number): Pick<WaitingRow, 'availableAt' | 'setAt'> {
  const now = data.clock.now()
  return { availableAt: now + ms, setAt: now }
}

/** The row of a lease, if it is still held. */
export function rowOf(data: Data, { seq, token, fence }: Lease): WaitingRow | undefined {
  const row = data.inbox.get(seq)
  return row?.leaseToken === token && row.fence === fence && row.heldAt === null ? row : undefined
}

/** Prolongs leases; returns those that are still held. */
export function renew(data: Data, leases: readonly Lease[], leaseMs: number): ReadonlySet<string> {
  const held = leases.flatMap((each) => rowOf(data, each) ?? [])
  for (const row of held) data.inbox.set(row.seq, { ...row, ...dueIn(data, leaseMs) })
  return new Set(held.map((row) => row.seq))
}

/** Ends a lease as if there had been none; the row is due later. */
export function release(data: Data, held: Lease, delayMs: number): boolean {
  const row = rowOf(data, held)
  if (row === undefined) return false
  data.inbox.set(row.seq, { ...row, leaseToken: null, ...dueIn(data, delayMs) })
  return true
}

/** Notes that a call begins, under the lease. Undefined: the lease is lost, and the call must not be made. */
export function beginEffect(
  data: Data,
  held: Lease,
  leaseMs: number,
  effect: EffectRef,
  again: boolean,
): { readonly before: EffectRow | undefined } | undefined {
  if (renew(data, [held], leaseMs).size === 0) return undefined
  const found = data.effects.get(keyOf(effect))
  const before = found && shown(found)
  const state = before?.state
  if (state === undefined || state === 'not-done' || (again && state !== 'done')) {
    const firstAt = before?.firstAt ?? data.now()
    const attempts = (before?.attempts ?? 0) + 1
    const begun = { state: 'started', token: held.token, attempts, result: null, error: null } as const
    const seq = found?.seq ?? data.nextSeq()
    data.effects.set(keyOf(effect), { ...effect, ...begun, seq, firstAt, lastAt: data.now() })
  }
  return { before }
}

/** Notes how a call ended, if the lease is still held. */
export function endEffect(data: Data, held: Lease, effect: EffectRef, end: EffectEnd): boolean {
  if (rowOf(data, held) === undefined) return false
  write(data, effect, held.token, end)
  return true
}

function write(data: Data, effect: EffectRef, token: string, end: EffectEnd): void {
  const before = data.effects.get(keyOf(effect))
  const times = { firstAt: before?.firstAt ?? data.now(), lastAt: data.now() }
  const seq = before?.seq ?? data.nextSeq()
  data.effects.set(keyOf(effect), { ...effect, ...end, token, attempts: before?.attempts ?? 1, seq, ...times })
}

/** The calls of a message, in the order in which they were first begun. */
export function effectsOf(data: Data, consumer: string, messageKey: string): readonly EffectRow[] {
  const rows = data.effects.all().filter((row) => row.consumer === consumer && row.messageKey === messageKey)
  return rows.sort(bySeq).map(shown)
}

function shown({ seq: _, ...row }: EffectEntry): EffectRow {
  return row
}

/** Deletes an effect; its receipt goes at the same time. */
export function forgetEffect(data: Data, effect: EffectRef): void {
  data.effects.delete(keyOf(effect))
}

/** Records what a person knows about a call, once its message has failed. False: there is nothing to settle. */
export function settleEffect(data: Data, effect: EffectRef, end: EffectEnd, audit: Audit, retried = false): boolean {
  const row = data.effects.get(keyOf(effect))
  if (row === undefined || !maySettle(row, end)) return false
  // A message that is being worked on settles its effects itself.
  const failed = data.failed.all().some(({ origin, consumer, message, replacedBy }) => {
    const its = consumer === effect.consumer && message.messageKey === effect.messageKey
    return its && origin === 'inbox' && replacedBy === null
  })
  if (retried ? !(row.error?.name === SETTLED && isRetried(data, effect)) : !failed) return false
  write(data, effect, row.token, end)
  const receipt = data.receipts.get(receiptKey(effect.consumer, effect))
  data.note(audit, { origin: 'inbox', consumer: effect.consumer, ...(receipt && subjectOf(receipt)) })
  return true
}

/** Whether the message waits in the inbox without a lease: the owner of an expired one may still settle. */
function isRetried(data: Data, effect: EffectRef): boolean {
  return data.inbox.all().some(({ consumer, message, heldAt, leaseToken }) => {
    const free = heldAt === null && leaseToken === null
    return free && consumer === effect.consumer && message.messageKey === effect.messageKey
  })
}

function keyOf({ consumer, messageKey, name }: EffectRef): string {
  return JSON.stringify([consumer, messageKey, name])
}

/**
 * Whether a person may record this outcome of a call: it is unknown, or the call has happened and its result could not be kept, or the
 * outcome was recorded by a person before, and the call has not been made since.
 */
export function maySettle(
  { state, result, error }: Pick<EffectRow, 'state' | 'result' | 'error'>,
  end: EffectEnd,
): boolean {
  if (error?.name === SETTLED && (state === 'done' || state === 'not-done')) return true
  if (state === 'done') return result === null && end.state === 'done'
  return state === 'started' || state === 'unknown'
}
