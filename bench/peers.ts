import pg from 'pg'
import { heading, report, sideBySide, type Timed } from './measure.ts'
import type { Bench, Part } from './part.ts'
import { graphileWorker } from './sides/graphile-worker.ts'
import { hapaxOn, hapaxOnMany } from './sides/hapax.ts'
import { installPeers, versionOf } from './sides/peers.ts'
import { pgBoss, pgBossBulk } from './sides/pg-boss.ts'
import { pgTransactionalOutbox } from './sides/pg-transactional-outbox.ts'
import type { Contender, Effect } from './sides/side.ts'

const SECTIONS: Readonly<Record<string, (bench: Bench, pool: pg.Pool) => Promise<void>>> = {
  'graphile-worker': (bench, pool) =>
    compare(bench, pool, { hapax: hapaxOn, other: graphileWorker, count: bench.size(20_000, 4_000), aim: 3 }),
  'pg-boss': (bench, pool) =>
    compare(bench, pool, { hapax: hapaxOn, other: pgBoss, count: bench.size(20_000, 4_000), aim: 2 }),
  'pg-boss-bulk': (bench, pool) =>
    compare(bench, pool, { hapax: hapaxOnMany, other: pgBossBulk, count: bench.size(60_000, 15_000), aim: 1.7 }),
  'pg-transactional-outbox': (bench, pool) =>
    compare(bench, pool, { hapax: hapaxOn, other: pgTransactionalOutbox, count: bench.size(3_000, 600) }),
}

/** Local delivery beside other libraries: the same effects, from a queue that is full when the clock starts. */
export const peers: Part = {
  name: 'peers',
  about: 'local delivery on PostgreSQL / graphile-worker, pg-boss, pg-transactional-outbox',
  needs: ['postgres'],
  sections: Object.keys(SECTIONS),
  async run(bench) {
    if (!installPeers()) return
    const pool = new pg.Pool({ connectionString: bench.url('postgres'), max: CONNECTIONS })
    await pool.query('drop schema if exists bench_peers cascade; create schema bench_peers')
    await pool.query('create table bench_peers.effects (id text not null, payload text not null)')
    heading('Local delivery on PostgreSQL')
    for (const [name, section] of Object.entries(SECTIONS)) if (bench.wants(name)) await section(bench, pool)
    await pool.end()
  },
}

/** Connections that the peers' handlers and transactions share. */
const CONNECTIONS = 24

interface Comparison {
  readonly hapax: (url: string) => Promise<Contender>
  readonly other: (url: string, pool: pg.Pool) => Promise<Contender>
  readonly count: number
  readonly aim?: number
}

async function compare(bench: Bench, pool: pg.Pool, { count, aim, ...sides }: Comparison): Promise<void> {
  const url = bench.url('postgres')
  const [hapax, other] = [await sides.hapax(url), await sides.other(url, pool)]
  const measured = await sideBySide(bench.rounds, timed(pool, hapax, count), timed(pool, other, count))
  const note = `hapax: ${hapax.settings}; ${other.name}: ${other.settings}`
  report(`${hapax.how} / ${other.name} ${versionOf(other.name)}${other.how}`, measured, aim, { note })
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
