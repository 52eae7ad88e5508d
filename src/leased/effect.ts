import type { EffectState, EventHub, Logger, Random, Redact } from '../base/index.ts'
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
import { jsonInAnyEncoding, ref } from '../consumer/index.ts'
import type { EffectCall, EffectEnd, EffectOptions, EffectRef, EffectRow, Store, Verified } from '../contracts/index.ts'
import type { StoredMessage } from '../message/index.ts'
import { messageId } from '../message/index.ts'
import { insist, persist } from '../transaction/index.ts'
import {
  checkEffect,
  deserialised,
  EffectNames,
  inCall,
  isCertain,
  keptResult,
  refuseInCall,
  resultOf,
} from './effect-rules.ts'
import type { HeldLease } from './lease.ts'
import { Notes } from './notes.ts'

/** What effects need of their hapax. */
export interface EffectEngine {
  readonly store: Pick<Store<never>, 'journal'>
  readonly events: EventHub
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
  /** For how long the end of a call is tried to be written down while the store is away. @default as long as records are insisted on */
  readonly insistMs?: number
}

/** The outside calls of one attempt at one message, and their journal. */
export class Effects {
  readonly #options: EffectsOptions
  readonly #running = new Map<string, Promise<unknown>>()
  readonly #names = new EffectNames()
  /** Effects that were called in this attempt. */
  readonly #called = new Set<string>()
  /** Effects that failed. */
  readonly #failures = new Map<string, Watched<unknown>>()
  /** Effects that nobody knows about, and why. */
  readonly #unknowns = new Map<string, Error>()
  readonly #notes: Notes
  #lease: HapaxError | undefined
  /** Calls that did not end in time, until they end. */
  readonly #late = new Map<string, Promise<unknown>>()
  #closed = false

