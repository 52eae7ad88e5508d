// Deliveries of outgoing webhooks, as `explain` prints them: the copy of an event for one endpoint is a part of its life.

import { fieldOf } from '../base/index.ts'
import type { EffectRow, Trace } from '../contracts/index.ts'
import { originOf } from '../message/index.ts'
import { plural } from './io/text.ts'
import type { AnyHapax } from './store.ts'

/** The addresses of endpoints, by id. */
export type Addresses = ReadonlyMap<string, string>

/** The addresses of all endpoints that these traces may name. Who may not read their secrets cannot list them. */
export async function addressesOf(hapax: AnyHapax, traces: readonly Trace[]): Promise<Addresses> {
  const named = traces.flatMap(({ source }) => originOf(source)?.endpoint ?? [])
  if (!('endpoints' in hapax) || named.length === 0) return new Map()
  try {
    return new Map((await hapax.endpoints.list()).map(({ id, url }) => [id, url]))
  } catch {
    return new Map(named.map((id) => [id, 'address not readable']))
  }
}

/** The endpoint that a trace is about, with its address; undefined: it is about none. */
export function endpointOf({ source }: Pick<Trace, 'source'>, addresses: Addresses): string | undefined {
  const origin = originOf(source)
  if (origin === undefined) return undefined
  const url = addresses.get(origin.endpoint)
  return `${origin.endpoint} (${url ?? 'removed'})`
}

/** What a trace of a delivery says; undefined: what it says of any message. */
export function deliveryEvent(trace: Trace, endpoint: string, times: (attempts: number) => string): string | undefined {
  switch (trace.where) {
    case 'receipt':
      return `to be delivered to ${endpoint}`
    case 'inbox':
      return `waits for ${endpoint}${trace.attempts === 0 ? '' : `; ${times(trace.attempts)} so far`}`
    case 'effect':
      return trace.effect.name === 'deliver' ? deliveredText(trace.effect, endpoint) : undefined
    case 'failed':
      return `not delivered to ${endpoint} after ${times(trace.attempts)}: ${trace.reason} (${trace.error.message})`
    default:
      return undefined
  }
}

function deliveredText({ state, attempts, result, error }: EffectRow, endpoint: string): string {
  if (state === 'done') {
    const { code, ms } = logOf(result)
    const said = code === undefined ? '' : ` with ${code}`
    const took = ms === undefined ? '' : ` in ${ms} ms`
    return `delivered to ${endpoint}${said}${took} after ${plural(attempts, 'attempt')}`
  }
  const last = {
    started: 'the last one has begun',
    'not-done': 'the last one failed',
    unknown: 'it is unknown whether the last one arrived',
  }
  const why = error === null ? '' : `: ${error.message}`
  return `${plural(attempts, 'attempt')} to deliver to ${endpoint}, ${last[state]}${why}`
}

/** What the journal kept of a delivery. A person may have written something else there. */
function logOf(result: string | null): { readonly code?: number; readonly ms?: number } {
  try {
    const log: unknown = JSON.parse(result ?? 'null')
    const [code, ms] = [fieldOf(log, 'code'), fieldOf(log, 'ms')]
    return { ...(typeof code === 'number' && { code }), ...(typeof ms === 'number' && { ms }) }
  } catch {
    return {}
  }
}
