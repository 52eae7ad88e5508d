import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import type { BulkOptions, BulkResult, BulkSummary, By } from '../admin/index.ts'
import { fieldOf, isHapaxError, redact, safe } from '../base/index.ts'
import type { BulkOperation } from '../contracts/index.ts'
import { CliError } from './io/errors.ts'
import { type Io, json, line, paint } from './io/io.ts'
import { permission } from './io/permission.ts'
import { Progress } from './io/progress.ts'
import { count, plural } from './io/text.ts'
import { byOf, type ChangeOptions, rate, wholeNumber, withChange } from './options.ts'
import { PROGRAM } from './store.ts'

// Commands that change many rows: `failed retry`, `failed discard`, `sent republish`. Rows are named by number or found by filter,
// and each one is changed in its own transaction, so stopping halfway leaves no row half changed.

/** Options of changes to many rows. */
export interface RowsOptions extends ChangeOptions {
  readonly all?: true
  readonly limit?: number
  readonly rate?: number
  readonly yes?: true
  readonly detach?: true
}

/** A change to rows, as one command defines it. */
export interface RowsWork {
  readonly change: 'retry' | 'discard' | 'republish'
  /** As in "3 failed messages". */
  readonly noun: string
  readonly question: (howMany: string) => string
  /** A sentence to print afterwards, if there is anything more to know. */
  readonly afterwards?: string
  /** The full seq of what was typed, which may be its number alone; undefined if there is no such row. */
  named(typed: string): Promise<string | undefined>
  /** A short description of the row; undefined if it does not exist. In a dry run it rejects wherever the change would. */
  describe(seq: string): Promise<string | undefined>
  one(seq: string, by: By): Promise<void>
  /** How many rows match the filter. */
  count(): Promise<number>
  all(options: BulkOptions): Promise<BulkSummary>
  /** Begins a change to all that match, and leaves it to the workers; undefined: the store has no operations. */
  readonly begin?: (options: Pick<BulkOptions, 'by' | 'limit' | 'perSecond'>) => Promise<BulkOperation>
  /** A command of this program that reaches the same database. */
  command(words: string): string
}

interface RowResult {
  readonly seq: string
  /** `unknown`: the connection broke during the commit and the row is gone, so this call or another one made the change. */
  readonly result: 'done' | 'gone' | 'unknown' | 'error'
  readonly what?: string
  readonly error?: { readonly code: string; readonly message: string }
}

const DOING = { retry: 'retrying', discard: 'discarding', republish: 'republishing' } as const
const DONE = { retry: 'retried', discard: 'discarded', republish: 'republished' } as const

/** Adds the options of a change to many rows that may be an operation. */
export function withRows(command: Command): Command {
  return withRowsHere(command).option(
    '--detach',
    'with filters or --all: leave the work to the workers, and print the id of the operation',
  )
}

/** Adds the options of a change to many rows that this process makes. */
export function withRowsHere(command: Command): Command {
  return withChange(
    command
      .option('--all', 'select all, instead of filters')
      .option('--limit <n>', 'with filters or --all: how many at most, oldest first', wholeNumber(1, 1_000_000_000))
      .option('--rate <n>', 'how many per second at most', rate),
  ).option('--yes', 'do not ask for confirmation; required with filters or --all without a terminal')
}

/** Whether the rows are named by number. Refuses a command line that names none, or that mixes numbers and filters. */
export function byNumber(
  commandName: string,
  seqs: readonly string[],
  filtered: boolean,
  { all, limit, detach }: RowsOptions,
): boolean {
  if (seqs.length > 0 && (filtered || all || detach || limit !== undefined)) {
    throw new CliError('usage', 'expected either numbers, or filters, --all, --limit and --detach, got both')
  }
  if (seqs.length === 0 && !filtered && !all) {
    throw new CliError('usage', 'expected message numbers, filters or --all, got none', [
      `${PROGRAM} ${commandName} 12 13`,
      `${PROGRAM} ${commandName} --type order.placed --dry-run`,
    ])
  }
  if (filtered && all) throw new CliError('usage', 'expected filters or --all, got both')
  return seqs.length > 0
}

