// What a look at the tables found, put together. A dialect returns rows of a few kinds (`StatusStatements.look`); what they could only
// count in part is estimated here.

import type { GrowingTable, Growth, Origin, Pause, Row, StoreStatus, WorkerRow } from '../../contracts/index.ts'
import { asWorker } from './rows.ts'
import { asNumber, asText, asTextOrNull } from './values.ts'

/** How many rows of a scope are counted; of more, the number is estimated. */
export const COUNTED = 10_000
/** How many rows are read to find the oldest one, where no index has them by time. */
export const SAMPLED = 1_000
/** The tables that grow; when a row was written, or has expired; and what finds the oldest one, where something does. */
export const GROWING = [
  ['inbox', 'created_at', 'seq'],
  ['outbox', 'created_at', 'seq'],
  ['failed', 'failed_at', 'seq'],
  ['sent', 'sent_at', 'seq'],
  ['audit', 'at', 'seq'],
  ['responses', 'expires_at', 'expires_at'],
  ['receipts', null, null],
  ['effects', null, null],
] as const

type ConsumerStatus = StoreStatus['consumers'][number]
type RelayStatus = StoreStatus['relays'][number]
type FailedStatus = StoreStatus['failed'][number]

/** What waits for a consumer or a relay. */
interface Waiting {
  readonly waiting: number
  readonly retrying: number
  readonly held: number
  readonly oldestAt: Date | null
  readonly estimated: boolean
}

const NOTHING: Waiting = { waiting: 0, retrying: 0, held: 0, oldestAt: null, estimated: false }

/** What a look found; with what was counted exactly, if that was asked for. */
export function asStatus(looked: readonly Row[], exact: readonly Row[] | undefined): StoreStatus {
  const found = looked.map(asFound)
  const counts = (exact ?? []).map(asFound)
  const queues =
    exact === undefined
      ? (origin: Origin) => estimatedQueue(found, origin)
      : (origin: Origin) => exactQueue(counts, origin)
  const failed = exact === undefined ? estimatedFailed(found) : exactFailed(counts)
  const now = found.find(({ what }) => what === 'clock')?.at ?? Number.NaN
  return {
    at: new Date(now),
    consumers: consumersOf(found, counts, queues('inbox'), failed),
    relays: relaysOf(found, queues('outbox'), failed),
    failed,
    tables: tablesOf(found, counts, now),
    workers: workersOf(looked, now),
    paused: pausesOf(found),
  }
}

/** A row of a look, as `StatusStatements.look` has them. */
interface Found {
  readonly what: string
  readonly place: string
  readonly scope: string
  readonly name: string
  readonly n: number | undefined
  readonly at: number | undefined
  readonly a: string | null
}

function asFound(row: Row): Found {
  const { what, place, scope, name, n, at, a } = row
  return {
    what: asText(what),
    place: asTextOrNull(place) ?? '',
    scope: asTextOrNull(scope) ?? '',
    name: asTextOrNull(name) ?? '',
    n: n === null ? undefined : asNumber(n),
    at: at === null ? undefined : asNumber(at),
    a: asTextOrNull(a),
  }
}

function pausesOf(found: readonly Found[]): readonly Pause[] {
  const paused = found.filter(({ what }) => what === 'paused')
  return paused
    .map(({ place, scope, name: actor, at = 0, a: note }): Pause => {
      return { origin: place === 'outbox' ? 'outbox' : 'inbox', scope, actor, note, at: new Date(at) }
    })
    .sort((a, b) => textOf(a.origin, b.origin) || textOf(a.scope, b.scope))
}

const textOf = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

