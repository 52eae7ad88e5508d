import type { EffectState, EventHub, Logger, Random, Redact, SafeInstrument } from '../base/index.ts'
import {
  asError,
  type Clock,
  expected,
  faultFields,
  HapaxError,
  isHapaxError,
  messageOf,
  pause,
  recordError,
  Watched,
  within,
} from '../base/index.ts'
import { jsonInAnyEncoding, placeOf, ref } from '../consumer/index.ts'
import type { EffectCall, EffectEnd, EffectOptions, EffectRef, EffectRow, Store, Verified } from '../contracts/index.ts'
import type { StoredMessage } from '../message/index.ts'
import { factsOfStored, messageId } from '../message/index.ts'
import { insist, persist } from '../transaction/index.ts'
import {
  checkEffect,
  deserialised,
  EffectNames,
  inCall,
  isCertain,
  keptResult,
  refusedLater,
  refuseInCall,
  resultOf,
  settling,
} from './effect-rules.ts'
import type { HeldLease } from './lease.ts'
import { Notes } from './notes.ts'

/** What effects need of their hapax. */
export interface EffectEngine {
  readonly store: Pick<Store<never>, 'journal'>
  readonly events: EventHub
  readonly instrument: SafeInstrument | undefined
  readonly logger: Logger
  /** The user's own rules for texts of errors. */
  readonly redact: Redact
  readonly clock: Clock
  readonly random: Random
}

/** What the effects of one attempt at one message share. */
export interface EffectsOptions {
  readonly engine: EffectEngine
  readonly consumer: string
  readonly message: StoredMessage
  readonly held: HeldLease
  readonly leaseMs: number
  /** How long to keep retrying the journal write after a call, while the store is away. @default as for other records */
  readonly insistMs?: number
}

/**
 * The outside calls of one attempt at one message, and their journal. The journal is written before a call and after it. A retry that
 * finds only the first entry knows that the call may have happened, and does not repeat it unless `onUnknown` says so.
 */
export class Effects {
  readonly #options: EffectsOptions
  readonly #running = new Map<string, Promise<unknown>>()
  readonly #names = new EffectNames()
  /** Effects that were called in this attempt. */
  readonly #called = new Set<string>()
  /** Effects that failed. */
  readonly #failures = new Map<string, Watched<unknown>>()
  /** Effects of which it is unknown whether they happened, and why. */
  readonly #unknowns = new Map<string, Error>()
  readonly #notes: Notes
  #lease: HapaxError | undefined
  /** Calls that exceeded `timeoutMs` and still run: they may yet happen. */
  readonly #late = new Map<string, Promise<unknown>>()
  #closed = false

