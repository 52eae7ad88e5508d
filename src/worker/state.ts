import type { State } from '../base/index.ts'
import type { ClaimStatus, StoreStatus, WorkerRow } from '../contracts/index.ts'
import { servesOf } from './membership.ts'

/** What a status says, as metrics show it: with ages instead of times, and the workers of each consumer and relay. */
export function stateOf(status: StoreStatus): State {
  const live = status.workers.filter(({ alive }) => alive).map(servesOf)
  // Both times are the database's: the clock of this process may differ.
  const age = (since: Date | null): number | undefined =>
    since === null ? undefined : Math.max(0, status.at.getTime() - since.getTime())
  return {
    consumers: status.consumers.map(({ consumer, waiting, retrying, held, failed, unknownEffects, oldestAt }) => ({
      consumer,
      waiting,
      retrying,
      held,
      failed,
      unknownEffects,
      oldestMs: age(oldestAt),
      workers: live.filter(({ consumers }) => consumers.has(consumer)).length,
    })),
    relays: status.relays.map(({ relay, waiting, held, failed, oldestAt }) => ({
      relay,
      waiting,
      held,
      failed,
      oldestMs: age(oldestAt),
      workers: live.filter(({ relays }) => relays.includes(relay)).length,
    })),
    failed: status.failed.map(({ origin, scope, reason, count }) => ({ origin, scope, reason, count })),
    workers: workersOf(status.workers),
    rows: status.tables.flatMap(({ table, rows }) => (rows === undefined ? [] : [{ table, rows }])),
  }
}

/** The same for a store that only has claims: messages wait at the broker, and nobody knows the workers. */
export function claimStateOf({ consumers }: ClaimStatus): State {
  return {
    consumers: consumers.map(({ consumer, waiting, failed }) => ({
      consumer,
      waiting,
      retrying: 0,
      held: 0,
      failed,
      unknownEffects: undefined,
      oldestMs: undefined,
      workers: undefined,
    })),
    relays: [],
    failed: consumers.map(({ consumer, failed }) => ({
      origin: 'inbox',
      scope: consumer,
      reason: 'any',
      count: failed,
    })),
    workers: undefined,
    rows: [],
  }
}

function workersOf(workers: readonly WorkerRow[]): State['workers'] {
  const live = workers.filter(({ alive }) => alive)
  const stuck = live.filter((worker) => servesOf(worker).stuck).length
  return { alive: live.length - stuck, stuck, dead: workers.length - live.length }
}
