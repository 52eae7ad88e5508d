import type { Endpoint, Statement } from '../../../contracts/index.ts'
import type { Sql } from './statement.ts'

/** An endpoint as it is written. */
export type WrittenEndpoint = Omit<Endpoint, 'createdAt' | 'changedAt'>

/** Statements on the endpoints of outgoing webhooks. */
export interface EndpointStatements {
  /** id, relay, url, types, secrets, enabled, reason, note, created_at, changed_at; by relay and id. */
  readonly list: Statement
  /** The same columns without secrets, which not everybody may read. */
  readonly look: Statement
  /** Locks an endpoint and returns the columns of `list`. */
  readonly lock: Sql<[id: string]>
  /** Fails if the id is taken. */
  readonly insert: Sql<[endpoint: WrittenEndpoint]>
  readonly update: Sql<[endpoint: WrittenEndpoint]>
  readonly delete: Sql<[id: string]>
}
