import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { type Action, asked, tell } from '../state/actions.ts'
import { Problem } from '../state/api.ts'
import { refreshNow } from '../state/poll.ts'
import { ProblemBox } from './frame.tsx'
import { Command } from './text.tsx'

/** The question whether a change shall be made, if one is asked. */
export function Dialog() {
  const action = asked.value
  return action === undefined ? null : <Asked key={action.title} action={action} />
}

function Asked({ action }: { readonly action: Action }) {
  const element = useRef<HTMLDialogElement>(null)
  const note = useSignal('')
  const busy = useSignal(false)
  const problem = useSignal<Problem | undefined>(undefined)
  const close = (): void => {
    if (!busy.peek()) asked.value = undefined
  }
  useEffect(() => {
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
      busy.value = false
      close()
    } catch (error) {
      problem.value = error instanceof Problem ? error : new Problem({ status: 0, code: 'page', detail: String(error) })
    }
    busy.value = false
    await refreshNow()
  }
  const wants = action.note ?? 'optional'
  const ready = (action.ready?.() ?? true) && (wants !== 'required' || note.value.trim() !== '')
  return (
    <dialog
      ref={element}
      class={action.size ?? 'plain'}
      aria-labelledby="dialog-title"
      onCancel={(event) => {
        event.preventDefault()
        close()
      }}
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
              maxLength={1_000}
              required={wants === 'required'}
              value={note.value}
              onInput={(event) => {
                note.value = event.currentTarget.value
              }}
            />
          </label>
        )}
        <div class="equivalent">
          <h3>The same by the command line</h3>
          <Command text={action.command(note.value.trim())} />
        </div>
        <div role="alert">{problem.value === undefined ? null : <ProblemBox problem={problem.value} />}</div>
        <div class="buttons">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" class={action.danger ? 'danger' : 'primary'} disabled={!ready || busy.value}>
            {busy.value ? 'Working …' : typeof action.verb === 'string' ? action.verb : action.verb()}
          </button>
        </div>
      </form>
    </dialog>
  )
}
