import { userInfo } from 'node:os'
import { noOthers, text } from '../base/index.ts'
import type { Audit } from '../contracts/index.ts'

/** Who takes an action by hand, and why. */
export interface By {
  /** @default the user of the operating system */
  readonly actor?: string
  /** Anything that a later reader of the audit should know. @default nothing */
  readonly note?: string
}

/** Options of a retry: the actor, and what the actor has confirmed. */
export interface RetryFailedOptions extends By {
  /**
   * Confirms that you have checked the handler's effects. Required for a message that failed as `broken-atomicity`: some of its effects may
   * have been committed, and a retry would repeat them. The audit records the confirmation. @default false
   */
  readonly effectsChecked?: boolean
}

/** How long a note may be. */
export const MAX_NOTE_BYTES = 1000

/** The audit entry of an action. It is written in the same transaction as the action. */
export function auditOf(action: Audit['action'], by: By = {}): Audit {
  noOthers('by', by, ['actor', 'note'])
  const actor = by.actor === undefined ? user() : text('actor', by.actor)
  return by.note === undefined ? { action, actor } : { action, actor, note: text('note', by.note, MAX_NOTE_BYTES) }
}

/** The audit entry of a retry; records whether the effects were checked first. */
export function auditOfRetry(
  by: By | undefined,
  checked: boolean,
  action: 'retry' | 'edit' | 'begin' = 'retry',
): Audit {
  const audit = auditOf(action, by)
  if (!checked) return audit
  const { note } = audit
  return { ...audit, note: note === undefined ? CHECKED : `${CHECKED}: ${note}` }
}

const CHECKED = 'effects checked'

function user(): string {
  try {
    return userInfo().username || 'unknown'
  } catch {
    // A process in a container may run as a user that the system does not know.
    return 'unknown'
  }
}
