import { effect, type Signal, signal } from '@preact/signals'
import { useEffect, useMemo } from 'preact/hooks'
import { asProblem, get, type Problem } from './api.ts'

/** What a page shows: the last good answer, when it came, and what is wrong since. */
export interface Polled<T> {
  readonly path: string
  readonly data: Signal<T | undefined>
  readonly at: Signal<number | undefined>
  readonly problem: Signal<Problem | undefined>
  /** Since when an answer is awaited that is late. */
  readonly lateSince: Signal<number | undefined>
  refresh(): Promise<void>
}

/** Whether the viewer has stopped the refreshing. */
export const paused = signal(false)
/** How often pages ask again. */
export const pollMs = signal(2_000)
/** The question of the page that is shown: the bar says how old its answer is. */
export const current = signal<Polled<unknown> | undefined>(undefined)

/** Later than this, an answer is called late: together with the time between two questions, this is under three seconds. */
const LATE_MS = 900
const GIVE_UP_MS = 10_000
const KEPT = 30

// Going back shows what was there at once. Few answers are kept, the oldest goes first.
const kept = new Map<string, Polled<unknown>>()

function polledOf<T>(path: string): Polled<T> {
  const known = kept.get(path) as Polled<T> | undefined
  const polled = known ?? fresh<T>(path)
  kept.delete(path)
  kept.set(path, polled as Polled<unknown>)
  for (const oldest of kept.keys()) if (kept.size > KEPT) kept.delete(oldest)
  return polled
}

function fresh<T>(path: string): Polled<T> {
  const data = signal<T | undefined>(undefined)
  const at = signal<number | undefined>(undefined)
  const problem = signal<Problem | undefined>(undefined)
  const lateSince = signal<number | undefined>(undefined)
  let running: Promise<void> | undefined
  const once = async (): Promise<void> => {
    const begun = Date.now()
    const late = setTimeout(() => {
      lateSince.value = begun
    }, LATE_MS)
    try {
      data.value = await get<T>(path, AbortSignal.timeout(GIVE_UP_MS))
      at.value = Date.now()
      problem.value = undefined
    } catch (error) {
      const wrong = asProblem(error)
      problem.value = wrong
      // The server remembers what this page has not seen.
      if (data.peek() === undefined && wrong.last !== undefined) {
        data.value = wrong.last.answer as T
        at.value = Date.now() - wrong.last.ageMs
      }
    } finally {
      clearTimeout(late)
      lateSince.value = undefined
      running = undefined
    }
  }
  const refresh = (): Promise<void> => {
    running ??= once()
    return running
  }
  return { path, data, at, problem, lateSince, refresh }
}

/** How a page asks. */
interface PollOptions {
  /** Whether the bar says how old this answer is. @default true */
  readonly main?: boolean
  /** Asked once, and again by hand only: it costs the database too much. @default false */
  readonly once?: boolean
  /** Asked less often than the rest. @default `pollMs` */
  readonly everyMs?: number
}

/** Asks for `api/<path>` now and again while the page is shown, visible and not paused. */
export function usePoll<T>(path: string, { main = true, once = false, everyMs = 0 }: PollOptions = {}): Polled<T> {
  const polled = useMemo(() => polledOf<T>(path), [path])
  useEffect(() => {
    if (main) current.value = polled as Polled<unknown>
    return whileShown(polled, once, everyMs)
  }, [polled, main, once, everyMs])
  return polled
}

function whileShown(
  { refresh, data, problem }: Polled<never> | Polled<unknown>,
  once: boolean,
  everyMs: number,
): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  let over = false
  const stopped = (): boolean => paused.value || document.hidden
  const turn = async (): Promise<void> => {
    clearTimeout(timer)
    await refresh()
    if (!over && !stopped() && !once && problem.peek()?.isRefusal !== true)
      timer = setTimeout(turn, Math.max(everyMs, pollMs.peek()))
  }
  const goOn = (): void => {
    clearTimeout(timer)
    const answered = data.peek() !== undefined
    if (!over && !(once ? answered : answered && stopped())) void turn()
  }
  const forget = effect(() => {
    void paused.value
    goOn()
  })
  // A change makes every answer old.
  const forgetOld = effect(() => {
    if (data.value === undefined) void refresh()
  })
  document.addEventListener('visibilitychange', goOn)
  return () => {
    over = true
    clearTimeout(timer)
    forget()
    forgetOld()
    document.removeEventListener('visibilitychange', goOn)
  }
}

/** Asks again at once, after a change. */
export async function refreshNow(): Promise<void> {
  for (const polled of kept.values()) if (polled !== current.peek()) polled.data.value = undefined
  await current.peek()?.refresh()
}
