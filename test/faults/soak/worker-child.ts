import { type ConsumerOptions, createHapax, isHapaxError, silentLogger } from 'hapax'
import { endWithParent, job, say, told } from '../../support/child.ts'
import { asText, openStore, type Place, type RigTx } from '../../support/databases.ts'
import { seeded } from '../../support/seeded.ts'
import { Entry } from './entry.ts'
import { ledgerTables } from './ledger.ts'

/** What one worker has to do until it is told to stop, or dies. */
export interface WorkerJob {
  readonly place: Place
  readonly seed: number
  readonly worker: number
  readonly takeoverMs: number
}

/** What it says: that it works, and at the end what went wrong on the way. */
export interface WorkerReport {
  readonly errors: number
}

endWithParent()
const { place, seed, worker: number, takeoverMs } = job<WorkerJob>()
const CONCURRENCY = 8
const tables = ledgerTables(place)
const hapax = createHapax({
  store: await openStore(place, { max: CONCURRENCY + 4 }),
  source: '/soak',
  delivery: 'local',
  logger: silentLogger,
})
let errors = 0
hapax.events.on('worker-error', () => {
  errors += 1
})
const consumerOptions: ConsumerOptions = {
  order: 'wait',
  concurrency: CONCURRENCY,
  group: { size: number % 2 === 0 ? 1 : 10 },
  // No message may be given up because of what is done to its workers.
  retry: { attempts: 100, minDelayMs: 10, maxDelayMs: 100 },
}
const consumer = hapax.consumer('ledger', consumerOptions).on(Entry, async ({ key, n }, { tx, message, attempt }) => {
  const { id } = message
  const dice = seeded(seed + Number(id.slice(2)))
  const fate = dice()
  if (fate > 0.98) await new Promise((resolve) => setTimeout(resolve, dice() * 200))
  const seen = await highest(tx, key)
  await tx.query(
    `insert into ${tables.effects} (id, name, n, seen, worker) values ('${id}', '${key}', ${n}, ${seen}, ${number})`,
  )
  if (fate < 0.02 && attempt <= 2) throw new Error('this message fails twice')
  if (fate < 0.06 && attempt <= 1) throw new Error('this message fails once')
})
const worker = hapax.worker({ consume: [consumer], takeoverMs, pollMs: 200 })

await start()
await report()
await told()
await worker.drain()
await worker.stop()
await report()
await hapax.close()
process.disconnect()

async function report(): Promise<void> {
  const said: WorkerReport = { errors }
  await say(said)
}

/** A connection may be cut while the worker starts; the process has its own deadline. */
async function start(): Promise<void> {
  for (;;) {
    try {
      return await worker.start()
    } catch (error) {
      if (!isHapaxError(error) || error.code !== 'store-unavailable') throw error
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}

async function highest(tx: RigTx, key: string): Promise<number> {
  const { rows } = await tx.query(`select max(n) as n from ${tables.effects} where name = '${key}'`)
  const { n } = rows[0] as { n: unknown }
  return n === null ? 0 : Number(asText(n))
}
