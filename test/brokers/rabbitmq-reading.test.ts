import type { Socket } from 'node:net'
import { type Channel, type ChannelModel, connect } from 'amqplib'
import { rabbitmq } from 'hapax/rabbitmq'
import { describe, expect, it } from 'vitest'
import { Listener } from '../../src/testing/broker/listener.ts'
import { message, numbered, publish, publishAgain, publishAll } from '../../src/testing/broker/world.ts'
import { until } from '../../src/testing/wait.ts'
import { RabbitmqPlace } from '../support/rabbitmq-place.ts'
import { requireServer } from '../support/servers.ts'
import { uncaughtErrors } from '../support/uncaught.ts'

const MANY = { messages: 1_000, bytes: 1e9 }
const QUORUM = { 'x-queue-type': 'quorum' }

describe.concurrent('queues', () => {
  it('a queue that is deleted while it is read is reported, declared again, and read on', async () => {
    await using place = await RabbitmqPlace.open()
    const listener = await Listener.open(await place.subscription('billing'), MANY)
    const destination = place.destination()
    await publishAll(destination, ['before'])
    const before = await listener.takeOne('before')
    await place.channel.deleteQueue(place.queue('billing'))
    await until(() => listener.reports.length > 0, 'the loss is reported')
    expect(listener.reports[0]).toMatchObject({ code: 'topology-mismatch' })
    // The queue is gone, and what it held as well: an answer has nowhere to go.
    before.ack()
    const there = async (): Promise<boolean> =>
      (await publish(destination, [message('after')]))[0]?.status === 'confirmed'
    await until(there, 'the queue is there again')
    await listener.takeOne('after')
    expect(listener.reports).toHaveLength(1)
    await Promise.all([listener.close(), destination.close()])
  })

  it.for(['check', 'none'] as const)(
    'a deleted queue is read on when somebody makes it again (%s)',
    async (declare) => {
      await using place = await RabbitmqPlace.open()
      await place.declare('billing', QUORUM)
      const listener = await Listener.open(place.rabbit.queue(place.queue('billing'), { declare }), MANY)
      await place.channel.deleteQueue(place.queue('billing'))
      await until(() => listener.reports.length > 0, 'the loss is reported')
      await place.declare('billing', QUORUM)
      const destination = place.destination()
      await publishAll(destination, ['after'])
      await listener.takeOne('after')
      await Promise.all([listener.close(), destination.close()])
    },
  )

  it('refuses to open a queue that is made otherwise, with the sentence of the server', async () => {
    await using place = await RabbitmqPlace.open()
    await place.declare('billing', { 'x-queue-type': 'classic' })
    const opening = Listener.open(place.rabbit.queue(place.queue('billing')), MANY)
    await expect(opening).rejects.toMatchObject({ code: 'topology-mismatch' })
    await expect(opening).rejects.toThrow(/inequivalent arg 'x-queue-type'.*current is 'classic'/)
    await until(() => place.proxy.size === 0, 'the link is closed again')
  })

  it('K24: reads a queue that others declared with arguments of their own, and says in what it differs', async () => {
    await using place = await RabbitmqPlace.open()
    const theirs = { 'x-delivery-limit': 3, 'x-max-length': 9, 'x-dead-letter-exchange': 'dead', 'x-expires': 600_000 }
    await place.declare('billing', { ...QUORUM, ...theirs, 'x-single-active-consumer': true })
    const ours = { arguments: { 'x-max-length': 10 } }
    const listener = await Listener.open(place.rabbit.queue(place.queue('billing'), ours), MANY)
    expect(listener.reports).toMatchObject([{ code: 'topology-mismatch' }])
    for (const name of [...Object.keys(theirs), 'x-single-active-consumer', 'came back more than 3 times'])
      expect(listener.reports[0]?.message).toContain(name)
    const destination = place.destination()
    await publishAll(destination, ['one'])
    ;(await listener.takeOne('one')).ack()
    await until(async () => (await place.waiting('billing')) === 0, 'it is acked')
    await place.cut()
    await publishAgain(destination, ['two'])
    ;(await listener.takeOne('two')).ack()
    // The loss of the link is told; what differs is not told again.
    expect(listener.reports.filter(({ code }) => code === 'topology-mismatch')).toHaveLength(1)
    await Promise.all([listener.close(), destination.close()])
  })

  it('K24: reads a quorum queue without a limit of its own, and says what newer servers make of that', async () => {
    await using place = await RabbitmqPlace.open()
    await place.declare('billing', QUORUM)
    const listener = await Listener.open(place.rabbit.queue(place.queue('billing')), MANY)
    const told = listener.reports.map(({ message }) => message).join()
    if (Number.parseInt(place.version, 10) < 4) expect(told).toBe('')
    else expect(told).toMatch(/x-delivery-limit: received .* but current is none.*came back more than 20 times/)
    const destination = place.destination()
    await publishAll(destination, ['one'])
    ;(await listener.takeOne('one')).ack()
    await Promise.all([listener.close(), destination.close()])
  })

  it.for([
    ['a single reader', { single: true }],
    ['a delivery limit', { deliveryLimit: 5, deadLetterExchange: 'amq.fanout' }],
    ['a dead letter exchange', { deadLetterExchange: 'amq.fanout' }],
  ] as const)('K24: refuses a queue that lacks %s which was asked for', async ([, options]) => {
    await using place = await RabbitmqPlace.open()
    await place.declare('billing', { ...QUORUM, 'x-max-length': 9 })
    const opening = Listener.open(place.rabbit.queue(place.queue('billing'), options), MANY)
    await expect(opening).rejects.toMatchObject({ code: 'topology-mismatch' })
    await expect(opening).rejects.toThrow(/inequivalent arg 'x-(single|delivery|dead|overflow)/)
  })

  it.for(['check', 'none'] as const)('refuses to open a queue that is missing (%s)', async (declare) => {
    await using place = await RabbitmqPlace.open()
    const opening = Listener.open(place.rabbit.queue('never-made', { declare }), MANY)
    await expect(opening).rejects.toMatchObject({ code: 'topology-mismatch' })
    await expect(opening).rejects.toThrow(`no queue 'never-made'`)
  })

  it('refuses to open a queue whose dead letters would go nowhere', async () => {
    await using place = await RabbitmqPlace.open()
    const options = { deliveryLimit: 3, deadLetterExchange: `${place.exchange}-dead` }
    const opening = Listener.open(place.rabbit.queue(place.queue('billing'), options), MANY)
    await expect(opening).rejects.toThrow(`no exchange '${place.exchange}-dead'`)
  })

  it('refuses to open when the server does not know the user, the virtual host, or is not there', async () => {
    const url = new URL(requireServer('rabbitmq'))
    const opening = (change: (url: URL) => void) => {
      const wrong = new URL(url)
      change(wrong)
      return Listener.open(rabbitmq({ url: wrong.href }).queue('billing'), MANY)
    }
    const wrongPassword = opening((each) => {
      each.password = 'wrong'
    })
    await expect(wrongPassword).rejects.toMatchObject({ code: 'broker-refused' })
    await expect(wrongPassword).rejects.not.toThrow('wrong')
    const wrongHost = opening((each) => {
      each.pathname = '/nowhere'
    })
    await expect(wrongHost).rejects.toMatchObject({ code: 'broker-refused' })
    const nobody = opening((each) => {
      each.port = '1'
    })
    await expect(nobody).rejects.toMatchObject({ code: 'broker-unavailable' })
  })
})

describe.concurrent('acks', () => {
  it('acks of the same moment are one frame', async () => {
    await using place = await RabbitmqPlace.open()
    const listener = await Listener.open(await place.subscription('billing'), MANY)
    const destination = place.destination()
    await publishAll(destination, numbered(500))
    const received = await listener.take(500)
    for (const each of received) each.ack()
    await until(async () => (await place.waiting('billing')) === 0, 'everything is acked')
    expect(place.tap.acks).toEqual({ single: 0, multiple: 1 })
    await Promise.all([listener.close(), destination.close()])
    expect(await place.ready('billing')).toBe(0)
  })

  it('E4: one that is not finished is not acked with those behind it', async () => {
    await using place = await RabbitmqPlace.open()
    const listener = await Listener.open(await place.subscription('billing'), MANY)
    const destination = place.destination()
    await publishAll(destination, numbered(100))
    const received = await listener.take(100)
    for (const each of received) if (each.id !== 'm90') each.ack()
    await until(async () => (await place.waiting('billing')) === 1, 'everything else is acked')
    expect(place.tap.acks).toEqual({ single: 9, multiple: 1 })
    // What was given back in between is not acked again, which would close the channel.
    received[90]?.reject(0)
    const again = await listener.takeOne('m90')
    again.ack()
    await until(async () => (await place.waiting('billing')) === 0, 'everything is acked')
    expect(place.tap.acks).toEqual({ single: 10, multiple: 1 })
    await publishAll(destination, numbered(50, 'more'))
    for (const each of await listener.take(50)) each.ack()
    await until(async () => (await place.waiting('billing')) === 0, 'everything is acked')
    expect(place.tap.acks).toEqual({ single: 10, multiple: 2 })
    expect(listener.reports).toEqual([])
    await Promise.all([listener.close(), destination.close()])
    expect(await place.ready('billing')).toBe(0)
  })

  it('answers of every kind, in any order, keep the channel', async () => {
    await using place = await RabbitmqPlace.open()
    const counts = new Map<string, number>()
    const listener = await Listener.open(
      await place.subscription('billing'),
      { messages: 50, bytes: 1e9 },
      (received) => {
        const times = (counts.get(received.id) ?? 0) + 1
        counts.set(received.id, times)
        const dice = (counts.size * 7 + times * 3) % 4
        if (times > 2 || dice === 0) setTimeout(() => received.ack(), dice)
        else if (dice === 1) received.ack()
        else if (dice === 2) received.reject(dice)
        else received.retry(dice)
      },
    )
    const destination = place.destination()
    await publishAll(destination, numbered(1_000))
    await listener.takeAllOf(numbered(1_000))
    await until(async () => (await place.waiting('billing')) === 0, 'everything is acked')
    expect(listener.reports).toEqual([])
    expect(place.tap.returned).toBeGreaterThan(0)
    await Promise.all([listener.close(), destination.close()])
    expect(await place.ready('billing')).toBe(0)
  })
})

describe.concurrent('giving back', () => {
  it('what waits here is given back once, when the server does not send any more', async () => {
    await using place = await RabbitmqPlace.open()
    const subscription = await place.subscription('billing')
    const first = await Listener.open(subscription, { messages: 20, bytes: 1e9 }, (received) =>
      received.retry(3_600_000),
    )
    const destination = place.destination()
    await publishAll(destination, numbered(20))
    await first.came(20)
    await first.pause()
    const second = await Listener.open(subscription, MANY)
    const received = await second.take(20)
    // From 4.3 on the server has another name for what was given back.
    const counts = received.map(
      ({ arrival: { properties } }) => properties['acquiredCount'] ?? properties['deliveryCount'],
    )
    expect(counts).toEqual(received.map(() => '1'))
    await Promise.all([first.close(), second.close(), destination.close()])
  })

  it.for(['quorum', 'classic'] as const)(
    'E3: what a single reader puts back comes to the next one in order (%s)',
    async (type) => {
      await using place = await RabbitmqPlace.open()
      const subscription = place.rabbit.queue(place.queue('billing'), {
        bind: { exchange: place.exchange },
        single: true,
        type,
      })
      const first = await Listener.open(subscription, { messages: 10, bytes: 1e9 })
      const second = await Listener.open(subscription, MANY)
      const destination = place.destination()
      await publishAll(destination, numbered(300))
      const received = await first.take(10)
      await first.pause()
      // One is being stored, the others have not begun.
      for (const each of received.slice(1)) each.retry(0)
      received[0]?.ack()
      await until(async () => (await place.ready('billing')) > 0, 'the queue answers')
      expect(second.ids).toEqual([])
      await first.close()
      await second.take(256)
      expect(second.ids).toEqual(numbered(257).slice(1))
      await Promise.all([second.close(), destination.close()])
      await place.channel.deleteQueue(place.queue('billing'))
    },
  )

  it('E3: what single readers leave behind stays in order, however few the next one wants in hand', async () => {
    await using place = await RabbitmqPlace.open()
    const subscription = await place.subscription('billing', { single: true })
    const destination = place.destination()
    await publishAll(destination, numbered(30))
    const seen: string[][] = []
    for (const messages of [20, 5, 30]) {
      const listener = await Listener.open(subscription, { messages, bytes: 1e9 })
      await listener.came(messages)
      seen.push([...listener.ids])
      await listener.close()
    }
    expect(seen).toEqual([numbered(20), numbered(5), numbered(30)])
    await destination.close()
  })
})

describe.concurrent('delivery limits', () => {
  /** A queue with a limit of 3, whose dead letters are in the group `dead`. */
  async function limited(place: RabbitmqPlace) {
    const deadLetterExchange = `${place.exchange}-dead`
    await place.channel.assertExchange(deadLetterExchange, 'fanout')
    await place.declare('dead', QUORUM, 'unused')
    await place.channel.bindQueue(place.queue('dead'), deadLetterExchange, '')
    const bind = { exchange: place.exchange }
    return place.rabbit.queue(place.queue('billing'), { bind, deliveryLimit: 3, deadLetterExchange })
  }

  it('what is rejected too often goes to the dead letters, with its delivery counts', async () => {
    await using place = await RabbitmqPlace.open()
    const subscription = await limited(place)
    expect(subscription.features.limitsRejects).toBe(true)
    const listener = await Listener.open(subscription, MANY, (received) => received.reject(0))
    const destination = place.destination()
    await publishAll(destination, ['a'])
    const [dead] = await place.receive('dead', 1)
    expect(dead?.attributes?.['id']).toBe('a')
    expect(listener.received.map(({ arrival }) => arrival.properties['deliveryCount'])).toEqual([
      undefined,
      '1',
      '2',
      '3',
    ])
    expect(listener.received.map(({ arrival }) => arrival.redelivered)).toEqual([false, true, true, true])
    for (const { arrival } of listener.received) expect(arrival.headers).toEqual({})
    await Promise.all([listener.close(), destination.close()])
    await place.channel.deleteQueue(place.queue('billing'))
    await place.channel.deleteExchange(`${place.exchange}-dead`)
  })

  it('C6: what is tried again thirty times does not reach the limit', async () => {
    await using place = await RabbitmqPlace.open()
    const listener = await Listener.open(await limited(place), MANY, (received) => {
      if (listener.received.length <= 30) received.retry(1)
      else received.ack()
    })
    const destination = place.destination()
    await publishAll(destination, ['a'])
    await listener.take(31)
    await until(async () => (await place.waiting('billing')) === 0, 'it is acked')
    expect(place.tap.returned).toBe(0)
    await Promise.all([listener.close(), destination.close()])
    expect(await place.ready('dead')).toBe(0)
    await place.channel.deleteQueue(place.queue('billing'))
    await place.channel.deleteExchange(`${place.exchange}-dead`)
  })
})

describe.concurrent('prefetch', () => {
  it('grows from a careful beginning to what was asked for', async () => {
    await using place = await RabbitmqPlace.open()
    const listener = await Listener.open(await place.subscription('billing'), MANY)
    const destination = place.destination()
    await publishAll(destination, numbered(900))
    await listener.take(900)
    expect(place.tap.unacked(place.queue('billing'))).toBe(900)
    for (const received of listener.received) received.ack()
    await until(async () => (await place.waiting('billing')) === 0, 'everything is acked')
    expect(listener.reports).toEqual([])
    await Promise.all([listener.close(), destination.close()])
  })

  it('K17: keeps no more than fits of the first messages, however large they are', async () => {
    await using place = await RabbitmqPlace.open()
    const subscription = await place.subscription('billing')
    const destination = place.destination()
    const data = Buffer.alloc(100_000, 'x')
    const large = numbered(100).map((id) => message(id, { data, datacontenttype: 'text/plain' }))
    await publish(destination, large)
    const listener = await Listener.open(subscription, { messages: 1_000, bytes: 200_000 })
    await listener.came(2)
    const unacked = () => place.tap.unacked(place.queue('billing'))
    await until(() => unacked() <= 7, 'the server has the others back')
    expect(listener.bytesInHand).toBeLessThanOrEqual(200_000)
    await listener.ackOneByOne(100)
    await Promise.all([listener.close(), destination.close()])
  })

  it('K17: gives back what comes together with the answer to its first question', async () => {
    await using place = await RabbitmqPlace.open()
    const subscription = await place.subscription('billing')
    for (const id of numbered(12)) await place.send({ body: Buffer.alloc(100), attributes: { id } })
    place.proxy.gather(100)
    const listener = await Listener.open(subscription, { messages: 1_000, bytes: 10 })
    await listener.ackOneByOne(12)
    await until(async () => (await place.waiting('billing')) === 0, 'everything is acked')
    await listener.close()
  })

  it('K17: a run of large messages behind small ones is turned away, and comes again when there is room', async () => {
    await using place = await RabbitmqPlace.open()
    const subscription = await place.subscription('billing')
    const destination = place.destination()
    const data = Buffer.alloc(100_000, 'x')
    const listener = await Listener.open(subscription, { messages: 1_000, bytes: 300_000 })
    await publishAll(destination, numbered(600))
    for (const each of await listener.take(600)) each.ack()
    const large = numbered(50, 'large').map((id) => message(id, { data, datacontenttype: 'text/plain' }))
    await publish(destination, large)
    await listener.came(603)
    // What is in hand, as much again that waits, and what the smaller window lets through.
    const unacked = () => place.tap.unacked(place.queue('billing'))
    await until(() => unacked() <= 12, 'the server has most of them back')
    expect(listener.bytesInHand).toBeLessThanOrEqual(300_000)
    const seen = new Set<string>()
    for (let at = 600; seen.size < 50; at++) {
      await listener.came(at + 1)
      const received = listener.received[at]
      seen.add(received?.id ?? '')
      received?.ack()
    }
    await until(async () => (await place.waiting('billing')) === 0, 'everything is acked')
    await Promise.all([listener.close(), destination.close()])
  })

  it('H13: shrinks when messages are large, so that few are sent ahead', async () => {
    await using place = await RabbitmqPlace.open()
    const limit = { messages: 1_000, bytes: 500_000 }
    await place.subscription('billing')
    const destination = place.destination()
    const data = Buffer.alloc(100_000, 'x')
    await publish(
      destination,
      numbered(300).map((id) => message(id, { data, datacontenttype: 'text/plain' })),
    )
    const listener = await Listener.open(await place.subscription('billing'), limit)
    await listener.came(5)
    let ahead = 0
    for (let acked = 0; acked < 300; acked++) {
      await listener.came(acked + 1)
      expect(listener.bytesInHand).toBeLessThanOrEqual(limit.bytes)
      listener.received[acked]?.ack()
      // When the first ones are through, at most six are on their way: five that fit, and one more.
      if (acked > 150) ahead = Math.max(ahead, place.tap.unacked(place.queue('billing')))
    }
    expect(ahead).toBeLessThanOrEqual(7)
    await until(async () => (await place.waiting('billing')) === 0, 'everything is acked')
    await Promise.all([listener.close(), destination.close()])
  })
})

describe.concurrent('connections of the user', () => {
  it('a connection that was given carries everything, and is not closed', async () => {
    await using place = await RabbitmqPlace.open()
    const connection = await connect(requireServer('rabbitmq'))
    const rabbit = rabbitmq({ connection })
    const listener = await Listener.open(
      rabbit.queue(place.queue('billing'), { bind: { exchange: place.exchange } }),
      MANY,
    )
    const destination = rabbit.exchange(place.exchange)
    await publishAll(destination, ['a'])
    await listener.takeOne('a')
    await Promise.all([listener.close(), destination.close()])
    const channel = await connection.createChannel()
    await channel.deleteQueue(place.queue('billing'))
    await connection.close()
    // Nobody can give another one.
    const later = rabbit.exchange(place.exchange)
    expect(await publish(later, [message('b')])).toMatchObject([{ status: 'unavailable' }])
    await later.close()
  })

  it('a function is asked for a connection again after a loss, and what it gave is closed in the end', async () => {
    await using place = await RabbitmqPlace.open()
    const given: ChannelModel[] = []
    let open = 0
    const rabbit = rabbitmq({
      connection: async () => {
        const connection = await connect(place.proxy.url)
        given.push(connection)
        open += 1
        connection.on('close', () => {
          open -= 1
        })
        return connection
      },
    })
    await place.declare('billing', QUORUM)
    const listener = await Listener.open(rabbit.queue(place.queue('billing')), MANY, (received) => received.ack())
    const destination = rabbit.exchange(place.exchange)
    await publishAll(destination, ['a'])
    await listener.takeAllOf(['a'])
    expect(given).toHaveLength(2)
    await place.cut()
    await until(() => open === 0, 'the links are lost')
    const there = async (): Promise<boolean> => (await publish(destination, [message('b')]))[0]?.status === 'confirmed'
    await until(there, 'the exchange is reached again')
    await listener.takeAllOf(['b'])
    expect(given).toHaveLength(4)
    await Promise.all([listener.close(), destination.close()])
    await until(() => open === 0, 'what it gave is closed')
  })
})

describe('a connection that was given, and is slow', () => {
  it.for(['queue', 'exchange'] as const)(
    'does not keep the channel of a %s that nobody waits for any more',
    async (of) => {
      await using place = await RabbitmqPlace.open()
      await place.declare('billing', QUORUM)
      const connection = await connect(requireServer('rabbitmq'))
      const go = Promise.withResolvers<void>()
      const late = Promise.withResolvers<Channel>()
      const slow = async (open: () => Promise<Channel>): Promise<Channel> => {
        await go.promise
        const channel = await open()
        late.resolve(channel)
        return channel
      }
      const given = Object.assign(Object.create(connection), {
        createChannel: () => slow(() => connection.createChannel()),
        createConfirmChannel: () => slow(() => connection.createConfirmChannel()),
      }) as ChannelModel
      const rabbit = rabbitmq({ connection: given, timeoutMs: 200 })
      if (of === 'queue') {
        const opening = Listener.open(rabbit.queue(place.queue('billing')), MANY)
        await expect(opening).rejects.toMatchObject({ code: 'broker-timeout' })
      } else {
        const destination = rabbit.exchange(place.exchange)
        expect(await publish(destination, [message('a')])).toMatchObject([{ status: 'unavailable' }])
        await destination.close()
      }
      const closed = late.promise.then((channel) => new Promise((resolve) => channel.once('close', resolve)))
      go.resolve()
      await closed
      const readers = async (): Promise<number> =>
        (await place.channel.checkQueue(place.queue('billing'))).consumerCount
      await until(async () => (await readers()) === 0, 'nobody reads the queue')
      await connection.close()
    },
  )
})

describe('errors of connections', () => {
  const socketOf = ({ connection }: ChannelModel) => (connection as unknown as { stream: Socket }).stream

  it('E8: one that comes too late, and breaks while it is being closed, ends no process', async () => {
    const uncaught = uncaughtErrors()
    const connection = await connect(requireServer('rabbitmq'))
    const go = Promise.withResolvers<void>()
    const open = () => go.promise.then(() => connection)
    const destination = rabbitmq({ connection: open, timeoutMs: 50 }).exchange('nowhere')
    expect(await publish(destination, [message('a')])).toMatchObject([{ status: 'unavailable' }])
    const closed = new Promise((resolve) => connection.once('close', resolve))
    go.resolve()
    socketOf(connection).destroy(new Error('read ECONNRESET'))
    await closed
    expect(uncaught).toEqual([])
    await destination.close()
  })

  it('E8: one that was given, and breaks while hapax does not use it, ends no process', async () => {
    const uncaught = uncaughtErrors()
    const connection = await connect(requireServer('rabbitmq'))
    rabbitmq({ connection })
    const closed = new Promise((resolve) => connection.once('close', resolve))
    socketOf(connection).destroy(new Error('read ECONNRESET'))
    await closed
    expect(uncaught).toEqual([])
  })
})
