// Runs the conformance suites on a server of the user's, so that what holds there need not be believed. Everything that it creates has a
// name of this run, and is removed in the end, also after Ctrl-C.

import { randomBytes } from 'node:crypto'
import {
  asError,
  fieldOf,
  isHapaxError,
  messageOf,
  redact,
  safe,
  safeLines,
  shownUrl,
  systemClock,
  unreached,
  within,
} from '../../base/index.ts'
import type { ConformanceCase, OpenTarget, Outcome, Target } from '../../conformance/index.ts'
import { CliError } from '../io/errors.ts'
import { type Io, json, line, paint } from '../io/io.ts'
import { permission } from '../io/permission.ts'
import { Progress } from '../io/progress.ts'
import { table } from '../io/table.ts'
import { count, span } from '../io/text.ts'
import { type AddCommand, durationOption, examples, wholeNumber } from '../options.ts'

interface Options {
  readonly store?: string
  readonly broker?: string
  readonly only?: string
  readonly list?: true
  readonly concurrency: number
  readonly timeout: number
  readonly yes?: true
  readonly json?: true
}

/** Adds `hapax conformance`. */
export const addConformance: AddCommand = (root, io, done) => {
  root
    .command('conformance')
    .description('Tries everything that hapax promises on a server of yours, or on a compatible engine.')
    .option('--store <url>', 'a database: postgres://…, mysql://… or redis://…')
    .option('--broker <url>', 'a broker: amqp://…, nats://…, kafka://… or redis://… (streams)')
    .option('--only <text>', 'only the cases with this text in their topic or name')
    .option('--list', 'list the cases; connect to nothing')
    .option('--concurrency <n>', 'how many cases run at once', wholeNumber(1, 64), 4)
    .addOption(durationOption('--timeout <time>', 'how long a case may take', [1_000, 3_600_000], 60_000))
    .option('--yes', 'do not ask for confirmation; required without a terminal')
    .option('--json', 'print JSON instead of text')
    .addHelpText(
      'after',
      `
Each case works in a schema, database, queue, stream or topic of its own,
whose name begins with hapax_conformance_ and a random number. All of them
are removed at the end. Do not run it on a server that people wait for: cases
load it, and end sessions of their own.
Exits with 0 if everything that was tried holds, and with 1 if not.
${examples(
  'hapax conformance --store postgres://localhost/scratch',
  'hapax conformance --broker amqp://localhost --only "putting back" --yes',
  'hapax conformance --store mysql://localhost/scratch --list',
)}`,
    )
    .action(async (options) => done(await conformance(options, io)))
}

async function conformance(options: Options, io: Io): Promise<number> {
  const { url, open } = await chosen(options)
  const target = opened(open, url)
  if (options.list) return list(await target.list(), options, io)
  const what = `creating ${target.creates} called ${target.name}… on ${shownUrl(url)}`
  const question = `Create ${target.creates} called ${target.name}… on ${shownUrl(url)}, and remove them at the end?`
  await permission(io, options.yes === true, what, question, '--list')
  if (!options.json && options.yes) line(io, `${what}; they are removed at the end`)
  return tried(target, url, options, io)
}

/** What may name several servers, and is no URL by the letter then: their drivers check it. */
const LISTS = ['kafka', 'postgres', 'postgresql']

async function chosen({ store, broker }: Options): Promise<{ url: string; open: OpenTarget }> {
  const url = store ?? broker
  if (url === undefined || (store !== undefined && broker !== undefined)) {
    throw new CliError('usage', `expected --store or --broker, got ${url === undefined ? 'neither' : 'both'}`)
  }
  const { brokerTargets, storeTargets } = await import('../../conformance/index.ts')
  const targets = store === undefined ? brokerTargets : storeTargets
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(url)?.[1]?.toLowerCase() ?? ''
  const open = Object.hasOwn(targets, scheme) ? targets[scheme] : undefined
  if (open !== undefined && (LISTS.includes(scheme) || URL.canParse(url))) return { url, open }
  const kind = store === undefined ? 'broker' : 'store'
  throw new CliError('usage', `expected the ${kind} to be the URL of a server, got ${safe(shownUrl(url))}`, [
    `schemes that can be tried: ${Object.keys(targets).join(', ')}`,
  ])
}

