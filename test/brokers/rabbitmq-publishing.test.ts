import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { connect } from 'amqplib'
import { rabbitmq } from 'hapax/rabbitmq'
import { describe, expect, it } from 'vitest'
import { encoderOption } from '../../src/brokers/kit/index.ts'
import { encodeMessage } from '../../src/brokers/rabbitmq/wire.ts'
import type { Confirmation, Destination } from '../../src/contracts/broker.ts'
import type { OutgoingMessage } from '../../src/message/cloudevents.ts'
import { message, numbered, publish } from '../../src/testing/broker/world.ts'
import { until } from '../../src/testing/wait.ts'
import { RabbitmqPlace } from '../support/rabbitmq-place.ts'

/** What became of each message: its status, and the code of its error. */
function shown(confirmations: readonly Confirmation[]): readonly string[] {
  return confirmations.map((each) =>
    each.status === 'confirmed' ? 'confirmed' : `${each.status} ${'code' in each.error ? each.error.code : each.error}`,
  )
}

async function shownAfter(destination: Destination, types: readonly string[]): Promise<readonly string[]> {
  const messages = types.map((type, index) => message(`m${index}`, { type }))
  return shown(await publish(destination, messages))
}

describe.concurrent('messages that find no place', () => {
  it('D8: a return is matched with its message, also when several have its id', async () => {
    await using place = await RabbitmqPlace.open()
    await place.declare('here', { 'x-queue-type': 'quorum' }, 'here')
    const destination = place.destination()
    const types = ['here', 'nowhere', 'here', 'nowhere', 'here']
    const same = types.map((type) => message('same', { type }))
    const confirmations = await publish(destination, same)
    expect(shown(confirmations)).toEqual([
      'confirmed',
      'failed unroutable',
      'confirmed',
      'failed unroutable',
      'confirmed',
    ])
    const [, lost] = confirmations
    expect(lost?.status === 'failed' && lost.error.message).toContain(`for the routing key 'nowhere'`)
    await destination.close()
  })

  it('D8: a return is matched with its message when only a header differs', async () => {
    await using place = await RabbitmqPlace.open()
    const exchange = `${place.exchange}-headers`
    await place.channel.assertExchange(exchange, 'headers')
    await place.channel.assertQueue(exchange)
    await place.channel.bindQueue(exchange, exchange, '', { 'x-match': 'all', region: 'eu' })
    const destination = place.rabbit.exchange(exchange, { type: 'headers' })
    const same = ['us', 'eu', 'us', 'eu'].map((region) => message('same', { headers: { region } }))
    expect(shown(await publish(destination, same))).toEqual([
      'failed unroutable',
      'confirmed',
      'failed unroutable',
      'confirmed',
    ])
    await destination.close()
    await place.channel.deleteQueue(exchange)
    await place.channel.deleteExchange(exchange)
  })

  it('D8: two thousand returns at once are all told', async () => {
    await using place = await RabbitmqPlace.open()
    await place.declare('here', { 'x-queue-type': 'classic' }, 'here')
    const destination = place.destination()
    const types = numbered(2_000).map((_, index) => (index % 4 === 0 ? 'here' : 'nowhere'))
    const told = await shownAfter(destination, types)
    expect(told).toEqual(types.map((type) => (type === 'here' ? 'confirmed' : 'failed unroutable')))
    await destination.close()
  })

  it('D8: a queue that is deleted while messages come makes them fail, until it is there again', async () => {
    await using place = await RabbitmqPlace.open()
    await place.declare('billing', { 'x-queue-type': 'quorum' })
    const destination = place.destination()
    expect(await shownAfter(destination, ['ping'])).toEqual(['confirmed'])
    await place.channel.deleteQueue(place.queue('billing'))
    expect(await shownAfter(destination, ['ping', 'ping'])).toEqual(['failed unroutable', 'failed unroutable'])
    await place.declare('billing', { 'x-queue-type': 'quorum' })
    expect(await shownAfter(destination, ['ping'])).toEqual(['confirmed'])
    await destination.close()
  })
})

