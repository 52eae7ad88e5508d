// What a retry of a failed message refuses, for one message as well as for many.

import { HapaxError } from '../../base/index.ts'
import type { FailedMessage } from '../../contracts/index.ts'
import { stubOf } from '../../message/index.ts'

/**
 * Throws if a retry of this message would do harm: it has the id of another one, only a part of it could be kept, or some of its effects may
 * have been committed and nobody has confirmed that they were checked.
 */
export function refuseRetry(failed: FailedMessage, effectsChecked: boolean): void {
  if (failed.reason === 'conflict') throw notItsOwnId(failed)
  refuseStub(failed)
  if (!effectsChecked) refuseUnchecked(failed)
}

/** Throws if some effects of a message may have been committed, which a retry or a replacement would repeat. */
export function refuseUnchecked({ seq, reason, message: { id, source } }: FailedMessage): void {
  if (reason !== 'broken-atomicity') return
  throw new HapaxError(
    'effects-unchecked',
    `the handler of the failed message ${seq} (${id} of ${source}) ended its transaction itself, or may have: check what it has written and published, then either discard the message, or confirm that you checked its effects (effectsChecked: true, --effects-checked) to run it again`,
    { fields: { seq } },
  )
}

function notItsOwnId({ seq, message: { id, source } }: FailedMessage): HapaxError {
  const what = `the failed message ${seq} came under an id that belongs to another one (${id} of ${source})`
  return new HapaxError(
    'conflict',
    `${what}: it needs one of its own, by an edit where the store has it, or sent anew; or discard it`,
    {
      fields: { seq },
    },
  )
}

/** Refuses a message of which only a part could be kept: a handler must not get half a payload. */
export function refuseStub({ seq, message }: FailedMessage): void {
  const stub = stubOf(message)
  if (stub === undefined) return
  const all = stub.bytes === null ? 'the' : `the ${stub.bytes}`
  const kept = `${message.data.byteLength} of ${all} bytes of its payload`
  const what = `of the failed message ${seq} only a stub could be kept, with ${kept}`
  const edit = stub.escaped ? '' : 'edit it with the whole data where the store has edits, '
  throw new HapaxError('not-whole', `${what}: ${edit}have it sent again in a form that can be taken, or discard it`, {
    fields: { seq, ...stub },
  })
}
