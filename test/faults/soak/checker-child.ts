import { endWithParent, job, say, told } from '../../support/child.ts'
import { asText, type Place } from '../../support/databases.ts'
import { type BrokerPlace, type PlainClient, stubborn } from '../brokers/broker-place.ts'
import { createTables, type Ledger, ledgerTables, openLedger } from './ledger.ts'
import { plannedIds } from './plan.ts'
import { type History, judge, type Verdict } from './verdict.ts'

// Shares no code with hapax: plain connections, tables of its own, and its own idea of what is right.

/** What the checker has to check. */
export interface CheckerJob {
  readonly place: Place
  /** Where the messages pass through, if they do not stay in the database. */
  readonly broker?: BrokerPlace
  /** Whether the effects of a key have to be in order. */
  readonly ordered: boolean
  readonly keys: number
  readonly messages: number
  readonly silenceLimitMs: number
  /** How long everything may take to come to rest. */
  readonly restMs: number
}

/** What it is told: to wait for rest, then to judge. */
export type CheckerOrder = 'rest' | 'judge'

/** What it says: that its tables are there, what did not come to rest in time, and its verdict. */
export type CheckerReport =
  | { readonly said: 'ready' }
  | { readonly said: 'rested'; readonly left: readonly string[] }
  | { readonly said: 'verdict'; readonly verdict: Verdict; readonly copies: number; readonly left: readonly string[] }

/** Longer than a reader holds a message that nobody else sees. */
const LASTING_MS = 20_000

endWithParent()
const { place, broker, ordered, keys, messages, silenceLimitMs, restMs } = job<CheckerJob>()
const tables = ledgerTables(place)
const ledger = await openLedger(place)
const plain: PlainClient | undefined = broker && stubborn(broker)
await createTables(ledger, place, keys)
await report({ said: 'ready' })
await told()
await report({ said: 'rested', left: await untilRest(ledger) })
await told()
await report(await verdictOf(ledger))
await ledger.close()
await plain?.close()
process.disconnect()

async function report(said: CheckerReport): Promise<void> {
  await say(said)
}

/**
 * Waits until nothing is under way; returns what is left at the deadline. A broker may not show what a reader has in its hands, so
 * while effects are missing, the rest has to last.
 */
async function untilRest(ledger: Ledger): Promise<string[]> {
  let restedSince = Number.POSITIVE_INFINITY
  for (const deadline = performance.now() + restMs; ; ) {
    const left = await whatIsLeft(ledger)
    const now = performance.now()
    restedSince = left.length > 0 ? Number.POSITIVE_INFINITY : Math.min(restedSince, now)
    if (now > deadline || now - restedSince > LASTING_MS) return left
    if (left.length === 0 && (await missing(ledger)) <= 0) return left
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

/** How many messages have neither an effect nor failed. */
async function missing({ query }: Ledger): Promise<number> {
  const [row] = await query(
    `select (select count(distinct id) from ${tables.effects}) as effects, (select count(*) from ${tables.failed}) as failed`,
  )
  return messages - Number(row?.['effects']) - Number(row?.['failed'])
}

/** Looked at in the order in which a message travels, so that none slips past. */
async function whatIsLeft({ query }: Ledger): Promise<string[]> {
  const rows = async (table: string): Promise<number> =>
    Number((await query(`select count(*) as n from ${table}`))[0]?.['n'])
  const outbox = await rows(tables.outbox)
  const broker = (await plain?.waiting()) ?? 0
  const inbox = await rows(tables.inbox)
  return Object.entries({ outbox, broker, inbox })
    .filter(([, count]) => count > 0)
    .map(([where, count]) => `${count} in the ${where}`)
}

async function verdictOf(ledger: Ledger): Promise<CheckerReport> {
  const { query } = ledger
  const sent = (await query(`select id, name, n, copies, at from ${tables.sent}`)).map((row) => ({
    ...message(row),
    copies: Number(row['copies']),
  }))
  const effects = await query(`select id, name, n, seen, worker, at from ${tables.effects} order by serial`)
  const kills = await query(`select at from ${tables.faults} where kind = 'kill'`)
  const failed = await query(`select id, reason, error from ${tables.failed}`)
  const history: History = {
    planned: plannedIds(messages),
    sent,
    effects: effects.map((row) => ({ ...message(row), seen: Number(row['seen']), worker: Number(row['worker']) })),
    failed: failed.map(({ id, reason, error }) => `${asText(id)}: ${asText(reason)} ${asText(error)}`),
    ordered,
    kills: kills.map(({ at }) => Number(at)),
    silenceLimitMs,
  }
  const copies = sent.reduce((sum, { copies }) => sum + copies, 0)
  return { said: 'verdict', verdict: judge(history), copies, left: await whatIsLeft(ledger) }
}

function message(row: Readonly<Record<string, unknown>>): { id: string; key: string; n: number; at: number } {
  return { id: String(row['id']), key: String(row['name']), n: Number(row['n']), at: Number(row['at']) }
}