function opened(open: OpenTarget, url: string): Target {
  try {
    return open(url, randomBytes(4).toString('hex'))
  } catch (error) {
    const how = 'brokers that want TLS or a login cannot be tried: a URL of Kafka has no place for either'
    throw new CliError('usage', messageOf(asError(error)), /^kafka:/i.test(url) ? [how] : [])
  }
}

function list(cases: readonly ConformanceCase[], options: Options, io: Io): number {
  const found = matching(cases, options)
  if (options.json) {
    const rows = found.map(({ topic, name, skip }) => ({ topic, name, ...(skip !== undefined && { skip }) }))
    json(io, { cases: rows })
  } else {
    for (const { topic, name, skip } of found) {
      line(
        io,
        `${safe(topic)}: ${safe(name)}${skip === undefined ? '' : paint(io, 'dim', ` (skipped: ${safe(skip)})`)}`,
      )
    }
    line(io, `${count(found.length)} of ${count(cases.length)} cases`)
  }
  return 0
}

function matching(cases: readonly ConformanceCase[], { only }: Options): readonly ConformanceCase[] {
  if (only === undefined) return cases
  const wanted = only.toLowerCase()
  const found = cases.filter(({ topic, name }) => `${topic}: ${name}`.toLowerCase().includes(wanted))
  if (found.length === 0) throw new CliError('not-found', `no case has ${safe(only)} in its topic or name`)
  return found
}

/** What a run has shown. */
interface Report {
  readonly server: string
  readonly outcomes: readonly Outcome[]
  /** Errors that belong to no case. */
  readonly strays: readonly Error[]
  readonly planned: number
  readonly ms: number
}

async function tried(target: Target, url: string, options: Options, io: Io): Promise<number> {
  const { collectingStrays } = await import('../../conformance/index.ts')
  const stop = new AbortController()
  const forget = io.onSignal(() => stop.abort())
  try {
    return await collectingStrays(async (strays) => {
      const report = await swept(target, io, () => run(target, url, options, stop.signal, io))
      return conclude({ ...report, strays }, options, io)
    })
  } finally {
    forget()
  }
}

/** How long the server may take to answer at first, and to remove what is left: one that listens and says nothing never would. */
const ANSWER_MS = 30_000
const SWEEP_MS = 120_000
/** The same for a server that has not answered before. */
const UNHEARD_MS = 2_000

/** Removes what is left on the server, whatever has happened. */
async function swept<T>(target: Target, io: Io, work: () => Promise<T>): Promise<T> {
  let failed = true
  try {
    const result = await work()
    failed = false
    return result
  } finally {
    const limitMs = failed ? UNHEARD_MS : SWEEP_MS
    await within(systemClock, limitMs, target.sweep(), () => {
      throw new Error(`the server did not answer within ${span(limitMs)}`)
    }).catch((error: unknown) => {
      if (failed) return
      const why = safe(redact(messageOf(asError(error))))
      io.err.write(`hapax: not everything was removed: look for ${target.creates} called ${target.name}…: ${why}\n`)
    })
  }
}

async function run(
  target: Target,
  url: string,
  options: Options,
  signal: AbortSignal,
  io: Io,
): Promise<Omit<Report, 'strays'>> {
  const { runCases } = await import('../../conformance/index.ts')
  const { server, cases } = await reached(target, signal).catch((error: unknown) => {
    throw signal.aborted ? new CliError('interrupted', 'nothing was tried') : refusal(url, error)
  })
  const planned = matching(cases, options)
  const progress = new Progress(io, options.json !== true)
  const began = performance.now()
  if (!options.json) line(io, `${safe(server)}: ${count(planned.length)} cases, ${options.concurrency} at once`)
  let [ended, failed] = [0, 0]
  const outcomes = await runCases(planned, {
    concurrency: options.concurrency,
    timeoutMs: options.timeout,
    signal,
    ended: ({ topic, status }) => {
      ended += 1
      if (status === 'fails') failed += 1
      const bad = failed === 0 ? '' : `, ${count(failed)} do not hold`
      progress.show(`${count(ended)} of ${count(planned.length)}${bad}: ${safe(topic)}`)
    },
  })
  progress.clear()
  return { server, outcomes, planned: planned.length, ms: performance.now() - began }
}

