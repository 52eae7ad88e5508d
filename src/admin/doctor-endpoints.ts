// What `doctor` finds out about the endpoints of outgoing webhooks.

import type { Endpoint, Finding, StoreStatus } from '../contracts/index.ts'
import { deliveriesName } from '../message/index.ts'

type Looked = Omit<Endpoint, 'secrets'>

/** Endpoints that get nothing, and what has failed because of it. Nothing, where there are no endpoints. */
export function endpointFindings(endpoints: readonly Looked[], status: StoreStatus): readonly Finding[] {
  return [...Map.groupBy(endpoints, ({ relay }) => relay)].map(([relay, own]) => findingOf(relay, own, status))
}

function findingOf(relay: string, endpoints: readonly Looked[], status: StoreStatus): Finding {
  const disabled = endpoints.filter(({ enabled }) => !enabled)
  const missed = status.failed
    .filter(({ scope, reason }) => scope === deliveriesName(relay) && REASONS.has(reason))
    .reduce((sum, { count }) => sum + count, 0)
  if (disabled.length === endpoints.length) {
    const all = endpoints.length === 1 ? 'the only endpoint' : `all ${endpoints.length} endpoints`
    return warning(
      `${all} of the relay ${relay} ${endpoints.length === 1 ? 'is' : 'are'} disabled: its messages are dropped`,
    )
  }
  if (missed > 0) {
    const names = disabled.map(({ id, reason }) => (reason === null ? id : `${id} (${reason})`)).join(', ')
    const now = disabled.length === 0 ? '' : `; disabled now: ${names}`
    return warning(
      `${missed} messages of the relay ${relay} failed because their endpoint was disabled or removed${now}`,
    )
  }
  const message = `${endpoints.length - disabled.length} of ${endpoints.length} endpoints of the relay ${relay} are enabled`
  return { check: 'endpoints', level: 'ok', message, advice: '' }
}

const REASONS: ReadonlySet<string> = new Set(['endpoint-disabled', 'endpoint-removed'])

function warning(message: string): Finding {
  const advice =
    'Look at hapax endpoints list; hapax endpoints enable, then hapax failed retry, delivers what has failed.'
  return { check: 'endpoints', level: 'warning', message, advice }
}
