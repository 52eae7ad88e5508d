import {
  type ClaimHapax,
  createHapax,
  defineMessage,
  type HandlerContext,
  type Hapax,
  type LeasedContext,
  messageId,
  RetryAfter,
  type Subscription,
  silentLogger,
} from 'hapax'
import { createConsole } from 'hapax/console'
import { fromDrizzle } from 'hapax/drizzle'
import { toExpress, toFastify, toNode } from 'hapax/http'
import { kafka } from 'hapax/kafka'
import { sqsHandler } from 'hapax/lambda'
import { type MemoryTx, memory } from 'hapax/memory'
import { memoryBroker } from 'hapax/memory-broker'
import { mysql } from 'hapax/mysql'
import { nats } from 'hapax/nats'
import { fromPglite } from 'hapax/pglite'
import { postgres } from 'hapax/postgres'
import { fromPostgresJs } from 'hapax/postgres-js'
import { fromPrisma } from 'hapax/prisma'
import { prometheus } from 'hapax/prometheus'
import { rabbitmq } from 'hapax/rabbitmq'
import { redis } from 'hapax/redis'
import { redisStreams } from 'hapax/redis-streams'
import { sqlite } from 'hapax/sqlite'
import { fromTypeorm } from 'hapax/typeorm'
import { github, hmac, shopify, slack, stripe, twilio, webhook, webhooks } from 'hapax/webhooks'
import { describe, expect, it } from 'vitest'
import { type Entry, expectChecked, HOSTILE, said, type Tried } from '../support/hostile.ts'

const COUNT = { fine: 5_000, kind: 'count' } as const
const FLAG = { fine: false, kind: 'flag' } as const
const NAME = { fine: 'one', kind: 'name' } as const
const TEXT = { fine: 'one', kind: 'text' } as const
const FUNCTION = { fine: () => 'x', kind: 'function' } as const
const word = (fine: string): Tried => ({ fine, kind: 'word' })
const CLOCK = { fine: { now: () => 0, monotonic: () => 0, after: () => () => {} }, kind: 'word' } as const
const FORMAT = word('structured')
const ENCODE = { fine: 'plain-json', kind: 'function' } as const
const DECLARE = word('check')

const Ping = defineMessage<unknown>('ping')
const Pong = defineMessage<unknown>('pong')
const client = { call: async () => 'OK' }
const subscription = { name: 'a queue', open: () => {}, features: {} } as unknown as Subscription
const destination = (): object => memoryBroker().topic('a')

let names = 0
const fresh = (): string => `consumer ${names++}`
const made = (): Hapax<MemoryTx> => createHapax({ store: memory(), source: '/test', logger: silentLogger })
const hapax = made()
const leases = (): ClaimHapax => createHapax({ store: redis({ client: client as never }), logger: silentLogger })
const lease = leases()
const rabbit = rabbitmq({ url: 'amqp://localhost' })
const jetstream = nats({ url: 'nats://localhost' })
const cluster = kafka({ brokers: ['localhost:9092'] })
const streams = redisStreams({ url: 'redis://localhost' })
const ISOLATION = word('serializable')

const RETRY = { fine: { attempts: 2 }, kind: 'object', not: ['own __proto__', 'object that turns into SQL'] } as const
const CONSUMER: Readonly<Record<string, Tried>> = {
  enabled: FLAG,
  receive: word('store'),
  order: word('wait'),
  group: { ...RETRY, fine: { size: 2 } },
  onError: word('rollback'),
  concurrency: COUNT,
  timeoutMs: COUNT,
  lockTimeoutMs: COUNT,
  missingId: { fine: 'hash', kind: 'function' },
  onMismatch: word('conflict'),
  retry: RETRY,
  maxAgeMs: COUNT,
  retentionMs: COUNT,
  isolation: ISOLATION,
}
const { enabled, order, concurrency, missingId, onMismatch, retry, maxAgeMs, retentionMs, isolation } =
  CONSUMER as Record<string, Tried>
const SHARED = { enabled, concurrency, missingId, onMismatch, retry, maxAgeMs, retentionMs } as Record<string, Tried>
const LEASED = { leaseMs: COUNT, maxDurationMs: COUNT, ...SHARED }
const DESTINATION = { fine: destination(), kind: 'word' } as const
const ATTRIBUTE = { fine: { header: 'x' }, kind: 'text or function' } as const

