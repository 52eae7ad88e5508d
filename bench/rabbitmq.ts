import amqp from 'amqplib'
import { type Consumer, createHapax, defineMessage, type Hapax, silentLogger } from 'hapax'
import { type PgTx, postgres } from 'hapax/postgres'
import { rabbitmq as rabbitmqBroker } from 'hapax/rabbitmq'
import pg from 'pg'
import { heading, report, sideBySide, type Taken, type Timed } from './measure.ts'
import type { Bench, Part } from './part.ts'

const SCHEMA = 'bench_rabbitmq'
/** How many messages hapax has under way at most; the bare client gets the same. */
const WINDOW = 2_000
const TYPES = ['quorum', 'classic'] as const

interface Order {
  readonly n: number
  readonly text: string
}

const OrderPlaced = defineMessage<Order>('order.placed')

export const rabbitmq: Part = {
  name: 'rabbitmq',
  about: 'outbox to exchange / bare amqplib; queue to effect in groups / one by one',
  needs: ['postgres', 'rabbitmq'],
  sections: TYPES,
  async run(bench) {
    const rig = await open(bench)
    try {
      for (const type of TYPES.filter((each) => bench.wants(each))) {
        heading(`RabbitMQ, ${type} queue`)
        await publishing(rig, type)
        await consuming(rig, type)
      }
    } finally {
      await rig.close()
    }
  },
}

async function open(bench: Bench): Promise<Rig> {
  const url = bench.url('rabbitmq')
  const pool = new pg.Pool({ connectionString: bench.url('postgres'), max: 12 })
  await pool.query(`drop schema if exists ${SCHEMA} cascade`)
  const hapax = createHapax({ store: postgres({ pool, schema: SCHEMA }), source: '/bench', logger: silentLogger })
  await hapax.migrate()
  await pool.query(`create table ${SCHEMA}.orders (id text not null, n integer not null)`)
  const connection = await amqp.connect(url)
  const channel = await connection.createConfirmChannel()
  const rabbit = rabbitmqBroker({ url })
  const names: string[] = []
  const { rounds } = bench
  return {
    ...{ rounds, count: bench.size(20_000, 5_000), pool, hapax, channel, rabbit, names },
    async close() {
      await hapax.close()
      for (const name of names) await channel.deleteQueue(name)
      await channel.deleteExchange(SCHEMA)
      await connection.close()
      await pool.query(`drop schema ${SCHEMA} cascade`)
      await pool.end()
    },
  }
}

interface Rig {
  readonly rounds: number
  readonly count: number
  readonly pool: pg.Pool
  readonly hapax: Hapax<PgTx<pg.PoolClient>, unknown>
  readonly channel: amqp.ConfirmChannel
  readonly rabbit: ReturnType<typeof rabbitmqBroker>
  readonly names: string[]
  close(): Promise<void>
}

/** A queue of its own behind the exchange; the one of the round before goes. */
async function freshQueue({ channel, names }: Rig, type: string): Promise<string> {
  const last = names.pop()
  if (last !== undefined) await channel.deleteQueue(last)
  const name = `${SCHEMA}_${crypto.randomUUID()}`
  await channel.assertExchange(SCHEMA, 'topic')
  await channel.assertQueue(name, { durable: true, arguments: { 'x-queue-type': type } })
  await channel.bindQueue(name, SCHEMA, '#')
  names.push(name)
  return name
}

function order(n: number): Order {
  return { n, text: 'x'.repeat(150) }
}

/**
 * From the outbox to the exchange, every message confirmed, beside the bare client with the same bytes, headers and window. Both
 * are connected and have sent something before.
 */
async function publishing(rig: Rig, type: string): Promise<void> {
  const { channel, count, rounds } = rig
  let relay: RunningRelay
  const outbox: Timed = {
    async before() {
      await freshQueue(rig, type)
      relay = await startRelay(rig)
    },
    run: () => relay.send(),
    async after() {
      await relay.stop()
      await arrived(rig, count + 1)
    },
  }
  let bodies: Buffer[] = []
  const bare: Timed = {
    async before() {
      await freshQueue(rig, type)
      bodies = Array.from({ length: count }, (_, n) => Buffer.from(JSON.stringify(order(n))))
    },
    run: () => publishBare(channel, bodies),
    after: () => arrived(rig, count),
  }
  report('outbox to exchange, confirmed / bare amqplib', await sideBySide(rounds, outbox, bare), 0.85)
}

interface RunningRelay {
  /** Commits the messages, and waits until the last one is confirmed. */
  send(): Promise<Taken>
  stop(): Promise<void>
}

/** A relay that has sent one message, and a transaction that is only to be committed. */
async function startRelay({ pool, hapax, rabbit, count }: Rig): Promise<RunningRelay> {
  const relay = rabbit.exchange(SCHEMA)
  const worker = hapax.worker({ relay })
  await worker.start()
  await hapax.transaction((tx) => hapax.publish(tx, OrderPlaced, order(0)))
  await worker.drain()
  const last = Promise.withResolvers<number>()
  let left = count
  const forget = hapax.events.on('relayed', () => {
    left -= 1
    if (left === 0) last.resolve(performance.now())
  })
  const client = await pool.connect()
  await client.query('begin')
  for (let n = 0; n < count; n += 500) {
    const drafts = Array.from({ length: 500 }, (_, index) => OrderPlaced.of(order(n + index)))
    await hapax.publishMany(client, drafts)
  }
  return {
    async send() {
      const started = performance.now()
      await client.query('commit')
      worker.wake()
      return { messages: count, ms: (await last.promise) - started }
    },
    async stop() {
      forget()
      client.release()
      await worker.drain()
      await worker.stop()
      await relay.close()
    },
  }
}

