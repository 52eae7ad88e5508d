import { computed, signal } from '@preact/signals'
import type { Role, SessionView } from '../../api.ts'
import { tell } from './actions.ts'
import { asProblem, get, type Problem, post } from './api.ts'
import { pollMs } from './poll.ts'

/** Who looks; undefined: not known yet. */
export const session = signal<SessionView | undefined>(undefined)
/** Why the console cannot be shown at all. */
export const refusal = signal<Problem | undefined>(undefined)

const RANKS: Readonly<Record<Role, number>> = { viewer: 0, operator: 1, admin: 2 }

const rank = computed(() => {
  const known = session.value
  return known === undefined || known.readOnly ? 0 : RANKS[known.role]
})

/** How to enter again after signing out. */
export const leftBy = signal<SessionView['signOut']>(null)

/** Signs this browser out. */
export async function signOut(): Promise<void> {
  const way = session.peek()?.signOut ?? null
  try {
    await post('logout', {})
    leftBy.value = way
    refusal.value = undefined
    session.value = undefined
  } catch (error) {
    tell(asProblem(error).message, 'wrong')
  }
}

/** Whether buttons that need this role are shown. The server checks it again. */
export function may(role: Role): boolean {
  return rank.value >= RANKS[role]
}

/** Lets a new address in that was pasted over an old one: where only its fragment differs, browsers do not load the page again. */
export function watchAddress(): void {
  addEventListener('hashchange', () => {
    if (tokenIn(location.hash) !== null) location.reload()
  })
}

function tokenIn(hash: string): string | null {
  return new URLSearchParams(hash.slice(1)).get('token')
}

/** Exchanges the token of the address, if there is one, and asks who looks. */
export async function enter(): Promise<void> {
  const token = tokenIn(location.hash)
  try {
    if (token !== null) {
      // Not kept in the history: it is of no use a second time.
      history.replaceState(null, '', location.pathname + location.search)
      await post('login', { token })
    }
    const found = await get<SessionView>('session')
    session.value = found
    refusal.value = undefined
    pollMs.value = Math.max(500, found.pollMs)
  } catch (error) {
    refusal.value = asProblem(error)
    if (refusal.value.status === 0 || refusal.value.status >= 500) setTimeout(enter, 2_000)
  }
}
