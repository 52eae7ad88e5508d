import { type Signal, signal } from '@preact/signals'
import type { EffectView } from '../../api.ts'
import { Copy } from '../parts/text.tsx'
import type { Action } from '../state/actions.ts'
import { post } from '../state/api.ts'
import { command } from '../state/commands.ts'

type Outcome = 'done' | 'not-done' | 'retry'

/** Records what a person has found out about an external call whose outcome is unknown. */
export function settle(seq: string, effect: EffectView): Action {
  const outcome = signal<Outcome | undefined>(effect.resultLost ? 'done' : undefined)
  const result = signal('')
  const isDone = (): boolean => outcome.value === 'done'
  return {
    title: (
      <>
        Settle the effect <bdi>{effect.name}</bdi>
      </>
    ),
    verb: () => (outcome.value === 'retry' ? 'Repeat the call' : 'Settle and retry'),
    text: <About effect={effect} />,
    fields: () => <Choice outcome={outcome} result={result} lost={effect.resultLost} />,
    ready: () => outcome.value !== undefined && (!isDone() || result.value.trim() === '' || isJson(result.value)),
    command: (note) =>
      command(['failed', 'settle', seq, effect.name], {
        ...(isDone() ? resultOption(result.value) : { [outcome.value ?? 'not-done']: true }),
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

/** What is unknown, and the key by which the provider knows the call. */
function About({ effect: { name, message, messageKey, key, resultLost } }: { readonly effect: EffectView }) {
  const call = (
    <>
      the external call <code>{name}</code> for <code>{message?.id ?? messageKey}</code>
    </>
  )
  return (
    <>
      {resultLost ? (
        <p>Hapax made {call}, and could not store its result. The message is retried with the result given here.</p>
      ) : (
        <p>
          It is unknown whether {call} took effect. Look it up at the provider first. The message is retried afterwards.
        </p>
      )}
      {key === null ? null : (
        <p>
          Idempotency key: <code>{key}</code> <Copy text={key} what="the idempotency key" />
        </p>
      )}
    </>
  )
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

const OUTCOMES: readonly (readonly [outcome: Outcome, text: string])[] = [
  ['done', 'It happened: it is not repeated.'],
  ['not-done', 'It certainly did not happen: the call is made.'],
  ['retry', 'It is unknown: the call is repeated with the same idempotency key. The provider must recognise that key.'],
]

interface ChoiceProps {
  readonly outcome: Signal<Outcome | undefined>
  readonly result: Signal<string>
  /** Only the result is unknown. */
  readonly lost: boolean
}

function Choice({ outcome, result, lost }: ChoiceProps) {
  const wrong = result.value.trim() !== '' && !isJson(result.value)
  return (
    <fieldset>
      <legend>What did you find?</legend>
      {OUTCOMES.filter(([each]) => !lost || each === 'done').map(([each, text]) => (
        <label key={each}>
          <input type="radio" name="outcome" checked={outcome.value === each} onChange={() => (outcome.value = each)} />{' '}
          {text}
        </label>
      ))}
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
