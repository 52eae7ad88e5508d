import { type Signal, signal } from '@preact/signals'
import { useMemo } from 'preact/hooks'
import type { PayloadView } from '../../api.ts'
import { EffectsChecked } from '../parts/checked.tsx'
import type { Action } from '../state/actions.ts'
import { post } from '../state/api.ts'
import { command } from '../state/commands.ts'
import { changes, diff } from '../state/diff.ts'
import { plural } from '../state/format.ts'
import { go } from '../state/router.ts'
import { brokenUp } from '../state/tokens.ts'
import type { Named } from './rows.tsx'

/** Why this payload cannot be edited here; undefined: it can. */
export function notEditable(payload: PayloadView): string | undefined {
  if (payload.redacted) return 'Parts of this payload are hidden from you, and would be lost.'
  if (payload.encoding === 'hex') return 'These are bytes, not text: npx hapax failed edit --file takes them.'
  if (payload.text.includes('\r')) return 'It has carriage returns, which a text field of a browser does not keep.'
  return undefined
}

/** Replaces the payload of a failed message by another text, exactly as it is typed. */
export function edit(row: Named, payload: PayloadView): Action {
  const old = payload.text
  const text = signal(old)
  const checked = signal(false)
  const needed = row.unchecked === true
  const sure = needed ? <EffectsChecked checked={checked} what="I have checked its effects." /> : null
  const isJson = /\bjson\b/i.test(payload.contentType ?? 'json')
  return {
    title: `Edit message ${row.seq}`,
    verb: 'Replace the message',
    size: 'wide',
    text: (
      <p>
        A <strong>new message with a new id</strong> and this payload takes the place of <code>{row.id}</code>, because
        the old id may have been processed elsewhere. The failed row stays and names its replacement.
      </p>
    ),
    fields: () => (
      <>
        {sure}
        <Editor old={old} text={text} isJson={isJson} />
      </>
    ),
    ready: () => (!needed || checked.value) && text.value !== old && (!isJson || invalid(text.value) === undefined),
    command: (note) =>
      command(['failed', 'edit', row.seq], {
        ...dataOption(text.value),
        ...(needed && { 'effects-checked': true }),
        note,
      }),
    run: async (note) => {
      const { id } = await post<{ id: string }>(`failed/${encodeURIComponent(row.seq)}/edit`, {
        data: text.peek(),
        ...(needed && { effectsChecked: true }),
        ...(note && { note }),
      })
      go(`message?id=${encodeURIComponent(id)}`)
      return `Message ${row.seq} is replaced by ${id}.`
    },
  }
}

/** Linux takes no word of more than 128 KiB: a longer text has to come from a file. */
function dataOption(text: string): Record<string, string> {
  return new TextEncoder().encode(text).byteLength < 100_000 ? { data: text } : { file: 'new-payload' }
}

/** Parsed only to see whether it can be: what is sent is the text. */
function invalid(text: string): string | undefined {
  try {
    JSON.parse(text)
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

function Editor({ old, text, isJson }: { old: string; text: Signal<string>; isJson: boolean }) {
  const wrong = isJson ? invalid(text.value) : undefined
  return (
    <>
      <label class="field">
        <span>The new payload</span>
        <textarea
          name="data"
          class="code"
          rows={10}
          spellcheck={false}
          autocomplete="off"
          aria-invalid={wrong !== undefined}
          aria-describedby="edit-hint"
          value={text.value}
          onInput={(event) => {
            text.value = event.currentTarget.value
          }}
        />
        <span id="edit-hint" class={wrong === undefined ? 'dim' : 'bad'} role="status">
          {wrong === undefined
            ? isJson
              ? 'Valid JSON, stored byte for byte.'
              : 'Stored byte for byte.'
            : `No JSON: ${wrong}`}
        </span>
      </label>
      <div class="field">
        <span>What changes</span>
        {old === text.value ? <p class="dim">Nothing yet.</p> : <Diff old={old} changed={text.value} />}
      </div>
    </>
  )
}

/** A comparison of more would make the page slow. */
const [MOST_COMPARED, MOST_LINES] = [100_000, 400]

function Diff({ old, changed }: { readonly old: string; readonly changed: string }) {
  const before = useMemo(() => (old.length > MOST_COMPARED ? '' : brokenUp(old)), [old])
  if (Math.max(old.length, changed.length) > MOST_COMPARED) {
    return <p class="dim">It is too large to be compared here.</p>
  }
  const lines = changes(diff(before, brokenUp(changed)))
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by the keyboard
    <pre class="diff" tabIndex={0}>
      {lines.slice(0, MOST_LINES).map((line, index) =>
        typeof line === 'number' ? (
          <span key={index} class="dim">{`⋯ ${plural(line, 'line')} as before\n`}</span>
        ) : (
          <span key={index} class={line.mark === '-' ? 'removed' : line.mark === '+' ? 'added' : 'same'}>
            {`${line.mark} ${line.text}\n`}
          </span>
        ),
      )}
      {lines.length > MOST_LINES ? <span class="dim">⋯ and more</span> : null}
    </pre>
  )
}
