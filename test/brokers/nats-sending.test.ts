import { randomBytes } from 'node:crypto'
import { connect } from '@nats-io/transport-node'
import { type Destination, isHapaxError } from 'hapax'
import type { Confirmation } from 'hapax/contracts'
import { type NatsStreamOptions, nats } from 'hapax/nats'
import { describe, expect, it } from 'vitest'
import { message, publish, publishAgain } from '../../src/testing/broker/world.ts'
import { until } from '../../src/testing/wait.ts'
import { type NatsPlace, natsPlace, PATIENT } from '../support/nats-place.ts'

function stream({ proxy, stream }: NatsPlace, options: NatsStreamOptions = {}): Destination & AsyncDisposable {
  return disposable(nats({ url: proxy.url, ...PATIENT }).stream(stream, options))
}

function disposable<T extends { close(): Promise<void> }>(it: T): T & AsyncDisposable {
  return Object.assign(it, { [Symbol.asyncDispose]: () => it.close() })
}

const statuses = (sent: readonly Confirmation[]): string[] => sent.map(({ status }) => status)

function errorOf(confirmation: Confirmation | undefined): Error {
  if (confirmation === undefined || confirmation.status === 'confirmed') throw new Error('expected an error')
  return confirmation.error
}

function codeOf(confirmation: Confirmation | undefined): string {
  const error = errorOf(confirmation)
  return isHapaxError(error) ? error.code : error.message
}

/** What the plain client finds in the stream. */
async function stored({ manager, stream }: NatsPlace) {
  const { state } = await manager.streams.info(stream)
  const found = []
  for (let seq = state.first_seq; seq <= state.last_seq; seq++) {
    const each = await manager.streams.getMessage(stream, { seq })
    if (each !== null) found.push(each)
  }
  return found
}

const idsIn = async (place: NatsPlace) => (await stored(place)).map(({ header }) => header.get('ce-id'))

