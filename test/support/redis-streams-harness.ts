import { setTimeout as delay } from 'node:timers/promises'
import { redisStreams } from 'hapax/redis-streams'
import type { BrokerHarness, PlaceTimes, RawMessage, TestBroker } from 'hapax/testing'
import { groupInfo, type RedisPlace, redisPlace } from './redis-place.ts'

const MAX_BYTES = 1024 * 1024

export const redisStreamsHarness: BrokerHarness = {
  name: 'redis-streams',
  cannot: {
    unroutable: 'a stream keeps messages without a reader',
  },
  open: async (times) => testBroker(await redisPlace(), times),
}

function testBroker(place: RedisPlace, { silenceMs, returnMs }: PlaceTimes): TestBroker {
  const { stream, plain, proxy } = place
  const redis = redisStreams({ url: proxy.url, timeoutMs: silenceMs })
  return {
    largestBytes: MAX_BYTES,
    destination: ({ format = 'binary' } = {}) => redis.stream(stream, { format, maxBytes: MAX_BYTES }),
    subscription: async (group, { single = false } = {}) => {
      await plain.xgroup('CREATE', stream, group, '$', 'MKSTREAM').catch((error: Error) => {
        if (!error.message.startsWith('BUSYGROUP')) throw error
      })
      return redis.group(group, { stream, single, claimAfterMs: returnMs })
    },
    untouched: async () => {
      const [sender, reader] = [redisStreams({ url: proxy.url }), redisStreams({ url: proxy.url })]
      const name = `${stream}-untouched`
      return { destination: sender.stream(name), subscription: reader.group('billing', { stream: name }) }
    },
    send: async (message) => void (await plain.xadd(stream, '*', ...wordsOf(message))),
    receive: (group, count) => receive(place, group, count),
    waiting: async (group) => {
      const { pending, lag } = await groupInfo(plain, stream, group)
      return pending + (lag ?? Number.NaN)
    },
    cut: async () => proxy.cut(),
    away: () => proxy.refuse(),
    back: () => proxy.accept(),
    freeze: async () => proxy.freeze(),
    thaw: async () => proxy.thaw(),
    close: async () => place[Symbol.asyncDispose](),
  }
}

function wordsOf({ attributes = {}, headers = {}, contentType, body }: RawMessage): (string | Buffer)[] {
  const fields = Object.entries(attributes).flatMap(([name, value]) => [`ce_${name}`, value])
  const type = contentType === undefined ? [] : ['content-type', contentType]
  return [...fields, ...type, ...Object.entries(headers).flat(), 'data', Buffer.from(body)]
}

async function receive({ plain, stream }: RedisPlace, group: string, count: number): Promise<RawMessage[]> {
  const received: RawMessage[] = []
  while (received.length < count) {
    const from = ['GROUP', group, 'plain', 'COUNT', `${count}`, 'STREAMS', stream, '>']
    const reply = (await plain.callBuffer('XREADGROUP', ...from)) as [[Buffer, [Buffer, Buffer[]][]]] | null
    for (const [id, fields] of reply?.[0][1] ?? []) {
      received.push(rawOf(fields))
      await plain.xack(stream, group, id)
    }
    if (reply === null) await delay(10)
  }
  return received
}

function rawOf(fields: readonly Buffer[]): RawMessage {
  const attributes: Record<string, string> = {}
  const headers: Record<string, string> = {}
  let contentType = ''
  let body: Uint8Array = Buffer.alloc(0)
  for (let at = 0; at < fields.length; at += 2) {
    const name = String(fields[at])
    const value = fields[at + 1] as Buffer
    if (name.startsWith('ce_')) attributes[name.slice(3)] = value.toString()
    else if (name.startsWith('header_')) headers[name.slice(7)] = value.toString()
    else if (name === 'content-type') contentType = value.toString()
    else if (name === 'data') body = value
  }
  return { attributes, headers, contentType, body }
}
