import { HapaxError, MAX_MS, noOthers, numberFrom } from '../base/index.ts'

/** Options of `stop`. */
export interface StopOptions {
  /** How long to wait for handlers that are running, before they are aborted; 0 aborts at once. @default 30_000 */
  readonly deadlineMs?: number
}

/** How long what was aborted may take to write down that it was. */
export const ABORT_MS = 5_000

/** How long to wait for handlers that are running, checked. */
export function deadlineOf(options: StopOptions): number {
  noOthers('options of stop', options, ['deadlineMs'])
  const { deadlineMs } = options
  return deadlineMs === Number.POSITIVE_INFINITY ? MAX_MS : numberFrom('deadlineMs', 0, deadlineMs, 30_000)
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** Waits for what a broker does at the start, at most until the worker has to be stopped. */
export async function unlessStopped(signal: AbortSignal, work: () => Promise<void> | undefined): Promise<void> {
  const closed = new HapaxError('closed', 'the worker was stopped before it had started')
  if (signal.aborted) throw closed
  const stop = Promise.withResolvers<never>()
  const abort = (): void => stop.reject(closed)
  signal.addEventListener('abort', abort, { once: true })
  try {
    await Promise.race([stop.promise, work()])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/** Why a handler is told to stop. */
export function stopped(): HapaxError {
  return new HapaxError('transaction-lost', 'the worker was stopped before the handler had finished')
}
