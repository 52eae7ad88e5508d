// Recovers from a clock that went back: waits set at a time that now lies in the future would last too long, so they restart from now.

import type { Origin, Recounted, StoreClock } from '../../../contracts/index.ts'
import { CONTROL_MS } from '../calls.ts'
import { asNumber, asText } from '../values.ts'
import type { SqlParts } from './context.ts'

/** The clock of an SQL database. */
export function sqlClock(parts: SqlParts): StoreClock {
  const { calls, dialect } = parts
  const { clock } = dialect
  return {
    aheadMs: async () => {
      const [row] = (await calls.run(clock.ahead, CONTROL_MS)).rows
      return Math.max(0, asNumber(row?.['ms'] ?? 0))
    },
    recount: async (operationLeaseMs) => {
      // Heartbeats first: while they lie in the future, no dead worker is taken over.
      const { affected: workers } = await calls.run(clock.heartbeats, CONTROL_MS)
      const { affected: operations } = await calls.run(clock.operations(operationLeaseMs), CONTROL_MS)
      const [inbox, outbox] = [await recounted(parts, 'inbox'), await recounted(parts, 'outbox')]
      return { rows: workers + operations + inbox.rows + outbox.rows, locked: inbox.locked + outbox.locked }
    },
  }
}

/** Recounts in pages, so that no statement takes long or locks many rows. */
async function recounted({ calls, dialect }: SqlParts, origin: Origin): Promise<Recounted> {
  const { waiting, recount } = dialect.clock
  let [rows, locked, after] = [0, 0, '0']
  for (;;) {
    const page = (await calls.run(waiting(origin, after, PAGE))).rows.map((row) => asText(row['seq']))
    const last = page.at(-1)
    if (last === undefined) return { rows, locked }
    const { affected } = await calls.run(recount(origin, page))
    rows += affected
    locked += page.length - affected
    after = last
  }
}

/** Rows changed per statement. */
const PAGE = 1_000
