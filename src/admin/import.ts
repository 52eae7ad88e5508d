// Takes over what another inbox has processed: a receipt for each message, so that none of them runs again.

import { callback, expected, flag, isHapaxError, nameText, noOthers, type Random, signalOption } from '../base/index.ts'
import type { Store, StoredMessage } from '../contracts/index.ts'
import { IMPORTED, importedMessage, isIndexed, isName, textRule } from '../message/index.ts'
import { auditOf, type By } from './audit.ts'

/** A message that another inbox has processed. */
export interface ProcessedMessage {
  readonly id: string
  /** @default that of the options */
  readonly source?: string
  /** @default '(imported)' */
  readonly type?: string
}

/** Options of `hapax.receipts.import`. */
export interface ImportOptions {
  readonly consumer: string
  /** The source of messages that come as mere ids: the one that they will have when they are delivered again. */
  readonly source?: string
  /** Only counts. @default false */
  readonly dryRun?: boolean
  /** Stops between two steps. */
  readonly signal?: AbortSignal
  /** Called after each step. */
  readonly onProgress?: (progress: ImportResult) => void
  /** Who imports, and why, for the audit. */
  readonly by?: By
}

/** How many receipts were written, and how many were there before. */
export interface ImportResult {
  readonly imported: number
  readonly existing: number
}

/** What may be imported: ids, or messages. */
export type Importable = Iterable<string | ProcessedMessage> | AsyncIterable<string | ProcessedMessage>

type Parts = Pick<Store<unknown, never>, 'transactions' | 'admin'> & { readonly random: Random }

/** How many receipts one transaction writes. */
const STEP = 500
const LOCK_MS = 10_000
const IDLE_MS = 60_000

/** Writes receipts where there are none, in small steps. It can be repeated: what is there stays as it is. */
export async function importReceipts(
  parts: Parts,
  messages: Importable,
  options: ImportOptions,
): Promise<ImportResult> {
  noOthers('options', options, ['consumer', 'source', 'dryRun', 'signal', 'onProgress', 'by'])
  const consumer = nameText('consumer', options.consumer)
  const dryRun = flag('dryRun', options.dryRun, false)
  const { onProgress } = options
  callback('onProgress', onProgress)
  signalOption('signal', options.signal)
  const audit = auditOf('import', options.by)
  let total: ImportResult = { imported: 0, existing: 0 }
  for await (const step of inSteps(messages, options.source)) {
    if (options.signal?.aborted) break
    const done = await take(parts, consumer, step, dryRun)
    total = { imported: total.imported + done.imported, existing: total.existing + done.existing }
    onProgress?.(total)
  }
  if (!dryRun && total.imported > 0) {
    await parts.admin.audit(
      { ...audit, note: `${total.imported} receipts${audit.note ? `: ${audit.note}` : ''}` },
      { consumer },
    )
  }
  return total
}

/** One transaction. If its outcome could not be learnt, the next one finds its receipts, under their token. */
async function take(
  { transactions, random }: Parts,
  consumer: string,
  messages: readonly StoredMessage[],
  dryRun: boolean,
): Promise<ImportResult> {
  const tokens = new Set<string>()
  for (let run = 1; ; run++) {
    const token = random.token()
    tokens.add(token)
    try {
      return await transactions.run(
        { lockTimeoutMs: LOCK_MS, idleTimeoutMs: IDLE_MS },
        { kind: 'take', consumer, token, messages },
        async ({ existing }) => {
          const before = [...existing.values()].filter((receipt) => !tokens.has(receipt.token)).length
          const value = { imported: messages.length - before, existing: before }
          return { value, writes: dryRun ? undefined : {} }
        },
      )
    } catch (error) {
      const again = isHapaxError(error, 'transaction-conflict') || isHapaxError(error, 'commit-unknown')
      if (!again || run >= MOST_RUNS) throw error
    }
  }
}

const MOST_RUNS = 10

/** Distinct messages, a step at a time. */
async function* inSteps(messages: Importable, source: string | undefined): AsyncGenerator<readonly StoredMessage[]> {
  let step = new Map<string, StoredMessage>()
  let place = 0
  for await (const message of messages) {
    place += 1
    const stored = asStored(message, source, place)
    step.set(stored.messageKey, stored)
    if (step.size < STEP) continue
    yield [...step.values()]
    step = new Map()
  }
  if (step.size > 0) yield [...step.values()]
}

function asStored(message: string | ProcessedMessage, fallback: string | undefined, place: number): StoredMessage {
  const { id, source = fallback, type = IMPORTED.type } = typeof message === 'string' ? { id: message } : message
  for (const [name, value] of Object.entries({ id, source }))
    if (!isName(value)) expected(`${name} of message ${place}`, textRule(name), value)
  if (!isIndexed(type)) expected(`type of message ${place}`, textRule('type'), type)
  if (source === undefined) return expected('source', 'a text', source)
  return importedMessage(source, id, type)
}
