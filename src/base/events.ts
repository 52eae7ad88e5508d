import { asError, faultFields } from './errors.ts'
import type { Logger } from './logger.ts'
import { expected } from './options.ts'
import type { Horizon, State } from './state.ts'

/** What is known of an outside call: begun; happened; certainly did not happen; unknown. */
export type EffectState = 'started' | 'done' | 'not-done' | 'unknown'

/** Names a message in an event; never the payload. */
export interface MessageRef {
  readonly id: string
  readonly source: string
  readonly type: string
}

/** What became of a webhook: the outcome of its message, or why there is none. */
export type WebhookOutcome =
  | 'processed'
  | 'duplicate'
  | 'stored'
  | 'retrying'
  | 'held'
  | 'failed'
  | 'conflict'
  | 'expired'
  | 'busy'
  | 'rolled-back'
  | 'ignored'
  /** The provider checked the address. */
  | 'challenge'
  /** A header is missing. */
  | 'missing'
  | 'bad-signature'
  /** It was signed, but too long ago, or in the future. */
  | 'bad-timestamp'
  | 'too-large'
  /** The connection ended before the body did. */
  | 'incomplete'
  /** A body parser has read the body. */
  | 'body-consumed'
  | 'not-post'
  /** The database was not available, or the outcome of a commit is unknown. */
  | 'unavailable'

