import { type Consumer, createHapax, defineMessage, type Hapax, silentLogger } from 'hapax'
import { type PgTx, postgres } from 'hapax/postgres'
import pg from 'pg'
import { chunks } from '../measure.ts'
import { type Contender, columns, type Effect, INSERT_EFFECT, INSERT_EFFECTS } from './side.ts'

type HapaxOnUrl = Hapax<PgTx, unknown>

const Requested = defineMessage<Effect>('effect.requested')
const SCHEMA = 'bench_hapax'

/** One handler call and one INSERT per message. */
export function hapaxOn(url: string): Promise<Contender> {
  return local(url, 'one call per message', (hapax) =>
    hapax.consumer('bench').on(Requested, async ({ id, payload }, ctx) => {
      await ctx.tx.query(INSERT_EFFECT, [id, payload])
    }),
  )
}

/** One handler call and one INSERT per group. */
export function hapaxOnMany(url: string): Promise<Contender> {
  return local(url, 'onMany', (hapax) =>
    hapax.consumer('bench').onMany(Requested, async (items, ctx) => {
      await ctx.tx.query(INSERT_EFFECTS, columns(items.map((item) => item.data)))
    }),
  )
}

/** Local delivery with the options that one gets without choosing any. */
async function local(url: string, how: string, consumerOf: (hapax: HapaxOnUrl) => Consumer<PgTx>): Promise<Contender> {
  const admin = new pg.Pool({ connectionString: url, max: 1 })
  await admin.query(`drop schema if exists ${SCHEMA} cascade`)
  const store = postgres({ url, schema: SCHEMA })
  const hapax = createHapax({ store, source: '/bench', delivery: 'local', logger: silentLogger })
  await hapax.migrate()
  const consumer = consumerOf(hapax)
  return {
    name: 'hapax',
    how,
    settings: 'default options',
    async fill(effects) {
      await admin.query(`truncate ${SCHEMA}.receipts, ${SCHEMA}.inbox`)
      for (const chunk of chunks(effects, 1000)) {
        const drafts = chunk.map((effect) => Requested.of(effect))
        await hapax.transaction((tx) => hapax.publishMany(tx, drafts))
      }
      await admin.query(`vacuum analyze ${SCHEMA}.inbox, ${SCHEMA}.receipts`)
    },
    async work() {
      const worker = hapax.worker({ consume: [consumer] })
      await worker.start()
      await worker.drain()
      await worker.stop()
    },
    async close() {
      await hapax.close()
      await admin.end()
    },
  }
}
