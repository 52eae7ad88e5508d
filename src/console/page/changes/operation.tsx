import type { OperationView } from '../../api.ts'
import type { Action } from '../state/actions.ts'
import { post } from '../state/api.ts'
import { command } from '../state/commands.ts'
import { plural } from '../state/format.ts'

const TEXTS = {
  pause: 'No further row is changed until somebody resumes it. Rows that are changed already stay changed.',
  resume: 'It goes on with the next row, at the same rate.',
  cancel: 'No further row is changed, and it cannot be resumed. Rows that are changed already stay changed.',
} as const

const VERBS = { pause: 'Pause', resume: 'Resume', cancel: 'Cancel the operation' } as const
const DONE = { pause: 'paused', resume: 'running again', cancel: 'cancelled' } as const

/** Pauses, resumes or cancels a change to many rows. */
export function changeOperation(operation: OperationView, verb: keyof typeof TEXTS): Action {
  const { id, total, done, gone, errors } = operation
  const left = Math.max(0, total - done - gone - errors)
  return {
    title: `${verb === 'cancel' ? 'Cancel' : VERBS[verb]} this operation`,
    verb: VERBS[verb],
    danger: verb === 'cancel',
    text: (
      <p>
        {TEXTS[verb]} {plural(left, 'message')} {left === 1 ? 'is' : 'are'} left.
      </p>
    ),
    command: (note) => command(['operations', verb, id], { note }),
    run: async (note) => {
      await post(`operations/${encodeURIComponent(id)}/${verb}`, { ...(note && { note }) })
      return `The operation is ${DONE[verb]}.`
    },
  }
}
