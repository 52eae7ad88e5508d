// Deletes in small steps, so that no statement locks many rows, and counts first: the question names the number that will be deleted.
// Ctrl-C ends it between two steps, and what was deleted by then is reported.

import { safe } from '../../base/index.ts'
import type { Hapax } from '../../index.ts'
import { durationText } from '../io/duration.ts'
import { CliError } from '../io/errors.ts'
import { type Io, json, line } from '../io/io.ts'
import { permission } from '../io/permission.ts'
import { Progress } from '../io/progress.ts'
import { table } from '../io/table.ts'
import { count, plural } from '../io/text.ts'
import { type AddCommand, byOf, type ChangeOptions, duration, examples, withChange, withStore } from '../options.ts'
import { type StoreOptions, withHapax } from '../store.ts'

interface CleanupOptions extends StoreOptions, ChangeOptions {
  readonly olderThan: number
  readonly consumer?: string
  readonly audit?: true
  readonly yes?: true
}

interface Cleaned {
  readonly consumer: string
  readonly receipts: number
}

const DAY_MS = 86_400_000

/** Adds `hapax cleanup`. */
export const addCleanup: AddCommand = (root, io, done) => {
  withStore(withChange(root.command('cleanup')))
    .description(
      'Deletes old receipts of finished messages, or old audit entries, in small steps. Workers also do this.',
    )
    .requiredOption(
      '--older-than <time>',
      'only those older than this, such as 30d; a message without a receipt counts as new',
      duration,
    )
    .option('--consumer <name>', 'only those of this consumer')
    .option('--audit', 'delete old audit entries instead of receipts')
    .option('--yes', 'do not ask for confirmation; required without a terminal, and for less than a day')
    .addHelpText(
      'after',
      examples(
        'hapax cleanup --older-than 30d --dry-run',
        'hapax cleanup --older-than 90d --consumer billing --yes',
        'hapax cleanup --older-than 400d --audit --dry-run',
      ),
    )
    .action(async (options) => done(await cleanup(options, io)))
}

async function cleanup(options: CleanupOptions, io: Io): Promise<number> {
  const { olderThan } = options
  if (olderThan === 0) throw new CliError('usage', 'expected --older-than to be more than 0')
  if (options.audit) return cleanAudit(options, io)
  if (olderThan < DAY_MS && !options.dryRun && !options.yes) {
    throw new CliError(
      'refused',
      `recent receipts are what detects duplicates: --older-than ${durationText(olderThan)}, less than a day, needs --yes`,
    )
  }
  return withHapax(options, io, async (hapax) => {
    const consumers = options.consumer === undefined ? await withReceipts(hapax) : [options.consumer]
    const { found, stopped } = await counted(hapax, consumers, options, io)
    if (stopped)
      return conclude(
        found.map(({ consumer }) => ({ consumer, receipts: 0 })),
        0,
        true,
        options,
        io,
      )
    const total = found.reduce((sum, { receipts }) => sum + receipts, 0)
    if (options.dryRun || total === 0) return conclude(found, total, false, options, io)
    const some = plural(total, 'receipt')
    await permission(io, options.yes === true, `deleting ${some}`, `Delete ${some} for good?`)
    return clean(hapax, found, total, options, io)
  })
}

async function cleanAudit(options: CleanupOptions, io: Io): Promise<number> {
  if (options.consumer !== undefined) throw new CliError('usage', 'expected --consumer or --audit, got both')
  const given = { olderThanMs: options.olderThan }
  return withHapax(options, io, async (hapax) => {
    const progress = new Progress(io, options.json !== true)
    const stop = new AbortController()
    const forget = io.onSignal(() => stop.abort())
    const onProgress = (now: { readonly audit: number }): void => progress.show(`audit: ${count(now.audit)} entries`)
    const shared = { ...given, signal: stop.signal, onProgress }
    try {
      const found = await hapax.cleanupAudit({ ...shared, dryRun: true })
      progress.clear()
      if (options.dryRun || found.audit === 0 || stop.signal.aborted)
        return concludeAudit(found.audit, stop, options, io)
      const some = plural(found.audit, 'audit entry', 'audit entries')
      await permission(io, options.yes === true, `deleting ${some}`, `Delete ${some} for good?`)
      const { audit } = await hapax.cleanupAudit({ ...shared, by: byOf(options) })
      progress.clear()
      return concludeAudit(audit, stop, options, io)
    } finally {
      forget()
      progress.clear()
    }
  })
}

