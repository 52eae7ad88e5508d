// Why a claimed message is not worked on.

import { HapaxError } from '../base/index.ts'
import type { Verdict } from '../consumer/index.ts'

/** Somebody else has it. */
export function elsewhere(): HapaxError {
  return new HapaxError('busy', 'another process is working on this message')
}

/** It waits for its next attempt. */
export function notItsTurn(): HapaxError {
  return new HapaxError('busy', 'whoever had this message was not heard of again: few of that kind run at once')
}

export function notDue(): HapaxError {
  return new HapaxError('busy', 'the next attempt at this message is not due yet')
}

/** It has ended its process too often. */
export function crashLoop(crashes: number): Verdict & { kind: 'fail' } {
  const what = `${crashes} times in a row, whoever worked on this message was not heard of again`
  return { kind: 'fail', reason: 'crash-loop', error: new HapaxError('crash-loop', what) }
}