describe.concurrent('messages that a queue does not take', () => {
  it('D13: a nack of some messages in a batch does not concern the others', async () => {
    await using place = await RabbitmqPlace.open()
    await place.declare('billing', { 'x-queue-type': 'quorum' }, 'ping')
    const full = { 'x-queue-type': 'classic', 'x-max-length': 1, 'x-overflow': 'reject-publish' }
    await place.declare('full', full, 'full')
    const destination = place.destination()
    const types = ['ping', 'full', 'ping', 'full', 'ping', 'full', 'ping']
    expect(await shownAfter(destination, types)).toEqual([
      'confirmed',
      'confirmed',
      'confirmed',
      'failed broker-refused',
      'confirmed',
      'failed broker-refused',
      'confirmed',
    ])
    expect(await place.ready('billing')).toBe(4)
    expect(await place.ready('full')).toBe(1)
    await destination.close()
  })
})

describe.concurrent('a cluster', () => {
  it('is reached by the first of its addresses that answers, whichever comes first', async () => {
    await using place = await RabbitmqPlace.open()
    await place.declare('billing', { 'x-queue-type': 'quorum' })
    await using silent = await silentServer()
    const url = ['amqp://127.0.0.1:1', place.proxy.url, silent.url]
    for (let process = 0; process < 5; process++) {
      // Each address has a third of the time.
      const destination = rabbitmq({ url, timeoutMs: 15_000 }).exchange(place.exchange)
      expect(await shownAfter(destination, ['ping'])).toEqual(['confirmed'])
      await destination.close()
    }
  })

  it('of which no address answers is named as a whole', async () => {
    const destination = rabbitmq({ url: ['amqp://127.0.0.1:1', 'amqp://user:secret@127.0.0.1:2'] }).exchange('shop')
    const [told] = await publish(destination, [message('a')])
    expect(told).toMatchObject({ status: 'unavailable', error: { code: 'broker-unavailable' } })
    expect(String(told?.status === 'unavailable' && told.error)).toContain('at amqp://127.0.0.1:1, amqp://127.0.0.1:2')
    await destination.close()
  })

  it('is sent to through a new channel after a refusal: the old one may refuse for ever', async () => {
    await using place = await RabbitmqPlace.open()
    await place.declare(
      'full',
      { 'x-queue-type': 'classic', 'x-max-length': 1, 'x-overflow': 'reject-publish' },
      'full',
    )
    let channels = 0
    const connection = async (): Promise<Awaited<ReturnType<typeof connect>>> => {
      const opened = await connect(place.proxy.url)
      const create = opened.createConfirmChannel.bind(opened)
      opened.createConfirmChannel = (...args) => {
        channels += 1
        return create(...args)
      }
      return opened
    }
    const destination = rabbitmq({ connection }).exchange(place.exchange)
    expect(await shownAfter(destination, ['full', 'full'])).toEqual(['confirmed', 'failed broker-refused'])
    await until(async () => {
      expect(await shownAfter(destination, ['full'])).toEqual(['failed broker-refused'])
      return channels > 1
    }, 'a second channel')
    await destination.close()
  })
})

