import type { Counts, EventHub, LimitedLogger, Logger, MessageRef, Tally } from '../base/index.ts'
import { asError, faultFields, HapaxError, safe, shellWord } from '../base/index.ts'
import type { Outcome, Receipt } from '../contracts/index.ts'
import { IMPORTED, type Received, type StoredMessage } from '../message/index.ts'
import type { OutcomeListener } from './batch.ts'
import type { ConsumerSettings } from './options.ts'
import type { Verdict } from './verdict.ts'
import { outcome } from './verdict.ts'

/** A message that was taken before: its receipt, or an earlier copy in the same call. */
export type TakenBefore = Pick<Receipt, 'source' | 'id' | 'type' | 'fingerprint'> & { readonly takenAt?: Date }

/** Compares a message with the one that was taken before it under the same identity. */
export function compare(
  { source, id, type, fingerprint }: StoredMessage,
  before: TakenBefore,
  onMismatch: ConsumerSettings['onMismatch'],
): 'duplicate' | 'mismatch' | 'conflict' {
  if (before.source !== source || before.id !== id) return 'conflict'
  if (before.fingerprint === fingerprint && before.type === type) return 'duplicate'
  // Of an imported one, only the identity is known.
  if (before.fingerprint === IMPORTED.fingerprint) return 'duplicate'
  return onMismatch === 'conflict' ? 'conflict' : 'mismatch'
}

/** The error of a message whose identity belongs to another one. */
export function conflictWith({ id, source, takenAt }: TakenBefore): HapaxError {
  const when = takenAt === undefined ? 'just now' : `at ${takenAt.toISOString()}`
  const what = `another message was taken under this identity: ${id} of ${source}, ${when}`
  return new HapaxError('conflict', what, { fields: { id, source, takenAt } })
}

/** Names a message, without its payload: logs and events must not leak data. */
export function ref({ id, source, type }: MessageRef): MessageRef {
  return { id, source, type }
}

/** Logs each processed message as `debug`. Without such a logger there is no listener and no cost per message. */
export function logProcessed(events: EventHub, logger: LimitedLogger): void {
  const { writesDebug } = logger
  if (writesDebug === undefined) return
  events.onWhile('processed', writesDebug, ({ consumer, message, attempt, durationMs, lagMs }) => {
    const times = { durationMs: rounded(durationMs), ...(lagMs !== undefined && { lagMs: rounded(lagMs) }) }
    logger.debug({ consumer, about: message, attempt, ...times }, 'a message was processed')
  })
}

function rounded(ms: number): number {
  return Math.round(ms * 10) / 10
}

/** Knows which outcomes have been told, if `unavailable` has listeners: what is known of the others when the call rejects is nothing. */
export function watchOutcomes<Entry extends Pick<Received, 'stored'>>(
  events: EventHub,
  entries: readonly Entry[],
  listener: OutcomeListener | undefined,
): { readonly listener: OutcomeListener | undefined; untold(): readonly Entry[] } {
  if (!events.heard('unavailable')) return { listener, untold: () => entries }
  const told = new Set<StoredMessage>()
  const telling: OutcomeListener = (stored, outcome) => {
    told.add(stored)
    listener?.(stored, outcome)
  }
  return { listener: telling, untold: () => entries.filter(({ stored }) => !told.has(stored)) }
}

/** Reports deliveries whose call rejects: it could not be determined whether they are duplicates. */
export function reportUnavailable(
  events: EventHub,
  consumer: string,
  entries: readonly Pick<Received, 'stored'>[],
  thrown: unknown,
): void {
  if (!events.heard('unavailable')) return
  const error = asError(thrown)
  for (const { stored } of entries) events.emit('unavailable', () => ({ consumer, message: ref(stored), error }))
}

/** An event as fields of a log line. The message is `about` there: `message` is what most loggers call the sentence. */
export function aboutOf<Event extends { readonly message: MessageRef }>({
  message,
  ...others
}: Event): Omit<Event, 'message'> & { readonly about: MessageRef } {
  return { ...others, about: message }
}

/** The command that shows a message, as a field of a log line. Quoted, because ids and sources come from third-party senders. */
export function howToSee({ id, source }: MessageRef): { readonly advice: string } {
  const [idWord, sourceWord] = [shellWord(safe(id)), shellWord(safe(source))]
  return { advice: `To see it: npx hapax explain ${idWord} --source ${sourceWord}` }
}

/** What is known of a duplicate. */
interface Duplicate {
  readonly receipt?: TakenBefore
  /** It has another payload than the first delivery. */
  readonly mismatch?: boolean
  /** How long it took to find out. */
  readonly checkMs?: number | undefined
}