const DRIZZLE = { transaction: () => {}, execute: () => {}, $client: new (class Pool {})() }
const PGLITE = { transaction: () => {}, query: () => {}, exec: () => {} }
const POSTGRES_JS = Object.assign(() => {}, { begin: () => {}, unsafe: () => {}, file: () => {} })
const TYPEORM = { transaction: () => {}, createQueryRunner: () => {} }
const PRISMA = { $transaction: () => {}, $queryRawUnsafe: () => {}, $executeRawUnsafe: () => {}, $extends: () => {} }

const MAKING: readonly Entry[] = [
  {
    name: 'createHapax',
    call: (options) => createHapax(options),
    base: { store: memory(), source: '/test' },
    options: {
      store: { fine: memory(), kind: 'word' },
      source: { fine: '/shop', kind: 'text' },
      delivery: word('local'),
      relay: NAME,
      route: FUNCTION,
      acquireMs: COUNT,
      logger: { fine: silentLogger, kind: 'word' },
      redact: FUNCTION,
      maxMessageBytes: COUNT,
      clock: CLOCK,
      random: { fine: { number: () => 0, token: () => '', bytes: () => new Uint8Array() }, kind: 'word' },
    },
  },
  {
    name: 'createHapax on leases',
    call: (options) => createHapax(options),
    base: { store: redis({ client: client as never }) },
    options: {
      source: TEXT,
      logger: { fine: silentLogger, kind: 'word' },
      redact: FUNCTION,
      maxMessageBytes: COUNT,
      clock: CLOCK,
    },
  },
  { name: 'memory', call: (options) => memory(options), options: { clock: CLOCK } },
  {
    name: 'sqlite',
    call: (options) => sqlite(options),
    base: { path: ':memory:' },
    options: {
      path: { fine: 'x.db', kind: 'text', not: ['NUL'] },
      prefix: { fine: 'x_', kind: 'plain name' },
    },
  },
  {
    name: 'postgres by url',
    call: (options) => postgres(options as never),
    base: { url: 'postgres://localhost/x' },
    options: { url: word('postgresql://h/x'), max: COUNT, prepare: FLAG, schema: { fine: 's', kind: 'plain name' } },
  },
  {
    name: 'postgres by pool',
    call: (options) => postgres(options as never),
    base: { pool: { connect: () => {} } },
    options: {
      pool: { fine: { connect: () => {} }, kind: 'word' },
      control: { fine: { url: 'postgres://h/x' }, kind: 'word' },
      prepare: FLAG,
      schema: { fine: 's', kind: 'plain name' },
    },
  },
  {
    name: 'postgres on a connection',
    call: (options) => postgres({ transaction: () => {}, features: {} } as never, options),
    options: { schema: { fine: 's', kind: 'plain name' } },
  },
  {
    name: 'mysql by url',
    call: (options) => mysql(options as never),
    base: { url: 'mysql://localhost/x' },
    options: { url: word('mariadb://h/x'), max: COUNT, prefix: { fine: 's', kind: 'plain name' } },
  },
  {
    name: 'mysql by pool',
    call: (options) => mysql(options as never),
    base: { pool: { getConnection: () => {} }, database: 'x' },
    options: {
      pool: { fine: { getConnection: () => {} }, kind: 'word' },
      control: { fine: { url: 'mysql://h/x' }, kind: 'word' },
      database: { fine: 'shop', kind: 'text', not: ['quotes', 'NUL'] },
      prefix: { fine: 's', kind: 'plain name' },
    },
  },
  {
    name: 'redis',
    call: (options) => redis(options),
    base: { client },
    options: { timeoutMs: COUNT, prefix: { fine: 'x:', kind: 'plain name', also: ['digits', 'empty text'] } },
  },
  {
    name: 'redis by url',
    call: ({ url }) => redis({ url }),
    positional: true,
    base: { url: 'redis://h' },
    options: { url: word('redis://h/1') },
  },
  {
    name: 'fromDrizzle',
    call: ({ db, sql }) => fromDrizzle(db, sql),
    positional: true,
    base: { db: DRIZZLE, sql: { raw: () => {}, param: () => {}, join: () => {} } },
    options: {
      db: { fine: DRIZZLE, kind: 'word' },
      sql: { fine: { raw: () => {}, param: () => {}, join: () => {} }, kind: 'word' },
    },
  },
  {
    name: 'fromPglite',
    call: ({ db }) => fromPglite(db),
    positional: true,
    base: { db: PGLITE },
    options: { db: { fine: PGLITE, kind: 'word' } },
  },
  {
    name: 'fromPrisma',
    call: ({ prisma }) => fromPrisma(prisma),
    positional: true,
    base: { prisma: PRISMA },
    options: { prisma: { fine: PRISMA, kind: 'word' } },
  },
  {
    name: 'fromPostgresJs',
    call: ({ sql }) => fromPostgresJs(sql),
    positional: true,
    base: { sql: POSTGRES_JS },
    options: { sql: { fine: POSTGRES_JS, kind: 'word' } },
  },
  {
    name: 'fromTypeorm',
    call: ({ dataSource }) => fromTypeorm(dataSource),
    positional: true,
    base: { dataSource: TYPEORM },
    options: { dataSource: { fine: TYPEORM, kind: 'word' } },
  },
]

