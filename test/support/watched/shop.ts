import { setTimeout as delay } from 'node:timers/promises'
import { Child } from '../child.ts'
import { makePlace } from '../databases.ts'
import { natsPlace } from '../nats-place.ts'
import { TcpProxy } from '../tcp-proxy.ts'
import { Prometheus } from './prometheus.ts'
import type { ShopJob } from './shop-child.ts'

/** A shop of three processes on PostgreSQL and NATS, scraped by a Prometheus, in which everything happens that the board shows. */
export interface Shop extends AsyncDisposable {
  readonly prometheus: Prometheus
  /** The output of the OpenTelemetry exporter for the same processes. */
  readonly opentelemetry: Prometheus
  /** Where the processes show their metrics. */
  readonly ports: readonly number[]
  /** The links to the database break during COMMIT: before it arrives, and before its answer does. */
  breakCommits(times: number): Promise<void>
  /** The broker is away for this long. */
  brokerAway(ms: number): Promise<void>
  /** One process does not reach the database for this long. */
  databaseAway(ms: number): Promise<void>
  /** A process stands still for this long: another one takes over its leases. */
  standStill(ms: number): Promise<void>
  /** A process is killed. */
  kill(): void
  /** What the autovacuum of PostgreSQL does once a minute: without it there are no estimates. */
  analyze(): Promise<void>
}

const program = new URL('./shop-child.ts', import.meta.url)

export async function openShop(times: Pick<ShopJob, 'everyMs' | 'cleanupMs'>, deadlineMs: number): Promise<Shop> {
  await using stack = new AsyncDisposableStack()
  const checker = stack.use(await makePlace('postgres'))
  const { place } = checker
  const broker = stack.use(await natsPlace())
  const processes = []
  for (const name of ['a', 'b', 'c']) {
    const proxy = stack.use(await TcpProxy.open('postgres', place.url))
    const shop: ShopJob = {
      ...times,
      place,
      database: proxy.url,
      broker: broker.proxy.url,
      stream: broker.stream,
      name,
    }
    const child = new Child<{ port: number }>(program, shop, deadlineMs)
    stack.defer(async () => {
      child.kill('SIGKILL')
      await child.ended
    })
    processes.push({ proxy, child })
  }
  const [a, b, c] = processes
  if (a === undefined || b === undefined || c === undefined) throw new Error('expected three processes')
  const ports = await Promise.all(processes.map(async ({ child }) => (await child.next()).port))
  const prometheus = stack.use(await Prometheus.scraping(ports))
  const opentelemetry = stack.use(await Prometheus.scraping(ports, '/opentelemetry'))
  const all = stack.move()
  return {
    prometheus,
    opentelemetry,
    ports,
    breakCommits: async (count) => {
      for (let i = 0; i < count; i++) await a.proxy.arm(i % 2 === 0 ? 'drop' : 'swallow')
    },
    brokerAway: async (ms) => {
      await broker.proxy.refuse()
      await delay(ms)
      await broker.proxy.accept()
    },
    databaseAway: async (ms) => {
      await b.proxy.refuse()
      await delay(ms)
      await b.proxy.accept()
    },
    standStill: async (ms) => {
      b.child.kill('SIGSTOP')
      await delay(ms)
      b.child.kill('SIGCONT')
    },
    kill: () => c.child.kill('SIGKILL'),
    analyze: async () => {
      const tables = await checker.query(`select format('%I.%I', schemaname, tablename) as name
        from pg_tables where schemaname = '${place.schema}'`)
      for (const { name } of tables) await checker.query(`analyze ${name}`)
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}