describe.concurrent('a stream of NATS', () => {
  it('that does not confirm in time is sent to through another link', async () => {
    await using place = await natsPlace()
    await place.manager.streams.add({ name: place.stream, subjects: [`${place.prefix}.>`], no_ack: true })
    const options = { url: place.proxy.url, ...PATIENT, timeoutMs: 10_000 }
    await using destination = disposable(nats(options).stream(place.stream, { declare: 'none' }))
    const [late] = await publish(destination, [message('a')])
    expect([late?.status, codeOf(late)]).toEqual(['unavailable', 'broker-timeout'])
    await place.manager.streams.update(place.stream, { no_ack: false })
    expect(statuses(await publish(destination, [message('a')]))).toEqual(['confirmed'])
  })

  it.for(['check', 'none'] as const)(
    'that a server does not know is looked for through another link (%s)',
    async (declare) => {
      await using place = await natsPlace()
      await place.manager.streams.add({ name: place.stream, subjects: [`${place.prefix}.>`] })
      const options = { url: place.proxy.url, ...PATIENT }
      await using destination = disposable(nats(options).stream(place.stream, { declare }))
      expect(statuses(await publish(destination, [message('a')]))).toEqual(['confirmed'])
      await place.manager.streams.delete(place.stream)
      const [lost] = await publish(destination, [message('b')])
      expect([lost?.status, codeOf(lost)]).toEqual(['failed', 'unroutable'])
      // One name may lead to many servers.
      await until(() => place.proxy.size === 0, 'the link to be given up')
      await place.manager.streams.add({ name: place.stream, subjects: [`${place.prefix}.>`] })
      expect(statuses(await publish(destination, [message('b')]))).toEqual(['confirmed'])
    },
  )

  it('is made by the first message, with what was asked for', async () => {
    await using place = await natsPlace()
    await using destination = stream(place, { maxAgeMs: 60_000, maxBytes: 1e6, storage: 'memory' })
    expect(statuses(await publish(destination, [message('a')]))).toEqual(['confirmed'])
    const { config } = await place.manager.streams.info(place.stream)
    expect(config).toMatchObject({
      subjects: [`${place.prefix}.>`],
      storage: 'memory',
      max_age: 60_000e6,
      duplicate_window: 60_000e6,
      max_bytes: 1e6,
      discard: 'new',
      retention: 'limits',
    })
  })

  it('D10: a subject that no stream takes has failed, also if another stream takes it, and is not stored there', async () => {
    await using place = await natsPlace()
    await using other = await natsPlace()
    await using elsewhere = stream(other)
    await publish(elsewhere, [message('first')])
    await using destination = stream(place, {
      subject: ({ type }) => (type === 'nowhere' ? 'nowhere' : `${other.prefix}.${type}`),
    })
    const sent = await publish(destination, [message('a', { type: 'nowhere' }), message('b', { type: 'elsewhere' })])
    expect(statuses(sent)).toEqual(['failed', 'failed'])
    expect(codeOf(sent[0])).toBe('unroutable')
    expect(errorOf(sent[1]).message).toMatch(/expected stream does not match/)
    expect(await idsIn(other)).toEqual(['first'])
  })

  it('a type becomes a subject that no wildcard and no space can leave', async () => {
    await using place = await natsPlace()
    await using destination = stream(place)
    const types = ['order.placed', '*', 'a.>', 'a b', 'a..b', '.a.', '%', 'ü']
    const sent = await publish(
      destination,
      types.map((type) => message(`m ${type}`, { type })),
    )
    expect(statuses(sent)).toEqual(types.map(() => 'confirmed'))
    expect((await stored(place)).map(({ subject }) => subject.slice(place.prefix.length + 1))).toEqual([
      'order.placed',
      '%2A',
      'a.%3E',
      'a%20b',
      'a%2E.b',
      '%2Ea%2E',
      '%25',
      '%C3%BC',
    ])
  })

  it('a type that would make a line too long for the server is refused for good, and the link stays', async () => {
    await using place = await natsPlace()
    await using destination = stream(place)
    const sent = await publish(destination, [message('a'), message('long', { type: 'ü'.repeat(1_000) }), message('b')])
    expect(statuses(sent)).toEqual(['confirmed', 'refused', 'confirmed'])
  })

  it('a subject of your own that cannot be one is refused for good; its neighbours are confirmed', async () => {
    await using place = await natsPlace()
    const made: Record<string, unknown> = { a: 'a b', b: 'x.*', c: 'x..y', d: '', e: 7, f: 'x\r\nPUB y' }
    await using destination = stream(place, {
      subject: ({ id }) => {
        if (id === 'thrown') throw new Error('no subject')
        return (id in made ? made[id] : `${place.prefix}.fine`) as string
      },
    })
    const ids = [...Object.keys(made), 'thrown']
    const sent = await publish(
      destination,
      ids.flatMap((id) => [message(id), message(`fine ${id}`)]),
    )
    expect(statuses(sent)).toEqual(ids.flatMap(() => ['refused', 'confirmed']))
    expect(codeOf(sent[0])).toBe('invalid-message')
  })

  it('a message that is sent twice is confirmed twice and stored once; ids of two sources never meet', async () => {
    await using place = await natsPlace()
    await using destination = stream(place)
    const sent = [
      message('c', { source: 'ab' }),
      message('bc', { source: 'a' }),
      message('c', { source: 'ab' }),
      message('c', { source: 'a' }),
    ]
    expect(statuses(await publish(destination, sent))).toEqual(sent.map(() => 'confirmed'))
    const found = (await stored(place)).map(({ header }) => [header.get('ce-source'), header.get('ce-id')])
    expect(found).toEqual([
      ['ab', 'c'],
      ['a', 'bc'],
      ['a', 'c'],
    ])
  })

  it('D13: the server takes all of a batch but one; that one has failed, with the words of the server', async () => {
    await using place = await natsPlace()
    await place.manager.streams.add({
      name: place.stream,
      subjects: [`${place.prefix}.>`],
      max_msgs_per_subject: 1,
      discard: 'new',
      discard_new_per_subject: true,
    })
    await using destination = stream(place)
    const types = ['a', 'b', 'a', 'c']
    const sent = await publish(
      destination,
      types.map((type, index) => message(`m${index}`, { type })),
    )
    expect(statuses(sent)).toEqual(['confirmed', 'confirmed', 'failed', 'confirmed'])
    expect(errorOf(sent[2]).message).toMatch(/maximum messages per subject exceeded/)
    expect(await idsIn(place)).toEqual(['m0', 'm1', 'm3'])
  })

  it('D14: a message that is too large for the stream is refused for good; its neighbours are confirmed', async () => {
    await using place = await natsPlace()
    await place.manager.streams.add({ name: place.stream, subjects: [`${place.prefix}.>`], max_msg_size: 2_000 })
    await using destination = stream(place)
    const large = message('large', { data: Buffer.alloc(2_000) })
    const headers = message('headers', { headers: { a: 'x'.repeat(70_000) } })
    const sent = await publish(destination, [message('a'), large, headers, message('b')])
    expect(statuses(sent)).toEqual(['confirmed', 'refused', 'refused', 'confirmed'])
  })

  it('D30: a stream that is full takes nothing and loses nothing', async () => {
    await using place = await natsPlace()
    await using destination = stream(place, { maxBytes: 10_000 })
    const data = (): Buffer => randomBytes(3_000)
    const sent = await publish(
      destination,
      ['a', 'b', 'c', 'd', 'e'].map((id) => message(id, { data: data() })),
    )
    const taken = statuses(sent).filter((status) => status === 'confirmed').length
    expect(taken).toBeGreaterThan(0)
    expect(statuses(sent).slice(taken)).toEqual(Array.from({ length: 5 - taken }, () => 'failed'))
    expect(errorOf(sent[4]).message).toMatch(/maximum bytes exceeded/)
    expect(await idsIn(place)).toEqual(['a', 'b', 'c', 'd', 'e'].slice(0, taken))
  })

  it('a stream that is deleted is made again; what was sent meanwhile has failed', async () => {
    await using place = await natsPlace()
    await using destination = stream(place)
    await publish(destination, [message('before')])
    await place.manager.streams.delete(place.stream)
    const [sent] = await publish(destination, [message('meanwhile')])
    expect(codeOf(sent)).toBe('unroutable')
    await publishAgain(destination, ['after'])
    expect(await idsIn(place)).toEqual(['after'])
  })

  it.each(['check', 'none'] as const)('with declare %s a stream is not made', async (declare) => {
    await using place = await natsPlace()
    await using destination = stream(place, { declare })
    const [sent] = await publish(destination, [message('a')])
    expect(codeOf(sent)).toBe(declare === 'check' ? 'topology-mismatch' : 'unroutable')
    await expect(place.manager.streams.info(place.stream)).rejects.toThrow('stream not found')
    await place.manager.streams.add({ name: place.stream, subjects: [`${place.prefix}.>`] })
    await publishAgain(destination, ['b'])
  })

  it.each<[string, NatsStreamOptions]>([
    ['storage', { storage: 'memory' }],
    ['max_age', { maxAgeMs: 5_000 }],
    ['max_bytes', { maxBytes: 5_000 }],
    ['num_replicas', { replicas: 3 }],
    ['duplicate_window', { duplicateWindowMs: 5_000 }],
    ['to take', { subjects: ['others.>'] }],
  ])('a stream with another %s is not used and not changed', async (what, options) => {
    await using place = await natsPlace()
    const { config } = await place.manager.streams.add({ name: place.stream, subjects: [`${place.prefix}.>`] })
    await using destination = stream(place, options)
    const [sent] = await publish(destination, [message('a')])
    expect(sent?.status).toBe('unavailable')
    expect(codeOf(sent)).toBe('topology-mismatch')
    expect(errorOf(sent).message).toMatch(new RegExp(`^expected stream ${place.stream} .*${what}`))
    expect((await place.manager.streams.info(place.stream)).config).toEqual(config)
  })

  it('D9: what the server has not answered settles when the link is lost, without waiting for the signal', async () => {
    await using place = await natsPlace()
    await using destination = stream(place)
    await publishAgain(destination, ['before'])
    place.proxy.freeze()
    const sent = publish(destination, [message('a'), message('b')])
    place.proxy.cut()
    place.proxy.thaw()
    expect(statuses(await sent)).toEqual(['unavailable', 'unavailable'])
    await publishAgain(destination, ['a', 'b'])
    expect(await idsIn(place)).toEqual(['before', 'a', 'b'])
  })

  it('sends on your own connection, also after that was cut, and leaves it open', async () => {
    await using place = await natsPlace()
    const connection = await connect({ servers: place.proxy.url, reconnectTimeWait: 10, maxReconnectAttempts: -1 })
    const destination = nats({ connection, ...PATIENT }).stream(place.stream)
    await publishAgain(destination, ['a'])
    place.proxy.cut()
    await publishAgain(destination, ['b'])
    await destination.close()
    expect(connection.isClosed()).toBe(false)
    await connection.flush()
    await connection.close()
    expect(await idsIn(place)).toEqual(['a', 'b'])
  })

  it('says so when your own connection is closed', async () => {
    await using place = await natsPlace()
    const connection = await connect({ servers: place.proxy.url })
    await using destination = disposable(nats({ connection, ...PATIENT }).stream(place.stream))
    await publishAgain(destination, ['a'])
    await connection.close()
    const [sent] = await publish(destination, [message('b')])
    expect(sent?.status).toBe('unavailable')
    expect(errorOf(sent).message).toMatch(/closed/)
  })
})
