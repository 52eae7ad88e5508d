import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { postgres } from 'hapax/postgres'
import { rabbitmq } from 'hapax/rabbitmq'
import { redisStreams } from 'hapax/redis-streams'
import { garbage } from './garbage.ts'

// node garbage-child.ts <kind> <url>: stands between hapax and a server and sends bytes that no server would send, one kind after
// the other, at several stages of a first connection. Ends with 0 when each time what comes next works again.

const [, , kind = '', server = ''] = process.argv
const Ping = defineMessage<{ n: number }>('ping')

/** Passes bytes on, and puts some of its own behind the n-th piece that the server sends through the first link. */
async function between(bytes: Buffer, after: number): Promise<{ url: string; close(): void }> {
  const target = new URL(server)
  const sockets = new Set<Socket>()
  let links = 0
  const proxy = createServer((client) => {
    links += 1
    const isFirst = links === 1
    const upstream = connect(Number(target.port), target.hostname)
    let pieces = 0
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
    }
    upstream.on('data', (piece) => {
      pieces += 1
      client.write(isFirst && pieces === after ? Buffer.concat([piece, bytes]) : piece)
    })
    client.on('data', (piece) => upstream.write(piece))
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => client.destroy())
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const { port } = proxy.address() as { port: number }
  const close = (): void => {
    proxy.close()
    for (const socket of sockets) socket.destroy()
  }
  return { url: server.replace(target.host, `127.0.0.1:${port}`), close }
}

/** A store that is asked until it answers. */
async function store(url: string): Promise<void> {
  const hapax = createHapax({ store: postgres({ url }), source: '/garbage', logger: silentLogger })
  for (let worked = 0; worked < 3; ) {
    const once = hapax.transaction((tx) => tx.query('select 1'))
    worked += await once.then(
      () => 1,
      () => 0,
    )
  }
  await hapax.close()
}

/** A message that makes its way from the outbox to the handler. */
async function broker(url: string): Promise<void> {
  const name = `garbage-${process.pid}-${performance.now()}`
  const hapax = createHapax({ store: memory(), source: '/garbage', logger: silentLogger })
  const { promise: handled, resolve } = Promise.withResolvers<void>()
  const consumer = hapax.consumer('garbage').on(Ping, () => resolve())
  const [relay, subscription] = kind === 'rabbitmq' ? ofRabbitmq(url, name) : ofRedis(url, name)
  const work = async (): Promise<void> => {
    const worker = hapax.worker({ relay, consume: [consumer.from(subscription)], pollMs: 20 })
    await worker.start().catch(() => work())
  }
  await work()
  await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }))
  await handled
  await hapax.close()
}

function ofRabbitmq(url: string, name: string) {
  const rabbit = rabbitmq({ url, timeoutMs: 1_000 })
  const bind = { exchange: 'amq.topic', declare: 'none' } as const
  const queue = rabbit.queue(name, { bind, type: 'classic', arguments: { 'x-expires': 60_000 } })
  return [rabbit.exchange('amq.topic', { declare: 'none' }), queue] as const
}

function ofRedis(url: string, name: string) {
  const redis = redisStreams({ url, timeoutMs: 1_000 })
  return [redis.stream(name), redis.group('garbage', { stream: name, claimAfterMs: 1_000 })] as const
}

for (const [what, bytes] of garbage(kind)) {
  for (const after of [1, 2, 3, 5]) {
    console.log(`${what}, after ${after}`)
    const proxy = await between(bytes, after)
    await (kind === 'postgres' ? store(proxy.url) : broker(proxy.url))
    proxy.close()
  }
}
console.log('alive')
process.exit(0)