async function publishBare(channel: amqp.ConfirmChannel, bodies: readonly Buffer[]): Promise<number> {
  const done = Promise.withResolvers<void>()
  let [next, underWay] = [0, 0]
  const fill = (): void => {
    while (underWay < WINDOW && next < bodies.length) {
      underWay += 1
      channel.publish(SCHEMA, 'order.placed', bodies[next] as Buffer, properties(next), confirmed)
      next += 1
    }
  }
  const confirmed = (error: unknown): void => {
    if (error) {
      done.reject(error)
      return
    }
    underWay -= 1
    if (underWay === 0 && next === bodies.length) done.resolve()
    // As a relay does it: not for every confirm, but when half of the window is free.
    else if (underWay <= WINDOW / 2) fill()
  }
  fill()
  await done.promise
  return bodies.length
}

/** What hapax sends beside the body. */
function properties(n: number): amqp.Options.Publish {
  const id = `019a8c3e-5b0e-7d44-9d3b-${String(n).padStart(12, '0')}`
  const time = '2026-01-01T00:00:00.000Z'
  const headers = {
    cloudEvents_specversion: '1.0',
    cloudEvents_id: id,
    cloudEvents_source: '/bench',
    cloudEvents_type: 'order.placed',
    cloudEvents_time: time,
  }
  const own = {
    messageId: id,
    type: 'order.placed',
    timestamp: 1_767_225_600,
    contentType: 'application/json',
    headers,
  }
  return { ...own, mandatory: true, persistent: true }
}

async function arrived({ channel, names }: Rig, count: number): Promise<void> {
  const { messageCount } = await channel.checkQueue(names.at(-1) as string)
  if (messageCount !== count) throw new Error(`expected ${count} messages in the queue, got ${messageCount}`)
}

let consumers = 0

/** From the queue to one row per message: groups with one INSERT, and groups with an INSERT per message, beside single transactions. */
async function consuming(rig: Rig, type: string): Promise<void> {
  const { hapax, pool, rounds } = rig
  const insert = `insert into ${SCHEMA}.orders (id, n) values ($1, $2)`
  const insertAll = `insert into ${SCHEMA}.orders (id, n) select * from unnest($1::text[], $2::integer[])`
  const name = (): string => `bench-${consumers++}`
  const single = (): Consumer<PgTx<pg.PoolClient>> =>
    hapax
      .consumer(name(), { concurrency: 4 })
      .on(OrderPlaced, ({ n }, { tx, message }) => tx.query(insert, [message.id, n]))
  const many = (): Consumer<PgTx<pg.PoolClient>> =>
    hapax
      .consumer(name(), { concurrency: 4, group: { size: 500 } })
      .onMany(OrderPlaced, (items, { tx }) =>
        tx.query(insertAll, [items.map(({ message }) => message.id), items.map(({ data }) => data.n)]),
      )
  const grouped = (): Consumer<PgTx<pg.PoolClient>> =>
    hapax
      .consumer(name(), { concurrency: 4, group: { size: 100 } })
      .on(OrderPlaced, ({ n }, { tx, message }) => tx.query(insert, [message.id, n]))
  const side = (make: () => Consumer<PgTx<pg.PoolClient>>, count: number): Timed => ({
    async before() {
      await pool.query(`truncate ${SCHEMA}.orders`)
      await freshQueue(rig, type)
      const bodies = Array.from({ length: count }, (_, n) => Buffer.from(JSON.stringify(order(n))))
      await publishBare(rig.channel, bodies)
    },
    run: () => consumed(rig, make(), count),
    async after() {
      const { rows } = await pool.query(
        `select count(*)::integer as all, count(distinct id)::integer as ids from ${SCHEMA}.orders`,
      )
      if (rows[0].all !== count || rows[0].ids !== count) throw new Error(`expected ${count} rows, got ${rows[0].all}`)
    },
  })
  report(
    'queue to effect: onMany / one by one',
    await sideBySide(rounds, side(many, rig.count), side(single, rig.count / 4)),
    5,
  )
  report(
    'queue to effect: group of 100 / one by one',
    await sideBySide(rounds, side(grouped, rig.count), side(single, rig.count / 4)),
  )
}

async function consumed(
  { hapax, rabbit, names }: Rig,
  consumer: Consumer<PgTx<pg.PoolClient>>,
  count: number,
): Promise<Taken> {
  const { promise, resolve } = Promise.withResolvers<number>()
  let left = count
  const forget = hapax.events.on('processed', () => {
    left -= 1
    if (left === 0) resolve(performance.now())
  })
  const queue = rabbit.queue(names.at(-1) as string, { declare: 'none' })
  const worker = hapax.worker({ consume: [consumer.from(queue)] })
  const started = performance.now()
  await worker.start()
  const ms = (await promise) - started
  forget()
  await worker.stop()
  return { messages: count, ms }
}