function concludeAudit(audit: number, { signal }: AbortController, options: CleanupOptions, io: Io): number {
  const dryRun = options.dryRun === true
  if (options.json) json(io, { dryRun, stopped: signal.aborted, audit })
  else {
    line(io, `${dryRun ? 'would delete' : 'deleted'} ${plural(audit, 'audit entry', 'audit entries')}`)
    if (signal.aborted) line(io, 'stopped before the end; the rest is untouched')
  }
  return signal.aborted ? 1 : 0
}

async function withReceipts(hapax: Hapax<unknown>): Promise<readonly string[]> {
  return (await hapax.status()).consumers.map(({ consumer }) => consumer)
}

/** Counts in steps, with progress: millions of receipts take a while. */
async function counted(
  hapax: Hapax<unknown>,
  consumers: readonly string[],
  options: CleanupOptions,
  io: Io,
): Promise<{ readonly found: readonly Cleaned[]; readonly stopped: boolean }> {
  const progress = new Progress(io, options.json !== true)
  const stop = new AbortController()
  const forget = io.onSignal(() => stop.abort())
  const found: Cleaned[] = []
  try {
    for (const consumer of consumers) {
      if (stop.signal.aborted) break
      const { receipts } = await hapax.cleanup({
        consumer,
        olderThanMs: options.olderThan,
        dryRun: true,
        signal: stop.signal,
        onProgress: ({ receipts: now }) => progress.show(`${safe(consumer)}: ${count(now)} counted`),
      })
      found.push({ consumer, receipts })
    }
  } finally {
    forget()
    progress.clear()
  }
  return { found, stopped: stop.signal.aborted }
}

async function clean(
  hapax: Hapax<unknown>,
  found: readonly Cleaned[],
  total: number,
  options: CleanupOptions,
  io: Io,
): Promise<number> {
  const progress = new Progress(io, options.json !== true)
  const stop = new AbortController()
  const forget = io.onSignal(() => stop.abort())
  const cleaned: Cleaned[] = []
  let before = 0
  try {
    for (const { consumer } of found.filter(({ receipts }) => receipts > 0)) {
      if (stop.signal.aborted) break
      const { receipts } = await hapax.cleanup({
        consumer,
        olderThanMs: options.olderThan,
        by: byOf(options),
        signal: stop.signal,
        onProgress: ({ receipts: now }) =>
          progress.show(`${safe(consumer)}: ${count(before + now)} of ${count(total)} deleted`),
      })
      before += receipts
      cleaned.push({ consumer, receipts })
    }
  } finally {
    forget()
    progress.clear()
  }
  return conclude(cleaned, before, stop.signal.aborted, options, io)
}

function conclude(
  cleaned: readonly Cleaned[],
  total: number,
  stopped: boolean,
  options: CleanupOptions,
  io: Io,
): number {
  const dryRun = options.dryRun === true
  if (options.json) json(io, { dryRun, stopped, receipts: total, consumers: cleaned })
  else {
    const rows = cleaned
      .filter(({ receipts }) => receipts > 0)
      .map((each) => [safe(each.consumer), count(each.receipts)])
    if (rows.length > 0) {
      table(
        io,
        [
          { title: 'consumer', shrinkTo: 12 },
          { title: dryRun ? 'would delete' : 'deleted', align: 'right' },
        ],
        rows,
      )
    } else line(io, `no receipts of finished messages are older than ${durationText(options.olderThan)}`)
    if (stopped) line(io, 'stopped before the end; the rest is untouched')
  }
  return stopped ? 1 : 0
}
