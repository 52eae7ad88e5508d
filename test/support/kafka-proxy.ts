import { once } from 'node:events'
import { createServer, connect as dial, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { LinkProxy } from './link-proxy.ts'

/**
 * Connections to one Kafka broker that can be cut, refused or frozen. Brokers announce their own addresses, so their replies are
 * rewritten to lead clients through this proxy again.
 */
export class KafkaProxy implements AsyncDisposable {
  readonly links: LinkProxy
  /** Sees every request that passes. */
  onRequest: (frame: Buffer) => void = () => {}
  readonly #changing: Server

  private constructor(links: LinkProxy, changing: Server) {
    this.links = links
    this.#changing = changing
  }

  static async open(url: string): Promise<KafkaProxy> {
    const { hostname, port } = new URL(url)
    const changing = createServer((client) => pass(client, hostname, Number(port), proxy))
    await once(changing.listen(0, '127.0.0.1'), 'listening')
    const proxy = new KafkaProxy(await LinkProxy.open(`kafka://127.0.0.1:${portOf(changing)}`), changing)
    return proxy
  }

  get url(): string {
    return this.links.url
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.links[Symbol.asyncDispose]()
    this.#changing.close()
  }
}

function portOf(server: Server): number {
  return (server.address() as { port: number }).port
}

function pass(client: Socket, host: string, port: number, proxy: KafkaProxy): void {
  const broker = dial({ host, port })
  const said = address(host, port)
  const entrance = address(host, Number(new URL(proxy.url).port))
  let sent = Promise.resolve()
  onFrames(client, (frame) => {
    proxy.onRequest(frame)
    sent = sent.then(async () => {
      if (isPlan(frame)) await delay(PLAN_MS)
      broker.write(frame)
    })
  })
  onFrames(broker, (frame) => {
    replace(frame, said, entrance)
    client.write(frame)
  })
  for (const [socket, other] of [
    [client, broker],
    [broker, client],
  ] as const) {
    socket.setNoDelay()
    socket.on('error', () => {})
    socket.on('close', () => other.destroy())
  }
}

/** Requests and replies begin with their length. */
function onFrames(socket: Socket, take: (frame: Buffer) => void): void {
  let rest = Buffer.alloc(0)
  socket.on('data', (chunk) => {
    rest = Buffer.concat([rest, chunk])
    while (rest.length >= 4 && rest.length >= 4 + rest.readInt32BE(0)) {
      const frame = rest.subarray(0, 4 + rest.readInt32BE(0))
      rest = rest.subarray(frame.length)
      take(frame)
    }
  })
}

const SYNC_GROUP = 14
/** Longer than the other members of a group take to ask for it. */
const PLAN_MS = 300

/**
 * Whether this request assigns the partitions of a group. The mock refuses members that ask afterwards, which a real broker does
 * not do, so the assignment is delayed a little.
 */
function isPlan(frame: Buffer): boolean {
  if (frame.readInt16BE(4) !== SYNC_GROUP || frame.readInt16BE(6) !== 3) return false
  // In front of the plan: key, version, number, client; group, generation, member and instance.
  let at = 12
  const skipText = (): void => {
    at += 2 + Math.max(0, frame.readInt16BE(at))
  }
  skipText()
  skipText()
  at += 4
  skipText()
  skipText()
  return frame.readInt32BE(at) > 0
}

/** How the protocol writes where a broker is: its name, and four bytes of port. */
function address(host: string, port: number): Buffer {
  const bytes = Buffer.alloc(host.length + 4)
  bytes.write(host)
  bytes.writeInt32BE(port, host.length)
  return bytes
}

function replace(frame: Buffer, from: Buffer, to: Buffer): void {
  for (let at = frame.indexOf(from); at >= 0; at = frame.indexOf(from, at + 1)) to.copy(frame, at)
}