/** The server, unless it does not answer in time, or the signal comes first. */
async function reached(target: Target, signal: AbortSignal): ReturnType<Target['reach']> {
  const { promise: interrupted, reject } = Promise.withResolvers<never>()
  const stop = (): void => reject(signal.reason)
  signal.addEventListener('abort', stop)
  try {
    return await within(systemClock, ANSWER_MS, Promise.race([target.reach(), interrupted]), () => {
      throw new Error(`the server did not answer within ${span(ANSWER_MS)}`)
    })
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/** One sentence for a server that cannot be used. */
function refusal(url: string, thrown: unknown): Error {
  const first = innermost(asError(thrown))
  const code = fieldOf(first, 'code')
  const why = messageOf(first) || String(code)
  return new CliError('not-usable', `${shownUrl(url)} cannot be used: ${unreached(why)}`, hints(String(code), why))
}

/** The reason behind what clients say about several attempts or servers. Errors of hapax say it themselves. */
function innermost(error: Error): Error {
  if (isHapaxError(error)) return error
  const inner = error instanceof AggregateError ? error.errors[0] : error.cause
  return inner instanceof Error ? innermost(inner) : error
}

function hints(code: string, why: string): readonly string[] {
  if (['42501', 'ER_DBACCESS_DENIED_ERROR'].includes(code)) {
    return ['the user must be allowed to create schemas (PostgreSQL) or databases (MySQL): use a scratch server']
  }
  if (/password|authenti|access.?denied|ACCESS_REFUSED|WRONGPASS|NOAUTH|authorization/i.test(`${code} ${why}`)) {
    return ['check the user and the password in the URL']
  }
  return []
}

function conclude(report: Report, options: Options, io: Io): number {
  const failed = report.outcomes.filter(({ status }) => status === 'fails')
  const stopped = report.outcomes.length < report.planned
  if (options.json) json(io, document(report))
  else tell(report, failed, io)
  return failed.length === 0 && report.strays.length === 0 && !stopped ? 0 : 1
}

function document({ server, outcomes, strays, planned, ms }: Report): unknown {
  const number = (status: Outcome['status']): number => outcomes.filter((each) => each.status === status).length
  return {
    server,
    holds: number('holds'),
    fails: number('fails'),
    skipped: number('skipped'),
    notRun: planned - outcomes.length,
    ms: Math.round(ms),
    strays: strays.map((error) => redact(messageOf(error))),
    cases: outcomes.map(({ error, ...each }) => ({ ...each, ...(error && { error: redact(messageOf(error)) }) })),
  }
}

function tell({ outcomes, strays, planned, ms }: Report, failed: readonly Outcome[], io: Io): void {
  line(io)
  const topics = Map.groupBy(outcomes, ({ topic }) => topic)
  const number = (all: readonly Outcome[], status: Outcome['status']): number =>
    all.filter((each) => each.status === status).length
  table(
    io,
    [{ title: 'promises' }, ...['hold', 'fail', 'skipped'].map((title) => ({ title, align: 'right' as const }))],
    [...topics].map(([topic, all]) => {
      const fails = number(all, 'fails')
      const cell = fails === 0 ? '0' : { text: count(fails), style: 'red' as const }
      return [topic, count(number(all, 'holds')), cell, count(number(all, 'skipped'))]
    }),
  )
  for (const each of failed) tellFailure(each, io)
  tellSkipped(outcomes, io)
  for (const stray of strays)
    line(io, `\n${paint(io, 'red', 'outside of all cases')}: ${safe(redact(messageOf(stray)))}`)
  line(io)
  const [holds, skipped] = [number(outcomes, 'holds'), number(outcomes, 'skipped')]
  const rest = planned > outcomes.length ? `, ${count(planned - outcomes.length)} were not run` : ''
  line(
    io,
    `${count(holds)} hold, ${count(failed.length)} do not, ${count(skipped)} were skipped${rest}, in ${span(ms)}`,
  )
}

/** Longer errors are differences between large values. */
const MOST_LINES = 25

function tellFailure({ topic, name, error }: Outcome, io: Io): void {
  line(io, `\n${paint(io, 'red', 'does not hold')}  ${safe(topic)}: ${safe(name)}`)
  const said = safeLines(redact(messageOf(error ?? new Error('unknown'))))
  for (const each of [...said].slice(0, MOST_LINES)) line(io, `  ${each}`)
}

function tellSkipped(outcomes: readonly Outcome[], io: Io): void {
  const reasons = Map.groupBy(
    outcomes.filter(({ status }) => status === 'skipped'),
    ({ reason = '' }) => reason,
  )
  if (reasons.size > 0) line(io)
  for (const [reason, all] of reasons) line(io, paint(io, 'dim', `skipped ${count(all.length)}: ${safe(reason)}`))
}