/** Changes the rows with these numbers one by one. A row that fails does not stop the others. */
export async function changeByNumber(
  work: RowsWork,
  typed: readonly string[],
  options: RowsOptions,
  io: Io,
): Promise<number> {
  const told = new Teller(work, options, io)
  const begun = performance.now()
  const stop = stopper(io)
  try {
    const before = new Set<string>()
    for (const [index, each] of typed.entries()) {
      if (options.rate !== undefined && !options.dryRun) await untilTurn(begun, index, options.rate, stop.signal)
      if (stop.signal.aborted) break
      const seq = await work.named(each)
      if (before.has(seq ?? each)) continue
      before.add(seq ?? each)
      told.tell(seq === undefined ? notThere(each) : await changeOne(work, seq, options))
    }
    return told.conclude(stop.signal.aborted)
  } catch (thrown) {
    told.conclude(true)
    throw thrown
  } finally {
    stop.forget()
  }
}

/** Turns a signal to the process into an abort that takes effect between two rows. */
function stopper(io: Io): { readonly signal: AbortSignal; readonly forget: () => void } {
  const stop = new AbortController()
  return { signal: stop.signal, forget: io.onSignal(() => stop.abort()) }
}

async function untilTurn(begun: number, index: number, perSecond: number, signal: AbortSignal): Promise<void> {
  await sleep(begun + (index * 1000) / perSecond - performance.now(), undefined, { signal }).catch(() => {})
}

async function changeOne(work: RowsWork, seq: string, options: RowsOptions): Promise<RowResult> {
  try {
    const what = await work.describe(seq)
    if (options.dryRun) return what === undefined ? notThere(seq) : { seq, result: 'done', what }
    await work.one(seq, byOf(options))
    return { seq, result: 'done', ...(what !== undefined && { what }) }
  } catch (thrown) {
    // Not about this row: every other one would fail in the same way.
    if (isHapaxError(thrown, 'store-unavailable')) throw thrown
    return wrong(seq, thrown)
  }
}

function notThere(seq: string): RowResult {
  return { seq, result: 'error', error: { code: 'not-found', message: 'there is no such message' } }
}

/** Changes the rows that match a filter, oldest first, once confirmed. */
export async function changeByFilter(work: RowsWork, options: RowsOptions, io: Io): Promise<number> {
  const found = await work.count()
  const howMany = Math.min(found, options.limit ?? found)
  const told = new Teller(work, options, io)
  if (howMany === 0 || options.dryRun) return told.concludeTrial(howMany)
  const some = plural(howMany, work.noun)
  await permission(io, options.yes === true, `${DOING[work.change]} ${some}`, work.question(some))
  const chosen = {
    by: byOf(options),
    // Exactly as many as were counted and confirmed; rows that have arrived since are not among the oldest.
    limit: howMany,
    ...(options.rate !== undefined && { perSecond: options.rate }),
  }
  if (options.detach) return detach(work, chosen, options, io)
  const stop = stopper(io)
  try {
    const onResult = (result: BulkResult): void => told.tell(rowResult(result), howMany)
    return told.concludeAll(await work.all({ ...chosen, onResult, signal: stop.signal }))
  } catch (thrown) {
    // The database went away. What was changed before stays changed, so it is reported.
    told.conclude(true, work.begin === undefined ? UNTOUCHED : LEFT)
    throw thrown
  } finally {
    stop.forget()
  }
}

const UNTOUCHED = 'stopped before the end; the rest is untouched'
const LEFT =
  'stopped before the end; a running worker goes on with the operation, unless it is cancelled (hapax operations)'

/** Leaves the change to the workers. */
async function detach(
  work: RowsWork,
  chosen: Pick<BulkOptions, 'by' | 'limit' | 'perSecond'>,
  options: RowsOptions,
  io: Io,
): Promise<number> {
  if (work.begin === undefined) {
    throw new CliError('usage', 'this store has no operations: the change is made by this command, without --detach')
  }
  const operation = await work.begin(chosen)
  if (options.json) json(io, { change: work.change, dryRun: false, count: operation.total, operation })
  else {
    line(io, `began the operation ${operation.id}: ${DOING[work.change]} ${plural(operation.total, work.noun)}`)
    line(io, 'a running worker works on it')
    line(io, `to see how far it is: ${work.command(`operations show ${operation.id}`)}`)
  }
  return 0
}

function rowResult(result: BulkResult): RowResult {
  return result.result === 'error' ? wrong(result.seq, result.error) : result
}