const PLACES = { fine: ['10.1.2.0/24', 'hooks.internal'], kind: 'word', also: ['empty list', 'list'] } as const

const SECRETS = '0123456789abcdef01234567'
const SCHEME = { resendsForMs: COUNT, secrets: { fine: [SECRETS], kind: 'word', also: ['SQL', 'long text'] } } as const
const WEBHOOKS: readonly Entry[] = [
  {
    name: 'webhook',
    call: (options) => webhook(slack(SECRETS), options),
    options: {
      receive: word('direct'),
      source: TEXT,
      type: { fine: 'paid', kind: 'text or function' },
      id: { fine: 'body-hash', kind: 'function' },
      key: FUNCTION,
      maxBodyBytes: COUNT,
    },
  },
  {
    name: 'stripe',
    call: (options) => stripe(options),
    base: { secrets: SECRETS },
    options: { ...SCHEME, toleranceMs: COUNT },
  },
  { name: 'github', call: (options) => github(options), base: { secrets: SECRETS }, options: SCHEME },
  {
    name: 'twilio',
    call: (options) => twilio(options),
    base: { secrets: SECRETS },
    options: { ...SCHEME, url: word('https://shop.example/sms') },
  },
  {
    name: 'shopify',
    call: (options) => shopify(options),
    base: { secrets: SECRETS },
    options: { ...SCHEME, id: word('event') },
  },
  {
    name: 'hmac',
    call: (options) => hmac(options),
    base: { secrets: SECRETS, header: 'x-signature', id: 'body-hash', type: 'paid', resendsForMs: 5 },
    options: {
      name: NAME,
      algorithm: word('sha1'),
      encoding: word('base64'),
      id: word('body-hash'),
      signed: { fine: 'body', kind: 'function' },
    },
  },
]

