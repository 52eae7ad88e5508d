import type { StoreStatus } from '../index.ts'
import { type Io, json, line } from './io.ts'
import { type StoreOptions, withHapax } from './store.ts'
import { type Cell, table } from './table.ts'
import { count, plural, safe, span } from './text.ts'

/** Shows how much there is of everything. */
export async function status(options: StoreOptions & { json?: true }, io: Io): Promise<number> {
  const found = await withHapax(options, io, (hapax) => hapax.status())
  if (options.json) json(io, document(found))
  else tell(found, io)
  return 0
}

function document({ consumers, outbox, oldestOutboxAt }: StoreStatus): object {
  return { consumers, outbox: { count: outbox, oldestAt: oldestOutboxAt } }
}

function tell({ consumers, outbox, oldestOutboxAt }: StoreStatus, io: Io): void {
  if (consumers.length === 0) line(io, 'no consumer has taken a message yet')
  else {
    table(
      io,
      [
        { title: 'consumer', shrinkTo: 12 },
        ...['receipts', 'waiting', 'retrying', 'failed'].map((title) => ({ title, align: 'right' as const })),
      ],
      consumers.map((each) => [
        safe(each.consumer),
        count(each.receipts),
        count(each.waiting),
        coloured(each.retrying, 'yellow'),
        coloured(each.failed, 'red'),
      ]),
    )
  }
  const age = oldestOutboxAt === null ? '' : `, the oldest is ${span(Date.now() - oldestOutboxAt.getTime())} old`
  line(io)
  line(io, `outbox: ${plural(outbox, 'message')}${age}`)
}

function coloured(value: number, style: 'yellow' | 'red'): Cell {
  return value === 0 ? '0' : { text: count(value), style }
}