function wrong(seq: string, thrown: unknown): RowResult {
  const code = String(fieldOf(thrown, 'code') ?? 'error')
  const error = { code, message: redact(String(fieldOf(thrown, 'message') ?? thrown)) }
  return { seq, result: error.code === 'commit-unknown' ? 'unknown' : 'error', error }
}

/** Reports the outcome of each row. On a terminal, rows that a filter changed without error are only counted. */
class Teller {
  readonly #work: RowsWork
  readonly #options: RowsOptions
  readonly #io: Io
  readonly #progress: Progress
  readonly #results: RowResult[] = []
  readonly #counts = { done: 0, gone: 0, unknown: 0, error: 0 }

  constructor(work: RowsWork, options: RowsOptions, io: Io) {
    this.#work = work
    this.#options = options
    this.#io = io
    this.#progress = new Progress(io, options.json !== true)
  }

  tell(result: RowResult, outOf?: number): void {
    this.#counts[result.result] += 1
    if (this.#options.json) this.#results.push(result)
    else if (outOf !== undefined && this.#io.out.isTTY && result.result === 'done') this.#tick(outOf)
    else this.#line(result)
  }

  #tick(outOf: number): void {
    const { done, gone, unknown, error } = this.#counts
    const errors = error === 0 ? '' : `, ${plural(error, 'error')}`
    this.#progress.show(`${count(done + gone + unknown + error)} of ${count(outOf)}${errors}`)
  }

  #line({ seq, result, what = '', error }: RowResult): void {
    this.#progress.clear()
    const done = this.#options.dryRun ? `would ${this.#work.change}` : DONE[this.#work.change]
    const label = { done, gone: 'gone', unknown: 'unknown', error: 'not done' }[result].padEnd(
      Math.max(done.length, 'not done'.length),
    )
    const text = error === undefined ? what : `${error.message} (${error.code})`
    const style = { done: 'green', gone: 'yellow', unknown: 'yellow', error: 'red' } as const
    line(this.#io, `${paint(this.#io, style[result], label)}  ${seq}  ${safe(text)}`.trimEnd())
  }

  /** Ends a change by filter. Rows that another process has changed for this operation count as well. */
  concludeAll({ done, gone, errors, stopped }: BulkSummary): number {
    Object.assign(this.#counts, { done, gone, error: errors - this.#counts.unknown })
    return this.conclude(stopped)
  }

  /** Ends a change, or a dry run by number; returns the exit code. */
  conclude(stopped: boolean, rest: string = UNTOUCHED): number {
    this.#progress.clear()
    const { done, gone, unknown, error: errors } = this.#counts
    const results = this.#results.map(document)
    if (this.#options.json) this.#document(done, { stopped, done, gone, unknown, errors, results })
    else if (!this.#options.dryRun) this.#sum(stopped ? rest : undefined)
    return stopped || errors + unknown > 0 ? 1 : 0
  }

  #sum(stopped: string | undefined): void {
    const { done, gone, unknown, error } = this.#counts
    const parts = [`${count(done)} ${DONE[this.#work.change]}`]
    if (gone > 0) parts.push(`${count(gone)} gone: another call was faster`)
    if (unknown > 0) parts.push(`${count(unknown)} unknown: done by this call or another, explain shows which`)
    if (error > 0) parts.push(`${count(error)} not done`)
    line(this.#io)
    line(this.#io, parts.join(', '))
    if (stopped !== undefined) line(this.#io, stopped)
    const { afterwards } = this.#work
    if (done > 0 && afterwards !== undefined) line(this.#io, afterwards)
  }

  /** Ends a dry run by filter, which counts exactly and changes nothing; returns the exit code. */
  concludeTrial(howMany: number): number {
    const { change, noun } = this.#work
    const nothing = { stopped: false, done: 0, gone: 0, unknown: 0, errors: 0, results: [] }
    if (this.#options.json) this.#document(howMany, nothing)
    else line(this.#io, howMany === 0 ? `no ${noun}s match` : `would ${change} ${plural(howMany, noun)}`)
    return 0
  }

  #document(matched: number, rest: object): void {
    json(this.#io, { change: this.#work.change, dryRun: this.#options.dryRun === true, count: matched, ...rest })
  }
}

function document({ seq, result, error }: RowResult): object {
  return { seq, result, ...(error && { error }) }
}