const BROKERS: readonly Entry[] = [
  {
    name: 'webhooks',
    call: (options) => webhooks(options),
    options: {
      body: word('data'),
      timeoutMs: COUNT,
      scheduleMs: { fine: [1, 2], kind: 'word', also: ['empty list'] },
      concurrency: COUNT,
      perEndpoint: COUNT,
      breaker: { ...RETRY, fine: { failures: 1 } },
      allow: PLACES,
      deny: PLACES,
      allowHttp: FLAG,
      ports: { fine: [443, 8443], kind: 'word' },
      ca: { fine: ['-----BEGIN CERTIFICATE-----'], kind: 'word', also: ['empty list'] },
      userAgent: NAME,
    },
  },
  { name: 'memoryBroker', call: (options) => memoryBroker(options), options: { clock: CLOCK } },
  {
    name: 'memory topic',
    call: ({ name }) => memoryBroker().topic(name),
    positional: true,
    base: { name: 'a' },
    options: { name: NAME },
  },
  {
    name: 'options of a memory topic',
    call: (options) => memoryBroker().topic('a', options),
    options: { encode: ENCODE },
  },
  {
    name: 'memory queue',
    call: (options) => memoryBroker().queue('a', options),
    base: { topic: 'a' },
    options: { topic: NAME, single: FLAG },
  },
  {
    name: 'rabbitmq',
    call: (options) => rabbitmq(options),
    base: { url: 'amqp://localhost' },
    options: { url: word('amqps://h/x'), heartbeatMs: COUNT, timeoutMs: COUNT },
  },
  {
    name: 'rabbitmq on a connection',
    call: (options) => rabbitmq(options),
    base: { connection: () => {} },
    options: { connection: { fine: () => {}, kind: 'function' }, timeoutMs: COUNT },
  },
  {
    name: 'exchange',
    call: (options) => rabbit.exchange('a', options),
    options: {
      type: NAME,
      routingKey: FUNCTION,
      unroutable: word('drop'),
      declare: DECLARE,
      encode: ENCODE,
      format: FORMAT,
      maxMessageBytes: COUNT,
      arguments: { fine: { 'x-a': 1 }, kind: 'object' },
    },
  },
  {
    name: 'queue',
    call: (options) => rabbit.queue('a', options),
    options: {
      bind: { fine: { exchange: 'a' }, kind: 'word', also: ['empty list'] },
      type: word('classic'),
      single: FLAG,
      declare: DECLARE,
      deadLetterExchange: NAME,
      horizonMs: COUNT,
      arguments: { fine: { 'x-a': 1 }, kind: 'object' },
    },
  },
  {
    name: 'queue with a limit',
    call: ({ deliveryLimit }) => rabbit.queue('a', { deadLetterExchange: 'd', deliveryLimit }),
    positional: true,
    options: { deliveryLimit: COUNT },
  },
  {
    name: 'binding',
    call: (bind) => rabbit.queue('a', { bind: [bind] }),
    base: { exchange: 'a' },
    options: {
      exchange: NAME,
      routingKey: { fine: 'a.#', kind: 'text', also: ['empty text', 'list'] },
      declare: DECLARE,
      arguments: { fine: { 'x-a': 1 }, kind: 'object' },
    },
  },
  {
    name: 'binding to an exchange of any type',
    call: ({ type }) => rabbit.queue('a', { bind: [{ exchange: 'a', routingKey: 'a', type }] }),
    positional: true,
    options: { type: NAME },
  },
  {
    name: 'names on rabbitmq',
    call: ({ exchange, queue }) => [rabbit.exchange(exchange), rabbit.queue(queue)],
    positional: true,
    base: { exchange: 'a', queue: 'a' },
    options: { exchange: { ...NAME, also: ['empty text'] }, queue: NAME },
  },
  {
    name: 'nats',
    call: (options) => nats(options),
    base: { url: 'nats://localhost' },
    options: {
      url: word('tls://h'),
      client: { fine: { name: 'x' }, kind: 'object' },
      heartbeatMs: COUNT,
      timeoutMs: COUNT,
    },
  },
  {
    name: 'stream of nats',
    call: (options) => jetstream.stream('A', options),
    options: {
      subjects: { fine: ['a.>'], kind: 'word', also: ['list'] },
      subject: FUNCTION,
      encode: ENCODE,
      format: FORMAT,
      declare: DECLARE,
      storage: word('memory'),
      replicas: COUNT,
      maxAgeMs: COUNT,
      maxBytes: COUNT,
      duplicateWindowMs: COUNT,
    },
  },
  {
    name: 'consumer of nats',
    call: (options) => jetstream.consumer('A', options),
    base: { stream: 'A' },
    options: {
      stream: { fine: 'B', kind: 'plain name', also: ['digits'] },
      filter: { fine: 'a.>', kind: 'plain name', also: ['digits', 'quotes'] },
      deliver: word('new'),
      ackWaitMs: COUNT,
      maxDeliver: COUNT,
      single: FLAG,
      declare: DECLARE,
    },
  },
  {
    name: 'kafka',
    call: (options) => kafka(options),
    base: { brokers: ['localhost:9092'] },
    options: {
      brokers: { fine: ['b:1'], kind: 'word', also: ['list'] },
      clientId: NAME,
      tls: { fine: true, kind: 'flag', also: ['empty object', 'object that turns into SQL', 'own __proto__'] },
      sasl: { fine: { mechanism: 'PLAIN' }, kind: 'word' },
      connectTimeoutMs: COUNT,
      clients: { fine: { producer: () => {}, consumer: () => {}, admin: () => {} }, kind: 'word' },
    },
  },
  {
    name: 'topic of kafka',
    call: (options) => cluster.topic('a', options),
    options: { encode: ENCODE, format: FORMAT, maxMessageBytes: COUNT, publishTimeoutMs: COUNT },
  },
  {
    name: 'group of kafka',
    call: (options) => cluster.group('a', options),
    base: { topic: 'a' },
    options: { topic: NAME, from: word('latest'), sessionTimeoutMs: COUNT, commitIntervalMs: COUNT, horizonMs: COUNT },
  },
  {
    name: 'redisStreams',
    call: (options) => redisStreams(options),
    base: { url: 'redis://localhost' },
    options: { url: word('rediss://h/1'), timeoutMs: COUNT },
  },
  {
    name: 'stream of redis',
    call: (options) => streams.stream('a', options),
    options: {
      encode: ENCODE,
      format: FORMAT,
      waitReplicas: COUNT,
      maxBytes: COUNT,
      trim: { fine: { keepMs: 5 }, kind: 'word', also: ['empty object'] },
    },
  },
  {
    name: 'trim of redis',
    call: (trim) => streams.stream('a', { trim }),
    options: { keepMs: COUNT, keepEntries: { fine: 5, kind: 'whole number from 0' } },
  },
  {
    name: 'group of redis',
    call: (options) => streams.group('a', options),
    base: { stream: 'a' },
    options: { stream: NAME, from: word('now'), claimAfterMs: COUNT, declare: DECLARE, single: FLAG, body: TEXT },
  },
  {
    name: 'names of brokers',
    call: ({ stream, group, topic, kafkaGroup }) => [
      streams.stream(stream),
      streams.group(group, { stream: 'a' }),
      cluster.topic(topic),
      cluster.group(kafkaGroup, { topic: 'a' }),
    ],
    positional: true,
    base: { stream: 'a', group: 'a', topic: 'a', kafkaGroup: 'a' },
    options: { stream: NAME, group: NAME, topic: NAME, kafkaGroup: NAME },
  },
]