  constructor(options: EffectsOptions) {
    this.#options = options
    this.#notes = new Notes({
      read: () => this.#readNotes(),
      write: (result) => this.#end('', { state: 'done', result, error: null }),
    })
  }

  /** Why the message cannot be settled yet, even if the handler returned normally. */
  get undecided(): Error | undefined {
    const [unknown] = this.#unknowns.values()
    return this.#lease ?? unknown ?? this.#names.refused
  }

  /** The error of an unknown call of an earlier attempt that this attempt did not repeat, for example because the code has changed. */
  async leftOpen(): Promise<HapaxError | undefined> {
    const { engine, consumer, message, held } = this.#options
    if (held.fence <= 1) return undefined
    const rows = await engine.store.journal.of(consumer, message.messageKey)
    const open = rows.find(({ name, state }) => name !== '' && (state === 'started' || state === 'unknown'))
    if (open === undefined) return undefined
    const what = `it is unknown whether '${open.name}' of an earlier attempt happened`
    return new HapaxError('unknown-effect', what, { fields: { effect: open.name } })
  }

  /** The error of a handler that returned without awaiting its calls. */
  get unawaited(): HapaxError | undefined {
    if (this.#running.size > 0) {
      const what = `the handler returned while an effect was still running: ${this.#open}`
      return new HapaxError('unawaited-effect', what)
    }
    const [unseen] = [...this.#failures].filter(([, { seen }]) => !seen)
    if (unseen === undefined) return undefined
    return new HapaxError('unawaited-effect', `the handler did not wait for the effect '${unseen[0]}', which failed`)
  }

  /**
   * The handler has ended: no new call may begin, and running ones may end, so that they are journalled under this lease. Waits no
   * longer than the lease lasts without renewal, and not at all if the handler was told to stop.
   */
  async finish(): Promise<void> {
    const { engine, held, leaseMs } = this.#options
    this.#closed = true
    const open = [...this.#running.values(), ...(this.#notes.writing === undefined ? [] : [this.#notes.writing])]
    if (open.length === 0 || held.reason !== undefined) return
    const over = new AbortController()
    const enough = pause(engine.clock, leaseMs, AbortSignal.any([held.signal, over.signal]))
    await Promise.race([Promise.allSettled(open), enough])
    over.abort()
  }

  /** Gives up on calls that still run. They are told to stop; their results cannot be journalled, and their errors are ignored. */
  leave(): void {
    if (this.#running.size === 0) return
    for (const running of this.#running.values()) running.catch(() => {})
    const what = `the handler has ended, and these effects are no longer awaited: ${this.#open}`
    this.#options.held.abort(new HapaxError('effect-timeout', what))
  }

  /** Makes an outside call, or returns the result of the attempt that made it. */
  effect<T>(name: string, call: EffectCall<T>, options: EffectOptions<T> = {}): Promise<T> {
    this.refuseInCall('effect')
    try {
      if (this.#closed) throw settling()
      checkEffect(name, call, options)
    } catch (error) {
      return Promise.reject(error)
    }
    const reused = this.#names.take(name)
    if (reused !== undefined) return refusedLater(reused)
    const running = this.#effect(name, call, options).finally(() => this.#running.delete(name))
    this.#running.set(name, running)
    const watched = new Watched(running)
    // A call that fails while another is awaited must not end the process. One that is never awaited is reported when the handler ends.
    running.catch(() => this.#failures.set(name, watched))
    return watched
  }

  /** Adds a note for people to read. Later fields replace earlier ones of the same name. */
  note(fields: Readonly<Record<string, unknown>>): Promise<void> {
    this.refuseInCall('note')
    if (this.#closed) return Promise.reject(settling())
    const noted = this.#notes.add(fields)
    // A note that is not awaited must not end the process when the store is away.
    noted.catch(() => {})
    return noted
  }

  /** Throws inside an outside call of this attempt. */
  refuseInCall(use: string): void {
    refuseInCall(this, use)
  }

  async #effect<T>(name: string, call: EffectCall<T>, options: EffectOptions<T>): Promise<T> {
    const { onUnknown = 'hold' } = options
    const again = onUnknown === 'retry-same-key'
    const before = await this.#begin(name, again).catch((error: unknown) => {
      this.#names.free(name)
      throw error
    })
    if (before?.state === 'done') return keptResult<T>(before)
    const called = before?.token !== this.#options.held.token || this.#called.has(name)
    // The entry is ours, but no call was made: the reply to our first `begin` was lost. That one may have replaced an unknown entry.
    const replaced = again && before !== undefined && before.attempts > 1
    const open = before?.state === 'unknown' || (before?.state === 'started' && (called || replaced))
    if (!open || again) return this.#call(name, call, options, open)
    const error = new HapaxError(
      'unknown-effect',
      `it is unknown whether '${name}' happened: an earlier attempt ended during the call`,
    )
    return this.#unknown(name, call, options, error)
  }

  /** Journals that the call begins, before it is made. Returns the entry of an earlier attempt, if there is one. */
  async #begin(name: string, again: boolean): Promise<EffectRow | undefined> {
    const { engine, held, leaseMs } = this.#options
    held.throwIfAborted()
    const begun = await persist(engine, () => engine.store.journal.begin(held, leaseMs, this.#ref(name), again))
    if (begun === undefined) throw this.#lost()
    // The lease may have been lost while the reply was under way: then the call must not be made.
    held.throwIfAborted()
    return begun.before
  }

  /** `maybe`: an earlier call may have happened, whatever this one does. `denied`: the provider said that it did not. */
  async #call<T>(
    name: string,
    call: EffectCall<T>,
    options: EffectOptions<T>,
    maybe: boolean,
    denied: boolean = false,
  ): Promise<T> {
    this.#called.add(name)
    let value: T
    try {
      value = await (this.#watched(name, call, options) ?? this.#inTime(name, call, options))
    } catch (thrown) {
      const error = asError(thrown)
      if (!isCertain(thrown, options)) return this.#unknown(name, call, options, error, denied)
      if (maybe) this.#unknowns.set(name, error)
      await this.#end(name, {
        state: maybe ? 'unknown' : 'not-done',
        result: null,
        error: recordError(error, this.#options.engine.redact),
      })
      if (!maybe) this.#names.free(name)
      throw thrown
    }
    return this.#done(name, value)
  }

  /** The call in the sight of the instrument; undefined if there is none. */
  #watched<T>(name: string, call: EffectCall<T>, options: EffectOptions<T>): Promise<T> | undefined {
    const { engine, consumer, message } = this.#options
    if (engine.instrument === undefined) return undefined
    const facts = { ...placeOf(consumer), effect: name, messages: factsOfStored([message]) }
    return engine.instrument.around('effect', facts, async (running) => {
      try {
        const value = await this.#inTime(name, call, options)
        running.add({ outcomes: ['done'] })
        return value
      } catch (error) {
        running.add({ outcomes: [isCertain(error, options) ? 'not-done' : 'unknown'] })
        throw error
      }
    })
  }

  #inTime<T>(name: string, call: EffectCall<T>, { timeoutMs }: EffectOptions<T>): Promise<T> {
    const { engine, held } = this.#options
    if (timeoutMs === undefined) return this.#made(name, call, held.signal)
    const limit = new AbortController()
    const signal = AbortSignal.any([held.signal, limit.signal])
    const calling = this.#made(name, call, signal)
    const ended = calling.then(
      () => {},
      () => {},
    )
    return within(engine.clock, timeoutMs, calling, () => {
      const late = new HapaxError('effect-timeout', `'${name}' did not end within ${timeoutMs} ms`)
      limit.abort(late)
      this.#late.set(name, ended)
      void ended.then(() => this.#late.delete(name))
      throw late
    })
  }

  #made<T>(name: string, call: EffectCall<T>, signal: AbortSignal): Promise<T> {
    return inCall(this, name, async () => call(this.#key(name), signal))
  }

  /** Whether a call that was told to stop still runs: as long as it does, it may still happen. */
  async #goesOn(name: string, { timeoutMs = 0 }: { timeoutMs?: number }): Promise<boolean> {
    const late = this.#late.get(name)
    if (late === undefined) return false
    const ended = late.then(() => false)
    return within(this.#options.engine.clock, Math.max(1_000, timeoutMs), ended, () => true)
  }

  /** The call has happened, and must not be made again. The handler gets the result as JSON has it, as a retry will. */
  async #done<T>(name: string, value: T): Promise<T> {
    const result = resultOf(name, value)
    const kept = typeof result === 'string'
    await this.#end(name, {
      state: 'done',
      result: kept ? result : null,
      error: kept ? null : recordError(result, this.#options.engine.redact),
    })
    this.#unknowns.delete(name)
    if (!kept) throw result
    return deserialised(result)
  }

  async #unknown<T>(
    name: string,
    call: EffectCall<T>,
    options: EffectOptions<T>,
    cause: Error,
    denied: boolean = false,
  ): Promise<T> {
    const { onUnknown = 'hold' } = options
    await this.#end(name, { state: 'unknown', result: null, error: recordError(cause, this.#options.engine.redact) })
    if (onUnknown === 'retry-same-key') {
      // The message cannot be settled; the next attempt calls again under the same key.
      this.#unknowns.set(name, cause)
      throw cause
    }
    if (typeof onUnknown !== 'function') throw this.#hold(name, cause)
    const verified = await this.#asked(name, onUnknown, options)
    if (typeof verified === 'object') return this.#done(name, verified.done)
    if (verified === 'unknown') throw this.#hold(name, cause)
    await this.#end(name, { state: 'not-done', result: null, error: recordError(cause, this.#options.engine.redact) })
    this.#unknowns.delete(name)
    // Denied twice in one attempt: leave the third call to the next attempt, after its delay.
    if (denied) {
      this.#names.free(name)
      throw cause
    }
    await this.#begin(name, false)
    return this.#call(name, call, options, false, true)
  }

  /** A provider's 'not-done' counts only if the call had ended before it was asked: a running call may happen afterwards. */
  async #asked<T>(
    name: string,
    verify: (key: string) => Verified<T> | Promise<Verified<T>>,
    options: EffectOptions<T>,
  ): Promise<Verified<T>> {
    const late = this.#late.has(name)
    const verified = await this.#verify(name, verify)
    if (verified !== 'not-done' || !late) return verified
    return (await this.#goesOn(name, options)) ? 'unknown' : this.#verify(name, verify)
  }

  async #verify<T>(name: string, verify: (key: string) => Verified<T> | Promise<Verified<T>>): Promise<Verified<T>> {
    try {
      const verified = await inCall(this, name, () => verify(this.#key(name)))
      const done = typeof verified === 'object' && verified !== null && Object.hasOwn(verified, 'done')
      const known = done || verified === 'not-done' || verified === 'unknown'
      if (!known) expected(`what verify of '${name}' returns`, `{ done }, 'not-done' or 'unknown'`, verified)
      return verified
    } catch (error) {
      const { engine, consumer, message } = this.#options
      engine.logger.warn(
        { consumer, about: ref(message), effect: name, ...faultFields(asError(error)) },
        'onUnknown could not find out whether the call happened',
      )
      return 'unknown'
    }
  }

  /** A person has to decide. Recorded here, so that a handler that catches the error cannot settle the message. */
  #hold(name: string, cause: Error): HapaxError {
    const known = isHapaxError(cause, 'unknown-effect')
    const what = known ? cause.message : `it is unknown whether '${name}' happened: ${messageOf(cause)}`
    const held = new HapaxError('unknown-effect', what, { cause, fields: { effect: name } })
    this.#unknowns.set(name, held)
    return held
  }

  /** Journals how a call ended. Rejects with `lease-lost` if another process has the message. */
  async #end(name: string, end: EffectEnd): Promise<void> {
    const { engine, held, consumer, message } = this.#options
    const write = (result: string | null): Promise<boolean> =>
      engine.store.journal.end(held, this.#ref(name), { ...end, result })
    const there = await this.#insist(name, () => jsonInAnyEncoding(end.result, write))
    if (!there) throw this.#lost()
    if (name === '') return
    const state: EffectState = end.state
    engine.events.emit('effect', () => ({ consumer, message: ref(message), effect: name, state }))
  }

  /** Retries a journal write. If it fails for good, the effect is undecided, and the message cannot be settled. */
  async #insist<T>(name: string, ask: () => Promise<T>): Promise<T> {
    const { engine, insistMs } = this.#options
    try {
      return await insist(engine, ask, insistMs)
    } catch (cause) {
      if (name === '' || !isHapaxError(cause)) throw cause
      const what = `the outcome of '${name}' could not be written down: ${cause.message}`
      const error = new HapaxError(cause.code, what, { cause, fields: { effect: name } })
      this.#unknowns.set(name, error)
      throw error
    }
  }

  async #readNotes(): Promise<string | null> {
    const { engine, consumer, message } = this.#options
    const rows = await this.#insist('', () => engine.store.journal.of(consumer, message.messageKey))
    return rows.find(({ name }) => name === '')?.result ?? null
  }

  #lost(): HapaxError {
    this.#lease = this.#options.held.lose()
    return this.#lease
  }

  get #open(): string {
    return [...this.#running.keys()].join(', ')
  }

  #ref(name: string): EffectRef {
    const { consumer, message } = this.#options
    return { consumer, messageKey: message.messageKey, name }
  }

  #key(name: string): string {
    const { consumer, message } = this.#options
    return effectKey(consumer, message, name)
  }
}

/** The key that an outside call carries: the same for every attempt at this effect, and for nothing else. */
export function effectKey(consumer: string, message: Pick<StoredMessage, 'source' | 'id'>, name: string): string {
  return messageId('hapax effect', consumer, message.source, message.id, name)
}
