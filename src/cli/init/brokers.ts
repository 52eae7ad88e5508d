/** A broker that init sets up, or none. */
export type Broker = BrokerName | 'none'

type BrokerName = 'rabbitmq' | 'nats' | 'redis-streams' | 'kafka'

/** How a broker is set up. `app` is the name of the application. */
export interface BrokerTemplate {
  /** Packages of which one says that it is used; the first is installed if none is. */
  readonly clients: readonly string[]
  readonly packages: readonly string[]
  readonly imports: string
  readonly variable: string
  setup(app: string): readonly string[]
  /** Where the outbox goes. */
  destination(app: string): string
  /** Where a consumer reads. */
  source(app: string, consumer: string): string
}

/** The brokers. */
export const BROKERS: Readonly<Record<BrokerName, BrokerTemplate>> = {
  rabbitmq: {
    clients: ['amqplib', 'amqp-connection-manager', '@golevelup/nestjs-rabbitmq'],
    packages: ['amqplib'],
    imports: `import { rabbitmq } from 'hapax/rabbitmq'`,
    variable: 'RABBITMQ_URL',
    setup: () => [`const rabbit = rabbitmq({ url: process.env['RABBITMQ_URL'] ?? 'amqp://localhost' })`],
    destination: (app) => `rabbit.exchange('${app}')`,
    source: (app, consumer) => `rabbit.queue('${app}.${consumer}', { bind: { exchange: '${app}' } })`,
  },
  nats: {
    clients: ['@nats-io/jetstream', '@nats-io/transport-node', 'nats'],
    packages: ['@nats-io/jetstream', '@nats-io/transport-node'],
    imports: `import { nats } from 'hapax/nats'`,
    variable: 'NATS_URL',
    setup: () => [`const js = nats({ url: process.env['NATS_URL'] ?? 'nats://localhost' })`],
    destination: (app) => `js.stream('${streamOf(app)}', { maxAgeMs: 7 * 86_400_000 })`,
    source: (app, consumer) => `js.consumer('${consumer}', { stream: '${streamOf(app)}' })`,
  },
  'redis-streams': {
    clients: ['ioredis', 'redis'],
    packages: ['ioredis'],
    imports: `import { redisStreams } from 'hapax/redis-streams'`,
    variable: 'REDIS_URL',
    setup: () => [`const redis = redisStreams({ url: process.env['REDIS_URL'] ?? 'redis://localhost' })`],
    destination: (app) => `redis.stream('${app}', { trim: { keepMs: 86_400_000 } })`,
    source: (app, consumer) => `redis.group('${consumer}', { stream: '${app}' })`,
  },
  kafka: {
    clients: ['@platformatic/kafka', 'kafkajs', '@confluentinc/kafka-javascript'],
    packages: ['@platformatic/kafka'],
    imports: `import { kafka } from 'hapax/kafka'`,
    variable: 'KAFKA_URL',
    setup: () => [`const cluster = kafka({ url: process.env['KAFKA_URL'] ?? 'kafka://localhost' })`],
    destination: (app) => `cluster.topic('${app}')`,
    source: (app, consumer) => `cluster.group('${app}.${consumer}', { topic: '${app}' })`,
  },
}

/** The names of the brokers. */
export const BROKER_NAMES: readonly string[] = [...Object.keys(BROKERS), 'none']

/** Streams of JetStream are written in capitals by custom, and take no points. */
function streamOf(app: string): string {
  return app.toUpperCase().replaceAll(/[^A-Z0-9_-]/g, '_')
}