/** Everything that can be observed, by name. Logs, metrics and the console listen to these and to nothing else. */
export interface HapaxEvents {
  /** The handler's writes and the receipt are committed. */
  processed: {
    consumer: string
    message: MessageRef
    attempt: number
    /** From the first statement to the commit, repetitions included; a group shares it. Leased: from the call of the handler. */
    durationMs: number
    /** How long it waited for connections. Undefined: the store has no pool. */
    waitMs?: number | undefined
    /** How long the check for duplicates took: opening the transaction and writing the receipt, or claiming the row. */
    checkMs?: number | undefined
    /**
     * From publish, or the end of its `delayMs`, to commit, by the clock of the database. Undefined: the message does not say when it
     * was published.
     */
    lagMs?: number | undefined
  }
  /** The message had been taken before; `takenAt` says when. */
  duplicate: {
    consumer: string
    message: MessageRef
    takenAt?: Date
    /** How many duplicates of this message this process has dropped, this one included. Of the last 1,000 such messages only. */
    blocked: number
    checkMs?: number | undefined
  }
  /** A duplicate came with another payload than the first one. */
  mismatch: { consumer: string; message: MessageRef; takenAt?: Date }
  /** Written to the inbox. */
  stored: { consumer: string; message: MessageRef }
  /** A consumer with `order` took a message that arrived or was stored without a key. Emitted once per process, consumer and type. */
  keyless: { consumer: string; message: MessageRef }
  /** The handler failed and will be called again. */
  retrying: { consumer: string; message: MessageRef; attempt: number; delayMs: number; error: Error }
  /** Moved to the failed store. */
  failed: { consumer: string; message: MessageRef; attempt: number; reason: string; error: Error }
  /** An outside call of a leased handler: it happened, it did not, or it is unknown. */
  effect: { consumer: string; message: MessageRef; effect: string; state: EffectState }
  /** Another process has taken the message over from this one, which had been silent for too long. */
  'lease-lost': { consumer: string; message: MessageRef; fence: number }
  /** Another process is working on the message. */
  busy: { consumer: string; message: MessageRef }
  /** A message of a type without a handler was acknowledged and not kept (`unknown: 'ignore'`). */
  ignored: { consumer: string; message: MessageRef }
  /** Nothing was kept; the message is to be delivered again. */
  'rolled-back': { consumer: string; message: MessageRef; error: Error }
  /** `handle` rejected: the database was not available, or could not tell whether the message was taken. It is to be delivered again. */
  unavailable: { consumer: string; message: MessageRef; error: Error }
  /** The link broke while committing; the outcome is being looked up. */
  'commit-unknown': { consumer: string; messages: readonly MessageRef[] }
  /** What became of a commit that was unknown. `unresolved`: the database did not say in time, and the messages are delivered again. */
  'commit-resolved': {
    consumer: string
    messages: readonly MessageRef[]
    resolved: 'committed' | 'not-committed' | 'unresolved'
  }
  /** Written to the outbox, or to the inboxes of local consumers, and committed. */
  published: { message: MessageRef; key?: string }
  /** The broker has confirmed a message of the outbox. */
  relayed: {
    relay: string
    message: MessageRef
    /** From publish, or the end of its `delayMs`, to confirm, by the clock of the database. */
    lagMs?: number | undefined
  }
  /** No queue wanted a message of the outbox, and its destination lets such messages go (`unroutable: 'drop'`). */
  'relay-dropped': { relay: string; message: MessageRef; error: Error }
  /** The broker did not take a message of the outbox; it is tried again. */
  'relay-retrying': { relay: string; message: MessageRef; attempt: number; delayMs: number; error: Error }
  /** The broker refused a message for good: it holds its key, or is in the failed store. */
  'relay-failed': { relay: string; message: MessageRef; held: boolean; error: Error }
  /** The broker is not available; nothing is sent for a while. */
  'relay-down': { relay: string; destination: string; pauseMs: number; error: Error }
  /** The broker is available again. */
  'relay-up': { relay: string; destination: string; downMs: number }
  /** A pass of the cleanup has ended; it may have found nothing to delete. */
  cleaned: {
    what: 'receipts' | 'sent' | 'audit' | 'responses'
    of: string
    deleted: number
    /** With the rests between its steps. */
    durationMs: number
    /** Of receipts, after a whole pass: the age of the oldest one that is left. */
    oldestMs?: number | undefined
  }
  /** A request of `hapax.http` has its response. `durationMs`: from its arrival, with what it waited for. */
  'http-request': {
    scope: string
    outcome: /** Its handler ran, and what it returned is kept. */
      | 'first'
      /** Its handler ran before, and what it returned then was sent again. */
      | 'replayed'
      /** Its handler ran without a key: nothing protects it. */
      | 'unprotected'
      /** Another request with its key is running, or waits for a person. */
      | 'in-progress'
      /** Its key belongs to another request. */
      | 'mismatch'
      /** It has no valid key, no sender, or a body that is not taken. */
      | 'rejected'
      /** Its handler returned what is not kept, and everything else was rolled back. */
      | 'rolled-back'
      /** Its handler failed. */
      | 'failed'
      /** The database could not be reached, or could not tell. */
      | 'unavailable'
    status: number
    durationMs: number
  }
  /** The database could not be reached, or did not answer in time. Once per outage. */
  'store-down': { error: Error }
  /** The database answers again. */
  'store-up': { downMs: number }
  /**
   * What waits in the database, from the one worker that looks for all. Without `state`: the worker, named by a token of its own, is
   * no longer the one that looks.
   */
  sampled: { worker: string; state: State | undefined }
  /** How long receipts are kept and messages may come again, for the consumers of a worker. Empty: the worker has stopped. */
  horizons: { worker: string; horizons: readonly Horizon[] }
  /** A request to the handler of a webhook has been responded to. `source` is the scheme, for example `stripe`. */
  webhook: { source: string; consumer: string; outcome: WebhookOutcome; durationMs: number }
  /** A worker has started, or has stopped. */
  'worker-started': { consumers: readonly string[]; relays: readonly string[] }
  'worker-stopped': { consumers: readonly string[]; relays: readonly string[] }
  /** Transactions wait for a connection of the pool, and none has got one for `waitedMs`. */
  'pool-exhausted': { waitedMs: number; error: Error }
  /** No handler of a worker can run, although its heartbeats arrive. It has left its messages to other workers. */
  'worker-stuck': { consumers: readonly string[]; error: Error }
  /** Its handlers can run again. */
  'worker-recovered': { consumers: readonly string[] }
  /** A person has paused a consumer (`inbox`) or a relay (`outbox`), and a worker that serves it takes nothing more for it. */
  paused: { origin: 'inbox' | 'outbox'; scope: string; actor: string; note: string | null }
  /** A worker serves it again. */
  resumed: { origin: 'inbox' | 'outbox'; scope: string }
  /**
   * A worker noticed that the database clock went back, by at least `byMs`, and restarted the pending waits from the new time.
   * `recounted`: the number of rows it changed.
   */
  'clock-went-back': { byMs: number; recounted: number }
  /** A part of a worker failed and will go on. */
  'worker-error': { consumers: readonly string[]; error: Error }
}

