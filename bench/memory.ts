import { createHapax, silentLogger } from 'hapax'
import { postgres } from 'hapax/postgres'
import pg from 'pg'
import { chunks } from './measure.ts'
import { messages, OrderPlaced } from './messages.ts'

/** Resident memory after 200,000 messages beside that after 20,000. */
export async function benchMemory(url: string): Promise<void> {
  const pool = new pg.Pool({ connectionString: url, max: 8 })
  const hapax = createHapax({ store: postgres({ pool }), source: '/bench', logger: silentLogger })
  const consumer = hapax.consumer('memory', { group: { size: 100 } }).on(OrderPlaced, async (order, ctx) => {
    await ctx.tx.query('insert into bench.business (id, amount) values ($1, $2)', [order.orderId, order.amount])
  })
  const work = async (count: number): Promise<number> => {
    for (let done = 0; done < count; done += 2000) {
      await Promise.all(chunks(messages(2000), 500).map((group) => consumer.handleMany(group)))
    }
    globalThis.gc?.()
    return process.memoryUsage().rss
  }
  const early = await work(20_000)
  const late = await work(180_000)
  const ratio = late / early
  const mib = (bytes: number): string => `${(bytes / 1024 / 1024).toFixed(0)} MiB`
  console.log(
    `\nresident memory after 20,000 messages ${mib(early)}, after 200,000 ${mib(late)}: ratio ${ratio.toFixed(2)}, aim <= 1.2 ${ratio <= 1.2 ? 'ok' : 'ABOVE'}`,
  )
  await hapax.close()
  await pool.end()
}
