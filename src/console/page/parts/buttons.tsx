import type { ComponentChildren } from 'preact'
import type { Role } from '../../api.ts'
import { type Action, confirm } from '../state/actions.ts'
import { may } from '../state/session.ts'

interface DoProps {
  readonly needs: Role
  readonly action: () => Action
  readonly danger?: boolean
  readonly label?: string
  readonly children: ComponentChildren
}

/** A button that asks for a change. People whose role is not enough do not see it; the server checks again. */
export function Do({ needs, action, danger, label, children }: DoProps) {
  if (!may(needs)) return null
  return (
    <button type="button" class={danger ? 'danger-quiet' : ''} aria-label={label} onClick={() => confirm(action())}>
      {children}
    </button>
  )
}
