// The rules of effects: what may be called, under which names, which results are kept, and what a call must not do.

import { AsyncLocalStorage } from 'node:async_hooks'
import { describe, expected, HapaxError, noOthers, positiveInteger, text } from '../base/index.ts'
import type { EffectCall, EffectOptions, EffectRow } from '../contracts/index.ts'
import { classifyError } from './classify.ts'

/** Whether the call certainly did not happen. A `classify` that throws, or returns anything but 'not-done', is taken as unknown. */
export function isCertain<T>(thrown: unknown, { classify = classifyError }: EffectOptions<T>): boolean {
  try {
    return classify(thrown) === 'not-done'
  } catch {
    return false
  }
}

/** Checks the arguments of `ctx.effect`. */
export function checkEffect<T>(name: string, call: EffectCall<T>, options: EffectOptions<T>): void {
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

/** The names of the effects of one attempt. A name stands for one call: a second call under it would get the result of the first. */
export class EffectNames {
  readonly #taken = new Set<string>()
  #refused: HapaxError | undefined

  /** The first refusal. The message cannot be settled after it, even if the handler caught the error: a call was not made. */
  get refused(): HapaxError | undefined {
    return this.#refused
  }

  /** Takes a name; returns the error if it is taken already. */
  take(name: string): HapaxError | undefined {
    if (!this.#taken.has(name)) {
      this.#taken.add(name)
      return undefined
    }
    const error = reused(name)
    this.#refused ??= error
    return error
  }

  /** Frees a name whose call certainly did not happen, so that the handler may try once more. */
  free(name: string): void {
    this.#taken.delete(name)
  }
}

function reused(name: string): HapaxError {
  const what = `expected each call to have a name of its own, got '${name}' a second time in one attempt`
  return new HapaxError('reused-effect', `${what}: in a loop, name what is called, as in '${name}:' + to`, {
    fields: { effect: name },
  })
}

/** A rejection that may be ignored: the message is not settled anyway, and an unhandled rejection would end the process. */
export function refusedLater(error: HapaxError): Promise<never> {
  const refused = Promise.reject(error)
  refused.catch(() => {})
  return refused
}

/** The error of a context that is used after its handler has ended. */
export function settling(): HapaxError {
  return new HapaxError('transaction-closed', 'the handler has ended: its message is being settled, or has been')
}

/** The longest result of an effect, as JSON. The journal keeps results for retries, and is no place for documents. */
export const MAX_RESULT_BYTES: number = 64 * 1024

/** The value as JSON; '' for undefined, which has no JSON. Returns undefined if the value cannot be serialised. */
export function serialised(value: unknown): string | undefined {
  if (value === undefined) return ''
  try {
    return JSON.stringify(value)
  } catch {
    return undefined
  }
}

/** The value that was serialised. */
export function deserialised<T>(result: string): T {
  const value = result === '' ? undefined : JSON.parse(result)
  return value
}

/** The result of a call as the journal keeps it, or the error why it cannot. */
export function resultOf(name: string, value: unknown): string | HapaxError {
  const result = serialised(value)
  if (result === undefined) return unfit(name, `a JSON value, got ${describe(value)}`)
  const bytes = Buffer.byteLength(result)
  return bytes > MAX_RESULT_BYTES ? unfit(name, `at most ${MAX_RESULT_BYTES} bytes as JSON, got ${bytes}`) : result
}

/** What a call returned in an earlier attempt; throws `effect-result` if that could not be kept. */
export function keptResult<T>({ name, result, error }: EffectRow): T {
  if (result !== null) return deserialised(result)
  const why = error === null ? '' : `: ${error.message}`
  throw new HapaxError('effect-result', `'${name}' happened, but its result was not kept${why}`)
}

function unfit(name: string, what: string): HapaxError {
  return new HapaxError('effect-result', `'${name}' happened, but its result cannot be kept: expected ${what}`)
}

/** An outside call, and the attempt that makes it. */
interface Calling {
  readonly attempt: object
  readonly effect: string
}

/** Detects a call that uses the context of its own handler. Only effects pay for it: other handlers never enter it. */
const calling: AsyncLocalStorage<Calling> = new AsyncLocalStorage()

/** Runs an outside call of this attempt. */
export function inCall<T>(attempt: object, effect: string, call: () => T): T {
  return calling.run({ attempt, effect }, call)
}

/** Throws inside an outside call of this attempt. A retry skips calls that are done, and with them whatever they ask for. */
export function refuseInCall(attempt: object, use: string): void {
  const inside = calling.getStore()
  if (inside?.attempt !== attempt) return
  const what = `ctx.${use} was used inside the call of '${inside.effect}', where a retry would miss it`
  throw new HapaxError('reentrant', `${what}: use it before the effect, or after it`, {
    fields: { effect: inside.effect },
  })
}
