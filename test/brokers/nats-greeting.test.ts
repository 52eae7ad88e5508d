import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { nats } from 'hapax/nats'
import { expect, it, onTestFinished } from 'vitest'
import { greeting } from '../../src/brokers/nats/greeting.ts'
import { message, publish } from '../../src/testing/broker/world.ts'
import { until } from '../../src/testing/wait.ts'

const INFO = 'INFO {"server_id":"x","version":"2.9.0","max_payload":1048576,"headers":true,"proto":1'

/** Servers that are not NATS, or hardly: what they do with a link. */
const SERVERS = {
  silent: () => {},
  greets: (socket: Socket) => void socket.write(`${INFO}}\r\n`),
  'wants TLS': (socket: Socket) => {
    socket.write(`${INFO},"tls_required":true}\r\n`)
    // It does not get further than that.
    socket.once('data', () => socket.end())
  },
  'says something else': (socket: Socket) => void socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'),
  closes: (socket: Socket) => void socket.end(),
  resets: (socket: Socket) => void socket.resetAndDestroy(),
} satisfies Record<string, (socket: Socket) => void>

/** A server that does this with each link; it knows how many are open. */
async function serve(
  greet: (socket: Socket) => void,
  host = '127.0.0.1',
): Promise<{ url: string; links: Set<Socket> }> {
  const links = new Set<Socket>()
  const server = createServer((socket) => {
    links.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => links.delete(socket))
    socket.resume()
    greet(socket)
  })
  onTestFinished(() => {
    for (const link of links) link.destroy()
    server.close()
  })
  await once(server.listen(0, host), 'listening')
  const { port } = server.address() as AddressInfo
  return { url: `nats://${host.includes(':') ? `[${host}]` : host}:${port}`, links }
}

it.for([
  ['silent', false],
  ['greets', true],
  ['wants TLS', true],
  ['says something else', true],
  ['closes', true],
  ['resets', true],
] as const)('a server that is asked first (%s) is used: %s', async ([what, used]) => {
  const { url, links } = await serve(SERVERS[what])
  expect(await greeting([url], used ? 60_000 : 50)).toEqual(used ? [url] : [])
  await until(() => links.size === 0, 'no link is left open')
})

it('leaves out only those that are silent, and keeps the order', async () => {
  const [first, silent, last] = await Promise.all([serve(SERVERS.greets), serve(SERVERS.silent), serve(SERVERS.greets)])
  const nobody = 'nats://127.0.0.1:1'
  expect(await greeting([last.url, silent.url, nobody, first.url], 10_000)).toEqual([last.url, nobody, first.url])
})

it('waits no longer than a moment for others when one has greeted', { timeout: 40_000 }, async () => {
  const [silent, there] = await Promise.all([serve(SERVERS.silent), serve(SERVERS.greets)])
  expect(await greeting([silent.url, there.url], 60_000)).toEqual([there.url])
})

it('asks an address of IPv6', async () => {
  const { url } = await serve(SERVERS.greets, '::1')
  expect(await greeting([url], 60_000)).toEqual([url])
  const { url: silent } = await serve(SERVERS.silent, '::1')
  expect(await greeting([silent], 50)).toEqual([])
})

it.for([
  ['silent', 'NATS did not answer within 300 ms'],
  ['says something else', 'is it NATS?'],
  ['closes', 'is it NATS?'],
  ['wants TLS', 'TLS connection'],
] as const)('a destination on a server that is not NATS (%s) says so, and leaves no link', async ([what, sentence]) => {
  const { url, links } = await serve(SERVERS[what])
  const destination = nats({ url, timeoutMs: what === 'silent' ? 300 : 60_000 }).stream('SHOP')
  const [told] = await publish(destination, [message('a')])
  expect(told).toMatchObject({ status: 'unavailable', error: { code: 'broker-unavailable' } })
  expect(told?.status === 'unavailable' && told.error.message).toContain(sentence)
  await destination.close()
  await until(() => links.size === 0, 'no link is left open')
})
