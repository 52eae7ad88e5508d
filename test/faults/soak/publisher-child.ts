import { createHapax, silentLogger } from 'hapax'
import { endWithParent, job, say, told } from '../../support/child.ts'
import { asText, openStore, type Place, type RigTx } from '../../support/databases.ts'
import { inLanes } from '../../support/lanes.ts'
import { Entry } from './entry.ts'
import { ledgerTables } from './ledger.ts'
import { type Planned, type PlanOptions, planOf } from './plan.ts'

/** What one publisher has to do. */
export interface PublisherJob extends PlanOptions {
  readonly place: Place
  readonly publisher: number
  readonly delivery: 'local' | 'relay'
}

/** What it is told: up to which share of its messages it has to come now, and over how long that is spread. */
export interface PublisherOrder {
  readonly upTo: number
  readonly overMs: number
}

/** What it says when it has. */
export interface PublisherReport {
  readonly transactions: number
  /** Transactions that were run again, because their connection was cut or two met. */
  readonly repeated: number
  /** Answers of `publish` about a duplicate that the publisher's own tables contradict. */
  readonly contradictions: readonly string[]
}

endWithParent()
const { place, publisher, delivery, ...options } = job<PublisherJob>()
const LANES = 6
const tables = ledgerTables(place)
const hapax = createHapax({
  store: await openStore(place, { max: LANES }),
  source: '/soak',
  delivery,
  logger: silentLogger,
})
const transactions = planOf(options)[publisher] ?? []
const contradictions: string[] = []
let repeated = 0

await say({ ready: true })
for (let done = 0; done < 1; ) {
  const { upTo, overMs } = (await told()) as PublisherOrder
  await publishAll(
    transactions.slice(Math.ceil(done * transactions.length), Math.ceil(upTo * transactions.length)),
    overMs,
  )
  done = upTo
  const report: PublisherReport = { transactions: transactions.length, repeated, contradictions }
  await say(report)
}
await hapax.close()
process.disconnect()

async function publishAll(some: readonly Planned[][], overMs: number): Promise<void> {
  const start = performance.now()
  await inLanes(LANES, [...some.entries()], async ([index, messages]) => {
    const early = start + (overMs * index) / some.length - performance.now()
    if (early > 0) await new Promise((resolve) => setTimeout(resolve, early))
    await publish(messages)
  })
}

/** Repeats the transaction with the same ids until one commit is known: the process has its own deadline. */
async function publish(messages: readonly Planned[]): Promise<void> {
  for (;;) {
    try {
      return await hapax.transaction((tx) => write(tx, messages), { isolation: 'read committed' })
    } catch {
      repeated += 1
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
}

/** The key's row is locked until the commit, so that the numbers of a key are in the order of the commits. */
async function write(tx: RigTx, messages: readonly Planned[]): Promise<void> {
  const last = new Map<string, number>()
  for (const key of [...new Set(messages.map((each) => each.key))].sort()) {
    last.set(key, await numberIn(tx, `select n from ${tables.keys} where name = '${key}' for update`))
  }
  for (const { id, key } of messages) {
    const known = await numberIn(tx, `select n from ${tables.sent} where id = '${id}'`)
    const n = known || (last.get(key) ?? 0) + 1
    const { duplicate = false } = await hapax.publish(tx, Entry, { key, n }, { id })
    // Through a broker it is the consumer who finds out.
    if (delivery === 'local' && duplicate !== known > 0)
      contradictions.push(`${id} is ${known > 0 ? 'known' : 'new'}, duplicate: ${duplicate}`)
    if (known > 0) await tx.query(`update ${tables.sent} set copies = copies + 1 where id = '${id}'`)
    else await tx.query(`insert into ${tables.sent} (id, name, n) values ('${id}', '${key}', ${n})`)
    if (known === 0) last.set(key, n)
  }
  for (const [key, n] of last) await tx.query(`update ${tables.keys} set n = ${n} where name = '${key}'`)
}

/** The number in the only row, or 0. */
async function numberIn(tx: RigTx, text: string): Promise<number> {
  const [row] = (await tx.query(text)).rows as { n?: unknown }[]
  return row === undefined ? 0 : Number(asText(row.n))
}
