import type { ErrorRecord } from '../../base/index.ts'
import type { MinuteSample, Pause, StoreStatus, WorkerRow } from '../../contracts/index.ts'
import { LANES, lanesOf } from '../../message/index.ts'
import { isUnserved, isUnservedRelay, type Serves, servesOf, stateOf } from '../../worker/index.ts'
import type {
  ConsumerView,
  HistoryView,
  OverviewView,
  PauseView,
  RelayView,
  SeriesView,
  WorkersView,
  WorkerView,
} from '../api.ts'
import type { Seen } from '../route.ts'
import { errorOrNull } from './rows.ts'

/** A consumer as the store knows it. */
interface Known {
  readonly name: string
  readonly types: readonly string[]
  readonly ordered: boolean
}

interface Live {
  readonly row: WorkerRow
  readonly serves: Serves
}

export function consumerViews(status: StoreStatus, known: readonly Known[]): readonly ConsumerView[] {
  const live = liveOf(status.workers)
  const unserved = new Set(
    stateOf(status)
      .consumers.filter(isUnserved)
      .map(({ consumer }) => consumer),
  )
  const counted = new Map(status.consumers.map((each) => [each.consumer, each]))
  const names = [...new Set([...counted.keys(), ...known.map(({ name }) => name)])].sort()
  return names.map((name) => {
    const found = known.find((each) => each.name === name)
    const { waiting = 0, retrying = 0, held = 0, failed = 0, unknownEffects = 0, ...others } = counted.get(name) ?? NONE
    return {
      name,
      waiting,
      retrying,
      held,
      failed,
      unknownEffects,
      oldestAt: others.oldestAt?.toISOString() ?? null,
      estimated: others.estimated,
      types: found?.types ?? [],
      ordered: found?.ordered ?? false,
      workers: live.filter(({ serves }) => serves.consumers.has(name)).length,
      unserved: unserved.has(name),
      paused: pauseView(status.paused, 'inbox', name),
    }
  })
}

/** The numbers of a consumer that has subscribed, and has nothing yet. */
const NONE: Partial<StoreStatus['consumers'][number]> & { readonly estimated: boolean } = { estimated: false }

/** Why relays could not send the newest message that they try again, by relay. */
export type RelayErrors = ReadonlyMap<string, ErrorRecord>

export function relayViews(status: StoreStatus, errors: RelayErrors, seen: Seen): readonly RelayView[] {
  const live = liveOf(status.workers)
  const unserved = new Set(
    stateOf(status)
      .relays.filter(isUnservedRelay)
      .map(({ relay }) => relay),
  )
  return status.relays.map(({ relay, destination, waiting, retrying, held, failed, oldestAt, estimated }) => {
    const serving = live.filter(({ serves }) => serves.relays.includes(relay))
    const reasons = serving.flatMap(({ serves }) => serves.failing.get(relay) ?? [])
    return {
      name: relay,
      destination,
      waiting,
      retrying,
      error: errorOrNull(errors.get(relay) ?? null, seen),
      held,
      failed,
      oldestAt: oldestAt?.toISOString() ?? null,
      estimated,
      workers: serving.length,
      unserved: unserved.has(relay),
      down: reasons.length,
      reason: reasons[0] ?? null,
      paused: pauseView(status.paused, 'outbox', relay),
    }
  })
}

function pauseView(pauses: readonly Pause[] | undefined, origin: Pause['origin'], scope: string): PauseView | null {
  const found = pauses?.find((each) => each.origin === origin && each.scope === scope)
  return found === undefined ? null : { actor: found.actor, note: found.note, at: found.at.toISOString() }
}

export function tableViews(status: StoreStatus): OverviewView['tables'] {
  return status.tables.map(({ table, rows, oldestMs }) => ({ table, rows: rows ?? null, oldestMs: oldestMs ?? null }))
}

export function workerCounts(workers: readonly WorkerRow[]): OverviewView['workers'] {
  const states = workers.map(workerState)
  const count = (state: WorkerView['state']): number => states.filter((each) => each === state).length
  return { alive: count('alive'), stuck: count('stuck'), dead: count('dead') }
}

function workerState(row: WorkerRow): WorkerView['state'] {
  if (!row.alive) return 'dead'
  return servesOf(row).stuck ? 'stuck' : 'alive'
}

export function workersView({ at, workers }: StoreStatus): WorkersView {
  const live = liveOf(workers)
  return {
    at: at.toISOString(),
    workers: workers.map((row) => {
      const serves = servesOf(row)
      const consumers = [...serves.consumers.keys()]
      return {
        id: row.id,
        name: row.name,
        state: workerState(row),
        startedAt: row.startedAt.toISOString(),
        silentMs: row.silentMs,
        inHand: row.inHand,
        consumers,
        relays: serves.relays,
        down: [...serves.failing].map(([relay, reason]) => ({ relay, reason })),
        lanes: row.alive
          ? [
              ...consumers.map((scope) => lanesView(row.id, scope, live, (each) => each.consumers.has(scope))),
              ...serves.relays.map((scope) => lanesView(row.id, scope, live, (each) => each.relays.includes(scope))),
            ]
          : [],
      }
    }),
  }
}

/** Lanes are shared among those who serve this; those that are stuck get some only if all are. */
function lanesView(
  id: string,
  scope: string,
  live: readonly Live[],
  isServedBy: (serves: Serves) => boolean,
): WorkerView['lanes'][number] {
  const all = live.filter(({ serves }) => isServedBy(serves))
  const able = all.filter(({ serves }) => !serves.stuck && !serves.missing.includes(scope))
  const ids = (able.length > 0 ? able : all).map(({ row }) => row.id)
  return { scope, lanes: ids.includes(id) ? lanesOf(id, ids).length : 0, of: LANES }
}

function liveOf(workers: readonly WorkerRow[]): readonly Live[] {
  return workers.filter(({ alive }) => alive).map((row) => ({ row, serves: servesOf(row) }))
}

const MINUTE_MS = 60_000
const MINUTES = 60

/** The last hour, minute by minute, up to the last one that is over. */
export function historyView(samples: readonly MinuteSample[], now: Date): HistoryView {
  const last = Math.floor(now.getTime() / MINUTE_MS)
  const minutes = Array.from({ length: MINUTES }, (_, index) => last - MINUTES + 1 + index)
  const byScope = Map.groupBy(samples, ({ origin, scope }) => JSON.stringify([origin, scope]))
  const series = [...byScope.values()].flatMap((own) => seriesOf(own, minutes))
  return { minutes: minutes.map((minute) => minute * 60), series }
}

function seriesOf(samples: readonly MinuteSample[], minutes: readonly number[]): SeriesView[] {
  const [first] = samples
  if (first === undefined) return []
  const { origin, scope } = first
  const byMinute = new Map(samples.map((each) => [Math.floor(each.at.getTime() / MINUTE_MS), each]))
  const line = (value: (sample: MinuteSample) => number | null): readonly (number | null)[] =>
    minutes.map((minute) => {
      const sample = byMinute.get(minute)
      return sample === undefined ? null : value(sample)
    })
  return [
    {
      origin,
      scope,
      done: line(({ done }) => done),
      retried: line(({ retried }) => retried),
      failed: line(({ failed }) => failed),
      duplicates: line(({ duplicates }) => duplicates),
      lagMs: line(({ lagMs, aged }) => (aged === 0 ? null : Math.round(lagMs / aged))),
      waiting: line(({ waiting }) => waiting),
      oldestMs: line(({ oldestMs }) => oldestMs),
    },
  ]
}
