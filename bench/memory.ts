import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createHapax, silentLogger } from 'hapax'
import { postgres } from 'hapax/postgres'
import pg from 'pg'
import { chunks, heading, progress, reportValue } from './measure.ts'
import { messages, OrderPlaced } from './messages.ts'
import type { Bench, Part } from './part.ts'
import { rig } from './rig.ts'

export const memory: Part = {
  name: 'memory',
  about: 'memory after 200,000 messages / after 20,000, and of a worker after a backlog of 1,000,000 / after 100,000',
  needs: ['postgres'],
  async run(bench) {
    heading('Memory')
    await handled(bench)
    await drained(bench)
  },
}

const SCHEMA = 'bench_memory'
const INSERT = `insert into ${SCHEMA}.business (id, amount) values ($1, $2)`

async function handled(bench: Bench): Promise<void> {
  const pool = new pg.Pool({ connectionString: bench.url('postgres'), max: 8 })
  await pool.query(`drop schema if exists ${SCHEMA} cascade`)
  const hapax = createHapax({ store: postgres({ pool, schema: SCHEMA }), source: '/bench', logger: silentLogger })
  await hapax.migrate()
  await pool.query(`create table ${SCHEMA}.business (id text not null, amount integer not null)`)
  const consumer = hapax.consumer('memory', { group: { size: 100 } }).on(OrderPlaced, async (order, ctx) => {
    await ctx.tx.query(INSERT, [order.orderId, order.amount])
  })
  const resident = async (count: number): Promise<number> => {
    for (let done = 0; done < count; done += 2000) {
      await Promise.all(chunks(messages(2000), 500).map((group) => consumer.handleMany(group)))
    }
    collectGarbage()
    return process.memoryUsage().rss / 2 ** 20
  }
  const few = bench.size(20_000, 4000)
  const early = await resident(few)
  const late = await resident(9 * few)
  const name = `resident memory after ${text(10 * few)} messages / after ${text(few)}`
  reportValue(name, late, 'MiB', { other: early, aim: { of: 'ratio', most: 1.2 } })
  await hapax.close()
  await pool.query(`drop schema ${SCHEMA} cascade`)
  await pool.end()
}

/** One worker that drains a large backlog: what it keeps must not grow with what it has done. */
async function drained(bench: Bench): Promise<void> {
  const total = bench.size(1_000_000, 50_000)
  const few = total / 10
  const { hapax, worker, fill, close } = await rig(bench.url('postgres'), 'bench_drained', { many: true })
  await fill({ count: total })
  progress('filled')
  const heaps: number[] = []
  const { promise, resolve } = Promise.withResolvers<void>()
  let done = 0
  hapax.events.on('processed', () => {
    done += 1
    if (done !== few && done !== total) return
    collectGarbage()
    heaps.push(process.memoryUsage().heapUsed / 2 ** 20)
    if (done === total) resolve()
  })
  const working = worker()
  await working.start()
  await promise
  await working.stop()
  const [early = Number.NaN, late = Number.NaN] = heaps
  const name = `heap of a worker after ${text(total)} of a backlog / after ${text(few)}`
  reportValue(name, late, 'MiB', { other: early, aim: { of: 'ratio', most: 1.2 } })
  await close()
}

const text = (count: number): string => count.toLocaleString('en')

function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
}
