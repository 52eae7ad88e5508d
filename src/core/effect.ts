import { type Clock, within } from './clock.ts'
import { insist, persist } from './engine.ts'
import { asError, describe, HapaxError, messageOf, NotDone, Permanent, RetryAfter, recordError } from './errors.ts'
import type { EventHub } from './events.ts'
import { messageId } from './identity.ts'
import type { HeldLease } from './lease.ts'
import type { Logger } from './logger.ts'
import type { StoredMessage } from './message.ts'
import { expected, noOthers, positiveInteger, text } from './options.ts'
import type { Random } from './random.ts'
import { ref } from './reporter.ts'
import type { EffectEnd, EffectRef, EffectRow, EffectState, Store } from './store.ts'

/** What asking the provider has shown: that the call happened, and what it returned; that it did not; or nothing. */
export type Verified<T> = { readonly done: T } | 'not-done' | 'unknown'

/** Options of an effect. */
export interface EffectOptions<T> {
  /**
   * What to do when nobody knows whether the call happened: `hold` keeps the message for a person to decide; `retry-same-key`
   * calls again with the same key, for providers that honour it; a function asks the provider. @default 'hold'
   */
  readonly onUnknown?: 'hold' | 'retry-same-key' | ((key: string) => Verified<T> | Promise<Verified<T>>)
  /** Says of an error whether the call did certainly not happen. @default `classifyError` */
  readonly classify?: (error: unknown) => 'not-done' | 'unknown'
  /** How long the call may take; then its outcome is unknown. @default as long as the handler may */
  readonly timeoutMs?: number
}

/** Makes the outside call; `key` is the same in every attempt. */
export type EffectCall<T> = (key: string, signal: AbortSignal) => T | Promise<T>

/** The longest result of an effect that is kept, as JSON. */
export const MAX_RESULT_BYTES: number = 64 * 1024

/** Errors of the network from before a request was sent. */
const NOT_SENT: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EAI_NODATA',
  'EAI_NONAME',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'ENETDOWN',
  'UND_ERR_CONNECT_TIMEOUT',
  'ERR_INVALID_URL',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])

/**
 * Whether a call that threw this did certainly not happen: `NotDone`, `Permanent` and `RetryAfter` say so, and so does a
 * network error from before the request was sent. Anything else, a timeout above all, leaves it unknown.
 */
export function classifyError(error: unknown): 'not-done' | 'unknown' {
  return isNotDone(error, 0) ? 'not-done' : 'unknown'
}

function isNotDone(error: unknown, depth: number): boolean {
  if (typeof error !== 'object' || error === null || depth > 5) return false
  if (error instanceof NotDone || error instanceof Permanent || error instanceof RetryAfter) return true
  const { code, syscall, errors, cause } = error as Record<string, unknown>
  // Several addresses were tried: none of them may have got it.
  if (Array.isArray(errors) && errors.length > 0) return errors.every((each) => isNotDone(each, depth + 1))
  if (NOT_SENT.has(code) || syscall === 'connect' || syscall === 'getaddrinfo') return true
  return isNotDone(cause, depth + 1)
}

/** What effects need of their hapax. */
export interface EffectEngine {
  readonly store: Pick<Store<never>, 'beginEffect' | 'endEffect' | 'effects'>
  readonly events: EventHub
  readonly logger: Logger
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
}

/** The outside calls of one attempt at one message, and their journal. */
export class Effects {
  readonly #options: EffectsOptions
  readonly #running = new Map<string, Promise<unknown>>()
  /** Effects that were called in this attempt. */
  readonly #called = new Set<string>()
  /** Effects that nobody knows about, and why. */
  readonly #unknowns = new Map<string, Error>()
  #notes: Readonly<Record<string, unknown>> = {}
  #noting: Promise<unknown> = Promise.resolve()
  #lease: HapaxError | undefined
  /** Calls that did not end in time, until they end. */
  readonly #late = new Map<string, Promise<unknown>>()
  #closed = false

  constructor(options: EffectsOptions) {
    this.#options = options
  }

  /** What has to be decided first, whatever the handler makes of it. */
  get undecided(): Error | undefined {
    const [unknown] = this.#unknowns.values()
    return this.#lease ?? unknown
  }

  /** No more effects and notes: the handler has returned. */
  close(): void {
    this.#closed = true
  }

  /** A call of an earlier attempt that nobody knows about, and that this one did not come across. */
  async leftOpen(): Promise<HapaxError | undefined> {
    const { engine, consumer, message, held } = this.#options
    if (held.fence <= 1) return undefined
    const rows = await engine.store.effects(consumer, message.messageKey)
    const open = rows.find(({ name, state }) => name !== '' && (state === 'started' || state === 'unknown'))
    if (open === undefined) return undefined
    const what = `nobody knows whether '${open.name}' of an earlier attempt happened`
    return new HapaxError('unknown-effect', what, { fields: { effect: open.name } })
  }

