// The inbox outside the transactions of handlers: rows are found, rescheduled, failed and leased in short transactions.

import { pause, systemClock } from '../../../base/index.ts'
import type { Lease, StoreInbox, StoreTransactions } from '../../../contracts/index.ts'
import { laneOfKey, numberOf } from '../../../message/index.ts'
import { CONTROL_MS } from '../calls.ts'
import { asInboxRow } from '../rows.ts'
import { asSeq, asText } from '../values.ts'
import type { SqlContext } from './context.ts'
import { store } from './store.ts'
import { intoFailed, notBlocked } from './transactions.ts'

/** What waits for consumers in an SQL database. */
export function sqlInbox<Tx, Own>(context: SqlContext<Tx, Own>, transactions: StoreTransactions<Tx, Own>): StoreInbox {
  const { calls, dialect, connection } = context
  return {
    store: (options, deliveries) => store(context, transactions, options, deliveries),
    find: async (consumer, messageKey) => {
      const { rows } = await calls.run(dialect.inbox.find(consumer, messageKey))
      return rows[0] && asSeq(rows[0]['seq'])
    },
    reschedule: async (row) => (await calls.run(dialect.inbox.reschedule(row))).affected > 0,
    fail: (row) => calls.move(dialect.inbox.lock(row.seq, row.leaseToken), intoFailed(dialect, row)),
    lease: (seqs, token, leaseMs) =>
      calls.claiming(dialect.leases.lockDue(seqs, token), async (tx, { rows: found }) => {
        const rows = await notBlocked(context, connection.executor(tx), found.map(asInboxRow), undefined)
        const ours = rows.map((row) => row.seq)
        const last = ours.length === 0 ? undefined : [dialect.leases.lease(ours, token, leaseMs)]
        return { value: rows.map((row) => ({ ...row, leaseToken: token, fence: row.fence + 1 })), last }
      }),
    renew: async (held, leaseMs) => {
      if (held.length === 0) return new Set()
      const free = await renewable(context, held)
      if (free.length > 0) await calls.run(dialect.leases.renew(free, leaseMs), CONTROL_MS)
      const { rows } = await calls.run(dialect.leases.leased(held), CONTROL_MS)
      return new Set(rows.map((row) => asSeq(row['seq'])))
    },
    addOrder: (consumer) => addOrder(context, consumer),
    addKey: async (seq, key) => {
      const { affected } = await calls.run(dialect.inbox.addOrder([seq], laneOfKey(key), key))
      return affected > 0
    },
    release: async (lease, delayMs) =>
      (await calls.run(dialect.leases.release(lease, delayMs), CONTROL_MS)).affected > 0,
  }
}

/** Rows made ordered per statement. */
const PAGE = 1_000

/** How long rows are waited for that others have locked: another worker puts them in order, or a handler runs for as long as it likes. */
const LOCKED_MS = 2_000

/** Resolves when nothing is left, or only what has been locked all the time that it was waited for. */
async function addOrder<Tx, Own>(context: SqlContext<Tx, Own>, consumer: string): Promise<number> {
  const { calls, dialect } = context
  let [added, before, changedAt] = [0, '', systemClock.monotonic()]
  for (;;) {
    const { rows } = await calls.run(dialect.inbox.loose(consumer, PAGE))
    const found = rows.map((row) => ({ seq: asSeq(row['seq']), key: asText(row['key']) }))
    if (found.length === 0) return added
    const moved = await addOrderTo(context, found)
    added += moved
    if (moved > 0) continue
    const locked = found
      .map(({ seq }) => seq)
      .sort()
      .join()
    if (locked !== before) [before, changedAt] = [locked, systemClock.monotonic()]
    else if (systemClock.monotonic() - changedAt > LOCKED_MS) return added
    await pause(systemClock, 50)
  }
}

/** Makes these rows ordered, except those that another transaction has locked. */
function addOrderTo<Tx, Own>(
  { calls, dialect }: SqlContext<Tx, Own>,
  found: readonly { readonly seq: string; readonly key: string }[],
): Promise<number> {
  return calls.claiming(dialect.aside.inbox.free(found.map(({ seq }) => seq)), async (_tx, { rows }) => {
    const free = new Set(rows.map((row) => asSeq(row['seq'])))
    const ours = found.filter(({ seq }) => free.has(numberOf(seq)))
    const lanes = Map.groupBy(ours, ({ key }) => laneOfKey(key))
    const last = [...lanes].map(([lane, those]) =>
      dialect.inbox.addOrder(
        those.map(({ seq }) => seq),
        lane,
        null,
      ),
    )
    return { value: ours.length, last: last.length === 0 ? undefined : last }
  })
}

/** A row that another transaction has locked cannot be taken either; the others do not wait for it. */
async function renewable<Tx, Own>(
  { calls, dialect }: SqlContext<Tx, Own>,
  held: readonly Lease[],
): Promise<readonly Lease[]> {
  const statement = dialect.leases.renewable?.(held)
  if (statement === undefined) return held
  const free = new Set((await calls.run(statement, CONTROL_MS)).rows.map((row) => asSeq(row['seq'])))
  return held.filter(({ seq }) => free.has(seq))
}
