import { expected, noOthers, positiveInteger, text } from '../base/index.ts'
import type { EffectCall, EffectOptions } from '../contracts/index.ts'
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
