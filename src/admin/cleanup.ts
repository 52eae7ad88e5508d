import { type Clock, callback, flag, noOthers, pause, signalOption, spanMs, text } from '../base/index.ts'
import type { StoreAdmin } from '../contracts/index.ts'
import { auditOf, type By } from './audit.ts'

/** Options of `hapax.cleanup`. */
export interface CleanupOptions {
  readonly consumer: string
  /** Receipts that were taken longer ago than this, by the database's clock. Whatever comes again after that is new. */
  readonly olderThanMs: number
  /** Only counts, in the same steps. @default false */
  readonly dryRun?: boolean
  /** Stops between two steps. */
  readonly signal?: AbortSignal
  /** Called after each step with what was deleted, or counted, so far. */
  readonly onProgress?: (progress: { readonly receipts: number }) => void
  readonly by?: By
}

/** Receipts that one step looks at. */
const STEP = 1_000
/** A pause is so many times as long as the step before it, for the sake of consumers on the same database, */
const PAUSE = 10
/** but no longer than this: a step that takes long mostly waits for others. */
const MAX_PAUSE_MS = 150

/**
 * Deletes the old receipts of a consumer whose messages are finished, in small steps with longer pauses, so that
 * little of one connection's time is used. Answers how many it deleted, or would delete.
 */
export async function cleanup(
  admin: StoreAdmin,
  clock: Clock,
  options: CleanupOptions,
): Promise<{ readonly receipts: number }> {
  noOthers('options', options, ['consumer', 'olderThanMs', 'dryRun', 'signal', 'onProgress', 'by'])
  const { signal, onProgress } = options
  const consumer = text('consumer', options.consumer)
  const olderThanMs = spanMs('olderThanMs', options.olderThanMs)
  const dryRun = flag('dryRun', options.dryRun, false)
  signalOption('signal', signal)
  callback('onProgress', onProgress)
  const audit = auditOf('cleanup', options.by)
  let receipts = 0
  let after: string | undefined
  do {
    const begun = clock.monotonic()
    const step = await admin.clean({ kind: 'receipts', consumer, after, dryRun }, olderThanMs, STEP)
    receipts += step.deleted
    after = step.after
    onProgress?.({ receipts })
    if (after !== undefined && !dryRun)
      await pause(clock, Math.min(MAX_PAUSE_MS, PAUSE * (clock.monotonic() - begun)), signal)
  } while (after !== undefined && !signal?.aborted)
  if (receipts > 0 && !dryRun) await admin.audit(audit, { consumer })
  return { receipts }
}
