// Changes to many rows. The row of an operation is locked before any row that it changes, and by nobody after one: so they cannot wait
// for each other.

import { isHapaxError, pause, systemClock } from '../../../base/index.ts'
import type {
  AuditSubject,
  BulkOperation,
  OperationDraft,
  OperationWork,
  Result,
  Statement,
  StoreOperations,
} from '../../../contracts/index.ts'
import { CONTROL_MS } from '../calls.ts'
import type { Dialect } from '../dialect/dialect.ts'
import { frozen } from '../frozen.ts'
import { asOperation } from '../operation-rows.ts'
import { asNumber, asSeq, asText } from '../values.ts'
import { addOnce } from './add-once.ts'
import { change as changeRow } from './change.ts'
import { rowsOf, type SqlParts } from './context.ts'

/** Changes to many rows of an SQL database. */
export function sqlOperations(parts: SqlParts): StoreOperations {
  const { calls, dialect } = parts
  const { operations, admin } = dialect
  const get = async (id: string): Promise<BulkOperation | undefined> => {
    const [row] = await rowsOf(parts, operations.get(id))
    return row && asOperation(row)
  }
  return {
    begin: async (draft, audit) => {
      const known = await get(draft.id)
      if (known !== undefined) return known
      const work = await frozenNow(parts, draft)
      const then = ({ rows: [row] }: Result) => {
        const ends = {
          upTo: row?.['last'] == null ? null : asSeq(row['last']),
          lastFailure: row?.['failure'] == null ? null : asText(row['failure']),
        }
        const chosen = { work, ...ends, total: asNumber(row?.['count']) }
        return [operations.insert({ ...chosen, draft, audit }), admin.audit(audit, about(draft.id, work))]
      }
      let begun: BulkOperation | undefined
      const mine = async (): Promise<boolean | undefined> => {
        begun = await get(draft.id)
        return begun && true
      }
      await writersEnded(parts, draft.kind)
      await addOnce(parts, freeze(dialect, work, draft.limit), then, mine)
      return begun ?? there(await get(draft.id))
    },
    get,
    list: async (before, limit) => (await rowsOf(parts, operations.list(before, limit))).map(asOperation),
    lease: async (token, leaseMs, id) => {
      // Most often there is none, and one statement tells.
      if ((await calls.run(operations.free(id), CONTROL_MS)).rows.length === 0) return undefined
      const { rows } = await calls.short(
        operations.lockFree(id),
        ({ rows: [row] }) => row && [operations.lease(asOperation(row).id, token, leaseMs)],
      )
      return rows[0] && { ...asOperation(rows[0]), worked: true }
    },
    advance: async (step, leaseMs, progress, end) => {
      const { rows } = await calls.short(
        operations.lockHeld(step),
        ({ rows: [row] }) =>
          row && [operations.advance(step.id, leaseMs, progress), ...(end ? [operations.end(step.id)] : [])],
      )
      return rows.length === 0 ? undefined : get(step.id)
    },
    release: async (step) => void (await calls.run(operations.release(step))),
    change: (id, to, audit) =>
      changeRow(
        parts,
        operations.lockOther(id, to),
        (row) => [operations.change(id, to), admin.audit(audit, about(id, asOperation(row)))],
        async () => (await get(id))?.state === to,
      ),
  }
}

/** How often it is tried to find nobody who writes. */
const MOST_TRIES = 10
const PAUSE_MS = 20

/** Whoever writes a row that is older than this call has ended, unless that takes long: then the operation begins without waiting. */
async function writersEnded({ calls, dialect }: SqlParts, kind: OperationWork['kind']): Promise<void> {
  for (let run = 1; run <= MOST_TRIES; run++) {
    const statements = dialect.operations.writers(kind)
    const last = statements.at(-1)
    if (last === undefined) return
    try {
      await calls.short(last, () => undefined, { before: statements.slice(0, -1) })
      return
    } catch (error) {
      if (!isHapaxError(error, 'transaction-conflict')) throw error
      await pause(systemClock, PAUSE_MS)
    }
  }
}

async function frozenNow(parts: SqlParts, draft: OperationDraft): Promise<OperationWork> {
  const [row] = await rowsOf(parts, parts.dialect.operations.clock())
  return frozen(draft, Math.floor(asNumber(row?.['now'])))
}

function freeze(dialect: Dialect, work: OperationWork, limit: number | null): Statement {
  return work.kind === 'republish' ? dialect.sent.freeze(work.where, limit) : dialect.failed.freeze(work.where, limit)
}

/** An operation that was just written. */
function there(operation: BulkOperation | undefined): BulkOperation {
  if (operation === undefined) throw new Error('the operation is gone')
  return operation
}

/** What the audit says of an operation. */
function about(id: string, work: OperationWork): AuditSubject {
  if (work.kind === 'republish') return { origin: 'outbox', consumer: work.where.relay, id }
  return { origin: work.where.origin, consumer: work.where.consumer, id }
}