const MOUNTING: readonly Entry[] = Object.entries({ toNode, toExpress, toFastify }).flatMap(([name, mount]) => [
  {
    name,
    call: (options) => mount(() => new Response(), options),
    options: { origin: word('https://shop.example'), trustProxy: FLAG, onError: FUNCTION },
  },
  {
    name: `handler of ${name}`,
    call: ({ handler }) => mount(handler),
    positional: true,
    base: { handler: () => new Response() },
    options: { handler: FUNCTION },
  },
])

const USING: readonly Entry[] = [
  {
    name: 'prometheus',
    call: (options) => prometheus(hapax, options),
    options: {
      state: FLAG,
      process: FLAG,
      labels: { ...RETRY, fine: { app: 'shop' } },
      registry: { fine: { registerMetric: () => {}, removeSingleMetric: () => {} }, kind: 'word' },
    },
  },
  {
    name: 'createConsole',
    call: (options) => createConsole(hapax, options),
    base: { authorize: () => null },
    options: {
      authorize: FUNCTION,
      basePath: word('/ops'),
      redact: FUNCTION,
      payloads: word('admin'),
      links: { fine: { trace: () => 'https://traces.test/' }, kind: 'word', also: ['empty object'] },
      readOnly: FLAG,
      allowedHosts: { fine: ['ops.test'], kind: 'word', also: ['empty list', 'list'] },
      allowedOrigins: { fine: ['https://ops.test'], kind: 'word', also: ['empty list'] },
      name: { ...TEXT, also: [] },
      onError: FUNCTION,
    },
  },
  {
    name: 'consumer',
    call: (options) => hapax.consumer(fresh(), options),
    options: CONSUMER,
  },
  {
    name: 'name of a consumer',
    call: ({ name }) => [made().consumer(name), made().leased(name), leases().leased(name)],
    positional: true,
    base: { name: 'a' },
    options: { name: NAME },
  },
  {
    name: 'group of a consumer',
    call: (group) => hapax.consumer(fresh(), { group }),
    options: { size: COUNT, together: FLAG },
  },
  {
    name: 'retry of a consumer',
    call: (policy) => hapax.consumer(fresh(), { retry: policy }),
    options: {
      attempts: COUNT,
      minDelayMs: { fine: 1, kind: 'number from 0' },
      maxDelayMs: { fine: 5_000, kind: 'count' },
      factor: { fine: 1.5, kind: 'count' },
    },
  },
  {
    name: 'leased',
    call: (options) => hapax.leased(fresh(), options),
    options: { ...LEASED, order: order as Tried, isolation: isolation as Tried },
  },
  { name: 'leased on leases', call: (options) => lease.leased(fresh(), options), options: LEASED },
  {
    name: 'on',
    call: (options) => hapax.consumer(fresh()).on(Ping, () => {}, options),
    options: { retry: RETRY },
  },
  {
    name: 'onMany',
    call: (options) => hapax.consumer(fresh()).onMany(Ping, () => {}, options),
    options: { retry: RETRY },
  },
  {
    name: 'on of leased',
    call: (options) => hapax.leased(fresh()).on(Ping, () => {}, options),
    options: { retry: RETRY },
  },
  {
    name: 'type and handler',
    call: ({ type, handler }) => [
      hapax.consumer(fresh()).on(type, handler),
      hapax.consumer(fresh()).onMany(type, handler),
      hapax.consumer(fresh()).wrap(type, handler),
      hapax.leased(fresh()).on(type, handler),
      hapax.leased(fresh()).wrap(type, handler),
      lease.leased(fresh()).on(type, handler),
      lease.leased(fresh()).wrap(type, handler),
    ],
    positional: true,
    base: { type: Ping, handler: () => {} },
    options: { type: { fine: Pong, kind: 'word' }, handler: FUNCTION },
  },
  {
    name: 'from',
    call: (options) => [
      hapax.consumer(fresh()).from(subscription, options),
      hapax.leased(fresh()).from(subscription, options),
      lease.leased(fresh()).from(subscription, options),
    ],
    options: {
      prefetch: COUNT,
      prefetchBytes: COUNT,
      id: ATTRIBUTE,
      type: ATTRIBUTE,
      source: ATTRIBUTE,
      key: ATTRIBUTE,
    },
  },
  {
    name: 'subscription',
    call: ({ given }) => hapax.consumer(fresh()).from(given),
    positional: true,
    base: { given: subscription },
    options: { given: { fine: subscription, kind: 'word' } },
  },
  {
    name: 'worker',
    call: (options) => hapax.worker(options),
    base: { relay: destination() },
    options: {
      relay: DESTINATION,
      consume: { fine: [], kind: 'word', also: ['empty list'] },
      keepSentMs: COUNT,
      pollMs: COUNT,
      takeoverMs: COUNT,
      cleanup: { ...FLAG, also: ['empty object'] },
    },
  },
  {
    name: 'sqsHandler',
    call: (options) => sqsHandler(hapax.consumer(fresh()), options),
    options: { envelope: word('sns'), marginMs: COUNT },
  },
  {
    name: 'workOnce',
    call: (options) => hapax.workOnce(options),
    base: { maxMs: 60_000, relay: destination() },
    // It has to start within this time, however busy the machine is.
    options: { maxMs: { ...COUNT, fine: 50_000 }, keepSentMs: COUNT, takeoverMs: COUNT },
  },
  {
    name: 'cleanup of a worker',
    call: (cleanup) => hapax.worker({ relay: destination() as never, cleanup }),
    positional: true,
    options: { everyMs: COUNT, auditRetentionMs: COUNT },
  },
  {
    name: 'doctor',
    call: (options) => hapax.doctor(options),
    options: {
      maxRows: { fine: { inbox: 5 }, kind: 'word', also: ['empty object'] },
      maxAgeMs: { fine: { inbox: 5 }, kind: 'word', also: ['empty object'] },
    },
  },
  {
    name: 'limits of doctor',
    call: ({ rows, ageMs }) => hapax.doctor({ maxRows: { audit: rows }, maxAgeMs: { audit: ageMs } }),
    positional: true,
    options: { rows: COUNT, ageMs: COUNT },
  },
  {
    name: 'relays of a worker',
    call: ({ relays }) => hapax.worker({ relays }),
    positional: true,
    base: { relays: { a: destination() } },
    options: { relays: { fine: { b: destination() }, kind: 'word' } },
  },
  {
    name: 'name of a relay',
    call: ({ name }) => hapax.worker({ relays: { [name]: destination() as never } }),
    positional: true,
    options: {},
  },
  {
    name: 'worker on leases',
    call: (options) => lease.worker(options),
    base: { consume: [lease.leased(fresh()).on(Ping, () => {})] },
    options: { pollMs: COUNT },
  },
  {
    name: 'stop',
    call: (options) => hapax.worker({ relay: destination() as never }).stop(options),
    options: { deadlineMs: { fine: 5, kind: 'number from 0', also: ['infinity'] } },
  },
  {
    name: 'events.on',
    call: ({ name, listener }) => hapax.events.on(name, listener),
    positional: true,
    base: { name: 'processed', listener: () => {} },
    options: { name: word('failed'), listener: FUNCTION },
  },
  {
    name: 'transaction',
    call: (options) => hapax.transaction(async () => {}, options),
    options: { isolation: ISOLATION, idleTimeoutMs: COUNT },
  },
  {
    name: 'work of a transaction',
    call: ({ work }) => hapax.transaction(work),
    positional: true,
    base: { work: async () => {} },
    options: { work: FUNCTION },
  },
]

