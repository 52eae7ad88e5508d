import { type Clock, callback, flag, noOthers, pause, signalOption, spanMs, text } from '../base/index.ts'
import type { Cleaned, CleanupStep, StoreAdmin } from '../contracts/index.ts'
import { auditOf, type By } from './audit.ts'

/** How a lot is deleted: in small steps. */
export interface StepOptions {
  /** Only counts, in the same steps. @default false */
  readonly dryRun?: boolean
  /** Stops between two steps. */
  readonly signal?: AbortSignal
  readonly by?: By
}

/** Options of `hapax.cleanup`. */
export interface CleanupOptions extends StepOptions {
  readonly consumer: string
  /** Receipts that were taken longer ago than this, by the database's clock. Whatever comes again after that is new. */
  readonly olderThanMs: number
  /** Called after each step with what was deleted, or counted, so far. */
  readonly onProgress?: (progress: { readonly receipts: number }) => void
}

/** Options of `hapax.cleanupAudit`. */
export interface AuditCleanupOptions extends StepOptions {
  /** Entries that were written longer ago than this, by the database's clock. */
  readonly olderThanMs: number
  /** Called after each step with what was deleted, or counted, so far. */
  readonly onProgress?: (progress: { readonly audit: number }) => void
}

/** Rows that one step looks at. */
const STEP = 1_000
/** A pause is so many times as long as the step before it, for the sake of consumers on the same database, */
const PAUSE = 10
/** but no longer than this: a step that takes long mostly waits for others. */
const MAX_PAUSE_MS = 150

/** Takes steps until there is no more, with pauses as long as those of a cleanup. Returns how many rows they deleted, or counted. */
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
 * Deletes the old receipts of a consumer whose messages are finished, in small steps with longer pauses, so that little of one connection's
 * time is used. Returns how many it deleted, or would delete.
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

/** What is cleaned. */
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
