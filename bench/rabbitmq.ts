import amqp from 'amqplib'
import { type Consumer, createHapax, type Hapax, silentLogger } from 'hapax'
import { type PgTx, postgres } from 'hapax/postgres'
import { rabbitmq as rabbitmqBroker } from 'hapax/rabbitmq'
import pg from 'pg'
import { heading, report, sideBySide, type Taken, type Timed } from './measure.ts'
import type { Bench, Part } from './part.ts'
import { bodies, filledOutbox, idOf, OrderPlaced, relaying, TIME, windowed } from './relay.ts'

const SCHEMA = 'bench_rabbitmq'
/** How many messages hapax has under way at most; the bare client gets the same. */
const WINDOW = 2_000
const TYPES = ['quorum', 'classic'] as const

export const rabbitmq: Part = {
  name: 'rabbitmq',
  about: 'outbox to exchange / a relay by hand, bare amqplib; queue to effect in groups / one by one',
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

/**
 * From the outbox to the exchange, every message confirmed, beside the bare client with the same bytes, headers and window, and beside
 * a relay written by hand. All are connected and have sent something before.
 */
async function publishing(rig: Rig, type: string): Promise<void> {
  const { channel, count, rounds, rabbit } = rig
  const relayed = relaying(
    rig,
    () => rabbit.exchange(SCHEMA),
    () => arrived(rig, count + 1),
  )
  const outbox: Timed = {
    ...relayed,
    async before(round) {
      await freshQueue(rig, type)
      await relayed.before(round)
    },
  }
  let client: pg.PoolClient
  const byHand: Timed = {
    async before() {
      await freshQueue(rig, type)
      client = await filledOutbox(rig)
    },
    async run() {
      await client.query('commit')
      return relayByHand(rig)
    },
    async after() {
      client.release()
      await arrived(rig, count)
    },
  }
  let sent: readonly Buffer[] = []
  const bare: Timed = {
    async before() {
      await freshQueue(rig, type)
      sent = bodies(count)
    },
    run: () => publishBare(channel, sent),
    after: () => arrived(rig, count),
  }
  report('outbox to exchange / a relay by hand', await sideBySide(rounds, outbox, byHand), 0.95)
  report('outbox to exchange / bare amqplib', await sideBySide(rounds, outbox, bare), 0.85)
}

function publishBare(channel: amqp.ConfirmChannel, sent: readonly Buffer[]): Promise<number> {
  return windowed(sent.length, WINDOW, (n, confirmed) =>
    channel.publish(SCHEMA, 'order.placed', sent[n] as Buffer, properties(idOf(n), TIME), confirmed),
  )
}

interface OutboxRow {
  readonly seq: string
  readonly type: string
  readonly id: string
  readonly attributes: string
  readonly data: Buffer
}

/** The simplest relay that is fast: reads the next 500 rows while the last ones are under way, and deletes 500 at once. */
async function relayByHand({ pool, channel, count }: Rig): Promise<number> {
  const done = Promise.withResolvers<void>()
  const deletes: Promise<unknown>[] = []
  let [after, left, underWay] = ['0', count, 0]
  let gone: string[] = []
  let ready: readonly OutboxRow[] | undefined
  const read = async (): Promise<void> => {
    const text = `select seq, type, id, attributes, data from ${SCHEMA}.outbox where seq > $1 order by seq limit 500`
    const { rows } = await pool.query<OutboxRow>(text, [after])
    after = rows.at(-1)?.seq ?? after
    ready = rows
    send()
  }
  const confirmed = (seq: string, error: unknown): void => {
    if (error) {
      done.reject(error)
      return
    }
    underWay -= 1
    left -= 1
    gone.push(seq)
    if (gone.length >= 500 || left === 0) {
      deletes.push(pool.query(`delete from ${SCHEMA}.outbox where seq = any ($1::bigint[])`, [gone]))
      gone = []
    }
    if (left === 0) done.resolve()
    else send()
  }
  const send = (): void => {
    if (ready === undefined || underWay + ready.length > WINDOW) return
    const rows = ready
    ready = undefined
    if (rows.length === 500) read().catch(done.reject)
    for (const { seq, type, id, attributes, data } of rows) {
      underWay += 1
      const { time } = JSON.parse(attributes)
      channel.publish(SCHEMA, type, data, properties(id, time), (error) => confirmed(seq, error))
    }
  }
  await read()
  await done.promise
  await Promise.all(deletes)
  return count
}

/** What hapax sends beside the body. */
function properties(id: string, time: string): amqp.Options.Publish {
  const headers = {
    cloudEvents_specversion: '1.0',
    cloudEvents_id: id,
    cloudEvents_source: '/bench',
    cloudEvents_type: 'order.placed',
    cloudEvents_time: time,
  }
  const timestamp = Math.floor(Date.parse(time) / 1_000)
  const own = { messageId: id, type: 'order.placed', timestamp, contentType: 'application/json', headers }
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
      .consumer(name(), { concurrency: 4, group: { size: 1 } })
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
      await publishBare(rig.channel, bodies(count))
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
