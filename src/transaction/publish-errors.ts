import { HapaxError } from '../base/index.ts'
import type { Prepared } from './waiting.ts'

/** A message that is written now would come before an earlier one of its key. */
export function overtakes({ message: { key } }: Prepared): HapaxError {
  const what = `an earlier publish of the key ${key} is written last, and would be overtaken: publish that one with now as well`
  return new HapaxError('invalid-option', `expected now to be absent, because ${what}`, { fields: { key } })
}

/** A handler left a publish behind. */
export function unawaited(what: string): HapaxError {
  return new HapaxError('unawaited-publish', `the handler ${what}: await every publish`)
}

/** Nobody would ever get the message. */
export function noConsumer(type: string): HapaxError {
  return new HapaxError(
    'no-consumer',
    `no consumer handles ${type}: with local delivery a consumer has to be registered, or a worker started, before it is published`,
    {
      fields: { type },
    },
  )
}
