import { noOthers, text, word } from '../base/index.ts'
import type { AuditEntry, AuditSubject, AuditWhere, Numbered, StoreAdmin, StoreWaiting } from '../contracts/index.ts'
import { MAX_TEXT_BYTES } from '../message/index.ts'
import { auditOf, type By } from './audit.ts'
import { dateOption, type NumberedPage, pageOf } from './messages.ts'

/** Which entries of the audit to list. */
export type AuditQuery = AuditWhere & NumberedPage

/** What people do without changing a message. */
export type Visit = 'sign-in' | 'sign-out' | 'look'
const VISITS: readonly Visit[] = ['sign-in', 'sign-out', 'look']

/** What people can do by hand, as the audit calls it. */
export const AUDIT_ACTIONS: readonly AuditEntry['action'][] = [
  ...(['retry', 'edit', 'discard', 'release', 'republish', 'settle', 'note', 'begin', 'pause', 'resume'] as const),
  ...(['cancel', 'move', 'remove', 'add', 'change', 'import', 'cleanup', 'purge', 'recount'] as const),
  ...VISITS,
]

/** What people did by hand: who, when, what and why. */
export class AuditLog {
  readonly #store: Pick<StoreWaiting, 'audited'> & Pick<StoreAdmin, 'audit'>

  /** Made by `createHapax`. */
  constructor(store: Pick<StoreWaiting, 'audited'> & Pick<StoreAdmin, 'audit'>) {
    this.#store = store
  }

  /** A page of the audit, the newest entry first. Conditions are looked for row by row. */
  async list(query: AuditQuery = {}): Promise<Numbered<AuditEntry>> {
    noOthers('query', query, ['actor', 'action', 'scope', 'origin', 'since', 'until', 'limit', 'before', 'signal'])
    const { actor, action, scope, origin, since, until } = query
    if (actor !== undefined) text('actor', actor, MAX_TEXT_BYTES)
    if (action !== undefined) word('action', AUDIT_ACTIONS, action)
    if (scope !== undefined) text('scope', scope)
    if (origin !== undefined) word('origin', ['inbox', 'outbox'], origin)
    for (const [name, value] of Object.entries({ since, until })) if (value !== undefined) dateOption(name, value)
    const where = { actor, action, scope, origin, since, until }
    return pageOf(query, (before, limit) => this.#store.audited(where, before, limit))
  }

  /** Records that somebody entered or left a console, or was shown a payload. Changes are recorded by the methods that make them. */
  async record(visit: Visit, by: By = {}, about: AuditSubject = {}): Promise<void> {
    noOthers('about', about, ['origin', 'consumer', 'source', 'id', 'type'])
    await this.#store.audit(auditOf(word('visit', VISITS, visit), by), about)
  }
}
