import { type Signal, signal } from '@preact/signals'
import type { FailedQueryView, OperationView } from '../../api.ts'
import { EffectsChecked } from '../parts/checked.tsx'
import { Where } from '../parts/where.tsx'
import type { Action } from '../state/actions.ts'
import { asProblem, Problem, post, skewMs } from '../state/api.ts'
import { failedCommand } from '../state/commands.ts'
import { count, plural, span } from '../state/format.ts'
import { go } from '../state/router.ts'
import { uuidv7 } from '../state/uuid.ts'

type Kind = 'retry' | 'discard'

/** How many match; undefined: not known yet. */
type Count = Signal<number | Problem | undefined>

/** The failure reason whose messages are skipped unless their effects were checked. */
const BROKEN = 'broken-atomicity'

/** Retries or discards all failed messages that match, as an operation: what matches is frozen when it begins. */
export function bulk(kind: Kind, where: FailedQueryView): Action {
  // Minted once, so that a repeated click is the same operation; by the clock of the server, because operations are listed by their ids.
  const id = uuidv7(Date.now() + skewMs.peek())
  const all = Object.keys(where).length === 0
  const which = { where, ...(all && { all: true }) }
  const found: Count = signal(undefined)
  const rate = signal(kind === 'retry' ? '50' : '')
  const unchecked: Count = signal(0)
  const checked = signal(false)
  const look = (): void => {
    void counted(which, found)
    const some = kind === 'retry' && (where.reason ?? BROKEN) === BROKEN
    if (some) void counted({ where: { ...where, reason: BROKEN } }, unchecked)
  }
  look()
  return {
    title: kind === 'retry' ? 'Retry failed messages' : 'Discard failed messages',
    verb: () => verbOf(kind, found.value),
    danger: kind === 'discard',
    text: <What kind={kind} where={where} found={found} again={look} />,
    fields: () => (
      <>
        <Unchecked unchecked={unchecked} checked={checked} />
        <Rate rate={rate} found={found} />
      </>
    ),
    ready: () => typeof found.value === 'number' && found.value > 0 && perSecond(rate.value) !== null,
    command: (note) =>
      failedCommand(kind, where, {
        ...(all && { all: true }),
        ...(checked.value && { 'effects-checked': true }),
        rate: perSecond(rate.value) ?? undefined,
        note,
        yes: true,
      }),
    run: async (note) => {
      const limit = perSecond(rate.peek())
      const sure = checked.peek() && { effectsChecked: true }
      const more = { ...(typeof limit === 'number' && { perSecond: limit }), ...sure, ...(note && { note }) }
      const begun = await post<OperationView>('operations', { kind, ...which, id, ...more })
      go(`operations/${begun.id}`)
      return `Began with ${plural(begun.total, 'message')}${since(begun.total, found.peek())}. What fails from now on is left alone.`
    },
  }
}

async function counted(which: object, found: Count): Promise<void> {
  found.value = undefined
  try {
    found.value = (await post<{ count: number }>('failed/count', which)).count
  } catch (error) {
    found.value = asProblem(error)
  }
}

/** What has changed between the count and the click. */
function since(total: number, found: Count['value']): string {
  if (typeof found !== 'number' || found === total) return ''
  return total > found
    ? `, ${count(total - found)} more than when you looked`
    : `, fewer than the ${plural(found, 'message')} you saw`
}

function verbOf(kind: Kind, found: Count['value']): string {
  const verb = kind === 'retry' ? 'Retry' : 'Discard'
  return typeof found === 'number' ? `${verb} ${plural(found, 'message')}` : verb
}

/** Undefined: without a limit; null: what was typed is no rate. */
function perSecond(text: string): number | undefined | null {
  if (text.trim() === '') return undefined
  const value = Number(text)
  return value >= 0.001 && value <= 1_000_000 ? value : null
}

interface WhatProps {
  readonly kind: Kind
  readonly where: FailedQueryView
  readonly found: Count
  /** Counts again. */
  readonly again: () => void
}

function What({ kind, where, found, again }: WhatProps) {
  const value = found.value
  return (
    <>
      <p>
        {value === undefined ? (
          'Counting …'
        ) : value instanceof Problem ? (
          <>
            They could not be counted: {value.message}{' '}
            <button type="button" onClick={again}>
              Count again
            </button>
          </>
        ) : (
          <>
            <strong>Exactly {plural(value, 'message')}</strong>{' '}
            {kind === 'retry' ? 'will be due again, the oldest first' : 'will be deleted for good, the oldest first'}:
          </>
        )}
      </p>
      <Where where={where} />
      <p class="dim">
        Which ones is fixed when you confirm: a message that fails later, or again, is left alone. Workers do it, so it
        goes on when this page is closed, and everybody sees its progress.
        {kind === 'discard' ? ' What is deleted does not come back.' : ''}
      </p>
    </>
  )
}

/** The skipped messages: a retry could repeat their effects, so a person has to check those first. */
function Unchecked({ unchecked, checked }: { readonly unchecked: Count; readonly checked: Signal<boolean> }) {
  const many = unchecked.value
  if (typeof many !== 'number' || many === 0) return null
  return (
    <>
      <p>
        <strong>{plural(many, 'message')}</strong> of these failed as <code>{BROKEN}</code>:{' '}
        {checked.value ? 'included in the retry' : 'skipped, and counted as not done'}.
      </p>
      <EffectsChecked checked={checked} what="I have checked the effects of each of them." />
    </>
  )
}

function Rate({ rate, found }: { readonly rate: Signal<string>; readonly found: Count }) {
  const limit = perSecond(rate.value)
  const number = typeof found.value === 'number' ? found.value : undefined
  const takes = typeof limit === 'number' && number !== undefined ? `takes about ${span((number / limit) * 1_000)}` : ''
  return (
    <label class="field">
      <span>At most so many per second</span>
      <input
        type="text"
        name="rate"
        inputMode="decimal"
        class="short"
        aria-describedby="rate-hint"
        aria-invalid={limit === null}
        value={rate.value}
        onInput={(event) => {
          rate.value = event.currentTarget.value
        }}
      />
      <span id="rate-hint" class="dim">
        {limit === null
          ? 'Expected a number such as 50 or 0.5, or nothing.'
          : limit === undefined
            ? 'Empty: as fast as the database allows.'
            : takes}
      </span>
    </label>
  )
}
