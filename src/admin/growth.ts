import { noOthers, positiveInteger, spanMs } from '../base/index.ts'
import type { Finding, GrowingTable, Growth, StoreStatus } from '../contracts/index.ts'

/** The size and age of each table from which on `doctor` warns. */
export interface DoctorOptions {
  /**
   * How many rows a table may have. Large tables are estimated, where the database can.
   * @default inbox and outbox 100_000, failed 10_000, receipts 50_000_000, effects, responses and sent 10_000_000, audit 1_000_000
   */
  readonly maxRows?: Partial<Record<GrowingTable, number>>
  /**
   * How old the oldest row of a table may be.
   * @default inbox 7 days, outbox 5 minutes, failed 30 days, sent 90 days, audit 400 days; receipts a day more than the live workers of
   * their consumer keep them, or 90 days if there are none; responses a day after they have expired
   */
  readonly maxAgeMs?: Partial<Record<AgingTable, number>>
}

/** Tables whose oldest row can be found cheaply. Effects are deleted together with their receipts. */
type AgingTable = Exclude<GrowingTable, 'effects'>

/** The limits with every default filled in. */
export interface GrowthLimits {
  readonly maxRows: Readonly<Record<GrowingTable, number>>
  readonly maxAgeMs: Readonly<Record<AgingTable, number>>
}

const MINUTE_MS = 60_000
export const DAY_MS: number = 24 * 60 * MINUTE_MS

const DEFAULTS: GrowthLimits = {
  maxRows: {
    inbox: 100_000,
    outbox: 100_000,
    failed: 10_000,
    receipts: 50_000_000,
    effects: 10_000_000,
    responses: 10_000_000,
    sent: 10_000_000,
    audit: 1_000_000,
  },
  maxAgeMs: {
    inbox: 7 * DAY_MS,
    outbox: 5 * MINUTE_MS,
    failed: 30 * DAY_MS,
    receipts: 90 * DAY_MS,
    responses: DAY_MS,
    sent: 90 * DAY_MS,
    audit: 400 * DAY_MS,
  },
}

/** What to do about a table that grows. */
const ADVICE: Readonly<Record<GrowingTable, string>> = {
  inbox: 'Look at npx hapax status: start more workers, raise concurrency, or find out why handlers fail.',
  outbox: 'Look at the workers of this relay, its broker, and hapax keys list.',
  failed: 'Look at npx hapax failed list --group, then retry or discard them in bulk.',
  receipts:
    'See that a worker of each consumer runs with cleanup, shorten retentionMs, or run npx hapax cleanup. If they are kept so long on purpose, raise the limit.',
  effects: 'They go with the receipts of their messages: see that a worker runs with cleanup, or shorten retentionMs.',
  responses:
    'Workers, and processes that take HTTP requests, delete what has expired: see that one runs, or shorten keepMs.',
  sent: 'Shorten keepSentMs, see that a worker of the relay runs with cleanup, or run npx hapax sent purge.',
  audit:
    'Shorten cleanup.auditRetentionMs of the workers, see that one runs with cleanup, or run npx hapax cleanup --audit.',
}

const AGING: readonly AgingTable[] = ['inbox', 'outbox', 'failed', 'receipts', 'responses', 'sent', 'audit']
const WORRYING: readonly GrowingTable[] = [...AGING, 'effects']

/** Checks the limits and fills in the defaults. */
export function growthLimits(options: DoctorOptions = {}): GrowthLimits {
  noOthers('options of doctor', options, ['maxRows', 'maxAgeMs'])
  const { maxRows = {}, maxAgeMs = {} } = options
  noOthers('maxRows', maxRows, WORRYING)
  noOthers('maxAgeMs', maxAgeMs, AGING)
  const limits = { maxRows: { ...DEFAULTS.maxRows }, maxAgeMs: { ...DEFAULTS.maxAgeMs } }
  for (const table of WORRYING) {
    limits.maxRows[table] = positiveInteger(`maxRows.${table}`, maxRows[table], DEFAULTS.maxRows[table])
  }
  for (const table of AGING) {
    const { [table]: ageMs = DEFAULTS.maxAgeMs[table] } = maxAgeMs
    limits.maxAgeMs[table] = spanMs(`maxAgeMs.${table}`, ageMs)
  }
  return limits
}

/** Finds tables that are too large, or have rows that are too old. */
export function growthFindings(
  status: StoreStatus,
  old: readonly OldReceipts[],
  limits: GrowthLimits,
): readonly Finding[] {
  const found = [...status.tables.flatMap((each) => grown(counted(each, status), limits)), ...old.map(oldReceipts)]
  if (found.length > 0) return found
  return [{ check: 'growth', level: 'ok', message: 'no table has grown beyond its limit', advice: '' }]
}

/** Replaces the estimate by what was counted, of which large numbers are estimates too. */
function counted(growth: Growth, { consumers, relays, failed }: StoreStatus): Growth {
  const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0)
  if (growth.table === 'inbox') {
    return { ...growth, rows: sum(consumers.map(({ waiting, retrying, held }) => waiting + retrying + held)) }
  }
  // How long a message waits for its relay is judged relay by relay.
  if (growth.table === 'outbox') {
    return { ...growth, rows: sum(relays.map(({ waiting, held }) => waiting + held)), oldestMs: undefined }
  }
  if (growth.table === 'failed') return { ...growth, rows: sum(failed.map(({ count }) => count)) }
  return growth
}

/** The findings about the size and the age of one table. */
export function grown({ table, rows, oldestMs }: Growth, { maxRows, maxAgeMs }: GrowthLimits): readonly Finding[] {
  const found: Finding[] = []
  if (rows !== undefined && rows > maxRows[table]) {
    found.push(warning(`${table} has about ${rows} rows, more than ${maxRows[table]}`, ADVICE[table]))
  }
  if (oldestMs !== undefined && table !== 'effects' && oldestMs > maxAgeMs[table]) {
    const age = days(oldestMs)
    const old =
      table === 'responses'
        ? `responses that expired ${age} ago are still there`
        : `the oldest row of ${table} is ${age} old`
    found.push(warning(old, ADVICE[table]))
  }
  return found
}

/** A consumer that has finished receipts older than they should be. */
export interface OldReceipts {
  readonly consumer: string
  readonly olderThanMs: number
  /** How long its workers keep them, if that is known. */
  readonly keptMs: number | undefined
}

function oldReceipts({ consumer, olderThanMs, keptMs }: OldReceipts): Finding {
  const kept = keptMs === undefined ? '' : `, although its workers keep them for ${days(keptMs)}`
  return warning(`${consumer} has receipts that are more than ${days(olderThanMs)} old${kept}`, ADVICE.receipts)
}

function warning(message: string, advice: string): Finding {
  return { check: 'growth', level: 'warning', message, advice }
}

function days(ms: number): string {
  const count = Math.floor(ms / DAY_MS)
  if (count >= 2) return `${count} days`
  return ms >= 2 * 3_600_000 ? `${Math.floor(ms / 3_600_000)} hours` : `${Math.ceil(ms / 1000)} seconds`
}
