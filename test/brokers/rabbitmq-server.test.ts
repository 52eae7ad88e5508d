import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Destination } from 'hapax'
import type { Confirmation, OutgoingMessage } from 'hapax/contracts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Listener } from '../../src/testing/broker/listener.ts'
import { message, numbered, publish, publishAgain, publishAll } from '../../src/testing/broker/world.ts'
import { until } from '../../src/testing/wait.ts'
import { clearMemoryAlarm, raiseMemoryAlarm, withMemoryAlarm } from '../support/private-rabbitmq.ts'
import { noPrivateServer, type PrivateServer, privateServer } from '../support/private-server.ts'
import { RabbitmqPlace } from '../support/rabbitmq-place.ts'

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
const CONSUMER_TIMEOUT_MS = 3_000

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
  ...['-eval', permissions.replaceAll('\n', ' ')],
  ...['-rabbit', 'max_message_size', String(MAX_BYTES)],
  ...['-rabbit', 'consumer_timeout', String(CONSUMER_TIMEOUT_MS), '-rabbit', 'channel_tick_interval', '200'],
]

const missing = noPrivateServer('rabbitmq')

describe.skipIf(missing !== undefined)(`a server of its own${missing === undefined ? '' : ` (${missing})`}`, () => {
  let server: PrivateServer

  beforeAll(async () => {
    server = await privateServer('rabbitmq', { args })
  }, 120_000)

  afterAll(async () => {
    await server[Symbol.asyncDispose]()
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
