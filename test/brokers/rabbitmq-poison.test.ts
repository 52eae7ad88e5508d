import { connect } from 'amqplib'
import fc from 'fast-check'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { describe, expect, it } from 'vitest'
import { UNREADABLE } from '../../src/brokers/rabbitmq/client.ts'
import { guardFrames } from '../../src/brokers/rabbitmq/reading/frames.ts'
import { arrivalOf } from '../../src/brokers/rabbitmq/wire.ts'
import { until } from '../../src/testing/wait.ts'
import { attributeFields, field, headerFrame, longText, nested, publishRaw } from '../support/amqp-raw.ts'
import { RabbitmqPlace } from '../support/rabbitmq-place.ts'
import { requireServer } from '../support/servers.ts'

// Messages whose headers amqplib cannot decode: it gives the link up, and the server delivers them again, for ever.

const ping = (id: string): Buffer => attributeFields({ id, source: '/shop', type: 'ping', specversion: '1.0' })
const eightBytes = Buffer.from([0, 0, 0, 0, 0, 0, 0, 7])

const list = longText(Buffer.concat([Buffer.from('t'), Buffer.from([1]), Buffer.from('F'), longText(nested(3))]))

const readable: readonly (readonly [what: string, id: string, table: Buffer])[] = [
  ['a number of the type L', 'unsigned', Buffer.concat([field('count', 'L', eightBytes), ping('unsigned')])],
  ['a table nested 8,000 deep', 'deep', Buffer.concat([ping('deep'), field('deep', 'F', longText(nested(8_000)))])],
  [
    'lists, behind what cannot be decoded',
    'list',
    Buffer.concat([field('l', 'L', eightBytes), field('a', 'A', list), ping('list')]),
  ],
]

async function shop(place: RabbitmqPlace) {
  const seen: { id: string; headers: Readonly<Record<string, string>> }[] = []
  const reports: string[] = []
  const log = (_: object, message: string): void => void reports.push(message)
  const logger = { ...silentLogger, warn: log, error: log }
  const hapax = createHapax({ store: memory(), source: '/billing', logger })
  const billing = hapax.consumer('billing').on(defineMessage<unknown>('ping'), (_, ctx) => {
    seen.push({ id: ctx.message.id, headers: ctx.message.headers ?? {} })
  })
  const worker = hapax.worker({ consume: [billing.from(await place.subscription('billing'))] })
  await worker.start()
  const connection = await connect(`${requireServer('rabbitmq')}?frameMax=131072`)
  connection.on('error', () => {})
  const send = (table: Uint8Array): Promise<void> =>
    publishRaw(connection, { exchange: place.exchange, routingKey: 'ping' }, table, Buffer.from('{}'))
  const close = async (): Promise<void> => {
    await worker.stop()
    await hapax.close()
    await connection.close()
  }
  return { hapax, seen, reports, send, close }
}

describe('K16: headers that the client library cannot decode', () => {
  it.for(readable)('are read: %s', async ([, id, table]) => {
    await using place = await RabbitmqPlace.open()
    const { seen, reports, send, close, hapax } = await shop(place)
    await send(ping('before'))
    await send(table)
    await send(ping('after'))
    await until(() => seen.length >= 3, 'all are handled')
    expect(seen.map((each) => each.id).sort()).toEqual(['after', 'before', id].sort())
    if (id === 'unsigned') expect(seen.find((each) => each.id === id)?.headers).toMatchObject({ count: '7' })
    await until(async () => (await place.waiting('billing')) === 0, 'all are acked')
    expect(reports).toEqual([])
    expect(await hapax.failed.count()).toBe(0)
    await close()
  })
})

describe('K16: a frame of headers', () => {
  /** What a channel hears of a frame whose table is this; `before` and `after` are properties around it. */
  function heard(table: Uint8Array): { readonly fields: Record<string | symbol, unknown> } {
    const rest = headerFrame(1, table)
    const connection = Object.assign(Object.create(FakeFrames.prototype), { rest }) as FakeFrames
    const channel = { ch: 1, on: () => {} }
    guardFrames({ connection } as never, channel as never)
    return connection.recvFrame() as ReturnType<typeof heard>
  }

  class FakeFrames {
    declare rest: Buffer

    /** As amqplib does it: what it cannot decode is taken all the same. */
    recvFrame(): unknown {
      this.rest = this.rest.subarray(this.rest.length)
      throw new TypeError('Unexpected type tag')
    }
  }

  it.for([
    ['of a type that nobody knows', field('odd', '~', eightBytes), /unknown type "~"/],
    ['whose text is longer than the table', field('odd', 'S', Buffer.from([0, 0, 255, 255])), /end too early/],
    ['whose number is cut off', field('odd', 'l', Buffer.from([1])), /end too early/],
    ['that are no table', Buffer.from('ffffffffffffffff', 'hex'), /end too early/],
  ] as const)('tells why headers cannot be read %s, and all the rest', ([, odd, why]) => {
    const { fields } = heard(Buffer.concat([ping('a'), odd]))
    expect(fields[UNREADABLE]).toMatch(why)
    expect(fields).toMatchObject({ contentType: 'application/json', headers: { cloudEvents_id: 'a' } })
    const arrival = arrivalOf({
      content: Buffer.from('{}'),
      fields: { deliveryTag: 1, redelivered: false, exchange: '', routingKey: 'ping' },
      properties: fields as never,
    })
    expect(arrival).toMatchObject({ refused: { code: 'undecodable' }, attributes: { id: 'a' } })
  })

  it('is read whatever bytes it has', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        const { fields } = heard(bytes)
        expect(typeof fields).toBe('object')
      }),
    )
  })
})
