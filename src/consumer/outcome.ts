import type { Outcome, OutcomeStatus } from '../contracts/index.ts'
/** The outcome of this status; only `busy` and `rolled-back` must not be acknowledged. */
export function outcome(status: OutcomeStatus, error?: Error): Outcome {
  const ack = status !== 'busy' && status !== 'rolled-back'
  return error === undefined ? { status, ack } : { status, ack, error }
}
