import { isDeepStrictEqual } from 'node:util'
import type { AuditSubject, Endpoint, StoreEndpoints } from '../../../contracts/index.ts'
import { asEndpoint, asLooked } from '../http-rows.ts'
import { addOnce } from './add-once.ts'
import { change as changeRow } from './change.ts'
import { rowsOf, type SqlParts } from './context.ts'

/** The endpoints of outgoing webhooks in an SQL database. */
export function sqlEndpoints(parts: SqlParts): StoreEndpoints {
  const { dialect } = parts
  const { endpoints, admin } = dialect
  const list = async (): Promise<readonly Endpoint[]> => (await rowsOf(parts, endpoints.list)).map(asEndpoint)
  return {
    add: (endpoint, audit) => {
      const added = [endpoints.insert(endpoint), admin.audit(audit, about(endpoint))]
      return addOnce(
        parts,
        endpoints.lock(endpoint.id),
        ({ rows }) => (rows.length > 0 ? undefined : added),
        async () => {
          // Secrets are random: they tell whose it is.
          const found = (await list()).find(({ id }) => id === endpoint.id)
          return found && isDeepStrictEqual(found.secrets, endpoint.secrets)
        },
      )
    },
    list: async (relay) => (await list()).filter((each) => relay === undefined || each.relay === relay),
    look: async () => (await rowsOf(parts, endpoints.look)).map(asLooked),
    change: (id, change, audit) =>
      changeRow(parts, endpoints.lock(id), (row) => {
        const before = asEndpoint(row)
        const named = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined))
        return [endpoints.update({ ...before, ...named }), admin.audit(audit, about(before))]
      }),
    remove: (id, audit) =>
      changeRow(parts, endpoints.lock(id), (row) => [endpoints.delete(id), admin.audit(audit, about(asEndpoint(row)))]),
  }
}

function about({ relay, id }: Pick<Endpoint, 'relay' | 'id'>): AuditSubject {
  return { origin: 'outbox', consumer: relay, id }
}
