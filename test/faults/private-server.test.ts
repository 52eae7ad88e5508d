import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect as connectNats } from '@nats-io/transport-node'
import { Producer, stringSerializers } from '@platformatic/kafka'
import { connect as connectRabbit } from 'amqplib'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { Child } from '../support/child.ts'
import { failNextRequest } from '../support/kafka-mock.ts'
import { clearMemoryAlarm, raiseMemoryAlarm, untilQueueIsKept, withMemoryAlarm } from '../support/private-rabbitmq.ts'
import { noPrivateServer, type PrivateServer, privateServer } from '../support/private-server.ts'
import { serverProcesses, states } from '../support/processes.ts'

const patiently = { timeout: 30_000 }
const program = new URL('./private-server-child.ts', import.meta.url)

/** Writes and reads one thing that must survive, with the plain client. */
interface Keepsake {
  write(server: PrivateServer, text: string): Promise<void>
  read(server: PrivateServer): Promise<string | undefined>
}

const queue = { durable: true, arguments: { 'x-queue-type': 'quorum' } }

const keepsakes: Record<'rabbitmq' | 'nats' | 'redis', Keepsake> = {
  rabbitmq: {
    async write(server, text) {
      await using rabbit = await openRabbit(server.url)
      await rabbit.channel.assertQueue('kept', queue)
      await untilQueueIsKept(server, 'kept')
      rabbit.channel.sendToQueue('kept', Buffer.from(text), { persistent: true })
      await rabbit.channel.waitForConfirms()
    },
    async read({ url }) {
      await using rabbit = await openRabbit(url)
      // Not acknowledged: it goes back when the channel is closed.
      const message = await rabbit.channel.get('kept')
      return message === false ? undefined : message.content.toString()
    },
  },
  nats: {
    async write({ url }, text) {
      await using nats = await openNats(url)
      await nats.manager.streams.add({ name: 'kept', subjects: ['kept'] })
      await jetstream(nats.connection).publish('kept', text)
    },
    async read({ url }) {
      await using nats = await openNats(url)
      return (await nats.manager.streams.getMessage('kept', { seq: 1 }))?.string()
    },
  },
  redis: {
    async write({ url }, text) {
      await using client = openRedis(url)
      await client.redis.xadd('kept', '*', 'text', text)
    },
    async read({ url }) {
      await using client = openRedis(url)
      return (await client.redis.xrange('kept', '-', '+'))[0]?.[1][1]
    },
  },
}

// RabbitMQ needs seconds for a start, and several times as long on a machine that is busy with other tests.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 })

describe.for(['rabbitmq', 'nats', 'redis'] as const)('a private server of %s', (name) => {
  const missing = noPrivateServer(name)
  if (missing !== undefined) return it.skip(missing)
  const { write, read } = keepsakes[name]
  let server: PrivateServer

  beforeAll(async () => {
    server = await privateServer(name)
  })
  afterAll(() => server?.[Symbol.asyncDispose]())

  it('keeps what it confirmed when it is killed, and comes back at the same place', async ({ annotate }) => {
    const text = randomUUID()
    await write(server, text)
    const killed = performance.now()
    await server.kill()
    await expect(read(server)).rejects.toThrow()
    await server.start()
    await annotate(`${Math.round(performance.now() - killed)} ms from the kill to an answer`)
    await expect(read(server)).resolves.toBe(text)
  })

  it('ends in its own way when it is stopped, and is not started twice', async () => {
    await expect(server.start()).rejects.toThrow('to have ended before it starts again')
    await server.stop()
    await server.start()
    await expect(read(server)).resolves.not.toBeUndefined()
  })

  it('stands still while it is paused, and answers afterwards', async () => {
    const main = serverProcesses('main')
    expect(main).toHaveLength(1)
    await server.pause()
    await vi.waitUntil(() => states(main)[0]?.startsWith('T'), patiently)
    const answer = read(server)
    await server.resume()
    await expect(answer).resolves.not.toBeUndefined()
  })

  it('leaves nothing behind', async () => {
    const processes = serverProcesses('all')
    expect(states(processes)).not.toEqual([])
    await server[Symbol.asyncDispose]()
    await vi.waitUntil(() => states(processes).every((state) => state.startsWith('Z')), patiently)
    expect(existsSync(server.directory)).toBe(false)
  })
})

it.skipIf(noPrivateServer('redis'))('ends with the process that started it, also when that is killed', async () => {
  const child = new Child<{ directory: string; processes: number[] }>(program, {})
  const { directory, processes } = await child.next()
  expect(states(processes)).not.toEqual([])
  child.kill('SIGKILL')
  await vi.waitUntil(() => !existsSync(directory), patiently)
  expect(states(processes).filter((state) => !state.startsWith('Z'))).toEqual([])
})

it.skipIf(noPrivateServer('rabbitmq'))('lets RabbitMQ block who publishes, until its alarm is cleared', async () => {
  await using server = await privateServer('rabbitmq', withMemoryAlarm)
  await using rabbit = await openRabbit(server.url)
  await rabbit.channel.assertQueue('kept', queue)
  let blocked = false
  rabbit.connection.on('blocked', () => {
    blocked = true
  })
  raiseMemoryAlarm(server)
  while (!blocked) {
    rabbit.channel.sendToQueue('kept', Buffer.from('one more'))
    await delay(20)
  }
  const unblocked = once(rabbit.connection, 'unblocked')
  clearMemoryAlarm(server)
  await unblocked
  await rabbit.channel.waitForConfirms()
})

it.skipIf(noPrivateServer('kafka'))('lets the protocol mock of Kafka answer one request with an error', async () => {
  await using server = await privateServer('kafka')
  await using client = openKafka(server.url)
  const send = () => client.producer.send({ messages: [{ topic: 'some', value: 'text' }] })
  await send()
  await failNextRequest(server.url, { api: 0, error: 10 })
  await expect(send()).rejects.toMatchObject({ errors: [{ errors: [{ apiId: 'MESSAGE_TOO_LARGE' }] }] })
  await send()
})

async function openRabbit(url: string) {
  const connection = await connectRabbit(url, { timeout: 30_000 })
  connection.on('error', () => {})
  const channel = await connection.createConfirmChannel()
  return { connection, channel, [Symbol.asyncDispose]: () => connection.close() }
}

async function openNats(url: string) {
  const connection = await connectNats({ servers: url, reconnect: false, timeout: 30_000 })
  const manager = await jetstreamManager(connection)
  return { connection, manager, [Symbol.asyncDispose]: () => connection.close() }
}

function openRedis(url: string) {
  const redis = new Redis(url, { retryStrategy: () => null, maxRetriesPerRequest: 0 })
  redis.on('error', () => {})
  return { redis, [Symbol.asyncDispose]: async () => redis.disconnect() }
}

function openKafka(url: string) {
  const producer = new Producer({
    clientId: 'test',
    bootstrapBrokers: [new URL(url).host],
    serializers: stringSerializers,
    autocreateTopics: true,
    retries: false,
  })
  return { producer, [Symbol.asyncDispose]: () => producer.close() }
}
