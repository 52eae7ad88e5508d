import { connect } from 'node:net'
import { headers, type MsgHdrs } from '@nats-io/transport-node'
import { CloudEvent, type Headers, HTTP, type Message } from 'cloudevents'
import { memory } from 'hapax/memory'
import { nats } from 'hapax/nats'
import { describe, expect, it } from 'vitest'
import { Listener } from '../../src/testing/broker/listener.ts'
import { Shop } from '../../src/testing/broker/shop.ts'
import { message, publish } from '../../src/testing/broker/world.ts'
import { type NatsPlace, natsPlace, PATIENT } from '../support/nats-place.ts'
import { requireServer } from '../support/servers.ts'

const event = new CloudEvent({
  id: 'evt-1',
  source: '/sdk',
  type: 'ping',
  subject: 'orders/7',
  time: '2026-01-02T03:04:05.678Z',
  datacontenttype: 'application/json',
  partitionkey: 'A1',
  data: { id: 'evt-1', amount: 7 },
})

async function place(): Promise<NatsPlace> {
  const made = await natsPlace()
  await made.manager.streams.add({ name: made.stream, subjects: [`${made.prefix}.>`] })
  return made
}

function headersOf(sent: Headers): MsgHdrs {
  const all = headers()
  for (const [name, value] of Object.entries(sent)) all.set(name, String(value))
  return all
}

/** What the SDK makes of a message of the plain client. */
function read(received: { readonly headers?: MsgHdrs | undefined; readonly data: Uint8Array }): CloudEvent<unknown> {
  const names = Object.fromEntries([...(received.headers ?? [])].map(([name, [value]]) => [name.toLowerCase(), value]))
  const raw: Message = { headers: names as Headers, body: Buffer.from(received.data).toString() }
  return HTTP.toEvent(raw) as CloudEvent<unknown>
}

/** Publishes with headers of any bytes, which no client lets through. */
async function publishRaw(subject: string, head: Buffer, body: string): Promise<void> {
  const { hostname, port } = new URL(requireServer('nats'))
  const socket = connect(Number(port), hostname)
  const lines = Buffer.concat([Buffer.from('NATS/1.0\r\n'), head, Buffer.from('\r\n\r\n')])
  const total = lines.length + Buffer.byteLength(body)
  socket.write('CONNECT {"verbose":false,"headers":true}\r\n')
  socket.write(`HPUB ${subject} ${lines.length} ${total}\r\n`)
  socket.write(Buffer.concat([lines, Buffer.from(`${body}\r\nPING\r\n`)]))
  let answer = ''
  for await (const chunk of socket) {
    answer += String(chunk)
    if (answer.includes('PONG') || answer.includes('-ERR')) break
  }
  expect(answer).not.toContain('-ERR')
}

describe.concurrent('NATS and others', () => {
  it('K20: messages whose ids are no text are all kept, although the client writes them alike', async () => {
    await using there = await place()
    const shop = new Shop({ rows: memory() })
    const js = nats({ url: there.proxy.url, ...PATIENT })
    await shop.work({ consume: [shop.consumer().from(js.consumer('billing', { stream: there.stream }))] })
    for (let byte = 0x80; byte < 0x88; byte++) {
      const head = Buffer.concat([Buffer.from('ce-source: /s\r\nce-type: ping\r\nce-id: '), Buffer.from([byte])])
      await publishRaw(`${there.prefix}.raw`, head, '{}')
    }
    const failed = await shop.failed(8)
    expect(failed.map(({ reason }) => reason)).toEqual(Array(8).fill('invalid-id'))
    await shop.close()
  })

  it.each(['binary', 'structured'] as const)('an event of the CloudEvents SDK is handled (%s)', async (mode) => {
    await using there = await place()
    const shop = new Shop({ rows: memory() })
    const seen: unknown[] = []
    const billing = shop.consumer({}, ({ message }) => void seen.push(message))
    const js = nats({ url: there.proxy.url, ...PATIENT })
    await shop.work({ consume: [billing.from(js.consumer('billing', { stream: there.stream }))] })
    const { headers: names, body } = HTTP[mode](event)
    await there.plain.publish(`${there.prefix}.sdk`, String(body), { headers: headersOf(names) })
    await shop.untilEffects(['evt-1'])
    const { id, source, subject, time, data, datacontenttype, partitionkey } = event
    expect(seen).toMatchObject([{ id, source, type: 'ping', subject, time, key: partitionkey, data, datacontenttype }])
    await shop.close()
  })

  it.each(['binary', 'structured'] as const)('the CloudEvents SDK reads what hapax sends (%s)', async (format) => {
    await using there = await place()
    const js = nats({ url: there.proxy.url, ...PATIENT })
    const destination = js.stream(there.stream, { format })
    const sent = message('m1', { subject: 'orders/7', time: '2026-01-02T03:04:05.678Z', correlationId: 'c1' })
    await publish(destination, [sent])
    await destination.close()
    const stored = await there.manager.streams.getMessage(there.stream, { seq: 1 })
    const { id, source, type, subject, time, datacontenttype } = sent
    const got = read({ headers: stored?.header, data: stored?.data ?? new Uint8Array() })
    const named = { partitionkey: sent.key, correlationid: 'c1' }
    expect(got).toMatchObject({ id, source, type, subject, time, datacontenttype, ...named, data: { id: 'm1' } })
  })

  it('a message of a client that knows nothing of CloudEvents is handled where .from() says what it is', async () => {
    await using there = await place()
    const shop = new Shop({ rows: memory() })
    const seen: unknown[] = []
    const billing = shop.consumer({}, ({ message: { id, source, key } }) => void seen.push({ id, source, key }))
    const js = nats({ url: there.proxy.url, ...PATIENT })
    const source = billing.from(js.consumer('billing', { stream: there.stream }), {
      id: { property: 'msgId' },
      type: 'ping',
      source: ({ properties }) => `/nats/${properties['subject']?.split('.')[1]}`,
      key: { path: 'customer' },
    })
    await shop.work({ consume: [source] })
    const body = JSON.stringify({ customer: 'c7' })
    await there.plain.publish(`${there.prefix}.legacy.orders`, body, { msgID: 'order-7' })
    await shop.untilEffects(['order-7'])
    expect(seen).toEqual([{ id: 'order-7', source: '/nats/legacy', key: 'c7' }])
    await shop.close()
  })

  it('values in quotes, as older senders wrote them, are read without', async () => {
    await using there = await place()
    const js = nats({ url: there.proxy.url, ...PATIENT })
    const subscription = js.consumer('billing', { stream: there.stream })
    const listener = await Listener.open(subscription, { messages: 1, bytes: 1e6 })
    const names = { 'ce-specversion': '1.0', 'ce-id': '"a \\"b\\" %41"', 'ce-source': '/x', 'CE-Type': 'ping' }
    await there.plain.publish(`${there.prefix}.x`, '{}', { headers: headersOf(names) })
    const [got] = await listener.take(1)
    expect(got?.message).toMatchObject({ id: 'a "b" A', source: '/x', type: 'ping' })
    await listener.close()
  })
})
