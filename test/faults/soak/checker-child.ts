import { endWithParent, job, say, told } from '../../support/child.ts'
import type { Place } from '../../support/databases.ts'
import { createTables, type Ledger, ledgerTables, openLedger } from './ledger.ts'
import { plannedIds } from './plan.ts'
import { type History, judge, type Verdict } from './verdict.ts'

// Shares no code with hapax: plain connections, tables of its own, and its own idea of what is right.

/** What the checker has to check. */
export interface CheckerJob {
  readonly place: Place
  readonly keys: number
  readonly messages: number
  readonly silenceLimitMs: number
  /** How long everything may take to come to rest. */
  readonly restMs: number
}

/** What it is told: to wait for rest, then to judge. */
export type CheckerOrder = 'rest' | 'judge'

/** What it says: that its tables are there, whether all came to rest, and its verdict. */
export type CheckerReport =
  | { readonly said: 'ready' }
  | { readonly said: 'rested'; readonly left: number }
  | { readonly said: 'verdict'; readonly verdict: Verdict; readonly copies: number }

endWithParent()
const { place, keys, messages, silenceLimitMs, restMs } = job<CheckerJob>()
const tables = ledgerTables(place)
const ledger = await openLedger(place)
await createTables(ledger, place, keys)
await report({ said: 'ready' })
await told()
await report({ said: 'rested', left: await untilRest(ledger) })
await told()
await report(await verdictOf(ledger))
await ledger.close()
process.disconnect()

async function report(said: CheckerReport): Promise<void> {
  await say(said)
}

/** Waits until the inbox is empty; answers how much is left at the deadline. */
async function untilRest({ query }: Ledger): Promise<number> {
  for (const deadline = performance.now() + restMs; ; ) {
    const left = Number((await query(`select count(*) as n from ${tables.inbox}`))[0]?.['n'])
    if (left === 0 || performance.now() > deadline) return left
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

async function verdictOf({ query }: Ledger): Promise<CheckerReport> {
  const sent = (await query(`select id, name, n, copies, at from ${tables.sent}`)).map((row) => ({
    ...message(row),
    copies: Number(row['copies']),
  }))
  const effects = await query(`select id, name, n, seen, worker, at from ${tables.effects} order by serial`)
  const kills = await query(`select at from ${tables.faults} where kind = 'kill'`)
  const history: History = {
    planned: plannedIds(messages),
    sent,
    effects: effects.map((row) => ({ ...message(row), seen: Number(row['seen']), worker: Number(row['worker']) })),
    kills: kills.map(({ at }) => Number(at)),
    silenceLimitMs,
  }
  return { said: 'verdict', verdict: judge(history), copies: sent.reduce((sum, { copies }) => sum + copies, 0) }
}

function message(row: Readonly<Record<string, unknown>>): { id: string; key: string; n: number; at: number } {
  return { id: String(row['id']), key: String(row['name']), n: Number(row['n']), at: Number(row['at']) }
}
