import type { Row, StoreResponses } from '../../../contracts/index.ts'
import { CONTROL_MS } from '../calls.ts'
import type { RequestKey } from '../dialect/responses.ts'
import { asKnownReceipt } from '../http-rows.ts'
import { asText, asUuid } from '../values.ts'
import { change } from './change.ts'
import type { SqlParts } from './context.ts'

/** Responses to HTTP requests in an SQL database. */
export function sqlResponses(parts: SqlParts): StoreResponses {
  const { calls, dialect } = parts
  return {
    read: async (consumer, messageKey) => {
      // A client waits for it.
      const { rows } = await calls.run(dialect.responses.read({ consumer, messageKey }), CONTROL_MS)
      const [row] = rows
      if (row === undefined) return undefined
      const { response, expired, ...receipt } = asKnownReceipt(row)
      return expired ? undefined : { receipt, response }
    },
    expire: async (limit) => {
      const { rows } = await calls.short(dialect.responses.lockExpired(limit), ({ rows: found }) =>
        found.length === 0 ? undefined : dialect.responses.delete(found.map(asRequestKey)),
      )
      return rows.length
    },
    // If it has gone after a commit whose answer was lost, its key is free, whoever did it.
    forget: (consumer, messageKey) =>
      change(
        parts,
        dialect.responses.lockOne({ consumer, messageKey }),
        () => dialect.responses.delete([{ consumer, messageKey }]),
        async () => true,
      ),
  }
}

function asRequestKey(row: Row): RequestKey {
  return { consumer: asText(row['consumer']), messageKey: asUuid(row['message_key']) }
}
