import type { EventHub, Logger, MessageRef } from '../base/index.ts'
import { faultFields, safe, shellWord } from '../base/index.ts'
import type { Outcome, Receipt } from '../contracts/index.ts'
import type { StoredMessage } from '../message/index.ts'
import type { Verdict } from './verdict.ts'
import { outcome } from './verdict.ts'

/** A message that was taken before: its receipt, or an earlier copy in the same call. */
export type TakenBefore = Pick<Receipt, 'source' | 'id' | 'type' | 'fingerprint'> & { readonly takenAt?: Date }

/** Names a message without its payload. */
export function ref({ id, source, type }: MessageRef): MessageRef {
  return { id, source, type }
}

/** The command that shows a message: as a field of a log line. */
export function howToSee({ id, source }: MessageRef): { readonly advice: string } {
  const [idWord, sourceWord] = [shellWord(safe(id)), shellWord(safe(source))]
  return { advice: `To see it: npx hapax explain ${idWord} --source ${sourceWord}` }
}

/** Says what became of the messages of a consumer, to the log and to whoever listens. */
export class Reporter {
  readonly #events: EventHub
  readonly #logger: Logger
  readonly #consumer: string

  constructor({ events, logger }: { readonly events: EventHub; readonly logger: Logger }, consumer: string) {
    this.#events = events
    this.#logger = logger
    this.#consumer = consumer
  }

  /** A message that was taken before; with another payload it is a mismatch as well. */
  duplicate(stored: StoredMessage, receipt?: TakenBefore, mismatch = false): Outcome {
    const takenAt = receipt?.takenAt
    const event = { consumer: this.#consumer, message: ref(stored), ...(takenAt && { takenAt }) }
    if (mismatch) {
      this.#logger.warn(event, 'a duplicate came with another payload than the first one')
      this.#events.emit('mismatch', () => event)
    }
    this.#logger.debug(event, 'duplicate')
    this.#events.emit('duplicate', () => event)
    return DUPLICATE
  }

  /** No handler wants it. */
  ignored(stored: StoredMessage): Outcome {
    const event = { consumer: this.#consumer, message: ref(stored) }
    this.#logger.debug(event, 'ignored: no handler is registered for its type')
    this.#events.emit('ignored', () => event)
    return IGNORED
  }

  /** Somebody else is working on it. */
  busy(stored: StoredMessage, error: Error): Outcome {
    this.#events.emit('busy', () => ({ consumer: this.#consumer, message: ref(stored) }))
    return outcome('busy', error)
  }

  /** What follows from a failed attempt has been written down. */
  verdict(stored: StoredMessage, verdict: Verdict, attempt: number): Outcome {
    const { error } = verdict
    const event = { consumer: this.#consumer, message: ref(stored), attempt }
    if (verdict.kind === 'retry') {
      const { delayMs, attempts } = verdict
      // Always with the same unit: lines of one kind may differ in numbers only.
      const next = `the next attempt is in ${(delayMs / 1000).toFixed(1)} s`
      const what = `the handler of ${stored.type} failed (attempt ${attempt} of ${attempts}); ${next}`
      this.#logger.warn({ ...event, attempts, delayMs, ...faultFields(error) }, what)
      this.#events.emit('retrying', () => ({ ...event, delayMs, error }))
      return outcome('retrying', error)
    }
    const { reason } = verdict
    this.#logger.error(
      { ...event, reason, ...faultFields(error), ...howToSee(stored) },
      'the message is in the failed store',
    )
    this.#events.emit('failed', () => ({ ...event, reason, error }))
    return outcome(reason === 'expired' ? 'expired' : reason === 'unknown-effect' ? 'held' : 'failed', error)
  }

  /** Another process has it now, or has settled it. */
  leaseLost(stored: StoredMessage, fence: number): void {
    const event = { consumer: this.#consumer, message: ref(stored), fence }
    this.#logger.warn(event, 'the lease was lost to another process')
    this.#events.emit('lease-lost', () => event)
  }
}

const DUPLICATE = outcome('duplicate')
const IGNORED = outcome('ignored')
