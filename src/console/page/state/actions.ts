import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'

/** A change that a person is asked to confirm. */
export interface Action {
  readonly title: ComponentChildren
  /** What the button says: `Retry`. */
  readonly verb: string | (() => string)
  /** It cannot be undone. */
  readonly danger?: boolean
  /** What exactly will happen. */
  readonly text: ComponentChildren
  /** Fields of its own, above the note. */
  readonly fields?: () => ComponentChildren
  /** Whether there is a field for a note, and whether it has to be filled in. @default optional */
  readonly note?: 'required' | 'none'
  /** Whether it can be confirmed as it is filled in. @default always */
  readonly ready?: () => boolean
  /** The same by the command line. */
  readonly command: (note: string) => string
  /** Makes the change; returns what has happened, in one sentence. */
  readonly run: (note: string) => Promise<ComponentChildren>
  /** @default 'plain' */
  readonly size?: 'plain' | 'wide'
}

/** What is asked at the moment. */
export const asked = signal<Action | undefined>(undefined)

/** Asks a person to confirm a change. */
export function confirm(action: Action): void {
  asked.value = action
}

/** A short message about what has happened. */
export interface Toast {
  readonly id: number
  readonly text: ComponentChildren
  readonly kind: 'done' | 'wrong'
}

export const toasts = signal<readonly Toast[]>([])
let last = 0

/** Says what has happened, for some seconds. */
export function tell(text: ComponentChildren, kind: Toast['kind'] = 'done'): void {
  last += 1
  const id = last
  toasts.value = [...toasts.value.slice(-3), { id, text, kind }]
  setTimeout(() => dismiss(id), kind === 'done' ? 8_000 : 20_000)
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((each) => each.id !== id)
}
