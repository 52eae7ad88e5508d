import { describe, HapaxError } from '../base/index.ts'
import type { EffectRow } from '../contracts/index.ts'

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
  return (result === '' ? undefined : JSON.parse(result)) as T
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
