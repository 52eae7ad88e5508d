// The endpoints of outgoing webhooks.

import type { Audit, Endpoint, EndpointChange } from '../../contracts/index.ts'
import type { Data } from './data.ts'
import { order } from './pauses.ts'

/** Adds an endpoint, unless its id is taken. */
export function addEndpoint(data: Data, endpoint: Omit<Endpoint, 'createdAt' | 'changedAt'>, audit: Audit): boolean {
  if (data.endpoints.get(endpoint.id) !== undefined) return false
  const now = data.now()
  data.endpoints.set(endpoint.id, { ...structuredClone(endpoint), createdAt: now, changedAt: now })
  noteOf(data, endpoint, audit)
  return true
}

/** The endpoints of a relay, or all. */
export function listEndpoints(data: Data, relay: string | undefined): readonly Endpoint[] {
  const rows = data.endpoints.all().filter((row) => relay === undefined || row.relay === relay)
  return rows.sort((a, b) => order(a.relay, b.relay) || order(a.id, b.id))
}

/** Changes what is named, and nothing else. */
export function changeEndpoint(data: Data, id: string, change: EndpointChange, audit: Audit): boolean {
  const row = data.endpoints.get(id)
  if (row === undefined) return false
  const named = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined))
  data.endpoints.set(id, { ...row, ...structuredClone(named), changedAt: data.now() })
  noteOf(data, row, audit)
  return true
}

/** Forgets an endpoint. */
export function removeEndpoint(data: Data, id: string, audit: Audit): boolean {
  const row = data.endpoints.get(id)
  if (row === undefined) return false
  data.endpoints.delete(id)
  noteOf(data, row, audit)
  return true
}

function noteOf(data: Data, { relay, id }: Pick<Endpoint, 'relay' | 'id'>, audit: Audit): void {
  data.note(audit, { origin: 'outbox', consumer: relay, id })
}
