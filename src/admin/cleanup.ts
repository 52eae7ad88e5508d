import { type Clock, callback, flag, noOthers, pause, signalOption, spanMs, text } from '../base/index.ts'
import type { Cleaned, CleanupStep, StoreAdmin } from '../contracts/index.ts'
import { auditOf, type By } from './audit.ts'

/** Options of every cleanup, which deletes in small steps. */
export interface StepOptions {
  /** Only counts, in the same steps. @default false */
  readonly dryRun?: boolean
  /** Stops between two steps. */
  readonly signal?: AbortSignal
  /** Who cleans up, and why, for the audit. */
  readonly by?: By
}

/** Options of `hapax.cleanup`. */
export interface CleanupOptions extends StepOptions {
  readonly consumer: string
  /** Deletes receipts older than this, by the clock of the database. A message that is delivered again after that is new. */
  readonly olderThanMs: number
  /** Called after each step with the number of receipts deleted, or counted, so far. */
  readonly onProgress?: (progress: { readonly receipts: number }) => void
}

/** Options of `hapax.cleanupAudit`. */
export interface AuditCleanupOptions extends StepOptions {
  /** Deletes entries older than this, by the clock of the database. */
  readonly olderThanMs: number
  /** Called after each step with the number of entries deleted, or counted, so far. */
  readonly onProgress?: (progress: { readonly audit: number }) => void
}

/** How many rows one step looks at. */
const STEP = 1_000
/** A pause is this many times as long as the step before it, so that consumers on the same database hardly notice. */
const PAUSE = 10
/** The longest pause: a step that takes long mostly waits for locks, and causes little load. */
const MAX_PAUSE_MS = 150

/** Repeats a step until nothing is left, with pauses in between. Returns how many rows were deleted, or counted. */
export async function inSteps(
  clock: Clock,
  { dryRun, signal }: Pick<StepOptions, 'dryRun' | 'signal'>,
  step: (after: string | undefined) => Promise<Cleaned>,
  onProgress: (count: number) => void,
): Promise<number> {
  let count = 0
  let after: string | undefined
  do {
    const begun = clock.monotonic()
    const done = await step(after)
    count += done.deleted
    after = done.after
    onProgress(count)
    if (after !== undefined && !dryRun)
      await pause(clock, Math.min(MAX_PAUSE_MS, PAUSE * (clock.monotonic() - begun)), signal)
  } while (after !== undefined && !signal?.aborted)
  return count
}

/**
 * Deletes the old receipts of a consumer whose messages are finished, in small steps with longer pauses. Resolves with how many it
 * deleted, or would delete.
 */
export async function cleanup(
  admin: StoreAdmin,
  clock: Clock,
  options: CleanupOptions,
): Promise<{ readonly receipts: number }> {
  noOthers('options', options, ['consumer', 'olderThanMs', 'dryRun', 'signal', 'onProgress', 'by'])
  const consumer = text('consumer', options.consumer)
  const { onProgress } = options
  const receipts = await clean(admin, clock, options, {
    step: (after) => ({ kind: 'receipts', consumer, after }),
    about: { consumer },
    onProgress: (count) => onProgress?.({ receipts: count }),
  })
  return { receipts }
}

/** Deletes old entries of the audit, in the same way. */
export async function cleanupAudit(
  admin: StoreAdmin,
  clock: Clock,
  options: AuditCleanupOptions,
): Promise<{ readonly audit: number }> {
  noOthers('options', options, ['olderThanMs', 'dryRun', 'signal', 'onProgress', 'by'])
  const { onProgress } = options
  const audit = await clean(admin, clock, options, {
    step: (after) => ({ kind: 'audit', after }),
    about: {},
    onProgress: (count) => onProgress?.({ audit: count }),
  })
  return { audit }
}

/** What a cleanup deletes, and whom it tells. */
interface Subject {
  step(after: string | undefined): Exclude<CleanupStep, { kind: 'sent' }>
  readonly about: { readonly consumer?: string }
  onProgress(count: number): void
}

async function clean(
  admin: StoreAdmin,
  clock: Clock,
  options: CleanupOptions | AuditCleanupOptions,
  { step, about, onProgress }: Subject,
): Promise<number> {
  const olderThanMs = spanMs('olderThanMs', options.olderThanMs)
  const dryRun = flag('dryRun', options.dryRun, false)
  const { signal } = options
  signalOption('signal', signal)
  callback('onProgress', options.onProgress)
  const by = auditOf('cleanup', options.by)
  const one = (after: string | undefined): Promise<Cleaned> =>
    admin.clean({ ...step(after), dryRun }, olderThanMs, STEP)
  const count = await inSteps(clock, { dryRun, ...(signal && { signal }) }, one, onProgress)
  if (count > 0 && !dryRun) await admin.audit(by, about)
  return count
}
