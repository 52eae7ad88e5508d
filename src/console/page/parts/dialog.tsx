import { useSignal } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { type Action, asked, tell } from '../state/actions.ts'
import { asProblem, type Problem } from '../state/api.ts'
import { count, plural } from '../state/format.ts'
import { refreshNow } from '../state/poll.ts'
import { ProblemBox } from './frame.tsx'
import { Command } from './text.tsx'

/** The question whether a change shall be made, if one is asked. */
export function Dialog() {
  const action = asked.value
  return action === undefined ? null : <Asked key={action} action={action} />
}

/** What the server takes as a note. */
const NOTE_BYTES = 1_000

function Asked({ action }: { readonly action: Action }) {
  const element = useRef<HTMLDialogElement>(null)
  const note = useSignal('')
  const busy = useSignal(false)
  const problem = useSignal<Problem | undefined>(undefined)
  const isAsked = (): boolean => asked.peek() === action
  const leave = (): void => {
    if (isAsked()) asked.value = undefined
  }
  // Not after the next frame: a key pressed by then has moved the focus on.
  useLayoutEffect(() => {
    const before = document.activeElement
    const dialog = element.current
    dialog?.showModal()
    return () => {
      // What is behind an open dialog cannot have the focus.
      dialog?.close()
      if (before instanceof HTMLElement && before.isConnected) before.focus()
    }
  }, [])
  const run = async (event: Event): Promise<void> => {
    event.preventDefault()
    if (busy.peek()) return
    busy.value = true
    problem.value = undefined
    try {
      tell(await action.run(note.peek().trim()))
      leave()
    } catch (error) {
      const wrong = asProblem(error)
      problem.value = wrong
      if (!isAsked()) tell([action.title, ': ', wrong.message], 'wrong')
    }
    busy.value = false
    await refreshNow()
  }
  const wants = action.note ?? 'optional'
  const bytes = new TextEncoder().encode(note.value.trim()).byteLength
  const noted = bytes <= NOTE_BYTES && (wants !== 'required' || bytes > 0)
  return (
    <dialog
      ref={element}
      class={action.size ?? 'plain'}
      aria-labelledby="dialog-title"
      // `close` comes a task later: a key pressed in between would find the question still asked.
      onCancel={(event) => {
        if (busy.peek()) event.preventDefault()
        else leave()
      }}
      // Chromium closes it at the third Escape, whatever the page says. What is under way goes on, and is told when it ends.
      onClose={leave}
    >
      <form onSubmit={run}>
        <h2 id="dialog-title">{action.title}</h2>
        <div class="what">{action.text}</div>
        {action.fields?.()}
        {wants === 'none' ? null : (
          <label class="field">
            <span>Note for the audit{wants === 'required' ? '' : ' (optional)'}</span>
            <input
              type="text"
              name="note"
              aria-invalid={bytes > NOTE_BYTES}
              aria-describedby="note-hint"
              required={wants === 'required'}
              value={note.value}
              onInput={(event) => {
                note.value = event.currentTarget.value
              }}
            />
            <span id="note-hint" class={bytes > NOTE_BYTES ? 'bad' : 'dim'}>
              {bytes > NOTE_BYTES * 0.8 ? `${count(bytes)} of at most ${plural(NOTE_BYTES, 'byte')}` : null}
            </span>
          </label>
        )}
        <div class="equivalent">
          <h3>The same by the command line</h3>
          <Command text={action.command(note.value.trim())} />
        </div>
        <div role="alert">{problem.value === undefined ? null : <ProblemBox problem={problem.value} />}</div>
        <div class="buttons">
          <button type="button" disabled={busy.value} onClick={leave}>
            Cancel
          </button>
          <button
            type="submit"
            class={action.danger ? 'danger' : 'primary'}
            disabled={!noted || action.ready?.() === false || busy.value}
          >
            {busy.value ? 'Working …' : typeof action.verb === 'string' ? action.verb : action.verb()}
          </button>
        </div>
      </form>
    </dialog>
  )
}
