import { once } from 'node:events'
import { createServer, connect as dial, type Server, type Socket } from 'node:net'
import { type ClaimedPort, claimPort } from '../claimed-port.ts'

/** Sees what passes through one connection. */
export interface LinkTap {
  sent(chunk: Buffer): void
  received(chunk: Buffer): void
  ended(): void
}

/** A proxy whose connections can be cut, refused or frozen. It passes bytes on and does not know the protocol. */
export class LinkProxy implements AsyncDisposable {
  #target: URL
  readonly #links = new Set<Link>()
  readonly #tap: () => LinkTap
  #server: Server | undefined
  /** Kept while the server is away, so that it comes back where it was. */
  #claimed: ClaimedPort | undefined
  #frozen = false
  #gatherMs = 0

  readonly #passing: boolean

  private constructor(url: string, tap: () => LinkTap, passing = true) {
    this.#target = new URL(url)
    this.#tap = tap
    this.#passing = passing
  }

  /** A proxy in front of the server of this URL; `tap` is called for each link. */
  static async open(url: string, tap: () => LinkTap = () => deaf): Promise<LinkProxy> {
    const proxy = new LinkProxy(url, tap)
    await proxy.accept()
    return proxy
  }

  /** None at all: for servers whose certificate is not for this proxy. Nothing can be done to its connections. */
  static none(url: string): LinkProxy {
    return new LinkProxy(url, () => deaf, false)
  }

  /** The URL of the server through this proxy. */
  get url(): string {
    if (!this.#passing) return this.#target.href
    // Not through URL.host: setting it has no effect for non-web schemes.
    return this.#target.href.replace(AUTHORITY, (_, before: string) => `${before}127.0.0.1:${this.#claimed?.port}`)
  }

  /** How many links are open. */
  get size(): number {
    return this.#links.size
  }

  /** Makes the server reachable (again). */
  async accept(): Promise<void> {
    if (this.#server !== undefined) return
    this.#claimed ??= await claimPort()
    this.#server = createServer(HALF_OPEN, (client) => this.#link(client)).listen(this.#claimed.port, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  /** Makes the server unreachable: cuts connections and refuses new ones. */
  async refuse(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    const closed = server && once(server, 'close')
    server?.close()
    this.cut()
    await closed
  }

  /** New links go to another server. */
  moveTo(url: string): void {
    this.#target = new URL(url)
  }

  /** Cuts every link; new ones are possible at once. */
  cut(): void {
    for (const link of this.#links) link.destroy()
  }

  /** Stops all traffic in both directions without closing anything: connections are half-open, new ones too. */
  freeze(): void {
    this.#frozen = true
    for (const link of this.#links) link.freeze()
  }

  /** New connections work again. Frozen ones stay dead until one side gives them up. */
  thaw(): void {
    this.#frozen = false
  }

  /** What the server sends within this time reaches the client as one piece, on links made from now on. */
  gather(ms: number): void {
    this.#gatherMs = ms
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.refuse()
    this.#claimed?.[Symbol.dispose]()
    this.#claimed = undefined
  }

  #link(client: Socket): void {
    const server = dial({ ...HALF_OPEN, ...addressOf(this.#target) })
    const link = new Link(client, server, this.#tap(), this.#gatherMs, () => this.#links.delete(link))
    this.#links.add(link)
    if (this.#frozen) link.freeze()
  }
}

/** What stands before the host, and the host. */
const AUTHORITY = /^([^/]+:\/\/(?:[^@/]*@)?)[^/?#]*/

const PORTS: Readonly<Record<string, number>> = { 'amqp:': 5672, 'nats:': 4222, 'redis:': 6379, 'kafka:': 9092 }

function addressOf({ protocol, hostname, port }: URL): { host: string; port: number } {
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || (PORTS[protocol] ?? 0) }
}

/** Without this, a frozen connection would answer when one side closes it. */
const HALF_OPEN = { allowHalfOpen: true }

const deaf: LinkTap = { sent: () => {}, received: () => {}, ended: () => {} }

/** One connection of a client, and the one to the server that belongs to it. */
class Link {
  readonly #sockets: readonly [client: Socket, server: Socket]
  readonly #ended: () => void
  #frozen = false

  constructor(client: Socket, server: Socket, tap: LinkTap, gatherMs: number, ended: () => void) {
    this.#sockets = [client, server]
    this.#ended = () => {
      tap.ended()
      ended()
    }
    this.#pass(client, server, (chunk) => tap.sent(chunk))
    this.#pass(server, client, (chunk) => tap.received(chunk), gatherMs)
  }

  /** Discards what arrives, as a dead network does. */
  freeze(): void {
    this.#frozen = true
  }

  destroy(): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#ended()
  }

  #pass(from: Socket, to: Socket, see: (chunk: Buffer) => void, gatherMs = 0): void {
    const write = (chunk: Buffer): void => {
      if (!to.write(chunk)) from.pause()
    }
    const pass = gatherMs === 0 ? write : gathered(gatherMs, write)
    from.setNoDelay()
    from.on('data', (chunk) => {
      if (this.#frozen) return
      see(chunk)
      pass(chunk)
    })
    to.on('drain', () => from.resume())
    from.on('error', () => {})
    // The other side of a frozen link does not learn of either.
    from.on('end', () => {
      if (!this.#frozen) to.end()
    })
    from.on('close', () => {
      if (!this.#frozen) this.destroy()
    })
  }
}

function gathered(ms: number, write: (chunk: Buffer) => void): (chunk: Buffer) => void {
  let chunks: Buffer[] = []
  return (chunk) => {
    if (chunks.push(chunk) > 1) return
    setTimeout(() => {
      write(Buffer.concat(chunks))
      chunks = []
    }, ms)
  }
}
