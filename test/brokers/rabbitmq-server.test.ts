import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { connect } from 'amqplib'
import type { Destination } from 'hapax'
import type { Confirmation, OutgoingMessage } from 'hapax/contracts'
import { rabbitmq } from 'hapax/rabbitmq'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Listener } from '../../src/testing/broker/listener.ts'
import { message, numbered, publish, publishAgain, publishAll } from '../../src/testing/broker/world.ts'
import { until } from '../../src/testing/wait.ts'
import {
  clearMemoryAlarm,
  holdQueue,
  raiseMemoryAlarm,
  withHeldQueue,
  withMemoryAlarm,
} from '../support/private-rabbitmq.ts'
import { noPrivateServer, type PrivateServer, privateServer } from '../support/private-server.ts'
import { RabbitmqPlace } from '../support/rabbitmq-place.ts'
import { requireServer } from '../support/servers.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const example = join(root, 'examples/rabbitmq.ts')

it('the page about RabbitMQ shows the example that runs', () => {
  const page = readFileSync(join(root, 'docs/brokers/rabbitmq.md'), 'utf8')
  const shown = /<!-- example[^\n]*-->\n```ts\n([\s\S]*?)```/.exec(page)?.[1]
  expect(shown).toBe(readFileSync(example, 'utf8'))
})

// What only a server of the test's own can be made to do.

const MANY = { messages: 100, bytes: 1e9 }
const MAX_BYTES = 65_536
const CONSUMER_TIMEOUT_MS = 10_000

/** The user may not publish by routing keys that begin with `secret`, to an exchange of this name. */
const GUARDED = 'guarded'
const permissions = `
  Allow = fun(Allow) ->
    try rabbit_auth_backend_internal:set_topic_permissions(
      <<"guest">>, <<"/">>, <<"${GUARDED}">>, <<"^(?!secret)">>, <<".*">>, <<"test">>)
    catch _:_ -> timer:sleep(20), Allow(Allow) end
  end,
  spawn(fun() -> Allow(Allow) end).`

const args = [
  ...(withMemoryAlarm.args ?? []),
  ...(withHeldQueue.args ?? []),
  ...['-eval', permissions.replaceAll('\n', ' ')],
  ...['-rabbit', 'max_message_size', String(MAX_BYTES)],
  ...['-rabbit', 'consumer_timeout', String(CONSUMER_TIMEOUT_MS), '-rabbit', 'channel_tick_interval', '200'],
]