/** What a reporter tells. */
interface ReporterOptions {
  readonly events: EventHub
  readonly logger: Logger
  readonly tally?: Tally
}

/** Reports what became of the messages of a consumer, to the log and as events, and returns the outcome. */
export class Reporter {
  readonly #events: EventHub
  readonly #logger: Logger
  readonly #consumer: string
  /** Undefined: the store keeps no samples. */
  readonly #counts: Counts | undefined
  /** How many duplicates were dropped, by the key of their message; the latest last. */
  readonly #duplicates = new Map<string, number>()

  constructor({ events, logger, tally }: ReporterOptions, consumer: string) {
    this.#events = events
    this.#logger = logger
    this.#consumer = consumer
    this.#counts = tally?.of('inbox', consumer)
  }

  /** A message that was taken before. With another payload it is reported as a mismatch as well. */
  duplicate(stored: StoredMessage, { receipt, mismatch, checkMs }: Duplicate = {}): Outcome {
    const takenAt = receipt?.takenAt
    if (this.#counts !== undefined) this.#counts.duplicates += 1
    const event = { consumer: this.#consumer, message: ref(stored), ...(takenAt && { takenAt }) }
    if (mismatch) {
      this.#logger.warn(aboutOf(event), 'a duplicate has another payload than the first delivery')
      this.#events.emit('mismatch', () => event)
    }
    const blocked = this.#blocked(stored)
    this.#logger.info(aboutOf({ ...event, blocked }), 'a duplicate was dropped')
    this.#events.emit('duplicate', () => ({ ...event, blocked, checkMs }))
    return DUPLICATE
  }

  /** Counts a duplicate of a message. Only the messages with the latest duplicates are remembered. */
  #blocked({ messageKey }: StoredMessage): number {
    const blocked = (this.#duplicates.get(messageKey) ?? 0) + 1
    this.#duplicates.delete(messageKey)
    this.#duplicates.set(messageKey, blocked)
    const [oldest] = this.#duplicates.keys()
    if (this.#duplicates.size > MOST_COUNTED && oldest !== undefined) this.#duplicates.delete(oldest)
    return blocked
  }

  /** The consumer has no handler for the type, and `unknown` is 'ignore'. */
  ignored(stored: StoredMessage): Outcome {
    const event = { consumer: this.#consumer, message: ref(stored) }
    this.#logger.debug(aboutOf(event), 'ignored: no handler is registered for its type')
    this.#events.emit('ignored', () => event)
    return IGNORED
  }

  /** Another process is working on the message; the broker has to deliver it again. */
  busy(stored: StoredMessage, error: Error): Outcome {
    this.#events.emit('busy', () => ({ consumer: this.#consumer, message: ref(stored) }))
    return outcome('busy', error)
  }

  /** A failed attempt and the decision about it have been recorded. */
  verdict(stored: StoredMessage, verdict: Verdict, attempt: number): Outcome {
    const { error } = verdict
    const event = { consumer: this.#consumer, message: ref(stored), attempt }
    this.#count(verdict)
    if (verdict.kind === 'retry') {
      const { delayMs, attempts } = verdict
      // Always in seconds: lines of one kind differ in numbers only, so that the log limit recognises them.
      const next = `the next attempt is in ${(delayMs / 1000).toFixed(1)} s`
      const what = `the handler of ${stored.type} failed (attempt ${attempt} of ${attempts}); ${next}`
      this.#logger.warn({ ...aboutOf(event), attempts, delayMs, ...faultFields(error) }, what)
      this.#events.emit('retrying', () => ({ ...event, delayMs, error }))
      return outcome('retrying', error)
    }
    const { reason } = verdict
    this.#logger.error(
      { ...aboutOf(event), reason, ...faultFields(error), ...howToSee(stored) },
      'the message is in the failed store',
    )
    this.#events.emit('failed', () => ({ ...event, reason, error }))
    return outcome(reason === 'expired' ? 'expired' : reason === 'unknown-effect' ? 'held' : 'failed', error)
  }

  #count({ kind }: Verdict): void {
    if (this.#counts !== undefined) this.#counts[kind === 'retry' ? 'retried' : 'failed'] += 1
  }

  /** The lease expired. Another process has the message now, or has settled it. */
  leaseLost(stored: StoredMessage, fence: number): void {
    const event = { consumer: this.#consumer, message: ref(stored), fence }
    this.#logger.warn(aboutOf(event), 'the lease was lost to another process')
    this.#events.emit('lease-lost', () => event)
  }
}

const DUPLICATE = outcome('duplicate')
/** Of so many messages duplicates are counted. */
const MOST_COUNTED = 1_000
const IGNORED = outcome('ignored')
