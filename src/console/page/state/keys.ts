import { signal } from '@preact/signals'
import { asked } from './actions.ts'
import { exactTimes } from './format.ts'
import { current, paused } from './poll.ts'
import { go } from './router.ts'
import { toggleTheme } from './theme.ts'

/** Whether the list of keys is shown. */
export const helpShown = signal(false)
/** Whether the navigation is open, in a narrow window. */
export const menuOpen = signal(false)

/** The pages, in the order of the navigation; `key` follows `g`. */
export const PAGES: readonly { readonly path: string; readonly title: string; readonly key: string }[] = [
  { path: '', title: 'Overview', key: 'o' },
  { path: 'failed', title: 'Failed', key: 'f' },
  { path: 'keys', title: 'Held keys', key: 'k' },
  { path: 'effects', title: 'Unknown effects', key: 'e' },
  { path: 'operations', title: 'Operations', key: 'b' },
  { path: 'messages', title: 'Messages', key: 'm' },
  { path: 'retries', title: 'Retries', key: 't' },
  { path: 'consumers', title: 'Consumers', key: 'c' },
  { path: 'relays', title: 'Relays', key: 'r' },
  { path: 'workers', title: 'Workers', key: 'w' },
  { path: 'audit', title: 'Audit log', key: 'a' },
  { path: 'health', title: 'Health', key: 'h' },
]

/** Keys of their own, beside `g` and a page. */
export const KEYS: readonly (readonly [key: string, what: string])[] = [
  ['/', 'Search by id'],
  ['p', 'Pause or resume the refreshing of this page'],
  ['r', 'Refresh now'],
  ['t', 'Exact times, or how long ago'],
  ['d', 'Light or dark'],
  ['?', 'Show these keys'],
  ['Esc', 'Close'],
]

const G_MS = 1_500
let gAt = 0

/** Listens to the keyboard, and to the back button. Fields keep their keys. */
export function listenToKeys(): void {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return
    if (event.key === 'Escape') close(event)
    else if (!inField(event.target) && asked.peek() === undefined && pressed(event.key)) event.preventDefault()
  })
  // What was asked was about the page before.
  addEventListener('popstate', () => {
    asked.value = undefined
    helpShown.value = false
    menuOpen.value = false
  })
}

function close(event: KeyboardEvent): void {
  helpShown.value = false
  menuOpen.value = false
  if (inField(event.target) && asked.peek() === undefined && event.target instanceof HTMLElement) event.target.blur()
}

function inField(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
}

function pressed(key: string): boolean {
  const afterG = Date.now() - gAt < G_MS
  gAt = 0
  const page = afterG ? PAGES.find((each) => each.key === key) : undefined
  if (page !== undefined) {
    helpShown.value = false
    go(page.path)
    return true
  }
  const does = KEYS_DO[key]
  does?.()
  return does !== undefined
}

const KEYS_DO: Readonly<Record<string, () => void>> = {
  g: () => {
    gAt = Date.now()
  },
  '/': () => document.querySelector<HTMLInputElement>('#search')?.focus(),
  p: () => {
    paused.value = !paused.value
  },
  r: () => void current.peek()?.refresh(),
  t: () => {
    exactTimes.value = !exactTimes.value
  },
  d: toggleTheme,
  '?': () => {
    helpShown.value = !helpShown.value
  },
}