function consumersOf(
  found: readonly Found[],
  exact: readonly Found[],
  inbox: ReadonlyMap<string, Waiting>,
  failed: readonly FailedStatus[],
): readonly ConsumerStatus[] {
  const own = failed.filter(({ origin }) => origin === 'inbox')
  const receipts = new Map(exact.filter(({ what }) => what === 'receipts').map(({ scope, n = 0 }) => [scope, n]))
  const known = found.filter(({ what }) => what === 'known').map(({ scope }) => scope)
  const names = new Set([...known, ...receipts.keys(), ...inbox.keys(), ...own.map(({ scope }) => scope)])
  return [...names].sort(textOf).map((consumer) => {
    const waits = inbox.get(consumer) ?? NOTHING
    const failures = failuresOf(own, consumer)
    return {
      consumer,
      ...waits,
      failed: failures.count,
      unknownEffects: failuresOf(
        own.filter(({ reason }) => reason === 'unknown-effect'),
        consumer,
      ).count,
      estimated: waits.estimated || failures.estimated,
      ...(exact.length === 0 ? {} : { receipts: receipts.get(consumer) ?? 0 }),
    }
  })
}

function relaysOf(
  found: readonly Found[],
  outbox: ReadonlyMap<string, Waiting>,
  failed: readonly FailedStatus[],
): readonly RelayStatus[] {
  const own = failed.filter(({ origin }) => origin === 'outbox')
  const destinations = new Map(found.filter(({ what }) => what === 'relay').map(({ scope, a }) => [scope, a]))
  const names = new Set([...destinations.keys(), ...outbox.keys(), ...own.map(({ scope }) => scope)])
  return [...names].sort(textOf).map((relay) => {
    const { waiting, retrying, held, oldestAt, estimated } = outbox.get(relay) ?? NOTHING
    const failures = failuresOf(own, relay)
    return {
      relay,
      waiting: waiting + retrying,
      retrying,
      held,
      failed: failures.count,
      oldestAt,
      destination: destinations.get(relay) ?? null,
      estimated: estimated || failures.estimated,
    }
  })
}

function failuresOf(failed: readonly FailedStatus[], wanted: string): { count: number; estimated: boolean } {
  const of = failed.filter(({ scope }) => scope === wanted)
  return { count: sum(of.map(({ count }) => count)), estimated: of.some(({ estimated }) => estimated) }
}

/** What was counted in part is a share of what the table has beside the rest. */
function estimatedQueue(found: readonly Found[], origin: Origin): ReadonlyMap<string, Waiting> {
  const parts = found.filter(({ what, place }) => what === 'queue' && place === origin)
  const shares = found.filter(({ what, place }) => what === 'share' && place === origin)
  const queues = [...Map.groupBy(parts, ({ scope }) => scope)].map(([scope, of]) => queueOf(scope, of))
  const share = (scope: string, state: string) => shares.find((each) => each.scope === scope && each.name === state)?.n
  const totals = spread(
    rowsOf(found, origin),
    queues.map(({ scope, all }) => ({ ...all, weight: share(scope, '') })),
  )
  const tried =
    rowsOf(found, `${origin}_tried`) ??
    sum(queues.map(({ scope }, at) => (totals[at] ?? 0) * (share(scope, 'retrying') ?? 0)))
  const states = spread(
    tried,
    queues.flatMap(({ scope, retrying, held }, at) => {
      const weight = (totals[at] ?? 0) * (share(scope, 'retrying') ?? 1)
      return [
        { ...retrying, weight },
        { ...held, weight },
      ]
    }),
  )
  return new Map(
    queues.map((queue, at) => [
      queue.scope,
      waitingOf(queue, totals[at] ?? 0, states[2 * at] ?? 0, states[2 * at + 1] ?? 0),
    ]),
  )
}

function waitingOf({ all, retrying, held, oldestAt }: Queue, total: number, tried: number, kept: number): Waiting {
  return {
    waiting: Math.max(0, total - tried - kept),
    retrying: tried,
    held: kept,
    oldestAt,
    estimated: all.more || retrying.more || held.more,
  }
}

/** A number that was counted, and whether there are more. */
interface Count {
  readonly count: number
  readonly more: boolean
}

interface Queue {
  readonly scope: string
  readonly all: Count
  readonly retrying: Count
  readonly held: Count
  readonly oldestAt: Date | null
}

function queueOf(scope: string, parts: readonly Found[]): Queue {
  const of = (...names: readonly string[]): Count => {
    const counts = parts.filter(({ name }) => names.includes(name)).map(({ n = 0 }) => n)
    return { count: sum(counts), more: counts.some((n) => n > COUNTED) }
  }
  const since = parts.flatMap(({ at }) => at ?? [])
  return {
    scope,
    all: of('loose', 'keyed'),
    retrying: of('retrying'),
    held: of('held'),
    oldestAt: since.length === 0 ? null : new Date(Math.min(...since)),
  }
}

