import { safe, shellWord } from '../base/index.ts'
import type { EffectRow, FailedMessage } from '../contracts/index.ts'
import { effectKey } from '../leased/index.ts'
import { type Io, line, paint } from './io/io.ts'
import { plural, when, widthOf } from './io/text.ts'
import { command, type StoreOptions } from './store.ts'

/** What a command is for, and the command. */
export type Hint = readonly [label: string, command: string]

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

/** What to do about calls whose outcome or result is unknown. */
export function howToSettle(seq: string, effects: readonly EffectRow[], options: StoreOptions): readonly Hint[] {
  return effects.filter(isUnsettled).flatMap((effect): readonly Hint[] => {
    const { name } = effect
    const settle = (how: string): string => command(`failed settle ${seq} ${shellWord(safe(name))} ${how}`, options)
    const done = settle("--done --result '<json>'")
    if (isResultLost(effect)) return [[`to say what '${safe(name)}' returned:`, done]]
    return [
      [`if '${safe(name)}' happened:`, done],
      ['if it did not:', settle('--not-done')],
      ['to repeat the call:', settle('--retry')],
    ]
  })
}

/** Prints commands below one another, in one column. */
export function tellHints(hints: readonly Hint[], io: Io): void {
  const width = Math.max(0, ...hints.map(([label]) => widthOf(label)))
  for (const [label, what] of hints) line(io, `${label}${' '.repeat(width - widthOf(label))} ${what}`)
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
