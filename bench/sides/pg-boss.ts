import type pg from 'pg'
import { load } from './peers.ts'
import { type Contender, columns, type Effect, INSERT_EFFECT, INSERT_EFFECTS } from './side.ts'

/** The part of pg-boss that is used. */
interface PgBossModule {
  readonly PgBoss: new (options: object) => PgBoss
}

interface PgBoss {
  on(event: 'error', listener: (error: Error) => void): void
  start(): Promise<unknown>
  stop(options: object): Promise<void>
  createQueue(name: string, options: object): Promise<void>
  deleteAllJobs(name: string): Promise<void>
  insert(name: string, jobs: readonly object[]): Promise<unknown>
  fetch(name: string, options: object): Promise<readonly { readonly id: string; readonly data: Effect }[]>
  complete(name: string, ids: readonly string[], data: null, options: object): Promise<unknown>
}

/** How the effects of one fetch are written, on the connection of its transaction. */
type Write = (client: pg.PoolClient, effects: readonly Effect[]) => Promise<void>

const oneByOne: Write = async (client, effects) => {
  for (const { id, payload } of effects) await client.query(INSERT_EFFECT, [id, payload])
}

const atOnce: Write = async (client, effects) => {
  await client.query(INSERT_EFFECTS, columns(effects))
}

/** Fetch, effects and completion in one transaction, as pg-boss allows by its option `db`; one INSERT per job. */
export function pgBoss(url: string, pool: pg.Pool): Promise<Contender> {
  return fetching(url, pool, {
    queue: 'single',
    batchSize: 100,
    fetchers: 4,
    write: oneByOne,
    how: '',
  })
}

/** The same with larger fetches and one INSERT for all jobs of a fetch. */
export function pgBossBulk(url: string, pool: pg.Pool): Promise<Contender> {
  return fetching(url, pool, {
    queue: 'bulk',
    batchSize: 500,
    fetchers: 4,
    write: atOnce,
    how: ', one INSERT per fetch',
  })
}

interface Fetching {
  readonly queue: string
  readonly batchSize: number
  readonly fetchers: number
  readonly write: Write
  readonly how: string
}

async function fetching(
  url: string,
  pool: pg.Pool,
  { queue, batchSize, fetchers, write, how }: Fetching,
): Promise<Contender> {
  const { PgBoss } = await load<PgBossModule>('pg-boss')
  // Its own jobs on the side would only take time from it.
  const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false })
  boss.on('error', (error) => console.error(error))
  await boss.start()
  await boss.createQueue(queue, { partition: true })

  const one = async (): Promise<number> => {
    const client = await pool.connect()
    const db = { executeSql: (text: string, values?: unknown[]) => client.query(text, values) }
    try {
      await client.query('begin')
      const jobs = await boss.fetch(queue, { batchSize, db })
      if (jobs.length > 0) {
        await write(
          client,
          jobs.map((job) => job.data),
        )
        await boss.complete(
          queue,
          jobs.map((job) => job.id),
          null,
          { db },
        )
      }
      await client.query('commit')
      return jobs.length
    } finally {
      client.release()
    }
  }

  return {
    name: 'pg-boss',
    how,
    settings: `fetch ${batchSize} x ${fetchers} at a time, fetch, INSERT and complete in one transaction, queue in its own partition`,
    async fill(effects) {
      await boss.deleteAllJobs(queue)
      await boss.insert(
        queue,
        effects.map((data) => ({ data })),
      )
      await pool.query('vacuum analyze')
    },
    async work() {
      const loop = async (): Promise<void> => {
        while ((await one()) > 0);
      }
      await Promise.all(Array.from({ length: fetchers }, loop))
    },
    async close() {
      await boss.stop({ graceful: false })
    },
  }
}
