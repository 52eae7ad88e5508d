// Responses and endpoints as columns hold them. Lists are JSON in ASCII: whatever the encoding of the database lacks, they can be kept.

import type { Endpoint, EndpointSecret, Receipt, Row, StoredResponse } from '../../contracts/index.ts'
import { asciiJson } from '../../message/index.ts'
import type { WrittenEndpoint } from './dialect/endpoints.ts'
import { asReceipt } from './rows.ts'
import { asBoolean, asBytes, asDate, asNumber, asText, asTextOrNull } from './values.ts'

/** The columns of a response: status, headers, body. */
export function responseColumns({ status, headers, body }: StoredResponse): readonly [number, string, Uint8Array] {
  return [status, asciiJson(JSON.stringify(headers)), body]
}

/** A receipt with the response to its request. */
export function asKnownReceipt(row: Row): Receipt {
  const response = asResponse(row)
  return { ...asReceipt(row), response, expired: response !== undefined && asBoolean(row['expired']) }
}

function asResponse({ status, headers, body }: Row): StoredResponse | undefined {
  if (status === null) return undefined
  return { status: asNumber(status), headers: JSON.parse(asText(headers)), body: asBytes(body) }
}

/** The columns of an endpoint that are lists: types and secrets. */
export function endpointLists({ types, secrets }: WrittenEndpoint): readonly [types: string, secrets: string] {
  const dated = secrets.map(({ secret, until }) => ({ secret, until: until?.getTime() ?? null }))
  return [asciiJson(JSON.stringify(types)), asciiJson(JSON.stringify(dated))]
}

/** A row of `endpoints`. */
export function asEndpoint(row: Row): Endpoint {
  return { ...asLooked(row), secrets: asSecrets(asText(row['secrets'])) }
}

/** The same without secrets. */
export function asLooked(row: Row): Omit<Endpoint, 'secrets'> {
  return {
    id: asText(row['id']),
    relay: asText(row['relay']),
    url: asText(row['url']),
    types: JSON.parse(asText(row['types'])),
    enabled: asBoolean(row['enabled']),
    reason: asTextOrNull(row['reason']),
    note: asTextOrNull(row['note']),
    createdAt: asDate(row['created_at']),
    changedAt: asDate(row['changed_at']),
  }
}

function asSecrets(text: string): readonly EndpointSecret[] {
  const written: readonly { readonly secret: string; readonly until: number | null }[] = JSON.parse(text)
  return written.map(({ secret, until }) => ({ secret, until: until === null ? null : new Date(until) }))
}
