import { AsyncLocalStorage } from 'node:async_hooks'
import { describe, expected, HapaxError, noOthers, positiveInteger, text } from '../base/index.ts'
import type { EffectCall, EffectOptions, EffectRow } from '../contracts/index.ts'
import { classifyError } from './classify.ts'

/** Whatever a classify of one's own says beside 'not-done', or throws, it is not that. */
export function isCertain<T>(thrown: unknown, { classify = classifyError }: EffectOptions<T>): boolean {
  try {
    return classify(thrown) === 'not-done'
  } catch {
    return false
  }
}

/** Checks what a handler wants to be called. */
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

/** The names of the effects of one attempt. One name is one call: a second one would get the result of the first. */
export class EffectNames {
  readonly #taken = new Set<string>()
  #refused: HapaxError | undefined

  /** The first use of a name that was refused: whatever the handler makes of it, something was not called. */
  get refused(): HapaxError | undefined {
    return this.#refused
  }

  /** Takes a name, or says why it cannot be had. */
  take(name: string): HapaxError | undefined {
    if (!this.#taken.has(name)) {
      this.#taken.add(name)
      return undefined
    }
    const error = reused(name)
    this.#refused ??= error
    return error
  }

  /** The call certainly did not happen, so that it may be made once more under its name. */
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

/** The longest result of an effect that is kept, as JSON. */
export const MAX_RESULT_BYTES: number = 64 * 1024

/** JSON, or undefined if the value has none; nothing at all is an empty text. */
export function serialised(value: unknown): string | undefined {
  if (value === undefined) return ''
  try {
    return JSON.stringify(value)
  } catch {
    return undefined
  }
}

/** What was serialised. */
export function deserialised<T>(result: string): T {
  const value = result === '' ? undefined : JSON.parse(result)
  return value
}

/** The result of a call as it is kept; an error if it cannot be. */
export function resultOf(name: string, value: unknown): string | HapaxError {
  const result = serialised(value)
  if (result === undefined) return unfit(name, `a JSON value, got ${describe(value)}`)
  const bytes = Buffer.byteLength(result)
  return bytes > MAX_RESULT_BYTES ? unfit(name, `at most ${MAX_RESULT_BYTES} bytes as JSON, got ${bytes}`) : result
}

/** What a call returned in an earlier attempt. */
export function keptResult<T>({ name, result, error }: EffectRow): T {
  if (result !== null) return deserialised(result)
  const why = error === null ? '' : `: ${error.message}`
  throw new HapaxError('effect-result', `'${name}' has happened, but its result was not kept${why}`)
}

function unfit(name: string, what: string): HapaxError {
  return new HapaxError('effect-result', `'${name}' has happened, but its result cannot be kept: expected ${what}`)
}

/** A call to the outside world, and the attempt that makes it. */
interface Calling {
  readonly attempt: object
  readonly effect: string
}

/** To notice a call that uses the context of its own handler. Only effects touch it. */
const calling: AsyncLocalStorage<Calling> = new AsyncLocalStorage()

/** Makes a call of this attempt. */
export function inCall<T>(attempt: object, effect: string, call: () => T): T {
  return calling.run({ attempt, effect }, call)
}

/** A retry that finds a call done does not make it again: what was asked for inside it would be missing then. */
export function refuseInCall(attempt: object, use: string): void {
  const inside = calling.getStore()
  if (inside?.attempt !== attempt) return
  const what = `ctx.${use} was used inside the call of '${inside.effect}', where a retry would miss it`
  throw new HapaxError('reentrant', `${what}: use it before the effect, or after it`, {
    fields: { effect: inside.effect },
  })
}