/** Registers listeners. A listener that throws is logged and never disturbs the engine. */
export interface Events {
  on<Name extends keyof HapaxEvents>(name: Name, listener: (event: HapaxEvents[Name]) => void): () => void
}

type Listeners = { readonly [Name in keyof HapaxEvents]: Set<(event: HapaxEvents[Name]) => unknown> }

/** No listeners yet, for every event: the type keeps the list complete, and a name that is not in it is refused. */
function noListeners(): Listeners {
  return {
    processed: new Set(),
    duplicate: new Set(),
    mismatch: new Set(),
    stored: new Set(),
    keyless: new Set(),
    retrying: new Set(),
    failed: new Set(),
    effect: new Set(),
    'lease-lost': new Set(),
    busy: new Set(),
    ignored: new Set(),
    'rolled-back': new Set(),
    unavailable: new Set(),
    'commit-unknown': new Set(),
    'commit-resolved': new Set(),
    published: new Set(),
    relayed: new Set(),
    'relay-dropped': new Set(),
    'relay-retrying': new Set(),
    'relay-failed': new Set(),
    'relay-down': new Set(),
    'relay-up': new Set(),
    'http-request': new Set(),
    'store-down': new Set(),
    'store-up': new Set(),
    sampled: new Set(),
    horizons: new Set(),
    webhook: new Set(),
    'worker-started': new Set(),
    'worker-stopped': new Set(),
    cleaned: new Set(),
    'pool-exhausted': new Set(),
    'worker-stuck': new Set(),
    'worker-recovered': new Set(),
    paused: new Set(),
    resumed: new Set(),
    'clock-went-back': new Set(),
    'worker-error': new Set(),
  }
}

/** The one stream of events of a hapax. */
export class EventHub implements Events {
  readonly #listeners = noListeners()
  readonly #wanted = new WeakMap<object, () => boolean>()
  readonly #logger: Logger

  constructor(logger: Logger) {
    this.#logger = logger
  }

  on<Name extends keyof HapaxEvents>(name: Name, listener: (event: HapaxEvents[Name]) => void): () => void {
    const names = Object.keys(this.#listeners)
    if (!names.includes(name)) expected('name of the event', `one of ${names.join(', ')}`, name)
    if (typeof listener !== 'function') expected('listener', 'a function', listener)
    const listeners = this.#listeners[name]
    listeners.add(listener)
    return () => listeners.delete(listener)
  }

  /** As `on`, for a listener that wants events only at times: at others they are not built for it. */
  onWhile<Name extends keyof HapaxEvents>(
    name: Name,
    wanted: () => boolean,
    listener: (event: HapaxEvents[Name]) => void,
  ): void {
    this.on(name, listener)
    this.#wanted.set(listener, wanted)
  }

  /** Whether there are listeners that want events now. */
  heard(name: keyof HapaxEvents): boolean {
    for (const listener of this.#listeners[name]) if (this.#wants(listener)) return true
    return false
  }

  #wants(listener: object): boolean {
    return this.#wanted.get(listener)?.() ?? true
  }

  /** Emits an event, which is built only if there are listeners. */
  emit<Name extends keyof HapaxEvents>(name: Name, event: () => HapaxEvents[Name]): void {
    if (!this.heard(name)) return
    const value = event()
    for (const listener of this.#listeners[name]) {
      if (!this.#wants(listener)) continue
      try {
        const result: unknown = listener(value)
        if (result instanceof Promise) result.catch((error: unknown) => this.#failed(name, error))
      } catch (error) {
        this.#failed(name, error)
      }
    }
  }

  #failed(event: keyof HapaxEvents, error: unknown): void {
    this.#logger.error({ event, ...faultFields(asError(error)) }, 'a listener failed')
  }
}
