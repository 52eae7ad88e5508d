import { createHapax, defineMessage, silentLogger } from 'hapax'
import { postgres } from 'hapax/postgres'
import pg from 'pg'
import { load } from './peers.ts'

/** A library that delivers one message at a time. */
export interface Latent {
  /** Starts a worker in this process. */
  work(told?: () => void): Promise<void>
  /** Resolves when the effect of the next message is committed by the worker of this process. */
  arrived(): Promise<void>
  publish(id: string): Promise<unknown>
  stop(): Promise<void>
  close(): Promise<void>
}

const INSERT = 'insert into bench_latency.effects (id) values ($1)'
const Sent = defineMessage<{ id: string }>('sent')

/** Local delivery with the options that hapax has by default. */
export async function latentHapax(url: string): Promise<Latent> {
  const store = postgres({ url, schema: 'bench_latency_hapax' })
  const hapax = createHapax({ store, source: '/bench', delivery: 'local', logger: silentLogger })
  await hapax.migrate()
  const consumer = hapax.consumer('bench').on(Sent, ({ id }, ctx) => ctx.tx.query(INSERT, [id]))
  let arrived = (): void => {}
  hapax.events.on('processed', () => arrived())
  const worker = hapax.worker({ consume: [consumer] })
  return {
    async work(told = () => {}) {
      arrived = told
      await worker.start()
    },
    arrived: () => new Promise((resolve) => (arrived = resolve)),
    publish: (id) => hapax.transaction((tx) => hapax.publish(tx, Sent, { id })),
    stop: () => worker.stop(),
    close: () => hapax.close(),
  }
}

interface GraphileWorker {
  readonly Logger: new (factory: () => (level: string, message: string) => void) => unknown
  runMigrations(options: object): Promise<void>
  run(options: object): Promise<{ stop(): Promise<void> }>
}

/** Jobs by `add_job`, and by default as many at once as hapax runs; the task inserts on a connection of a pool. */
export async function latentGraphile(url: string): Promise<Latent> {
  const { Logger, run, runMigrations } = await load<GraphileWorker>('graphile-worker')
  const pool = new pg.Pool({ connectionString: url, max: 10 })
  const logger = new Logger(() => () => {})
  const schema = 'bench_latency_graphile'
  const preset = { worker: { connectionString: url, schema, concurrentJobs: 10, logger } }
  await runMigrations({ preset })
  let arrived = (): void => {}
  let runner: { stop(): Promise<void> } | undefined
  return {
    async work(told = () => {}) {
      arrived = told
      const sent = async (payload: { id: string }): Promise<void> => {
        await pool.query(INSERT, [payload.id])
        arrived()
      }
      runner = await run({ preset, taskList: { sent }, noHandleSignals: true })
    },
    arrived: () => new Promise((resolve) => (arrived = resolve)),
    publish: (id) => pool.query(`select ${schema}.add_job($1, $2)`, ['sent', { id }]),
    async stop() {
      await runner?.stop()
      runner = undefined
    },
    close: () => pool.end(),
  }
}