function estimatedFailed(found: readonly Found[]): readonly FailedStatus[] {
  const groups = found.filter(({ what }) => what === 'failed')
  const shares = found.filter(({ what, place }) => what === 'share' && place === 'failed')
  const counts = groups.map(({ scope, name, n = 0 }) => ({
    count: n,
    more: n > COUNTED,
    weight: shares.find((each) => each.scope === scope && each.name === name)?.n,
  }))
  const totals = spread(rowsOf(found, 'failed'), counts)
  return groups.map(({ place, scope, name }, at) => ({
    origin: place === 'outbox' ? 'outbox' : 'inbox',
    scope,
    reason: name,
    count: totals[at] ?? 0,
    estimated: counts[at]?.more ?? false,
  }))
}

/**
 * Estimates what was counted in part: together, that is what a table has beside what was counted; each has its weight in it. One without
 * a weight has as much as the others have on average. None has less than was counted.
 */
export function spread(
  rows: number | undefined,
  parts: readonly (Count & { readonly weight?: number | undefined })[],
): readonly number[] {
  const large = parts.filter(({ more }) => more)
  const rest = (rows ?? 0) - sum(parts.map(({ count, more }) => (more ? 0 : count)))
  const weights = large.flatMap(({ weight }) => weight ?? [])
  const average = weights.length === 0 ? 1 : sum(weights) / weights.length
  const all = sum(large.map(({ weight = average }) => weight))
  return parts.map(({ count, more, weight = average }) =>
    more && all > 0 ? Math.max(count, Math.round((rest * weight) / all)) : count,
  )
}

function exactQueue(counts: readonly Found[], origin: Origin): ReadonlyMap<string, Waiting> {
  const parts = counts.filter(({ what, place }) => what === 'queue' && place === origin)
  return new Map(
    [...Map.groupBy(parts, ({ scope }) => scope)].map(([scope, of]) => {
      const n = (state: string): number => of.find(({ name }) => name === state)?.n ?? 0
      const { oldestAt } = queueOf(scope, of)
      const waiting = { waiting: n('waiting'), retrying: n('retrying'), held: n('held') }
      return [scope, { ...waiting, oldestAt, estimated: false }]
    }),
  )
}

function exactFailed(counts: readonly Found[]): readonly FailedStatus[] {
  return counts
    .filter(({ what }) => what === 'failed')
    .map(({ place, scope, name, n = 0 }) => ({
      origin: place === 'outbox' ? 'outbox' : 'inbox',
      scope,
      reason: name,
      count: n,
      estimated: false,
    }))
}

const TABLES: readonly GrowingTable[] = [
  ...(['inbox', 'outbox', 'failed', 'receipts', 'effects', 'responses', 'sent', 'audit'] as const),
]

function tablesOf(found: readonly Found[], exact: readonly Found[], now: number): readonly Growth[] {
  return TABLES.map((table) => {
    const row = found.find(({ what, place }) => what === 'rows' && place === table)
    const rows = sum(exact.flatMap(({ what, place, n }) => (place === table && what !== 'failed' ? (n ?? []) : [])))
    return {
      table,
      rows: exact.length === 0 ? row?.n : rows,
      oldestMs: row?.at === undefined ? undefined : Math.max(0, now - row.at),
    }
  })
}

function rowsOf(found: readonly Found[], table: string): number | undefined {
  return found.find(({ what, place }) => what === 'rows' && place === table)?.n
}

function workersOf(looked: readonly Row[], now: number): readonly WorkerRow[] {
  return looked
    .filter(({ what }) => asText(what) === 'worker')
    .map(({ place, scope, name, n, at, a, b }) => {
      const times = { started_at: at, silent_ms: n, listed_at: now }
      return asWorker({ id: scope, name, serves: a, ...times, alive: asText(place) === 'alive', in_hand: b })
    })
    .sort((one, other) => textOf(one.id, other.id))
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, each) => all + each, 0)
}