  constructor(options: EffectsOptions) {
    this.#options = options
    this.#notes = new Notes({
      read: () => this.#readNotes(),
      write: (result) => this.#end('', { state: 'done', result, error: null }),
    })
  }

  /** What has to be decided first, whatever the handler makes of it. */
  get undecided(): Error | undefined {
    const [unknown] = this.#unknowns.values()
    return this.#lease ?? unknown ?? this.#names.refused
  }

  /** A call of an earlier attempt that nobody knows about, and that this one did not come across. */
  async leftOpen(): Promise<HapaxError | undefined> {
    const { engine, consumer, message, held } = this.#options
    if (held.fence <= 1) return undefined
    const rows = await engine.store.journal.of(consumer, message.messageKey)
    const open = rows.find(({ name, state }) => name !== '' && (state === 'started' || state === 'unknown'))
    if (open === undefined) return undefined
    const what = `nobody knows whether '${open.name}' of an earlier attempt happened`
    return new HapaxError('unknown-effect', what, { fields: { effect: open.name } })
  }

  /** The handler has returned, and did not wait for its calls. */
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
   * The handler has ended: nothing new begins, and what still runs comes to its end, so that it is written down under this lease.
   * It is not waited for any longer than that lasts by itself, nor after the handler was told to stop.
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

  /** Nobody waits any more: what still runs is told to stop, what becomes of it cannot be written down, and its error is of no interest. */
  leave(): void {
    if (this.#running.size === 0) return
    for (const running of this.#running.values()) running.catch(() => {})
    const what = `the handler has ended, and was not waited for any longer: ${this.#open}`
    this.#options.held.abort(new HapaxError('effect-timeout', what))
  }

  /** Makes an outside call once, or answers what it returned when it was made. */
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
    // One that fails while another one is awaited must not end the process; one that nobody ever awaits is told at the end.
    running.catch(() => this.#failures.set(name, watched))
    return watched
  }

  /** Writes down something for people to read; later fields replace earlier ones of the same name. */
  note(fields: Readonly<Record<string, unknown>>): Promise<void> {
    this.refuseInCall('note')
    if (this.#closed) return Promise.reject(settling())
    const noted = this.#notes.add(fields)
    // Notes are for people: whoever does not wait for one does not want to hear that the store was away.
    noted.catch(() => {})
    return noted
  }

  /** Throws inside a call of this attempt. */
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
    // Ours, and not called: the answer to an earlier begin was lost, which may have replaced an unknown one.
    const replaced = again && before !== undefined && before.attempts > 1
    const open = before?.state === 'unknown' || (before?.state === 'started' && (called || replaced))
    if (!open || again) return this.#call(name, call, options, open)
    const error = new HapaxError(
      'unknown-effect',
      `nobody knows whether '${name}' happened: an earlier attempt ended in it`,
    )
    return this.#unknown(name, call, options, error)
  }

  async #begin(name: string, again: boolean): Promise<EffectRow | undefined> {
    const { engine, held, leaseMs } = this.#options
    held.throwIfAborted()
    const begun = await persist(engine, () => engine.store.journal.begin(held, leaseMs, this.#ref(name), again))
    if (begun === undefined) throw this.#lost()
    // It may have been lost while the answer was under way.
    held.throwIfAborted()
    return begun.before
  }

  /** `maybe`: an earlier call may have happened, whatever becomes of this one. `denied`: the provider knew of none. */
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
      value = await this.#inTime(name, call, options)
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
      const late = new HapaxError('effect-timeout', `'${name}' did not answer within ${timeoutMs} ms`)
      limit.abort(late)
      this.#late.set(name, ended)
      void ended.then(() => this.#late.delete(name))
      throw late
    })
  }

  #made<T>(name: string, call: EffectCall<T>, signal: AbortSignal): Promise<T> {
    return inCall(this, name, async () => call(this.#key(name), signal))
  }

  /** Whether a call that was told to stop goes on: as long as it does, it may still happen. */
  async #goesOn(name: string, { timeoutMs = 0 }: { timeoutMs?: number }): Promise<boolean> {
    const late = this.#late.get(name)
    if (late === undefined) return false
    const ended = late.then(() => false)
    return within(this.#options.engine.clock, Math.max(1_000, timeoutMs), ended, () => true)
  }

  /** The call has happened: whatever comes now, it must not be made again. The handler gets what a retry will get. */
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
      // Not to be settled like this; the next attempt calls again.
      this.#unknowns.set(name, cause)
      throw cause
    }
    if (typeof onUnknown !== 'function') throw this.#hold(name, cause)
    const verified = await this.#asked(name, onUnknown, options)
    if (typeof verified === 'object') return this.#done(name, verified.done)
    if (verified === 'unknown') throw this.#hold(name, cause)
    await this.#end(name, { state: 'not-done', result: null, error: recordError(cause, this.#options.engine.redact) })
    this.#unknowns.delete(name)
    // A second time in one attempt: the next one calls again.
    if (denied) {
      this.#names.free(name)
      throw cause
    }
    await this.#begin(name, false)
    return this.#call(name, call, options, false, true)
  }

  /** That it did not happen is only true of a call that could not happen any more when the provider was asked. */
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
      const { engine, consumer } = this.#options
      engine.logger.warn({ consumer, effect: name, ...faultFields(asError(error)) }, 'asking the provider failed')
      return 'unknown'
    }
  }

  /** A person has to decide; the handler cannot go past it by catching the error. */
  #hold(name: string, cause: Error): HapaxError {
    const known = isHapaxError(cause, 'unknown-effect')
    const what = known ? cause.message : `nobody knows whether '${name}' happened: ${messageOf(cause)}`
    const held = new HapaxError('unknown-effect', what, { cause, fields: { effect: name } })
    this.#unknowns.set(name, held)
    return held
  }

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

  /** Nobody gets past a call whose end could not be written down. */
  async #insist<T>(name: string, ask: () => Promise<T>): Promise<T> {
    const { engine, insistMs } = this.#options
    try {
      return await insist(engine, ask, insistMs)
    } catch (cause) {
      if (name === '' || !isHapaxError(cause)) throw cause
      const what = `what became of '${name}' could not be written down: ${cause.message}`
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

/** The message is not settled anyway: a call that nobody waits for must not end the process. */
function refusedLater(error: HapaxError): Promise<never> {
  const refused = Promise.reject(error)
  refused.catch(() => {})
  return refused
}

function settling(): HapaxError {
  return new HapaxError('transaction-closed', 'the handler has ended: its message is being settled, or was')
}

/** The key that an outside call carries: the same for every attempt at this effect, and for nothing else. */
export function effectKey(consumer: string, message: Pick<StoredMessage, 'source' | 'id'>, name: string): string {
  return messageId('hapax effect', consumer, message.source, message.id, name)
}
