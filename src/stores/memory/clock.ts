// Recovers from a clock that went back: waits set at a time that now lies in the future would last too long, so they restart from now.

import type { Recounted } from '../../contracts/index.ts'
import type { Data } from './data.ts'
import type { Workers } from './workers.ts'

/** How far the latest timestamp of heartbeats, samples and waiting rows lies ahead. */
export function aheadMs(data: Data, workers: Workers): number {
  const rows = [...data.inbox.all(), ...data.outbox.all()].flatMap(({ setAt, heldAt }) =>
    heldAt === null ? setAt : [],
  )
  const minutes = data.samples.all().map(({ at }) => at.getTime())
  const latest = [...rows, ...minutes, workers.heardAt].reduce((a, b) => Math.max(a, b))
  return Math.max(0, latest - data.clock.now())
}

/** Restarts waits, leases and heartbeats from now. */
export function recount(data: Data, workers: Workers, operationLeaseMs: number): Recounted {
  const now = data.clock.now()
  const again = <Row extends { readonly availableAt: number; readonly setAt: number }>(row: Row): Row => {
    return { ...row, availableAt: now + row.availableAt - row.setAt, setAt: now }
  }
  const isEarly = ({ setAt, heldAt }: { setAt: number; heldAt: Date | null }): boolean => setAt > now && heldAt === null
  const inbox = data.inbox.all().filter(isEarly)
  for (const row of inbox) data.inbox.set(row.seq, again(row))
  const outbox = data.outbox.all().filter(isEarly)
  for (const row of outbox) data.outbox.set(row.seq, again(row))
  const until = now + operationLeaseMs
  const operations = data.operations
    .all()
    .filter(({ state, leasedUntil }) => state === 'running' && leasedUntil > until)
  for (const row of operations) data.operations.set(row.id, { ...row, leasedUntil: until })
  return { rows: workers.recount() + operations.length + inbox.length + outbox.length, locked: 0 }
}