/** Accepts connections, and says nothing. */
async function silentServer(): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => sockets.add(socket.on('error', () => {})))
  const { port } = server.address() as AddressInfo
  return {
    url: `amqp://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

describe.concurrent('exchanges', () => {
  it('an exchange that is deleted while messages come is declared again', async () => {
    await using place = await RabbitmqPlace.open()
    await place.declare('billing', { 'x-queue-type': 'quorum' })
    const destination = place.destination()
    expect(await shownAfter(destination, ['ping'])).toEqual(['confirmed'])
    await place.channel.deleteExchange(place.exchange)
    // The server closes the channel; nothing is known of what was under way.
    expect(await shownAfter(destination, ['ping'])).toEqual(['unavailable topology-mismatch'])
    // It is there again, and nothing is bound to it yet.
    expect(await shownAfter(destination, ['ping'])).toEqual(['failed unroutable'])
    await place.declare('billing', { 'x-queue-type': 'quorum' })
    expect(await shownAfter(destination, ['ping'])).toEqual(['confirmed'])
    await destination.close()
  })

  it.for(['check', 'none'] as const)('a missing exchange is unavailable until it is there (%s)', async (declare) => {
    await using place = await RabbitmqPlace.open()
    await place.channel.deleteExchange(place.exchange)
    const destination = place.rabbit.exchange(place.exchange, { declare })
    const [first] = await publish(destination, [message('a')])
    expect(first?.status === 'unavailable' && first.error.message).toContain(`no exchange '${place.exchange}'`)
    expect(await shownAfter(destination, ['ping', 'ping'])).toEqual([
      'unavailable topology-mismatch',
      'unavailable topology-mismatch',
    ])
    await place.channel.assertExchange(place.exchange, 'topic')
    await place.declare('billing', { 'x-queue-type': 'quorum' })
    expect(await shownAfter(destination, ['ping'])).toEqual(['confirmed'])
    await destination.close()
  })

  it('an exchange that is made otherwise is unavailable, with the sentence of the server', async () => {
    await using place = await RabbitmqPlace.open()
    const destination = place.rabbit.exchange(place.exchange, { type: 'fanout' })
    const [first] = await publish(destination, [message('a')])
    expect(first).toMatchObject({ status: 'unavailable', error: { code: 'topology-mismatch' } })
    expect(first?.status === 'unavailable' && first.error.message).toMatch(
      /inequivalent arg 'type'.*current is 'topic'/,
    )
    await destination.close()
  })

  it('sends to the default exchange by the name of a queue', async () => {
    await using place = await RabbitmqPlace.open()
    await place.declare('billing', { 'x-queue-type': 'quorum' }, 'unused')
    const destination = place.rabbit.exchange('', { routingKey: () => place.queue('billing') })
    expect(await shownAfter(destination, ['ping'])).toEqual(['confirmed'])
    expect(await place.ready('billing')).toBe(1)
    await destination.close()
  })

  it('a routing key that cannot be made keeps only its own message back', async () => {
    await using place = await RabbitmqPlace.open()
    await place.declare('billing', { 'x-queue-type': 'quorum' })
    const routingKey = ({ type }: { readonly type: string }): string => {
      if (type === 'bad') throw new Error('no region')
      return type
    }
    const destination = place.rabbit.exchange(place.exchange, { routingKey })
    expect(await shownAfter(destination, ['ping', 'bad', 'ping'])).toEqual([
      'confirmed',
      'failed Error: no region',
      'confirmed',
    ])
    await destination.close()
  })
})

describe.concurrent('what the protocol cannot carry', () => {
  it('a long id, type or correlation id is left out of the fields that are too short for it', async () => {
    await using place = await RabbitmqPlace.open()
    await place.declare('billing', { 'x-queue-type': 'quorum' })
    const destination = place.rabbit.exchange(place.exchange, { routingKey: () => 'ping' })
    const long = { id: 'i'.repeat(300), type: 't'.repeat(300), correlationId: 'ü'.repeat(200) }
    expect(shown(await publish(destination, [message(long.id, long)]))).toEqual(['confirmed'])
    const [received] = await place.receive('billing', 1)
    expect(received?.attributes).toMatchObject({ id: long.id, type: long.type, correlationid: long.correlationId })
    expect(received?.properties?.['messageId']).toBeUndefined()
    expect(received?.properties?.['type']).toBeUndefined()
    await destination.close()
  })

  it('refuses a routing key, a header or a table of headers that does not fit; its neighbours are confirmed', async () => {
    await using place = await RabbitmqPlace.open()
    await place.declare('billing', { 'x-queue-type': 'quorum' })
    const destination = place.destination()
    const unfit = [
      message('type', { type: 'x'.repeat(256) }),
      message('name', { headers: { ['n'.repeat(256)]: 'v' } }),
      message('table', { headers: { big: 'v'.repeat(70_000) } }),
      message('cc', { headers: { CC: 'billing' } }),
      message('surrogate', { headers: { name: '\ud800' } }),
    ]
    const all = unfit.flatMap((each, index) => [message(`ordinary ${index}`), each])
    const told = shown(await publish(destination, all))
    expect(told).toEqual(unfit.flatMap(() => ['confirmed', 'refused broker-refused']))
    await destination.close()
  })
})

const FRAME_MAX = 8_192

/** Sends the bytes of a message by the plain client, on a link of its own with small frames. */
async function sendPlainly(place: RabbitmqPlace, sent: OutgoingMessage): Promise<'confirmed' | 'closed'> {
  const connection = await connect(`${place.proxy.url}?frameMax=${FRAME_MAX}`)
  const { body, options } = encodeMessage(sent, encoderOption({}))
  const told = await new Promise<'confirmed' | 'closed'>((resolve, reject) => {
    connection.on('error', () => resolve('closed'))
    connection
      .createConfirmChannel()
      .then((channel) => {
        channel.on('error', () => {})
        channel.publish(place.exchange, 'ping', body, options, (error) => error === null && resolve('confirmed'))
      })
      .catch(reject)
  })
  await connection.close().catch(() => {})
  return told
}

describe.concurrent('a lowered frame_max', () => {
  /** A link on which the server takes frames of at most so many bytes; the shared server allows more. */
  const narrow = (place: RabbitmqPlace): Destination =>
    rabbitmq({ url: `${place.proxy.url}?frameMax=${FRAME_MAX}` }).exchange(place.exchange)

  it('refuses headers that are larger than a frame; the link stays, and neighbours are confirmed', async () => {
    await using place = await RabbitmqPlace.open()
    await place.declare('billing', { 'x-queue-type': 'quorum' })
    const destination = narrow(place)
    const large = message('large', { headers: { big: 'ü'.repeat(FRAME_MAX / 2) } })
    const told = await publish(destination, [message('a'), large, message('b')])
    expect(shown(told)).toEqual(['confirmed', 'refused too-large', 'confirmed'])
    const [, refused] = told
    expect(refused?.status === 'refused' && refused.error.message).toContain(`frame_max of ${FRAME_MAX}`)
    await destination.close()
  })

  it('carries headers that just fit, to the byte', async () => {
    await using place = await RabbitmqPlace.open()
    await place.declare('billing', { 'x-queue-type': 'quorum' })
    const destination = narrow(place)
    const sized = (length: number): OutgoingMessage =>
      message(`m${length}`, { correlationId: 'c', time: '2026-01-01T00:00:00Z', headers: { big: 'v'.repeat(length) } })
    const fits = async (length: number): Promise<boolean> => {
      const [told] = await publish(destination, [sized(length)])
      expect(['confirmed', 'refused'], JSON.stringify(told)).toContain(told?.status)
      return told?.status === 'confirmed'
    }
    let [most, least] = [0, FRAME_MAX]
    while (least - most > 1) {
      const middle = Math.floor((most + least) / 2)
      if (await fits(middle)) most = middle
      else least = middle
    }
    // The server adds eight bytes of its own to what it allows; what is larger ends the link.
    await expect(sendPlainly(place, sized(least - 1))).resolves.toBe('confirmed')
    await expect(sendPlainly(place, sized(least + 8))).resolves.toBe('closed')
    await destination.close()
  })
})

describe.concurrent('links', () => {
  it('everything that is sent shares a link, everything that is read another one, until the last of them is closed', async () => {
    await using place = await RabbitmqPlace.open()
    const destinations = [place.destination(), place.destination({ format: 'structured' })]
    const options = {
      types: 'all',
      prefetch: { messages: 1, bytes: 1 },
      receive: () => {},
      report: () => {},
    } as const
    const readers = []
    for (const group of ['billing', 'stock']) readers.push(await (await place.subscription(group)).open(options))
    for (const destination of destinations) await publish(destination, [message('a')])
    expect(place.proxy.size).toBe(2)
    await destinations[0]?.close()
    await readers[0]?.close()
    expect(place.proxy.size).toBe(2)
    await destinations[1]?.close()
    await until(() => place.proxy.size === 1, 'the link for sending is closed')
    await readers[1]?.close()
    await until(() => place.proxy.size === 0, 'the link for reading is closed')
  })
})
