import { context } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import { type Consumer, createHapax, silentLogger } from 'hapax'
import type { Instrument } from 'hapax/contracts'
import { opentelemetry } from 'hapax/opentelemetry'
import { type PgTx, postgres as postgresStore } from 'hapax/postgres'
import { prometheus } from 'hapax/prometheus'
import pg from 'pg'
import { chunks, heading, loops, report, type Side, sideBySide } from './measure.ts'
import { messages, OrderPlaced } from './messages.ts'
import type { Bench, Part } from './part.ts'

export const telemetry: Part = {
  name: 'telemetry',
  about: 'metrics and traces on PostgreSQL: switched on / off',
  needs: ['postgres'],
  run,
}

const SCHEMA = 'bench_telemetry'
const GROUP = 100
const LOOPS = 4

async function run(bench: Bench): Promise<void> {
  const pool = new pg.Pool({ connectionString: bench.url('postgres'), max: 8 })
  await pool.query(`drop schema if exists ${SCHEMA} cascade`)
  const off = await side(bench, pool)
  await pool.query(`create table ${SCHEMA}.business (id text not null, amount integer not null)`)
  const contexts = new AsyncLocalStorageContextManager().enable()
  context.setGlobalContextManager(contexts)
  const [some, all] = [tracing(0.1), tracing(1)]
  const metrics = await side(bench, pool, { metrics: true })
  const sampled = await side(bench, pool, { metrics: true, instrument: some.instrument })
  const traced = await side(bench, pool, { metrics: true, instrument: all.instrument })

  // Differences of a few per cent need more rounds than others.
  const rounds = 2 * bench.rounds
  heading(`Telemetry, ${GROUP} messages at a time, default options`)
  report('metrics / off', await sideBySide(rounds, metrics.run, off.run), 0.98)
  report('metrics and one trace in ten / off', await sideBySide(rounds, sampled.run, off.run), 0.9)
  report('metrics and all traces / off', await sideBySide(rounds, traced.run, off.run))

  for (const each of [off, metrics, sampled, traced]) await each.close()
  await Promise.all([some.provider.shutdown(), all.provider.shutdown()])
  contexts.disable()
  context.disable()
  await pool.query(`drop schema ${SCHEMA} cascade`)
  await pool.end()
}

interface On {
  readonly metrics?: boolean
  readonly instrument?: Instrument
}

/** One hapax, with what is switched on. */
async function side(
  { size }: Bench,
  pool: pg.Pool,
  { metrics, instrument }: On = {},
): Promise<{ run: Side; close(): Promise<void> }> {
  const store = postgresStore({ pool, schema: SCHEMA })
  const hapax = createHapax({ store, source: '/bench', logger: silentLogger, ...(instrument && { instrument }) })
  await hapax.migrate()
  if (metrics) prometheus(hapax)
  const consumer: Consumer<PgTx<pg.PoolClient>> = hapax.consumer('telemetry').on(OrderPlaced, async (order, ctx) => {
    await ctx.tx.query(INSERT, [order.orderId, order.amount])
  })
  const count = size(50_000, 4_000)
  return {
    run: async () => {
      await loops(LOOPS, chunks(messages(count).map(traced), GROUP), (group) => consumer.handleMany(group))
      return count
    },
    close: () => hapax.close(),
  }
}

const INSERT = `insert into ${SCHEMA}.business (id, amount) values ($1, $2)`

/** As its publisher would have sent it: with a trace of its own, one in ten of them sampled. */
function traced<T extends { readonly id: string }>(message: T, index: number): T & { readonly traceparent: string } {
  const id = message.id.replaceAll('-', '')
  return { ...message, traceparent: `00-${id}-${id.slice(-16)}-0${index % 10 === 0 ? 1 : 0}` }
}

/** Traces that go nowhere, in batches, as an exporter would get them. */
function tracing(part: number): { instrument: Instrument; provider: TracerProvider } {
  const exporter: SpanExporter = {
    export: (_spans, done) => done({ code: 0 }),
    shutdown: () => Promise.resolve(),
  }
  const provider = new TracerProvider({
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(part) }),
    spanProcessors: [new BatchSpanProcessor({ exporter })],
  })
  return { instrument: opentelemetry({ tracerProvider: provider, metrics: false }), provider }
}
