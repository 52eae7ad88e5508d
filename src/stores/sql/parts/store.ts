// Deliveries that are stored before they are worked. Where one statement can write receipts and rows, it is the whole transaction.

import type {
  Deliveries,
  Receipt,
  Result,
  Statement,
  StoredDeliveries,
  StoreTransactions,
  TransactionOptions,
  UnitOptions,
} from '../../../contracts/index.ts'
import { asReceipt } from '../rows.ts'
import { asUuid } from '../values.ts'
import type { SqlContext } from './context.ts'
import { vanished } from './taking.ts'
import { made } from './transactions.ts'

/** Writes deliveries with their receipts. */
export async function store<Tx, Own>(
  context: SqlContext<Tx, Own>,
  transactions: StoreTransactions<Tx, Own>,
  options: UnitOptions,
  deliveries: Deliveries,
): Promise<StoredDeliveries> {
  const { dialect } = context
  const own = made(() => dialect.inbox.store(deliveries))
  if (own === undefined) return inSteps(transactions, options, deliveries)
  await context.calls.assertFits()
  const settings = dialect.transactions.settings(options, 'take')
  const answers = await atOnce(context, options, [...settings, own.statement])
  const seqs = own.seqs(answers.at(-1))
  return { seqs, existing: await existing(context, options, deliveries, seqs) }
}

/** Receipts first, then the rows of those that are new. */
function inSteps<Tx, Own>(
  transactions: StoreTransactions<Tx, Own>,
  options: UnitOptions,
  { consumer, token, messages, ordered, starts }: Deliveries,
): Promise<StoredDeliveries> {
  return transactions.run(options, { kind: 'take', consumer, token, messages }, async (unit) => {
    const fresh = messages.filter(({ messageKey }) => !unit.existing.has(messageKey))
    const inbox = fresh.map((message) => ({ consumer, message, ordered, starts, attempts: 0, delayMs: 0, error: null }))
    return { value: { existing: unit.existing, seqs: NO_SEQS }, writes: inbox.length === 0 ? undefined : { inbox } }
  })
}

/** The receipts that were there before. What is new is committed by now: if one has vanished since, a repetition finds its own. */
async function existing<Tx, Own>(
  context: SqlContext<Tx, Own>,
  options: UnitOptions,
  { consumer, messages }: Deliveries,
  seqs: ReadonlyMap<string, string>,
): Promise<ReadonlyMap<string, Receipt>> {
  if (seqs.size === messages.length) return NO_RECEIPTS
  const keys = messages.map(({ messageKey }) => messageKey).filter((key) => !seqs.has(key))
  const [answer] = await atOnce(context, options, [context.dialect.receipts.read(consumer, keys)])
  const rows = answer?.rows ?? []
  if (rows.length !== keys.length) throw vanished()
  return new Map(rows.map((row) => [asUuid(row['message_key']), asReceipt(row)]))
}

async function atOnce<Tx, Own>(
  { connection, dialect, errors }: SqlContext<Tx, Own>,
  { isolation, signal, acquired, lockTimeoutMs }: UnitOptions,
  statements: readonly Statement[],
): Promise<readonly Result[]> {
  let sent = false
  const { classify, doomOf } = dialect
  const limits: TransactionOptions = {
    ...{ isolation, signal, lockTimeoutMs, classify, doomOf },
    acquired: () => {
      sent = true
      acquired?.()
    },
  }
  try {
    return await connection.atOnce(limits, statements)
  } catch (error) {
    throw errors.ofWhole(error, sent, signal)
  }
}

const NO_SEQS: ReadonlyMap<string, string> = new Map()
const NO_RECEIPTS: ReadonlyMap<string, Receipt> = new Map()
