import type { Result, Statement } from '../../../contracts/index.ts'
import { fieldsOf } from './driver.ts'

const STATE = `concat_ws('|', current_user, session_user, current_setting('search_path'), current_setting('TimeZone'),
  current_setting('DateStyle'), current_setting('default_transaction_read_only'), current_setting('default_transaction_isolation'),
  current_setting('statement_timeout'), current_setting('lock_timeout'), current_setting('session_replication_role'),
  current_setting('row_security'), current_setting('synchronous_commit'))`

/**
 * What a handler may have left behind in a session, seen before the next one runs. Whatever way it took: a function may set things
 * as well. No tables are looked at: to plan for one takes longer than all of this.
 */
export const SESSION: Statement = {
  text: `select ${STATE} as state`,
  params: [],
  prepare: true,
}

const states = new WeakMap<object, unknown>()

/** Whether a session is as it was when hapax had its client for the first time. */
export function isAsBefore(client: object, answer: Result | undefined): boolean {
  const state = answer?.rows[0]?.['state']
  if (!states.has(client)) states.set(client, state)
  return states.get(client) === state
}

/**
 * Fails unless the session is as it was when hapax had its client for the first time: for a transaction that is sent as a whole, where
 * nobody can look in between. Undefined: it was never looked at.
 */
export function sameSession(client: object): Statement | undefined {
  const state = states.get(client)
  if (typeof state !== 'string') return undefined
  return { text: `select 1 / (${STATE} = $1::text)::integer`, params: [state], prepare: true }
}

/** Whether `sameSession` has failed. */
export function isOtherSession(error: unknown): boolean {
  const { code }: { code?: unknown } = fieldsOf(error)
  return code === '22012'
}

/** Whether a client that worked before lacks a right now: a handler has left another role behind. */
export function hasOtherRole(client: object, error: unknown): boolean {
  const { code, cause }: { code?: unknown; cause?: unknown } = fieldsOf(error)
  const { code: causeCode }: { code?: unknown } = fieldsOf(cause)
  return states.has(client) && (code === '42501' || causeCode === '42501')
}

/** The session is not what it was: its client is destroyed, and another one does the work. */
export class Changed extends Error {}

/** Statements that plainly leave something behind that `SESSION` does not show: settings of one's own, tables, locks, channels. */
const LEAVING =
  /(?:^|;)\s*(?:set\s+(?:session\s+)?"?\w+"?\."?\w+|listen\b|load\b|discard\b|deallocate\b)|\bset_config\s*\((?![^()]*(?:\([^()]*\)[^()]*)*\btrue\s*\))|\bpg_(?:try_)?advisory_lock|\bcreate\s+temp(?:orary)?\s(?!.*\bon\s+commit\s+drop\b)/is

/** Whether a handler's statement leaves something behind in the session. */
export function leavesBehind(text: unknown): boolean {
  return typeof text === 'string' && LEAVING.test(text)
}
