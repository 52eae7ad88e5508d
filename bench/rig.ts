import {
  type CleanupOptions,
  type Consumer,
  type ConsumerOptions,
  createHapax,
  defineMessage,
  type Hapax,
  silentLogger,
  type Worker,
} from 'hapax'
import { type PgTx, postgres } from 'hapax/postgres'
import pg from 'pg'
import { type Backlog, fillInbox } from './backlog.ts'
import type { Taken, Timed } from './measure.ts'

export const CONSUMER = 'bench'

export const Counted = defineMessage<number>('counted')

/** How many messages to write, and which of them have order. */
export type Fill = Pick<Backlog, 'count' | 'order' | 'unserved'>

/** A hapax on any store, with one consumer that writes one row per message. */
export interface AnyRig {
  readonly hapax: Pick<Hapax<never>, 'events' | 'status' | 'doctor' | 'explain'> & {
    cleanup(options: CleanupOptions): Promise<unknown>
  }
  /** When the first handler was called since `undefined` was written here. */
  firstCall: number | undefined
  worker(): Worker
  fill(backlog: Fill): Promise<void>
  effects(): Promise<number>
  close(): Promise<void>
}

/** A hapax on PostgreSQL, in a schema of its own. */
export interface Rig extends AnyRig {
  readonly pool: pg.Pool
  readonly hapax: Hapax<PgTx<pg.PoolClient>, unknown>
  readonly schema: string
  readonly consumer: Consumer<PgTx<pg.PoolClient>>
}

export async function rig(
  url: string,
  schema: string,
  { many = false, ...options }: ConsumerOptions & { readonly many?: boolean } = {},
  config: pg.PoolConfig = {},
): Promise<Rig> {
  const pool = new pg.Pool({ connectionString: url, max: 12, ...config })
  await pool.query(`drop schema if exists ${schema} cascade`)
  const store = postgres({ pool, schema })
  const hapax = createHapax({ store, source: '/bench', delivery: 'local', logger: silentLogger })
  await hapax.migrate()
  await pool.query(`create table ${schema}.business (id text not null, number integer not null)`)
  const consumer = hapax.consumer(CONSUMER, options)
  const made: Rig = {
    pool,
    schema,
    hapax,
    consumer,
    firstCall: undefined,
    worker: () => hapax.worker({ consume: [consumer] }),
    fill: (rows) => fillInbox(pool, { schema, consumer: CONSUMER, type: Counted.type, ...rows }),
    async effects() {
      const { rows } = await pool.query(`select count(distinct id)::integer as count from ${schema}.business`)
      return rows[0].count
    },
    async close() {
      await hapax.close()
      await pool.query(`drop schema ${schema} cascade`)
      await pool.end()
    },
  }
  const one = `insert into ${schema}.business (id, number) values ($1, $2)`
  const bulk = `insert into ${schema}.business (id, number) select * from unnest($1::text[], $2::integer[])`
  if (many) {
    consumer.onMany(Counted, async (items, ctx) => {
      made.firstCall ??= performance.now()
      await ctx.tx.query(bulk, [items.map(({ message }) => message.id), items.map(({ data }) => data)])
    })
  } else {
    consumer.on(Counted, async (number, ctx) => {
      made.firstCall ??= performance.now()
      await ctx.tx.query(one, [ctx.message.id, number])
    })
  }
  return made
}

/** Works until `count` more messages are committed, and takes the time from the first call of a handler. */
export async function work(rig: AnyRig, count: number): Promise<Taken> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  let left = count
  const { events } = rig.hapax
  const listeners = [
    events.on('processed', () => {
      left -= 1
      if (left === 0) resolve(performance.now())
    }),
    events.on('retrying', ({ error }) => reject(error)),
    events.on('worker-error', ({ error }) => reject(error)),
  ]
  rig.firstCall = undefined
  const worker = rig.worker()
  await worker.start()
  const finished = await promise
  await worker.stop()
  for (const forget of listeners) forget()
  return { messages: count, ms: finished - (rig.firstCall ?? 0) }
}

/** Fills and works the same number of messages, and checks that each took effect once. */
export function filled(rig: AnyRig, backlog: Fill): Timed {
  let before = 0
  return {
    async before() {
      await rig.fill(backlog)
      before = await rig.effects()
    },
    run: () => work(rig, backlog.count),
    async after() {
      const made = (await rig.effects()) - before
      if (made !== backlog.count) throw new Error(`expected ${backlog.count} effects, got ${made}`)
    },
  }
}
