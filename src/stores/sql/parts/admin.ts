import type { Row, Statement, StatusOptions, StoreAdmin, StoreStatus, Trace } from '../../../contracts/index.ts'
import { inTimeOrder, type KeyRange, keyRange, messageKey } from '../../../message/index.ts'
import { CONTROL_MS } from '../calls.ts'
import { asTrace } from '../operator-rows.ts'
import { asEffect } from '../rows.ts'
import { asStatus } from '../status.ts'
import { asText } from '../values.ts'
import { rowsOf, type SqlParts } from './context.ts'
import { sqlLists } from './lists.ts'
import { sqlWaiting } from './waiting.ts'

/** How many rows of each place are asked for their sources. */
const SAMPLE = 1_000

/** What people look at in an SQL database, and look after. */
export function sqlAdmin(parts: SqlParts): StoreAdmin {
  const { calls, dialect } = parts
  const query = (statement: Statement) => calls.run(statement)
  return {
    clean: async (step, olderThanMs, limit) => {
      await calls.assertFits()
      const cleaned = await dialect.admin.clean(query, step, olderThanMs, limit)
      if (step.kind !== 'receipts' || step.dryRun) return cleaned
      // The journal of a message goes when its receipt has gone; here or in a later round.
      await calls.run(dialect.journal.forget(step.consumer, step.after ?? FIRST_KEY, cleaned.after ?? LAST_KEY))
      return cleaned
    },
    audit: async (audit, about) => void (await calls.run(dialect.admin.audit(audit, about))),
    checkup: () => dialect.admin.checkup(query),
    status: (options) => status(parts, options),
    trace: (id, source, scan = false) => trace(parts, id, source, scan),
    ...sqlLists(parts),
    ...sqlWaiting(parts),
  }
}

/** How long a count of everything may take. */
const EXACT_MS = 600_000

async function status(
  { calls, dialect }: SqlParts,
  { exact = false, limitMs = exact ? EXACT_MS : CONTROL_MS }: StatusOptions = {},
): Promise<StoreStatus> {
  const settings = dialect.status.settings(limitMs)
  const looked = await dialect.status.look((statement) => calls.look(settings, statement, limitMs))
  return asStatus(looked, exact ? (await calls.run(dialect.status.exact, limitMs)).rows : undefined)
}

async function trace(
  parts: SqlParts,
  id: string,
  source: string | undefined,
  scan: boolean,
): Promise<readonly Trace[]> {
  const { dialect } = parts
  const byId = await traces(parts, [dialect.traces.audit(id), dialect.traces.responses(id)])
  const others = scan ? await traces(parts, dialect.traces.all(id)) : await byKey(parts, id, source, byId)
  const found = [...byId, ...others, ...(await effects(parts, id, others))]
  return inTimeOrder(found.filter((each) => source === undefined || each.source === source))
}

async function byKey(
  parts: SqlParts,
  id: string,
  source: string | undefined,
  byId: readonly Trace[],
): Promise<readonly Trace[]> {
  const { dialect } = parts
  const consumers = await receiptConsumers(parts)
  const found: Trace[] = []
  for (const keys of await keysOf(parts, id, source, byId, consumers)) {
    const receipts = consumers.map((consumer) => dialect.traces.receipts(id, consumer, keys))
    found.push(...(await traces(parts, [...receipts, ...dialect.traces.byKey(id, keys)])))
  }
  return found
}

/** The keys that the message may have. */
async function keysOf(
  parts: SqlParts,
  id: string,
  source: string | undefined,
  byId: readonly Trace[],
  consumers: readonly string[],
): Promise<readonly KeyRange[]> {
  if (source !== undefined) return [exactly(source, id)]
  const range = keyRange(id)
  if (range !== undefined) return [range]
  const { dialect } = parts
  const sources = new Set([...byId.map((each) => each.source), ...(await workerSources(parts))])
  const samples = consumers.map((consumer) => dialect.traces.receiptSources(consumer, SAMPLE))
  for (const statement of [...samples, dialect.traces.otherSources(SAMPLE)])
    for (const row of await rowsOf(parts, statement)) sources.add(asText(row['source']))
  return [...sources].map((each) => exactly(each, id))
}

/** What workers write as the source of their own messages. Another version may have recorded something else. */
async function workerSources(parts: SqlParts): Promise<readonly string[]> {
  return (await rowsOf(parts, parts.dialect.workers.list)).flatMap((row) => {
    try {
      const { source }: { source?: unknown } = JSON.parse(asText(row['serves']))
      return typeof source === 'string' ? [source] : []
    } catch {
      return []
    }
  })
}

/** The journals of the receipts that were found. */
async function effects(parts: SqlParts, id: string, found: readonly Trace[]): Promise<readonly Trace[]> {
  const journals: Trace[] = []
  for (const receipt of found) {
    if (receipt.where !== 'receipt') continue
    const { consumer, source, type } = receipt
    const effectOf = { consumer, messageKey: messageKey(source, id) }
    for (const row of await rowsOf(parts, parts.dialect.journal.of(consumer, effectOf.messageKey))) {
      const effect = asEffect(effectOf, row)
      journals.push({ where: 'effect', consumer, source, type, at: effect.firstAt, effect })
    }
  }
  return journals
}

async function receiptConsumers(parts: SqlParts): Promise<readonly string[]> {
  return (await rowsOf(parts, parts.dialect.status.receiptConsumers)).map((row) => asText(row['consumer']))
}

async function traces(parts: SqlParts, statements: readonly Statement[]): Promise<readonly Trace[]> {
  const found: Row[] = []
  for (const statement of statements) found.push(...(await rowsOf(parts, statement)))
  return found.map(asTrace)
}

function exactly(source: string, id: string): KeyRange {
  const key = messageKey(source, id)
  return { from: key, to: key }
}

/** Keys of messages are UUIDs. */
const FIRST_KEY = '00000000-0000-0000-0000-000000000000'
const LAST_KEY = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
