import { isDeepStrictEqual } from 'node:util'
import { isHapaxError } from '../../../base/index.ts'
import type { AuditSubject, Endpoint, StoreEndpoints } from '../../../contracts/index.ts'
import { asEndpoint, asLooked } from '../http-rows.ts'
import { change as changeRow } from './change.ts'
import { rowsOf, type SqlParts } from './context.ts'

/** The endpoints of outgoing webhooks in an SQL database. */
export function sqlEndpoints(parts: SqlParts): StoreEndpoints {
  const { calls, dialect } = parts
  const { endpoints, admin } = dialect
  const list = async (): Promise<readonly Endpoint[]> => (await rowsOf(parts, endpoints.list)).map(asEndpoint)
  return {
    add: async (endpoint, audit) => {
      const added = [endpoints.insert(endpoint), admin.audit(audit, about(endpoint))]
      for (let run = 1; ; run++) {
        try {
          const { rows } = await calls.short(endpoints.lock(endpoint.id), (found) =>
            found.rows.length > 0 ? undefined : added,
          )
          return rows.length === 0
        } catch (error) {
          // The id was taken at the same time, or the answer to the commit was lost. Secrets are random: they tell whose it is.
          const found = (await list()).find(({ id }) => id === endpoint.id)
          if (found !== undefined) return isDeepStrictEqual(found.secrets, endpoint.secrets)
          // Where rivals lock the same gap, one of them is told so before the other has committed.
          if (!isHapaxError(error, 'transaction-conflict') || run >= MOST_RUNS) throw error
        }
      }
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

const MOST_RUNS = 20

function about({ relay, id }: Pick<Endpoint, 'relay' | 'id'>): AuditSubject {
  return { origin: 'outbox', consumer: relay, id }
}