const PUBLISH: Readonly<Record<string, Tried>> = {
  id: TEXT,
  key: TEXT,
  subject: TEXT,
  headers: { fine: { a: 'b' }, kind: 'word', also: ['empty object'] },
  correlationId: TEXT,
  causationId: TEXT,
  traceparent: TEXT,
  tracestate: TEXT,
  delayMs: { fine: 5, kind: 'number from 0' },
  relay: NAME,
  delivery: word('relay'),
  now: FLAG,
}

const message = { id: '1', source: '/sender', type: 'ping', data: {} }

/** Runs a handler once, and throws what it threw. */
async function handled(handler: (ctx: HandlerContext<MemoryTx>) => unknown): Promise<void> {
  const consumer = made().consumer('a', { onError: 'rollback' })
  const { error } = await consumer.wrap(Ping, (_, ctx) => handler(ctx))(message)
  if (error !== undefined) throw error
}

/** The same under a lease. */
async function leasedly(handler: (ctx: LeasedContext<MemoryTx>) => unknown): Promise<void> {
  const sms = made().leased('a', { retry: { attempts: 1 } })
  const { error } = await sms.wrap(Ping, (_, ctx) => handler(ctx))(message)
  if (error !== undefined) throw error
}

const HANDLERS: readonly Entry[] = [
  {
    name: 'publish of a handler',
    call: (options) => handled((ctx) => ctx.publish(Pong, {}, options)),
    options: PUBLISH,
    codes: ['invalid-id'],
  },
  {
    name: 'type that a handler publishes',
    call: ({ type }) => handled((ctx) => ctx.publish(type, {})),
    positional: true,
    base: { type: Pong },
    options: { type: { fine: Ping, kind: 'word' } },
  },
  {
    name: 'publish of a leased handler',
    call: (options) => leasedly((ctx) => ctx.complete(() => ctx.publish(Pong, {}, options))),
    options: PUBLISH,
    codes: ['invalid-id'],
  },
  {
    name: 'publish of a leased handler, before it completes',
    call: (options) => leasedly((ctx) => ctx.publish(Pong, {}, options)),
    options: PUBLISH,
    codes: ['invalid-id'],
  },
  {
    name: 'effect',
    call: (options) => leasedly((ctx) => ctx.effect('send', () => 1, options)),
    options: {
      onUnknown: { fine: 'retry-same-key', kind: 'function' },
      classify: FUNCTION,
      timeoutMs: COUNT,
    },
  },
  {
    name: 'name and call of an effect',
    call: ({ name, call }) => leasedly((ctx) => ctx.effect(name, call)),
    positional: true,
    base: { name: 'send', call: () => 1 },
    options: { name: TEXT, call: FUNCTION },
  },
  {
    name: 'complete',
    call: ({ work }) => leasedly((ctx) => ctx.complete(work)),
    positional: true,
    base: { work: () => {} },
    options: { work: FUNCTION },
  },
  {
    name: 'note',
    call: ({ fields }) => leasedly((ctx) => ctx.note(fields)),
    positional: true,
    base: { fields: { a: 1 } },
    options: { fields: { fine: { b: 1 }, kind: 'object' } },
  },
]

