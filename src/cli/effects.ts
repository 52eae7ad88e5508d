import { safe, shellWord } from '../base/index.ts'
import type { EffectRow, FailedMessage } from '../contracts/index.ts'
import { effectKey } from '../leased/index.ts'
import { type Io, line, paint } from './io/io.ts'
import { plural, when } from './io/text.ts'
import { command, type StoreOptions } from './store.ts'

/** What is known about an external call, in words. */
export const EFFECT_STATES: Readonly<Record<EffectRow['state'], string>> = {
  started: 'started, and its outcome was not recorded',
  done: 'done',
  'not-done': 'not done',
  unknown: 'it is unknown whether it happened',
}

/** The journal of a message for programs: its external calls and its notes. */
export function journal({ consumer, message }: FailedMessage, effects: readonly EffectRow[]): object {
  return {
    effects: effects.filter(isCall).map(({ name, state, attempts, result, error, firstAt, lastAt }) => ({
      name,
      key: effectKey(consumer, message, name),
      state,
      attempts,
      firstAt,
      lastAt,
      result: result ? JSON.parse(result) : null,
      error,
    })),
    notes: notesOf(effects),
  }
}

/** Shows the journal of a message. */
export function tellJournal(found: FailedMessage, effects: readonly EffectRow[], io: Io): void {
  for (const [name, value] of Object.entries(notesOf(effects) ?? {})) {
    line(io, `${paint(io, 'dim', safe(`note ${name}`).padEnd(15))} ${safe(JSON.stringify(value) ?? '')}`)
  }
  const calls = effects.filter(isCall)
  if (calls.length === 0) return
  line(io)
  line(io, paint(io, 'dim', 'external calls'))
  for (const effect of calls) tellEffect(found, effect, io)
}

function tellEffect({ consumer, message }: FailedMessage, effect: EffectRow, io: Io): void {
  const { name, state, attempts, firstAt, lastAt, result, error } = effect
  const style = isOpen(effect) ? 'red' : 'green'
  line(io, `  ${safe(name)}  ${paint(io, style, EFFECT_STATES[state])}`)
  line(io, `    key   ${effectKey(consumer, message, name)}`)
  line(io, `    made  ${plural(attempts, 'time')}, first ${when(firstAt)}, last ${when(lastAt)}`)
  if (result) line(io, `    gave  ${safe(result)}`)
  if (error !== null) line(io, `    error ${safe(`${error.name}: ${error.message}`)}`)
}

/** Prints what to do about calls whose outcome or result is unknown. */
export function tellHowToSettle(seq: string, effects: readonly EffectRow[], options: StoreOptions, io: Io): void {
  for (const effect of effects.filter(isUnsettled)) {
    const { name } = effect
    const settle = (how: string): string => command(`failed settle ${seq} ${shellWord(safe(name))} ${how}`, options)
    if (isResultLost(effect)) {
      line(io, `to say what '${safe(name)}' returned: ${settle("--done --result '<json>'")}`)
      continue
    }
    line(io, `if '${safe(name)}' happened:     ${settle("--done --result '<json>'")}`)
    line(io, `if it did not:        ${settle('--not-done')}`)
    line(io, `to repeat the call:   ${settle('--retry')}`)
  }
}

/** Whether a person must state its outcome before its message can be finished. */
export function isUnsettled(effect: EffectRow): boolean {
  return isCall(effect) && (isOpen(effect) || isResultLost(effect))
}

/** Whether the call may have happened. */
export function isMade(effect: EffectRow): boolean {
  return isCall(effect) && effect.state !== 'not-done'
}

function isOpen({ state }: EffectRow): boolean {
  return state === 'started' || state === 'unknown'
}

/** The call happened, but its result could not be stored. */
function isResultLost({ state, result }: EffectRow): boolean {
  return state === 'done' && result === null
}

/** The row without a name holds the notes. */
function isCall({ name }: EffectRow): boolean {
  return name !== ''
}

function notesOf(effects: readonly EffectRow[]): Readonly<Record<string, unknown>> | null {
  const notes = effects.find((each) => !isCall(each))?.result
  return notes ? JSON.parse(notes) : null
}
