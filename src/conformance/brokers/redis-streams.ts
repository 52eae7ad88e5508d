import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { heard, loadClient } from '../../base/index.ts'
import { redisStreams } from '../../brokers/redis-streams/index.ts'
import type { BrokerHarness, PlaceTimes, RawMessage, TestBroker } from '../../testing/index.ts'
import { onlyOnce } from '../only-once.ts'
import { ENCRYPTED, encrypted } from './encrypted.ts'
import { LinkProxy, type LinkTap } from './link-proxy.ts'

/** A stream for one test, a plain client, and the server through a proxy. */
export interface RedisPlace extends AsyncDisposable {
  readonly stream: string
  readonly plain: Redis
  readonly proxy: LinkProxy
}

/** A fresh stream, whose name begins with `prefix`; `tap` sees what goes through the proxy. */
export async function redisPlace(url: string, prefix = 'orders', tap?: () => LinkTap): Promise<RedisPlace> {
  const client = await loadClient('conformance of Redis', ['ioredis'], () => import('ioredis'))
  const stream = `${prefix}-${randomUUID()}`
  const plain = heard(new client.Redis(url, { protocol: 2 }))
  const proxy = encrypted(url) ? LinkProxy.none(url) : await LinkProxy.open(url, tap)
  return {
    stream,
    plain,
    proxy,
    [Symbol.asyncDispose]: onlyOnce(async () => {
      await proxy[Symbol.asyncDispose]()
      await plain.del(stream, `${stream}-untouched`).catch(() => {})
      plain.disconnect()
    }),
  }
}

/** What Redis reports about a group. */
export interface GroupInfo {
  readonly name: string
  readonly consumers: number
  readonly pending: number
  readonly 'last-delivered-id': string
  readonly lag: number | null
}

export async function groupInfo(plain: Redis, stream: string, group: string): Promise<GroupInfo> {
  const groups = (await plain.xinfo('GROUPS', stream)) as unknown[][]
  const found = groups.map((each) => fieldTable(each) as unknown as GroupInfo).find(({ name }) => name === group)
  if (found === undefined) throw new Error(`expected a group ${group}`)
  return found
}

/** A reply that lists names and values in turn. */
export function fieldTable(list: readonly unknown[]): Record<string, unknown> {
  return Object.fromEntries(Array.from({ length: list.length / 2 }, (_, at) => [list[2 * at], list[2 * at + 1]]))
}

const MAX_BYTES = 1024 * 1024

/** The conformance harness of Redis Streams on a server: a stream for each case. */
export function redisStreamsHarness(
  url: string,
  open: () => Promise<RedisPlace> = () => redisPlace(url),
): BrokerHarness {
  return {
    name: 'redis-streams',
    cannot: { unroutable: 'a stream keeps messages without a reader', ...(encrypted(url) && ENCRYPTED) },
    open: async (times) => testBroker(await open(), times),
  }
}

function testBroker(place: RedisPlace, { silenceMs, returnMs }: PlaceTimes): TestBroker {
  const { stream, plain, proxy } = place
  const redis = redisStreams({ url: proxy.url, timeoutMs: silenceMs })
  return {
    largestBytes: MAX_BYTES,
    destination: (options = {}) => redis.stream(stream, { ...options, maxBytes: MAX_BYTES }),
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
    else headers[name] = value.toString()
  }
  return { attributes, headers, contentType, body }
}
