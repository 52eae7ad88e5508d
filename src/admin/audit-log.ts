import { noOthers, text, word } from '../base/index.ts'
import type { AuditEntry, AuditWhere, Numbered, StoreWaiting } from '../contracts/index.ts'
import { MAX_TEXT_BYTES } from '../message/index.ts'
import { dateOption, type NumberedPage, pageOf } from './messages.ts'

/** Which entries of the audit to list. */
export type AuditQuery = AuditWhere & NumberedPage

/** What people can do by hand, as the audit calls it. */
export const AUDIT_ACTIONS: readonly AuditEntry['action'][] = [
  ...(['retry', 'edit', 'discard', 'release', 'republish', 'settle', 'note', 'begin', 'pause', 'resume'] as const),
  ...(['cancel', 'move', 'remove', 'add', 'change', 'import', 'cleanup', 'purge', 'recount'] as const),
]

/** What people did by hand: who, when, what and why. */
export class AuditLog {
  readonly #store: Pick<StoreWaiting, 'audited'>

  /** Made by `createHapax`. */
  constructor(store: Pick<StoreWaiting, 'audited'>) {
    this.#store = store
  }

  /** A page of the audit, the newest entry first. Conditions are looked for row by row. */
  async list(query: AuditQuery = {}): Promise<Numbered<AuditEntry>> {
    noOthers('query', query, ['actor', 'action', 'scope', 'since', 'until', 'limit', 'before', 'signal'])
    const { actor, action, scope, since, until } = query
    if (actor !== undefined) text('actor', actor, MAX_TEXT_BYTES)
    if (action !== undefined) word('action', AUDIT_ACTIONS, action)
    if (scope !== undefined) text('scope', scope)
    for (const [name, value] of Object.entries({ since, until })) if (value !== undefined) dateOption(name, value)
    const where = { actor, action, scope, since, until }
    return pageOf(query, (before, limit) => this.#store.audited(where, before, limit))
  }
}
