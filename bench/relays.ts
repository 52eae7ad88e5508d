import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, headers } from '@nats-io/transport-node'
import { Admin, Producer } from '@platformatic/kafka'
import { createHapax, silentLogger } from 'hapax'
import { kafka } from 'hapax/kafka'
import { nats } from 'hapax/nats'
import { postgres } from 'hapax/postgres'
import { redisStreams } from 'hapax/redis-streams'
import { Redis } from 'ioredis'
import pg from 'pg'
import { chunks, heading, report, sideBySide, type Timed } from './measure.ts'
import type { Bench, Part } from './part.ts'
import { bodies, idOf, type RelayRig, relaying, TIME, windowed } from './relay.ts'

const SCHEMA = 'bench_relays'
/** How many messages hapax has under way at most; the bare clients get the same. */
const WINDOW = 2_000
const SECTIONS = { nats: toNats, 'redis-streams': toRedisStreams, kafka: toKafka } as const

export const relays: Part = {
  name: 'relays',
  about: 'outbox to NATS JetStream, Redis Streams and Kafka / the bare clients',
  needs: ['postgres', 'nats', 'redis', 'kafka'],
  sections: Object.keys(SECTIONS),
  async run(bench) {
    const pool = new pg.Pool({ connectionString: bench.url('postgres'), max: 12 })
    await pool.query(`drop schema if exists ${SCHEMA} cascade`)
    const hapax = createHapax({ store: postgres({ pool, schema: SCHEMA }), source: '/bench', logger: silentLogger })
    await hapax.migrate()
    const rig = { pool, hapax, count: bench.size(20_000, 5_000) }
    heading('outbox to other brokers')
    for (const [section, run] of Object.entries(SECTIONS)) if (bench.wants(section)) await run(bench, rig)
    await hapax.close()
    await pool.query(`drop schema ${SCHEMA} cascade`)
    await pool.end()
  },
}

/** What hapax sends beside the body, by the names of CloudEvents. */
function attributes(n: number): readonly (readonly [name: string, value: string])[] {
  return [
    ['specversion', '1.0'],
    ['source', '/bench'],
    ['type', 'order.placed'],
    ['id', idOf(n)],
    ['time', TIME],
  ]
}

function bareSide(count: number, run: (sent: readonly Buffer[]) => Promise<number>, after: () => Promise<void>): Timed {
  let sent: readonly Buffer[] = []
  return {
    async before() {
      sent = bodies(count)
    },
    run: () => run(sent),
    after,
  }
}

function check(what: string, got: number, least: number): void {
  if (got < least) throw new Error(`expected at least ${least} messages in ${what}, got ${got}`)
}

async function toNats(bench: Bench, rig: RelayRig): Promise<void> {
  const url = bench.url('nats')
  const connection = await connect({ servers: new URL(url).host })
  const [manager, js] = [await jetstreamManager(connection), jetstream(connection)]
  const name = `${SCHEMA}_${crypto.randomUUID().slice(0, 8)}`
  const after = async (): Promise<void> => {
    const { state } = await manager.streams.info(name)
    check(name, state.messages, rig.count)
    await manager.streams.purge(name)
  }
  const broker = nats({ url })
  const hapax = relaying(rig, () => broker.stream(name), after)
  const publish = (sent: readonly Buffer[]): Promise<number> =>
    windowed(sent.length, WINDOW, (n, confirmed) => {
      const fields = headers()
      for (const [key, value] of attributes(n)) fields.append(`ce-${key}`, value)
      fields.append('Content-Type', 'application/json')
      const subject = `${name}.order.placed`
      js.publish(subject, sent[n], { headers: fields, msgID: crypto.randomUUID() }).then(() => confirmed(), confirmed)
    })
  report(
    'outbox to NATS / jetstream().publish',
    await sideBySide(bench.rounds, hapax, bareSide(rig.count, publish, after)),
  )
  await manager.streams.delete(name)
  await connection.close()
}

async function toRedisStreams(bench: Bench, rig: RelayRig): Promise<void> {
  const url = bench.url('redis')
  const redis = new Redis(url)
  const name = `${SCHEMA}_${crypto.randomUUID()}`
  const after = async (): Promise<void> => {
    check(name, await redis.xlen(name), rig.count)
    await redis.del(name)
  }
  const broker = redisStreams({ url })
  const hapax = relaying(rig, () => broker.stream(name), after)
  const publish = async (sent: readonly Buffer[]): Promise<number> => {
    const batches = chunks([...sent.keys()], 500)
    await windowed(batches.length, WINDOW / 500, (at, confirmed) => {
      const pipeline = redis.multi()
      for (const n of batches[at] ?? []) {
        const fields = attributes(n).flatMap(([key, value]) => [`ce_${key}`, value])
        pipeline.xadd(name, '*', ...fields, 'content-type', 'application/json', 'data', sent[n] as Buffer)
      }
      pipeline.exec().then(() => confirmed(), confirmed)
    })
    return sent.length
  }
  report(
    'outbox to Redis Streams / ioredis, MULTI of 500',
    await sideBySide(bench.rounds, hapax, bareSide(rig.count, publish, after)),
  )
  redis.disconnect()
}

async function toKafka(bench: Bench, rig: RelayRig): Promise<void> {
  const url = bench.url('kafka')
  const settings = { clientId: 'bench', bootstrapBrokers: [new URL(url).host] }
  const [admin, producer] = [new Admin(settings), new Producer(settings)]
  const topic = `${SCHEMA}_${crypto.randomUUID()}`
  // The mock creates a topic when it is asked for its metadata.
  const { topics } = await admin.metadata({ topics: [topic], autocreateTopics: true })
  const partitions = topics.get(topic)?.partitionsCount ?? 1
  const broker = kafka({ url })
  const hapax = relaying(
    rig,
    () => broker.topic(topic),
    async () => {},
  )
  const publish = async (sent: readonly Buffer[]): Promise<number> => {
    for (const batch of chunks([...sent.keys()], WINDOW)) {
      const messages = batch.map((n) => ({
        topic,
        partition: n % partitions,
        value: sent[n] as Buffer,
        headers: new Map(
          [
            ['content-type', 'application/json'],
            ...attributes(n).map(([key, value]) => [`ce_${key}`, value] as const),
          ].map(([key, value]) => [Buffer.from(key as string), Buffer.from(value as string)]),
        ),
      }))
      await producer.send({ messages, acks: -1 })
    }
    return sent.length
  }
  report(
    'outbox to Kafka / one request for 2,000',
    await sideBySide(
      bench.rounds,
      hapax,
      bareSide(rig.count, publish, async () => {}),
    ),
  )
  await producer.close()
  await admin.close()
}