/** A proxy that can stop to read what is sent to the server. */
async function slowProxy(
  to: string,
): Promise<AsyncDisposable & { readonly url: string; pause(): void; resume(): void }> {
  const { hostname, port } = new URL(to)
  const sockets = new Set<Socket>()
  const clients = new Set<Socket>()
  const server = createServer((client) => {
    clients.add(client)
    const target = dial(Number(port), hostname)
    for (const socket of [client, target]) sockets.add(socket.on('error', () => {}))
    target.pipe(client)
    client.on('data', (bytes) => target.write(bytes))
    client.on('close', () => target.destroy())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(to)
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url: url.href,
    pause: () => {
      for (const client of clients) client.pause()
    },
    resume: () => {
      for (const client of clients) client.resume()
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

const missing = noPrivateServer('rabbitmq')

describe.skipIf(missing !== undefined)(`a server of its own${missing === undefined ? '' : ` (${missing})`}`, () => {
  let server: PrivateServer

  beforeAll(async () => {
    server = await privateServer('rabbitmq', { args })
  })

  afterAll(async () => {
    await server[Symbol.asyncDispose]()
  })

  it('a channel that has refused is closed, also if some of its messages are never answered', async () => {
    await using place = await RabbitmqPlace.open(server.url)
    const { channel, exchange } = place
    await place.declare(
      'full',
      { 'x-queue-type': 'classic', 'x-max-length': 1, 'x-overflow': 'reject-publish' },
      'full',
    )
    await channel.assertQueue('held', { durable: true, arguments: { 'x-queue-type': 'classic' } })
    await channel.bindQueue('held', exchange, 'held')
    let opened = 0
    let isFirstClosed = false
    const connection = async (): Promise<Awaited<ReturnType<typeof connect>>> => {
      const made = await connect(server.url)
      const create = made.createConfirmChannel.bind(made)
      made.createConfirmChannel = async (...options) => {
        const channel = await create(...options)
        opened += 1
        if (opened === 1) channel.on('close', () => (isFirstClosed = true))
        return channel
      }
      return made
    }
    const destination = rabbitmq({ connection }).exchange(exchange)
    const send = async (type: string, signal?: AbortSignal): Promise<string | undefined> =>
      (await publish(destination, [message(type, { type })], signal))[0]?.status
    expect(await send('full')).toBe('confirmed')
    await holdQueue(server)
    const patience = new AbortController()
    const held = send('held', patience.signal)
    await until(async () => (await send('full')) === 'failed' && opened > 1, 'a second channel')
    expect(isFirstClosed).toBe(false)
    patience.abort()
    expect(await held).toBe('unavailable')
    await until(() => isFirstClosed, 'the first channel to be closed')
    await destination.close()
  })

  it('a connection on which nothing is confirmed is given up, and the next one works', async () => {
    await using place = await RabbitmqPlace.open(server.url)
    await place.declare('open', { 'x-queue-type': 'classic' }, 'open')
    // It stands still since the test before this one.
    await place.channel.bindQueue('held', place.exchange, 'held')
    const destination = rabbitmq({ url: server.url, timeoutMs: 5_000 }).exchange(place.exchange)
    const send = async (type: string): Promise<Confirmation | undefined> =>
      (await publish(destination, [message(type, { type })]))[0]
    const held = await send('held')
    expect(held).toMatchObject({ status: 'unavailable', error: { code: 'broker-timeout' } })
    expect(await send('open')).toEqual({ status: 'confirmed' })
    await destination.close()
  })

  it('a queue that stands still does not end the connection of exchanges that go on', async () => {
    await using place = await RabbitmqPlace.open(server.url)
    await using other = await RabbitmqPlace.open(server.url)
    await place.declare('busy', { 'x-queue-type': 'classic' }, 'busy')
    await other.channel.bindQueue('held', other.exchange, 'held')
    const broker = rabbitmq({ url: server.url, timeoutMs: 5_000 })
    const [busy, silent] = [broker.exchange(place.exchange), broker.exchange(other.exchange)]
    let isOver = false
    // More than it takes to be given up, twice.
    const held = publish(silent, [message('held', { type: 'held' })], AbortSignal.timeout(20_000)).then((said) => {
      isOver = true
      return said
    })
    const seen = new Set<string | undefined>()
    while (!isOver) seen.add((await publish(busy, [message('busy', { type: 'busy' })]))[0]?.status)
    expect([...seen]).toEqual(['confirmed'])
    expect(await held).toMatchObject([{ status: 'unavailable' }])
    await Promise.all([busy.close(), silent.close()])
  })

  it('a process that stood still reads the confirms that came meanwhile', async () => {
    await using place = await RabbitmqPlace.open(server.url)
    await place.declare('still', { 'x-queue-type': 'classic' }, 'still')
    const destination = rabbitmq({ url: server.url, timeoutMs: 5_000 }).exchange(place.exchange)
    const send = (id: string): Promise<readonly Confirmation[]> =>
      publish(destination, [message(id, { type: 'still' })])
    expect(await send('before')).toEqual([{ status: 'confirmed' }])
    const confirmed = send('after')
    await new Promise(setImmediate)
    for (const end = performance.now() + 8_000; performance.now() < end; );
    expect(await confirmed).toEqual([{ status: 'confirmed' }])
    await destination.close()
  })

  it('a message that takes longer to write than the server may take to answer is confirmed', async () => {
    // This server takes no large messages: the shared one does.
    await using place = await RabbitmqPlace.open()
    await place.declare('slow', { 'x-queue-type': 'classic' }, 'slow')
    await using proxy = await slowProxy(requireServer('rabbitmq'))
    // Once it is written, a busy server may take some seconds to store it.
    const times = { timeoutMs: 8_000, heartbeatMs: 60_000 }
    const destination = rabbitmq({ url: proxy.url, ...times }).exchange(place.exchange)
    const send = (size: number): Promise<readonly Confirmation[]> =>
      publish(destination, [message('slow', { type: 'slow', data: Buffer.alloc(size) })])
    expect(await send(1)).toEqual([{ status: 'confirmed' }])
    proxy.pause()
    // More than the sockets between here and there can hold.
    const sent = send(15_000_000)
    // After one and a half times that, a link on which nothing is confirmed would be given up.
    await delay(14_000)
    proxy.resume()
    expect(await sent).toEqual([{ status: 'confirmed' }])
    await destination.close()
  })

  it('the example prints what its comments say, and ends', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'hapax-rabbitmq-example-'))
    try {
      const command = ['--conditions=hapax-source', '--no-warnings', example]
      const env = { ...process.env, RABBITMQ_URL: server.url }
      const { stdout } = await promisify(execFile)(process.execPath, command, { cwd: folder, env })
      expect(stdout).toMatch(/^declare exchange shop \(topic, durable\)\ndeclare queue billing/)
      expect(stdout).toMatch(/order_id: 'A1', amount: 42/)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  it('D30: a server that is short of memory is told at once; acks go on, and so do messages when it has recovered', async () => {
    await using place = await RabbitmqPlace.open(server.url)
    const listener = await Listener.open(await place.subscription('billing'), MANY)
    const destination = place.destination()
    await publishAll(destination, numbered(5))
    const received = await listener.take(5)
    raiseMemoryAlarm(server)
    // A connection is blocked by the first message that it sends after the alarm.
    const blocked = async (): Promise<boolean> => {
      const [sent] = await publish(destination, [message('blocked')])
      return sent?.status === 'unavailable' && 'code' in sent.error && sent.error.code === 'broker-blocked'
    }
    await until(blocked, 'the exchange says that the server is blocked')
    expect(await publish(destination, [message('x'), message('y')])).toMatchObject([
      { status: 'unavailable', error: { code: 'broker-blocked' } },
      { status: 'unavailable', error: { code: 'broker-blocked' } },
    ])
    for (const each of received) each.ack()
    const unacked = () => place.tap.unacked(place.queue('billing'))
    await until(() => unacked() <= listener.received.length - 5, 'acks go on')
    clearMemoryAlarm(server)
    await publishAgain(destination, ['after'])
    await listener.takeAllOf(['after'])
    expect(listener.reports).toEqual([])
    await Promise.all([listener.close(), destination.close()])
  })

  it('D30: closes while the server takes no messages', async () => {
    await using place = await RabbitmqPlace.open(server.url)
    await place.subscription('billing')
    const destination = place.destination()
    await publishAll(destination, ['a'])
    raiseMemoryAlarm(server)
    const blocked = async (): Promise<boolean> =>
      (await publish(destination, [message('b')]))[0]?.status !== 'confirmed'
    await until(blocked, 'the server is blocked')
    await destination.close()
    clearMemoryAlarm(server)
    // The next test begins when that has taken effect.
    const next = place.destination()
    await publishAgain(next, ['after'])
    await next.close()
  })

  it('D14: learns from the server how large a message may be; neighbours are not to blame', async () => {
    await using place = await RabbitmqPlace.open(server.url)
    const listener = await Listener.open(await place.subscription('billing'), MANY)
    const destination = place.destination()
    const large = (id: string): OutgoingMessage =>
      message(id, { data: Buffer.alloc(MAX_BYTES + 1, 'x'), datacontenttype: 'text/plain' })
    const fits = message('fits', { data: Buffer.alloc(MAX_BYTES, 'x'), datacontenttype: 'text/plain' })
    const sent = await publish(destination, [message('a'), large('large'), message('b')])
    expect(sent[1]).toMatchObject({ status: 'refused', error: { code: 'broker-refused' } })
    expect(sent[1]?.status === 'refused' && sent[1].error.message).toContain(`max size ${MAX_BYTES}`)
    for (const each of [sent[0], sent[2]]) expect(['confirmed', 'unavailable']).toContain(each?.status)
    // From now on it is known: nothing is sent, and nobody suffers.
    expect(await publish(destination, [message('c'), large('large'), message('d'), fits])).toMatchObject([
      { status: 'confirmed' },
      { status: 'refused', error: { code: 'too-large' } },
      { status: 'confirmed' },
      { status: 'confirmed' },
    ])
    await listener.takeAllOf(['c', 'd', 'fits'])
    await Promise.all([listener.close(), destination.close()])
  })

  it('D15: a message that makes the server close the channel is found among its neighbours, which are all sent', async () => {
    await using place = await RabbitmqPlace.open(server.url)
    await place.channel.assertExchange(GUARDED, 'topic')
    await place.declare('billing', { 'x-queue-type': 'quorum' })
    await place.channel.bindQueue(place.queue('billing'), GUARDED, '#')
    const destination = place.rabbit.exchange(GUARDED)
    await until(() => isForbidden(destination), 'the server knows what is forbidden')
    const all = numbered(30).map((id, index) => message(id, { type: index === 13 ? 'secret.plan' : 'ping' }))
    const told = new Map<string, Confirmation>()
    const send = async (): Promise<boolean> => {
      const left = all.filter(({ id }) => told.get(id)?.status !== 'confirmed' && told.get(id)?.status !== 'failed')
      for (const [index, each] of (await publish(destination, left)).entries())
        told.set(left[index]?.id as string, each)
      return left.length === 0
    }
    await until(send, 'everything has an answer')
    expect(told.get('m13')).toMatchObject({ status: 'failed', error: { code: 'broker-refused' } })
    for (const { id } of all) if (id !== 'm13') expect(told.get(id), id).toEqual({ status: 'confirmed' })
    // The next time it disturbs nobody.
    const again = await publish(destination, all)
    expect(again.map(({ status }) => status)).toEqual(all.map(({ id }) => (id === 'm13' ? 'failed' : 'confirmed')))
    await destination.close()
    await place.channel.deleteExchange(GUARDED)
  })

  it('E7, K24: a message that is held longer than the server allows comes again through a new channel', async () => {
    await using place = await RabbitmqPlace.open(server.url)
    const listener = await Listener.open(await place.subscription('billing'), MANY)
    const destination = place.destination()
    await publishAll(destination, ['slow'])
    const slow = await listener.takeOne('slow')
    await until(() => listener.reports.length > 0, 'the end of the channel is reported')
    expect(listener.reports[0]).toMatchObject({ code: 'consumer-timeout' })
    expect(listener.reports[0]?.message).toContain('consumer_timeout')
    const again = await listener.takeOne('slow')
    expect(again.arrival.redelivered).toBe(true)
    slow.ack()
    again.ack()
    await until(async () => (await place.waiting('billing')) === 0, 'it is acked')
    // On a slow machine it may have been held for too long once more.
    for (const report of listener.reports) expect(report).toMatchObject({ code: 'consumer-timeout' })
    await Promise.all([listener.close(), destination.close()])
  })
})

async function isForbidden(destination: Destination): Promise<boolean> {
  const [sent] = await publish(destination, [message('secret', { type: 'secret.plan' })])
  return sent?.status === 'failed' && 'code' in sent.error && sent.error.code === 'broker-refused'
}