const MESSAGES: readonly Entry[] = [
  {
    name: 'defineMessage',
    call: (options) => defineMessage('a', options),
    options: {
      key: FUNCTION,
      relay: NAME,
      delivery: word('local'),
      schema: { fine: { '~standard': { version: 1, vendor: 'x', validate: () => {} } }, kind: 'word' },
    },
  },
  {
    name: 'type of a message',
    call: ({ type }) => defineMessage(type),
    positional: true,
    base: { type: 'a' },
    options: { type: TEXT },
  },
  {
    name: 'publish',
    call: (options) => hapax.transaction((tx) => hapax.publish(tx, Ping, {}, options)),
    options: PUBLISH,
    codes: ['invalid-id'],
  },
  {
    name: 'publish without tx',
    call: (options) => hapax.transaction(() => hapax.publish(Ping, {}, options)),
    options: PUBLISH,
    codes: ['invalid-id'],
  },
  {
    name: 'publishMany',
    call: (options) => hapax.transaction((tx) => hapax.publishMany(tx, [Ping.of({}, options)])),
    options: PUBLISH,
    codes: ['invalid-id'],
  },
  {
    name: 'arguments of publish',
    call: ({ type }) => hapax.transaction((tx) => hapax.publish(tx, type, {})),
    positional: true,
    base: { type: Ping },
    options: { type: { fine: Pong, kind: 'word' } },
  },
  {
    name: 'drafts',
    call: ({ drafts, draft }) => hapax.transaction((tx) => hapax.publishMany(tx, drafts ?? [draft])),
    positional: true,
    base: { draft: Ping.of({}) },
    options: { draft: { fine: Pong.of({}), kind: 'word' } },
  },
  {
    name: 'a computed key',
    call: ({ key }) => {
      const Keyed = defineMessage<unknown>('keyed', { key: () => key })
      return hapax.transaction((tx) => hapax.publish(tx, Keyed, {}))
    },
    positional: true,
    options: { key: { ...TEXT, also: ['null'] } },
  },
  {
    name: 'messageId',
    call: ({ name, part }) => messageId(name, part),
    positional: true,
    base: { name: 'a', part: 1 },
    options: {
      name: { ...TEXT, also: ['long text'] },
      part: {
        fine: 2,
        kind: 'text',
        also: ['negative', 'zero', 'fraction', 'huge', 'bigint', 'true', 'empty text', 'long text'],
      },
    },
  },
]

