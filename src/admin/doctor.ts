// `doctor`: looks at everything that can be wrong with a store, and says what to do about each finding.

import { asError, isHapaxError, messageOf, safe, shellWord } from '../base/index.ts'
import type { ClaimStore, Finding, Store, StoreKeys, StoreSchema, StoreStatus } from '../contracts/index.ts'
import { servesOf } from '../worker/index.ts'
import { isDenied } from './denied.ts'
import { clockFindings } from './doctor-clock.ts'
import { endpointFindings } from './doctor-endpoints.ts'
import { keylessFindings, strandedFindings, workerFindings } from './doctor-workers.ts'
import {
  DAY_MS,
  type DoctorOptions,
  type GrowthLimits,
  grown,
  growthFindings,
  growthLimits,
  type OldReceipts,
} from './growth.ts'

/** The parts of a store that `doctor` looks at. */
type Looked = Pick<Store<never>, 'schema' | 'admin' | 'subscriptions' | 'workers' | 'keys' | 'endpoints' | 'clock'>

/** Checks the schema, the settings of the database, the workers and the growth of tables. A check that fails is itself a finding. */
export async function doctor(
  store: Looked,
  now: () => number,
  options: DoctorOptions = {},
): Promise<readonly Finding[]> {
  const limits = growthLimits(options)
  const schema = await attempt('schema', () => schemaFindings(store.schema))
  // Every other check reads the tables, and would only repeat this error in other words.
  if (schema.some(({ level }) => level === 'error')) return schema
  const settings = await attempt('store', () => store.admin.checkup())
  const waiting = await attempt('status', async () => {
    const status = await store.admin.status()
    const subscriptions = await store.subscriptions.list()
    const stranded = await strandedFindings(store.workers, status, subscriptions)
    const keyless = await keylessFindings(store.workers, status, subscriptions)
    const workers = [...workerFindings(status, subscriptions), ...stranded, ...keyless]
    const old = await withOldReceipts(store.admin, status, options.maxAgeMs?.receipts, limits)
    const endpoints = endpointFindings(await store.endpoints.look(), status)
    const paused = pauseFindings(status)
    const steps = await clockFindings(store, status.at)
    return [
      ...workers,
      ...paused,
      ...steps,
      ...endpoints,
      ...statusFindings(status, now(), limits),
      ...growthFindings(status, old, limits),
    ]
  })
  return [...schema, ...settings, ...waiting, ...(await attempt('held keys', () => keyFindings(store.keys)))]
}

/** A pause that was forgotten looks like a system that works. */
function pauseFindings({ paused, at }: StoreStatus): readonly Finding[] {
  return paused
    .filter((pause) => at.getTime() - pause.at.getTime() > DAY_MS)
    .map(({ origin, scope, actor, note, at: since }): Finding => {
      const kind = origin === 'inbox' ? 'consumer' : 'relay'
      const why = note === null ? '' : `: ${note}`
      return {
        check: 'pauses',
        level: 'warning',
        message: `the ${kind} ${scope} has been paused since ${since.toISOString()}, by ${actor}${why}`,
        advice: `If it should work again, run npx hapax ${kind}s resume ${shellWord(safe(scope))}.`,
      }
    })
}

/** How many receipts of one consumer are looked at: enough to see whether they are deleted in time. */
const SAMPLE = 1_000

/**
 * The consumers with finished receipts that are too old, judged by a sample: a full count would take long on large tables. Too old is what
 * the caller says; else what its workers should have deleted a day ago; else what the default says.
 */
async function withOldReceipts(
  admin: Looked['admin'],
  status: StoreStatus,
  asked: number | undefined,
  { maxAgeMs }: GrowthLimits,
): Promise<readonly OldReceipts[]> {
  const found: OldReceipts[] = []
  for (const { consumer } of status.consumers) {
    const keptMs = asked === undefined ? retentionOf(status, consumer) : undefined
    if (keptMs === Number.POSITIVE_INFINITY) continue
    const olderThanMs = keptMs === undefined ? maxAgeMs.receipts : keptMs + DAY_MS
    const step = { kind: 'receipts', consumer, after: undefined, dryRun: true } as const
    const { deleted } = await admin.clean(step, olderThanMs, SAMPLE)
    if (deleted > 0) found.push({ consumer, olderThanMs, keptMs })
  }
  return found
}

/** How long the live workers of a consumer keep its receipts; undefined: there is none. */
function retentionOf({ workers }: StoreStatus, consumer: string): number | undefined {
  const spans = workers.filter(({ alive }) => alive).flatMap((worker) => servesOf(worker).retention.get(consumer) ?? [])
  return spans.length === 0 ? undefined : Math.max(...spans)
}

