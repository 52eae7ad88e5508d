import pg from 'pg'
import { heading, type Measured, report, sideBySide, type Timed } from './measure.ts'
import { graphileWorker } from './sides/graphile-worker.ts'
import { hapaxOn, hapaxOnMany } from './sides/hapax.ts'
import { installPeers, versionOf } from './sides/peers.ts'
import { pgBoss, pgBossBulk } from './sides/pg-boss.ts'
import { pgTransactionalOutbox } from './sides/pg-transactional-outbox.ts'
import type { Contender, Effect } from './sides/side.ts'

const ROUNDS = 5
/** Connections that the peers' handlers and transactions share. */
const CONNECTIONS = 24

/** Compares local delivery with other libraries: the same effects, from a queue that is full when the clock starts. */
export async function benchPeers(url: string): Promise<void> {
  if (!installPeers()) return
  const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS })
  await pool.query('drop schema if exists bench_peers cascade; create schema bench_peers')
  await pool.query('create table bench_peers.effects (id text not null, payload text not null)')
  heading('Local delivery beside other libraries')
  await compare(pool, await hapaxOn(url), await graphileWorker(url, pool), 20_000, 3)
  await compare(pool, await hapaxOn(url), await pgBoss(url, pool), 20_000, 2)
  await compare(pool, await hapaxOn(url, true), await graphileWorker(url, pool), 20_000, 3)
  await compare(pool, await hapaxOn(url, true), await pgBoss(url, pool), 20_000, 2)
  await compare(pool, await hapaxOnMany(url), await pgBossBulk(url, pool), 60_000, 1.3)
  await compare(pool, await hapaxOn(url), await pgTransactionalOutbox(url, pool), 3_000)
  await pool.end()
}

async function compare(pool: pg.Pool, hapax: Contender, other: Contender, count: number, aim?: number): Promise<void> {
  const measured: Measured = await sideBySide(ROUNDS, timed(pool, hapax, count), timed(pool, other, count))
  report(`${other.name} ${versionOf(other.name)}, ${count.toLocaleString('en')} messages`, measured, aim)
  console.log(`  hapax: ${hapax.settings}\n  ${other.name}: ${other.settings}`)
  await hapax.close()
  await other.close()
}

function timed(pool: pg.Pool, side: Contender, count: number): Timed {
  return {
    async before(round) {
      await pool.query('truncate bench_peers.effects')
      await side.fill(effects(round, count))
      await pool.query('checkpoint')
    },
    async run() {
      await side.work(count)
      return count
    },
    async after() {
      const { rows } = await pool.query(
        'select count(*)::integer as all, count(distinct id)::integer as ids from bench_peers.effects',
      )
      if (rows[0].all !== count || rows[0].ids !== count) {
        throw new Error(`expected ${side.name} to make ${count} effects, got ${rows[0].all} of ${rows[0].ids} messages`)
      }
    },
  }
}

const PAYLOAD = 'x'.repeat(100)

function effects(round: number, count: number): readonly Effect[] {
  return Array.from({ length: count }, (_, index) => ({ id: `${round}-${index}`, payload: PAYLOAD }))
}
