import type { State } from '../base/index.ts'
import type { ClaimStatus, StoreStatus, WorkerRow } from '../contracts/index.ts'
import { servesOf } from './membership.ts'

/** What a status says, as metrics show it: with ages instead of times, and the workers of each consumer and relay. */
export function stateOf(status: StoreStatus, now: number): State {
  const live = status.workers.filter(({ alive }) => alive).map(servesOf)
  return {
    consumers: status.consumers.map(({ consumer, waiting, retrying, held, failed }) => ({
      consumer,
      waiting,
      retrying,
      held,
      failed,
      unknownEffects: undefined,
      oldestMs: undefined,
      workers: live.filter(({ consumers }) => consumers.has(consumer)).length,
    })),
    relays: status.relays.map(({ relay, waiting, held, failed, oldestAt }) => ({
      relay,
      waiting,
      held,
      failed,
      oldestMs: oldestAt === null ? undefined : Math.max(0, now - oldestAt.getTime()),
      workers: live.filter(({ relays }) => relays.includes(relay)).length,
    })),
    failed: [],
    workers: workersOf(status.workers),
    rows: [],
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