/** The same for a claim store, which has no schema and no worker rows. */
export async function leaseDoctor(store: ClaimStore, options: DoctorOptions = {}): Promise<readonly Finding[]> {
  const limits = growthLimits(options)
  const findings = await attempt('store', () => store.admin.checkup())
  const failing = await attempt('failed', async () => {
    const count = await store.failed.count({})
    return [...failedFinding(count), ...grown({ table: 'failed', rows: count, oldestMs: undefined }, limits)]
  })
  return [...findings, ...failing]
}

/** A check that throws becomes a finding, so that it does not hide what the other checks have found. */
async function attempt(check: string, look: () => Promise<readonly Finding[]>): Promise<readonly Finding[]> {
  try {
    return await look()
  } catch (error) {
    return [{ check, level: 'error', message: messageOf(asError(error)), advice: adviceOn(error) }]
  }
}

function adviceOn(error: unknown): string {
  if (isHapaxError(error, 'store-unavailable')) return 'Make sure that the database can be reached, and run this again.'
  if (isHapaxError(error, 'schema-newer'))
    return 'Install the version of hapax that migrated the database, or a newer one.'
  if (isHapaxError(error, 'schema-drift')) return 'Use the version of hapax that made the schema, or another schema.'
  if (isDenied(error)) return 'Run this as the user of hapax, or grant this user the missing permission.'
  return 'Run this again. If the error persists, the message says what the database refused.'
}

/** Whether every migration of this version has been applied. */
async function schemaFindings(schema: StoreSchema): Promise<readonly Finding[]> {
  const missing = (await schema.migrations()).filter(({ applied }) => !applied)
  if (missing.length === 0) return [ok('schema', 'every migration is applied')]
  const names = missing.map(({ version, name }) => `${version} (${name})`).join(', ')
  return [
    {
      check: 'schema',
      level: 'error',
      message: `these migrations are missing: ${names}`,
      advice: 'Run npx hapax migrate.',
    },
  ]
}

function statusFindings(status: StoreStatus, now: number, limits: GrowthLimits): readonly Finding[] {
  return [...status.relays.flatMap((relay) => outboxFinding(relay, now, limits)), ...failed(status)]
}

/** Whether a relay keeps up. Judged by the age of its oldest message: a long outbox may be normal, an old one is not. */
function outboxFinding(
  { relay, oldestAt }: StoreStatus['relays'][number],
  now: number,
  { maxAgeMs }: GrowthLimits,
): readonly Finding[] {
  const waitedMs = oldestAt === null ? 0 : now - oldestAt.getTime()
  if (waitedMs <= maxAgeMs.outbox) return [ok('outbox', `the relay ${relay} keeps up`)]
  return [
    {
      check: 'outbox',
      level: 'warning',
      message: `the oldest message of the relay ${relay} has waited for ${seconds(waitedMs)}`,
      advice:
        'The log of its workers names the cause: no connection, or messages that the broker does not accept. See also hapax keys list.',
    },
  ]
}

function failed({ consumers, relays }: StoreStatus): readonly Finding[] {
  return failedFinding([...consumers, ...relays].reduce((sum, each) => sum + each.failed, 0))
}

/** Failed messages wait for a person, who may not know of them. */
function failedFinding(count: number): readonly Finding[] {
  if (count === 0) return [ok('failed', 'no message waits for a decision')]
  return [
    {
      check: 'failed',
      level: 'warning',
      message: count === 1 ? '1 failed message waits for a decision' : `${count} failed messages wait for a decision`,
      advice: 'Look at hapax failed list, then retry, edit or discard them.',
    },
  ]
}

/** Keys with order whose messages wait behind a failed one; new messages of these keys join them. */
async function keyFindings(keys: StoreKeys): Promise<readonly Finding[]> {
  const held = await keys.list(1_000)
  if (held.length === 0) return [ok('held keys', 'no key waits behind a failed message')]
  const behind = held.reduce((sum, { waiting }) => sum + waiting, 0)
  const [longest] = held
  return [
    {
      check: 'held keys',
      level: 'warning',
      message: `${held.length} keys wait behind a failed message, ${behind} messages in all; ${longest?.key} of ${longest?.scope} since ${longest?.heldAt.toISOString()}`,
      advice: 'Retry, edit or discard the failed message, or let the key go on: hapax keys list, hapax keys release.',
    },
  ]
}

function ok(check: string, message: string): Finding {
  return { check, level: 'ok', message, advice: '' }
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`
}
