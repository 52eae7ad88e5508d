import { type Signal, signal } from '@preact/signals'
import type { EffectView } from '../../api.ts'
import type { Action } from '../state/actions.ts'
import { post } from '../state/api.ts'
import { command } from '../state/commands.ts'

type Outcome = 'done' | 'not-done'

/** Records what a person has found out about an external call whose outcome is unknown. */
export function settle(seq: string, effect: EffectView): Action {
  const outcome = signal<Outcome | undefined>(undefined)
  const result = signal('')
  const isDone = (): boolean => outcome.value === 'done'
  return {
    title: (
      <>
        Settle the effect <bdi>{effect.name}</bdi>
      </>
    ),
    verb: 'Settle and retry',
    text: (
      <p>
        hapax began the external call <code>{effect.name}</code> for{' '}
        <code>{effect.message?.id ?? effect.messageKey}</code> and does not know whether it took effect. Look at the
        provider first, then say what you found. The message is tried again afterwards.
      </p>
    ),
    fields: () => <Choice outcome={outcome} result={result} />,
    ready: () => outcome.value !== undefined && (!isDone() || result.value.trim() === '' || isJson(result.value)),
    command: (note) =>
      command(['failed', 'settle', seq, effect.name], {
        ...(isDone() ? resultOption(result.value) : { 'not-done': true }),
        note,
      }),
    run: async (note) => {
      const given = result.peek().trim()
      await post(`failed/${encodeURIComponent(seq)}/settle`, {
        effect: effect.name,
        state: outcome.peek(),
        ...(outcome.peek() === 'done' && given !== '' && { result: given }),
        ...(note && { note }),
      })
      return (
        <>
          The effect <bdi>{effect.name}</bdi> is settled, and its message is due again.
        </>
      )
    },
  }
}

function resultOption(text: string): Record<string, string | true> {
  return text.trim() === '' ? { done: true, 'no-result': true } : { done: true, result: text.trim() }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function Choice({ outcome, result }: { outcome: Signal<Outcome | undefined>; result: Signal<string> }) {
  const wrong = result.value.trim() !== '' && !isJson(result.value)
  return (
    <fieldset>
      <legend>What did you find?</legend>
      <label>
        <input
          type="radio"
          name="outcome"
          checked={outcome.value === 'done'}
          onChange={() => (outcome.value = 'done')}
        />{' '}
        It happened: it is not repeated.
      </label>
      <label>
        <input
          type="radio"
          name="outcome"
          checked={outcome.value === 'not-done'}
          onChange={() => (outcome.value = 'not-done')}
        />{' '}
        It certainly did not happen: it is made.
      </label>
      {outcome.value === 'done' ? (
        <label class="field">
          <span>What it returned, as JSON (empty: nothing that the handler uses)</span>
          <input
            type="text"
            name="result"
            class="code"
            spellcheck={false}
            aria-invalid={wrong}
            value={result.value}
            onInput={(event) => {
              result.value = event.currentTarget.value
            }}
          />
          {wrong ? <span class="bad">This is no JSON.</span> : null}
        </label>
      ) : null}
    </fieldset>
  )
}
