import { type Consumer, createHapax, defineMessage, type Hapax, silentLogger } from 'hapax'
import { type PgTx, postgres } from 'hapax/postgres'
import pg from 'pg'
import { chunks } from '../measure.ts'
import { type Contender, columns, type Effect, INSERT_EFFECT, INSERT_EFFECTS } from './side.ts'

const CONCURRENCY = 4

type HapaxOnPg = Hapax<PgTx<pg.PoolClient>, unknown>

const Requested = defineMessage<Effect>('effect.requested')

/** Local delivery, one handler call and one INSERT per message; messages that are there share a transaction. */
export function hapaxOn(url: string, together = false): Promise<Contender> {
  const how = `on, group of 100, handlers ${together ? 'together, pg in pipeline mode' : 'in turn'}`
  return local(url, how, (hapax) =>
    hapax
      .consumer('bench', { group: { size: 100, together }, concurrency: CONCURRENCY })
      .on(Requested, async ({ id, payload }, ctx) => {
        await ctx.tx.query(INSERT_EFFECT, [id, payload])
      }),
  )
}

/** Local delivery, one handler call and one INSERT per group. */
export function hapaxOnMany(url: string): Promise<Contender> {
  return local(url, 'onMany, group of 500', (hapax) =>
    hapax
      .consumer('bench', { group: { size: 500 }, concurrency: CONCURRENCY })
      .onMany(Requested, async (items, ctx) => {
        await ctx.tx.query(INSERT_EFFECTS, columns(items.map((item) => item.data)))
      }),
  )
}

async function local(
  url: string,
  how: string,
  consumerOf: (hapax: HapaxOnPg) => Consumer<PgTx<pg.PoolClient>>,
): Promise<Contender> {
  const pipeline = how.includes('pipeline')
  const pool = new pg.Pool({ connectionString: url, max: 2 * CONCURRENCY, pipeline } as pg.PoolConfig)
  await pool.query('drop schema if exists bench_hapax cascade')
  const store = postgres({ pool, schema: 'bench_hapax', prepare: true })
  const hapax = createHapax({ store, source: '/bench', delivery: 'local', logger: silentLogger })
  await hapax.migrate()
  const consumer = consumerOf(hapax)
  return {
    name: 'hapax',
    settings: `${how}, concurrency ${CONCURRENCY}, local delivery, prepare: true`,
    async fill(effects) {
      await pool.query('truncate bench_hapax.receipts, bench_hapax.inbox')
      for (const chunk of chunks(effects, 1000)) {
        await hapax.transaction((tx) =>
          hapax.publishMany(
            tx,
            chunk.map((effect) => Requested.of(effect)),
          ),
        )
      }
      await pool.query('vacuum analyze bench_hapax.inbox, bench_hapax.receipts')
    },
    async work() {
      const worker = hapax.worker({ consume: [consumer] })
      await worker.start()
      await worker.drain()
      await worker.stop()
    },
    async close() {
      await hapax.close()
      await pool.end()
    },
  }
}
