import { redact } from '../core/errors.ts'
import type { FailedMessage, Hapax } from '../index.ts'
import { CliError } from './errors.ts'
import { type FailedFilters, filtersOf } from './failed.ts'
import { type Io, json, line, paint } from './io.ts'
import { type StoreOptions, withHapax } from './store.ts'
import { plural, safe } from './text.ts'

/** Options of `hapax failed retry` and `hapax failed discard`. */
export interface FailedChangeOptions extends StoreOptions, FailedFilters {
  readonly all?: true
  readonly dryRun?: true
  readonly yes?: true
  readonly json?: true
}

/** What is done to failed messages. */
export type Change = 'retry' | 'discard'

interface Target {
  readonly seq: string
  readonly what?: string
}

interface ChangeResult extends Target {
  readonly ok: boolean
  readonly error?: { readonly code: string; readonly message: string }
}

const PAGE = 100
const DONE = { retry: 'retried', discard: 'discarded' } as const

/** Retries or discards failed messages, one by one: a row that fails never stops the others. */
export function failedChange(
  change: Change,
  seqs: readonly string[],
  options: FailedChangeOptions,
  io: Io,
): Promise<number> {
  checkUsage(change, seqs, options)
  return withHapax(options, io, async (hapax) => {
    const targets = options.all ? await listAll(hapax, options) : await look(hapax, seqs, options)
    if (options.all && !options.dryRun && targets.length > 0) await permission(change, targets.length, options, io)
    const results: ChangeResult[] = []
    for (const target of targets) {
      const result = 'ok' in target || options.dryRun ? { ok: true, ...target } : await changeOne(hapax, change, target)
      results.push(result)
      if (!options.json) tell(change, result, options, io)
    }
    return conclude(change, results, options, io)
  })
}

function checkUsage(change: Change, seqs: readonly string[], options: FailedChangeOptions): void {
  const filtered = Object.keys(filtersOf(options)).length > 0
  if (options.all && seqs.length > 0) throw new CliError('usage', 'give numbers or --all, not both')
  if (!options.all && filtered) throw new CliError('usage', '--consumer, --type and --reason need --all')
  if (!options.all && seqs.length === 0) {
    throw new CliError('usage', `which messages? Give their numbers, or --all`, [
      `npx hapax failed ${change} 12 13`,
      `npx hapax failed ${change} --all --consumer billing --dry-run`,
    ])
  }
}

/** All that match, read before anything changes: what fails again meanwhile is not among them. */
async function listAll(hapax: Hapax<unknown>, options: FailedChangeOptions): Promise<Target[]> {
  const targets: Target[] = []
  for (let before: string | undefined; ; ) {
    const page = await hapax.failed.list({ ...filtersOf(options), ...(before && { before }), limit: PAGE })
    targets.push(...page.map(target))
    before = page.at(-1)?.seq
    if (page.length < PAGE) return targets
  }
}

/** The rows of these numbers. A trial run has to look whether they are there; a change finds out by itself. */
async function look(
  hapax: Hapax<unknown>,
  seqs: readonly string[],
  options: FailedChangeOptions,
): Promise<(Target | ChangeResult)[]> {
  const targets: (Target | ChangeResult)[] = []
  for (const seq of new Set(seqs)) {
    const found = await hapax.failed.get(seq)
    if (found !== undefined) targets.push(target(found))
    else targets.push(options.dryRun ? { seq, ok: false, error: NOT_THERE } : { seq })
  }
  return targets
}

const NOT_THERE = { code: 'not-found', message: 'there is no such failed message' }

function target({ seq, consumer, message }: FailedMessage): Target {
  return { seq, what: `${message.type} ${message.id} of ${consumer}` }
}

/** A bulk change needs a yes: of the command line, or of a person. */
async function permission(change: Change, howMany: number, options: FailedChangeOptions, io: Io): Promise<void> {
  if (options.yes) return
  if (io.confirm === undefined) {
    throw new CliError('refused', `${change} of ${plural(howMany, 'message')} needs --yes where nobody can be asked`, [
      'to see what would happen: --dry-run',
    ])
  }
  const verb = change === 'retry' ? 'Retry' : 'Delete for good'
  if (await io.confirm(`${verb} ${plural(howMany, 'failed message')}?`)) return
  throw new CliError('refused', 'nothing was changed')
}

async function changeOne(hapax: Hapax<unknown>, change: Change, each: Target): Promise<ChangeResult> {
  try {
    await hapax.failed[change](each.seq)
    return { ...each, ok: true }
  } catch (thrown) {
    const { code, message } = thrown as { code?: unknown; message?: unknown }
    return { ...each, ok: false, error: { code: String(code ?? 'error'), message: redact(String(message ?? thrown)) } }
  }
}

function tell(change: Change, { seq, what = '', ok, error }: ChangeResult, options: FailedChangeOptions, io: Io): void {
  const done = options.dryRun ? `would ${change}` : DONE[change]
  const label = (ok ? done : 'not done').padEnd(Math.max(done.length, 'not done'.length))
  const text = ok ? what : `${error?.message} (${error?.code})`
  line(io, `${paint(io, ok ? 'green' : 'red', label)}  ${seq}  ${safe(text)}`.trimEnd())
}

function conclude(change: Change, results: readonly ChangeResult[], options: FailedChangeOptions, io: Io): number {
  const wrong = results.filter(({ ok }) => !ok).length
  if (options.json) {
    const rows = results.map(({ seq, ok, error }) => ({ seq, ok, ...(error && { error }) }))
    json(io, { change, dryRun: options.dryRun === true, results: rows })
  } else if (results.length === 0) line(io, 'no failed messages match')
  else if (change === 'retry' && !options.dryRun && wrong < results.length) {
    line(io)
    line(io, 'retried messages are in the inbox again and due: a running worker takes them')
  }
  return wrong === 0 ? 0 : 1
}
