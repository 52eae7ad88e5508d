import { classifyError } from './classify.ts'
import { expected, noOthers, positiveInteger, text } from './options.ts'

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
