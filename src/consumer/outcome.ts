/** What became of a delivery. */
export type OutcomeStatus =
  /** The handler's writes and the receipt are committed. */
  | 'processed'
  /** This consumer has taken the message before. */
  | 'duplicate'
  /** The message waits in the inbox. */
  | 'stored'
  /** The handler failed; the message waits in the inbox for its next attempt. */
  | 'retrying'
  /** The message waits for a person, or behind its key. */
  | 'held'
  /** The message is in the failed store. */
  | 'failed'
  /** Another message with the same identity was taken before; this one is in the failed store. */
  | 'conflict'
  /** The message is older than `maxAgeMs`, or does not say how old it is; it is in the failed store. */
  | 'expired'
  /** Another process is working on this message right now. */
  | 'busy'
  /** Nothing was kept: deliver the message again. */
  | 'rolled-back'
  /** No handler is registered for its type, and the consumer has `unknown: 'ignore'`: nothing was kept. */
  | 'ignored'

/** The answer of `handle`. `ack` says whether the broker may forget the message. */
export interface Outcome {
  readonly status: OutcomeStatus
  readonly ack: boolean
  /** The handler's error, or why hapax refused the message. */
  readonly error?: Error
  /** Without `ack`: it is of no use to deliver the message again before this time has passed, where that is known. */
  readonly retryAfterMs?: number
}

/** The outcome of this status; only `busy` and `rolled-back` must not be acknowledged. */
export function outcome(status: OutcomeStatus, error?: Error): Outcome {
  const ack = status !== 'busy' && status !== 'rolled-back'
  return error === undefined ? { status, ack } : { status, ack, error }
}
