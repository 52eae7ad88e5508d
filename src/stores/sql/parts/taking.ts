// How a transaction takes messages: it writes their receipts, and reads those that were there before.

import { HapaxError } from '../../../base/index.ts'
import type { Executor, Opening, Receipt, Result, Statement, UnitOptions } from '../../../contracts/index.ts'
import type { StoredMessage } from '../../../message/index.ts'
import type { Dialect } from '../dialect/dialect.ts'
import { asKnownReceipt } from '../http-rows.ts'
import { asReceipt } from '../rows.ts'
import { asUuid } from '../values.ts'

type Taking = Opening & { readonly kind: 'take' }

/** Receipts, and what is known of requests. Read by statements of their own: their snapshot has to be younger than what was waited for. */
export function taking(
  { receipts, responses }: Dialect,
  { lockTimeoutMs }: UnitOptions,
  { consumer, token, messages, responses: known }: Taking,
): readonly Statement[] {
  const taken = receipts.take(consumer, token, messages, lockTimeoutMs)
  if (!known) return taken
  return [...taken, ...messages.map(({ messageKey }) => responses.read({ consumer, messageKey }))]
}

/** The receipts that were there before; undefined: there are none. */
export function existingOf(
  dialect: Dialect,
  opening: Taking,
  answers: readonly Result[],
  executor: () => Executor,
): ReadonlyMap<string, Receipt> | Promise<ReadonlyMap<string, Receipt>> | undefined {
  const { token, messages, responses } = opening
  const own = responses ? answers.slice(0, -messages.length) : answers
  const taken = dialect.receipts.taken(own, token, messages)
  if (taken === 'all' || taken.size === messages.length) return undefined
  return responses ? known(answers.slice(own.length), messages, taken) : read(dialect, executor(), opening, taken)
}

/** By a second statement: the first one's snapshot is too old to see them. */
async function read(
  { receipts }: Dialect,
  executor: Executor,
  { consumer, messages }: Taking,
  taken: ReadonlySet<string>,
): Promise<ReadonlyMap<string, Receipt>> {
  const keys = messages.map((message) => message.messageKey).filter((key) => !taken.has(key))
  const statement = receipts.read(consumer, keys)
  const { rows } = await executor.query(statement.text, statement.params)
  if (rows.length !== keys.length) throw vanished()
  return new Map(rows.map((row) => [asUuid(row['message_key']), asReceipt(row)]))
}

/** With the responses to their requests: one answer for each message. */
function known(
  answers: readonly Result[],
  messages: readonly StoredMessage[],
  taken: ReadonlySet<string>,
): ReadonlyMap<string, Receipt> {
  const found = new Map<string, Receipt>()
  for (const [index, { messageKey }] of messages.entries()) {
    if (taken.has(messageKey)) continue
    const row = answers[index]?.rows[0]
    if (row === undefined) throw vanished()
    found.set(messageKey, asKnownReceipt(row))
  }
  return found
}

/** Neither ours nor there: its transaction rolled back, or it was cleaned up in between. Run again. */
export function vanished(): HapaxError {
  return new HapaxError('transaction-conflict', 'a receipt vanished while it was read')
}
