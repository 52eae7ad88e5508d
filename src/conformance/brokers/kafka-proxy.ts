import { once } from 'node:events'
import { createServer, connect as dial, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { KafkaBroker } from '../../brokers/kafka/index.ts'
import { LinkProxy } from './link-proxy.ts'

/**
 * Connections to the brokers of a Kafka cluster that can be cut, refused or frozen. Brokers announce their own addresses, so their
 * replies are rewritten to lead clients through this proxy again.
 */
export class KafkaProxy implements AsyncDisposable {
  /** Sees every request that passes. */
  onRequest: (frame: Buffer) => void = () => {}
  readonly #entrances: Entrance[] = []

  private constructor() {}

  /** In front of these brokers, whose addresses are the ones that they announce. */
  static async open(brokers: readonly KafkaBroker[]): Promise<KafkaProxy> {
    const proxy = new KafkaProxy()
    for (const broker of brokers) {
      const changing = createServer((client) =>
        pass(client, broker, proxy.#entrances, (frame) => proxy.onRequest(frame)),
      )
      await once(changing.listen(0, HERE), 'listening')
      const links = await LinkProxy.open(`kafka://${HERE}:${portOf(changing)}`)
      proxy.#entrances.push({ links, changing, announced: address(broker) })
    }
    return proxy
  }

  /** The URL of the cluster through this proxy. */
  get url(): string {
    return `kafka://${this.#entrances.map(({ links }) => new URL(links.url).host).join(',')}`
  }

  /** Makes the brokers reachable (again). */
  async accept(): Promise<void> {
    await Promise.all(this.#entrances.map(({ links }) => links.accept()))
  }

  /** Makes the brokers unreachable: cuts connections and refuses new ones. */
  async refuse(): Promise<void> {
    await Promise.all(this.#entrances.map(({ links }) => links.refuse()))
  }

  /** Cuts every link; new ones are possible at once. */
  cut(): void {
    for (const { links } of this.#entrances) links.cut()
  }

  /** Stops all traffic in both directions without closing anything. */
  freeze(): void {
    for (const { links } of this.#entrances) links.freeze()
  }

  /** New connections work again. */
  thaw(): void {
    for (const { links } of this.#entrances) links.thaw()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.refuse()
    for (const { changing } of this.#entrances) changing.close()
  }
}

/** The way to one broker: links that can be cut, and behind them what changes its replies. */
interface Entrance {
  readonly links: LinkProxy
  readonly changing: Server
  /** Where the broker says that it is. */
  readonly announced: Buffer
}

const HERE = '127.0.0.1'

function portOf(server: Server): number {
  return (server.address() as { port: number }).port
}

/** Metadata, FindCoordinator and DescribeCluster: their replies say where brokers are. */
const TELL_ADDRESSES: ReadonlySet<number> = new Set([3, 10, 60])

function pass(
  client: Socket,
  { host, port }: KafkaBroker,
  entrances: readonly Entrance[],
  see: (frame: Buffer) => void,
): void {
  const broker = dial({ host, port })
  /** The numbers of the requests whose replies have addresses. */
  const telling = new Set<number>()
  let sent = Promise.resolve()
  onFrames(client, (frame) => {
    see(frame)
    if (TELL_ADDRESSES.has(frame.readInt16BE(4))) telling.add(frame.readInt32BE(8))
    sent = sent.then(async () => {
      if (isPlan(frame)) await delay(PLAN_MS)
      broker.write(frame)
    })
  })
  onFrames(broker, (frame) => {
    client.write(telling.delete(frame.readInt32BE(4)) ? redirected(frame, entrances) : frame)
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
/** Longer than the other members of a group take to ask for it, on a busy machine. */
const PLAN_MS = 1_000

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

/** How the protocol writes where a broker is, behind the length of the name: the name, and four bytes of port. */
function address({ host, port }: KafkaBroker): Buffer {
  const bytes = Buffer.alloc(Buffer.byteLength(host) + 4)
  bytes.write(host)
  bytes.writeInt32BE(port, bytes.length - 4)
  return bytes
}

/** A reply in which the addresses of brokers are those of the entrances. */
function redirected(frame: Buffer, entrances: readonly Entrance[]): Buffer {
  let reply = frame
  for (const { announced, links } of entrances) {
    const port = Number(new URL(links.url).port)
    for (let at = reply.indexOf(announced); at >= 0; at = reply.indexOf(announced, at + 1)) {
      // The length of the name is there as it is, or plus one in the versions with compact texts.
      const more = (reply[at - 1] ?? 0) - (announced.length - 4)
      if (more !== 0 && more !== 1) continue
      const entrance = [Buffer.of(HERE.length + more), address({ host: HERE, port })]
      reply = Buffer.concat([reply.subarray(0, at - 1), ...entrance, reply.subarray(at + announced.length)])
    }
  }
  reply.writeInt32BE(reply.length - 4, 0)
  return reply
}