describe('K19: every option of every entry point is checked, in one sentence', () => {
  it.for(
    [...MAKING, ...BROKERS, ...WEBHOOKS, ...MOUNTING, ...USING, ...HANDLERS, ...MESSAGES].map(
      (entry) => [entry.name, entry] as const,
    ),
  )('%s', async ([, entry]) => {
    await expectChecked(entry)
  })

  it('a name of a relay or of a header', async () => {
    const relay = (name: string) => () => hapax.worker({ relays: { [name]: destination() as never } })
    for (const name of ['', 'a\0b', 'a\nb', 'a\u009bb', 'a\u202eb', '\ud800', 'x'.repeat(256)]) {
      expect([name, await said(relay(name))]).toEqual([name, 'refused'])
      const headers = { [name]: 'x' }
      const publish = () => hapax.transaction((tx) => hapax.publish(tx, Ping, {}, { headers }))
      if (name.length < 10) expect([name, await said(publish)]).toEqual([name, 'refused'])
    }
    for (const value of Object.values(HOSTILE).filter((each) => typeof each !== 'string')) {
      const headers = { a: value as string }
      const publish = () => hapax.transaction((tx) => hapax.publish(tx, Ping, {}, { headers }))
      expect([value, await said(publish)]).toEqual([value, 'refused'])
    }
    expect(await said(relay('__proto__'))).toBe('taken')
  })

  it('an error that a handler throws is never another one than was meant', () => {
    for (const value of Object.values(HOSTILE)) {
      expect(new RetryAfter(value as number)).toMatchObject({ name: 'RetryAfter', delayMs: value })
    }
  })

  it('a list with holes, and a destination or a subscription that says nothing of itself', async () => {
    const consumer = made()
      .consumer('a')
      .on(Ping, () => {})
    const holes = new Array(1) as never[]
    expect(await said(() => consumer.handleMany(holes), ['invalid-message'])).toBe('refused')
    expect(await said(() => leases().leased('a').handleMany(holes), ['invalid-message'])).toBe('refused')
    const { publish, close } = memoryBroker().topic('a')
    const open = (): void => {}
    for (const name of [undefined, '', 'a\u001b[2J', 7]) {
      expect(await said(() => hapax.worker({ relay: { name, publish, close, features: {} } as never }))).toBe('refused')
      expect(await said(() => consumer.from({ name, open, features: {} } as never))).toBe('refused')
    }
    expect(await said(() => hapax.worker({ relay: { name: 'a', publish, close } as never }))).toBe('refused')
    expect(await said(() => consumer.from({ name: 'a', open } as never))).toBe('refused')
  })
})
