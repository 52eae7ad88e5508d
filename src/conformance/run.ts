import { asError } from '../base/index.ts'
import type { ConformanceCase } from './target.ts'

/** What became of a case. */
export interface Outcome {
  readonly topic: string
  readonly name: string
  readonly status: 'holds' | 'fails' | 'skipped'
  /** Why it was skipped. */
  readonly reason?: string
  readonly error?: Error
  readonly ms: number
}

export interface RunOptions {
  /** How many cases run at once. */
  readonly concurrency: number
  /** How long one may take. */
  readonly timeoutMs: number
  /** No other case begins once it is aborted, and none is waited for. */
  readonly signal: AbortSignal
  /** Called as each case ends. */
  readonly ended: (outcome: Outcome) => void
}

/** Runs cases; returns what became of each, in their order. Those that had not ended when the signal came are left out. */
export async function runCases(cases: readonly ConformanceCase[], options: RunOptions): Promise<readonly Outcome[]> {
  const { concurrency, signal, ended } = options
  const outcomes: (Outcome | undefined)[] = []
  const queue = cases.entries()
  const lane = async (): Promise<void> => {
    for (const [at, each] of queue) {
      if (signal.aborted) return
      const outcome = await outcomeOf(each, options)
      if (signal.aborted || outcome === undefined) return
      outcomes[at] = outcome
      ended(outcome)
    }
  }
  await Promise.all(Array.from({ length: concurrency }, lane))
  return outcomes.filter((outcome) => outcome !== undefined)
}

async function outcomeOf(
  { topic, name, skip, run }: ConformanceCase,
  { timeoutMs, signal }: RunOptions,
): Promise<Outcome | undefined> {
  if (skip !== undefined) return { topic, name, status: 'skipped', reason: skip, ms: 0 }
  const began = performance.now()
  const since = (): number => Math.round(performance.now() - began)
  try {
    const ended = await inTime(run(), timeoutMs, signal)
    return ended ? { topic, name, status: 'holds', ms: since() } : undefined
  } catch (error) {
    return { topic, name, status: 'fails', error: asError(error), ms: since() }
  }
}

/** Whether it ended; false when the signal came first. Rejects when it takes too long. */
async function inTime(running: Promise<void>, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
  const { promise: over, resolve: interrupt, reject } = Promise.withResolvers<false>()
  const late = (): void => reject(new Error(`it has not ended within ${timeoutMs} ms`))
  const timer = setTimeout(late, timeoutMs)
  const stop = (): void => interrupt(false)
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  // Nobody waits for it any longer if it was too late.
  running.catch(() => {})
  try {
    return await Promise.race([running.then(() => true), over])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}

/**
 * Runs `work` while errors that nobody awaited are collected instead of ending the process: an unknown server may cause some, and what
 * was created there must be removed all the same.
 */
export async function collectingStrays<T>(work: (strays: readonly Error[]) => Promise<T>): Promise<T> {
  const strays: Error[] = []
  const collect = (error: unknown): void => void strays.push(asError(error))
  process.on('uncaughtException', collect)
  process.on('unhandledRejection', collect)
  try {
    return await work(strays)
  } finally {
    process.off('uncaughtException', collect)
    process.off('unhandledRejection', collect)
  }
}
