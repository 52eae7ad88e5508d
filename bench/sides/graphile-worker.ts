import type pg from 'pg'
import { load } from './peers.ts'
import { type Contender, countdown, type Effect, INSERT_EFFECT } from './side.ts'

/** The part of graphile-worker that is used. */
interface GraphileWorker {
  readonly Logger: new (factory: () => (level: string, message: string) => void) => unknown
  runMigrations(options: object): Promise<void>
  run(options: object): Promise<{ stop(): Promise<void> }>
}

// The settings under which its page on performance reports its best figures.
const SETTINGS = {
  concurrentJobs: 24,
  maxPoolSize: 25,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
}

const FILL = `
select count(*) from graphile_worker.add_jobs(array(
  select row('effect', json_build_object('id', id, 'payload', payload), null, null, null, null, null, null)::graphile_worker.job_spec
  from unnest($1::text[], $2::text[]) as m (id, payload)))`

/** One job per message; the handler inserts on a connection of its own, the job is completed by graphile-worker. */
export async function graphileWorker(url: string, pool: pg.Pool): Promise<Contender> {
  const { Logger, run, runMigrations } = await load<GraphileWorker>('graphile-worker')
  let failed: (message: string) => void = console.error
  const logger = new Logger(() => (level, message) => {
    if (level === 'error') failed(message)
  })
  const preset = { worker: { ...SETTINGS, connectionString: url, logger } }
  await runMigrations({ preset })
  return {
    name: 'graphile-worker',
    how: '',
    settings: JSON.stringify(SETTINGS),
    async fill(effects) {
      await pool.query('truncate graphile_worker._private_jobs, graphile_worker._private_job_queues')
      await pool.query(FILL, [effects.map((effect) => effect.id), effects.map((effect) => effect.payload)])
      await pool.query('vacuum analyze graphile_worker._private_jobs')
    },
    async work(count) {
      const { finished, done, failed: fail } = countdown(count)
      failed = fail
      const effect = async ({ id, payload }: Effect): Promise<void> => {
        await pool.query(INSERT_EFFECT, [id, payload])
        done()
      }
      const runner = await run({ preset, taskList: { effect }, noHandleSignals: true })
      await finished
      // Only now are the last jobs completed.
      await runner.stop()
    },
    async close() {},
  }
}