  /** Why the message cannot be settled, whatever its handler makes of it. */
  get blocked(): Error | undefined {
    const decided = this.undecided
    if (decided !== undefined || this.#running.size === 0) return decided
    const names = [...this.#running.keys()].join(', ')
    return new HapaxError('unawaited-effect', `the handler returned while an effect was still running: ${names}`)
  }

  /** Nobody waits for what still runs: its end is written down if the lease allows it, and its error is of no interest. */
  leave(): void {
    for (const running of this.#running.values()) running.catch(() => {})
  }

  /** Waits for notes that were not awaited. */
  async settled(): Promise<void> {
    await this.#noting
  }

  /** Makes an outside call once, or answers what it returned when it was made. */
  effect<T>(name: string, call: EffectCall<T>, options: EffectOptions<T> = {}): Promise<T> {
    try {
      if (this.#closed) throw settling()
      checkEffect(name, call, options)
      if (this.#running.has(name)) expected('name', 'the name of an effect that is not running', name)
    } catch (error) {
      return Promise.reject(error)
    }
    const running = this.#effect(name, call, options).finally(() => this.#running.delete(name))
    this.#running.set(name, running)
    return running
  }

  /** Writes down something for people to read; later fields replace earlier ones of the same name. */
  note(fields: Readonly<Record<string, unknown>>): Promise<void> {
    if (this.#closed) return Promise.reject(settling())
    if (typeof fields !== 'object' || fields === null) expected('note', 'an object', fields)
    const notes = { ...this.#notes, ...fields }
    const result = serialised(notes)
    if (result === undefined) expected('note', 'an object that can be written as JSON', fields)
    if (Buffer.byteLength(result) > MAX_RESULT_BYTES)
      expected('notes', `at most ${MAX_RESULT_BYTES} bytes as JSON`, fields)
    this.#notes = notes
    const writing = this.#noting.then(() => this.#end('', { state: 'done', result, error: null }))
    this.#noting = writing.catch(() => {})
    return writing
  }

  async #effect<T>(name: string, call: EffectCall<T>, options: EffectOptions<T>): Promise<T> {
    const { onUnknown = 'hold' } = options
    const again = onUnknown === 'retry-same-key'
    const before = await this.#begin(name, again)
    if (before?.state === 'done') return parsed<T>(before)
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
    const begun = await persist(engine, () => engine.store.beginEffect(held, leaseMs, this.#ref(name), again))
    if (begun === undefined) throw this.#lost()
    // It may have been lost while the answer was under way.
    held.throwIfAborted()
    return begun.before
  }

  /** `maybe`: an earlier call may have happened, whatever becomes of this one. */
  async #call<T>(name: string, call: EffectCall<T>, options: EffectOptions<T>, maybe: boolean): Promise<T> {
    this.#called.add(name)
    let value: T
    try {
      value = await this.#inTime(name, call, options)
    } catch (thrown) {
      const error = asError(thrown)
      if (!isCertain(thrown, options)) return this.#unknown(name, call, options, error)
      if (maybe) this.#unknowns.set(name, error)
      await this.#end(name, { state: maybe ? 'unknown' : 'not-done', result: null, error: recordError(error) })
      throw thrown
    }
    return this.#done(name, value)
  }

  #inTime<T>(name: string, call: EffectCall<T>, { timeoutMs }: EffectOptions<T>): Promise<T> {
    const { engine, held } = this.#options
    if (timeoutMs === undefined) return (async () => call(this.#key(name), held.signal))()
    const limit = new AbortController()
    const signal = AbortSignal.any([held.signal, limit.signal])
    const calling = (async () => call(this.#key(name), signal))()
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

  /** Whether a call that was told to stop goes on: as long as it does, it may still happen. */
  async #goesOn(name: string, { timeoutMs = 0 }: { timeoutMs?: number }): Promise<boolean> {
    const late = this.#late.get(name)
    if (late === undefined) return false
    const ended = late.then(() => false)
    return within(this.#options.engine.clock, Math.max(1_000, timeoutMs), ended, () => true)
  }

  /** The call has happened: whatever comes now, it must not be made again. */
  async #done<T>(name: string, value: T): Promise<T> {
    const result = serialised(value)
    const bytes = result === undefined ? 0 : Buffer.byteLength(result)
    const error = result === undefined || bytes > MAX_RESULT_BYTES ? unfit(name, value, bytes) : undefined
    await this.#end(name, {
      state: 'done',
      result: error ? null : (result ?? null),
      error: error ? recordError(error) : null,
    })
    this.#unknowns.delete(name)
    if (error !== undefined) throw error
    return value
  }

  async #unknown<T>(name: string, call: EffectCall<T>, options: EffectOptions<T>, cause: Error): Promise<T> {
    const { onUnknown = 'hold' } = options
    await this.#end(name, { state: 'unknown', result: null, error: recordError(cause) })
    if (onUnknown === 'retry-same-key') {
      // Not to be settled like this; the next attempt calls again.
      this.#unknowns.set(name, cause)
      throw cause
    }
    if (typeof onUnknown !== 'function') throw this.#hold(name, cause)
    const verified = await this.#verify(name, onUnknown)
    if (typeof verified === 'object') return this.#done(name, verified.done)
    // That it did not happen is only true of a call that cannot happen any more.
    if (verified === 'unknown' || (await this.#goesOn(name, options))) throw this.#hold(name, cause)
    await this.#end(name, { state: 'not-done', result: null, error: recordError(cause) })
    this.#unknowns.delete(name)
    await this.#begin(name, false)
    return this.#call(name, call, { ...options, onUnknown: 'hold' }, false)
  }

  async #verify<T>(name: string, verify: (key: string) => Verified<T> | Promise<Verified<T>>): Promise<Verified<T>> {
    try {
      const verified = await verify(this.#key(name))
      const done = typeof verified === 'object' && verified !== null && Object.hasOwn(verified, 'done')
      const known = done || verified === 'not-done' || verified === 'unknown'
      if (!known) expected(`what verify of '${name}' returns`, `{ done }, 'not-done' or 'unknown'`, verified)
      return verified
    } catch (error) {
      const { engine, consumer } = this.#options
      engine.logger.warn({ consumer, effect: name, error: messageOf(asError(error)) }, 'asking the provider failed')
      return 'unknown'
    }
  }

  /** A person has to decide; the handler cannot go past it by catching the error. */
  #hold(name: string, cause: Error): HapaxError {
    const what = `nobody knows whether '${name}' happened: ${messageOf(cause)}`
    const held = new HapaxError('unknown-effect', what, { cause, fields: { effect: name } })
    this.#unknowns.set(name, held)
    return held
  }

  async #end(name: string, end: EffectEnd): Promise<void> {
    const { engine, held, consumer, message } = this.#options
    const there = await insist(engine, () => engine.store.endEffect(held, this.#ref(name), end))
    if (!there) throw this.#lost()
    if (name === '') return
    const state: EffectState = end.state
    engine.events.emit('effect', () => ({ consumer, message: ref(message), effect: name, state }))
  }

  #lost(): HapaxError {
    this.#lease = this.#options.held.lose()
    return this.#lease
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

/** Whatever a classify of one's own says beside 'not-done', or throws, it is not that. */
function isCertain<T>(thrown: unknown, { classify = classifyError }: EffectOptions<T>): boolean {
  try {
    return classify(thrown) === 'not-done'
  } catch {
    return false
  }
}

function settling(): HapaxError {
  return new HapaxError('transaction-closed', 'the handler has returned: its message is being settled, or was')
}

/** The key that an outside call carries: the same for every attempt at this effect, and for nothing else. */
export function effectKey(consumer: string, message: Pick<StoredMessage, 'source' | 'id'>, name: string): string {
  return messageId('hapax effect', consumer, message.source, message.id, name)
}

function checkEffect<T>(name: string, call: EffectCall<T>, options: EffectOptions<T>): void {
  text('name', name)
  if (typeof call !== 'function') expected(`the call of '${name}'`, 'a function', call)
  noOthers(`options of '${name}'`, options, ['onUnknown', 'classify', 'timeoutMs'])
  const { onUnknown, classify, timeoutMs } = options
  if (
    onUnknown !== undefined &&
    typeof onUnknown !== 'function' &&
    onUnknown !== 'hold' &&
    onUnknown !== 'retry-same-key'
  ) {
    expected('onUnknown', `'hold', 'retry-same-key' or a function`, onUnknown)
  }
  if (classify !== undefined && typeof classify !== 'function') expected('classify', 'a function', classify)
  if (timeoutMs !== undefined) positiveInteger('timeoutMs', timeoutMs, 1)
}

/** JSON, or undefined if the value has none; nothing at all is an empty text. */
function serialised(value: unknown): string | undefined {
  if (value === undefined) return ''
  try {
    return JSON.stringify(value)
  } catch {
    return undefined
  }
}

function unfit(name: string, value: unknown, bytes: number): HapaxError {
  const what =
    bytes > 0 ? `at most ${MAX_RESULT_BYTES} bytes as JSON, got ${bytes}` : `a JSON value, got ${describe(value)}`
  return new HapaxError('effect-result', `'${name}' has happened, but its result cannot be kept: expected ${what}`)
}

function parsed<T>({ name, result, error }: EffectRow): T {
  if (result === null) {
    const why = error === null ? '' : `: ${error.message}`
    throw new HapaxError('effect-result', `'${name}' has happened, but its result was not kept${why}`)
  }
  return (result === '' ? undefined : JSON.parse(result)) as T
}
