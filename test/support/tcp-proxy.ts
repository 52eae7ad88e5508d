import { once } from 'node:events'
import { createServer, connect as dial, type Server, type Socket } from 'node:net'
import { type ClaimedPort, claimPort } from '../../src/conformance/claimed-port.ts'
import type { DurableStore } from './databases.ts'

/**
 * What happens to the connection at a chosen statement:
 * drop: it is cut, and the statement never arrives; swallow: the statement is executed, and the reply never arrives;
 * hold: nothing is cut and nothing passes any more; hold-answer: the same, but the statement still arrives.
 */
export type Fault = 'drop' | 'swallow' | 'hold' | 'hold-answer'

interface Armed {
  readonly matches: RegExp
  readonly after: RegExp | undefined
  readonly fault: Fault
  readonly happened: () => void
}

/** A statement that ends in COMMIT, alone, behind others, or in a block. */
const COMMIT: RegExp = /(^|;)\s*commit(;\s*end)?;?\s*$/i

/** A proxy in front of a database that can fail at a chosen statement. It reads the protocol, but changes nothing. */
export class TcpProxy implements AsyncDisposable {
  readonly #target: URL
  readonly #protocol: Protocol
  readonly #links = new Set<Link>()
  #server: Server | undefined
  /** Kept while the database is away, so that it comes back where it was. */
  #claimed: ClaimedPort | undefined
  #armed: Armed | undefined

  private constructor(store: DurableStore, url: string) {
    this.#target = new URL(url)
    this.#protocol = store === 'postgres' ? postgresProtocol : mysqlProtocol
  }

  static async open(store: DurableStore, url: string): Promise<TcpProxy> {
    const proxy = new TcpProxy(store, url)
    await proxy.accept()
    return proxy
  }

  /** The URL of the database through this proxy. */
  get url(): string {
    const url = new URL(this.#target)
    url.host = `127.0.0.1:${this.#claimed?.port}`
    return url.href
  }

  /** Injects the fault at the next statement that matches; `after`: of a transaction that has said this. Resolves when that has happened. */
  arm(fault: Fault, matches: RegExp = COMMIT, after?: RegExp): Promise<void> {
    return new Promise((happened) => {
      this.#armed = { fault, matches, after, happened }
    })
  }

  /** Makes the database reachable (again). */
  async accept(): Promise<void> {
    this.#claimed ??= await claimPort()
    this.#server = createServer((client) => this.#link(client)).listen(this.#claimed.port, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  /** Makes the database unreachable: cuts connections and refuses new ones. */
  async refuse(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    const closed = server && once(server, 'close')
    server?.close()
    this.cut()
    await closed
  }

  /** Cuts every link, also those that are held. */
  cut(): void {
    for (const link of this.#links) link.destroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.refuse()
    this.#claimed?.[Symbol.dispose]()
    this.#claimed = undefined
  }

  #link(client: Socket): void {
    const port = Number(this.#target.port)
    let said: string[] = []
    const link = new Link(client, dial({ host: this.#target.hostname, port }), this.#protocol, (statement) => {
      const { after } = this.#armed ?? {}
      said.push(statement)
      const isMeant = after === undefined || said.some((each) => after.test(each))
      if (COMMIT.test(statement)) said = []
      if (!isMeant || !this.#armed?.matches.test(statement)) return undefined
      const armed = this.#armed
      this.#armed = undefined
      return armed
    })
    this.#links.add(link)
    link.onEnd = () => this.#links.delete(link)
  }
}

/** How a protocol is cut into frames. */
interface Protocol {
  /** The length of the frame at the start of these bytes; undefined if it is incomplete. */
  frame(bytes: Buffer, first: boolean): number | undefined
  /** For one connection: what its frames say. */
  reader(): Reader
  /** Whether this frame of the server ends its reply. */
  endsAnswer(frame: Buffer): boolean
}

interface Reader {
  /** The statement of a frame of the client, if it has one. */
  statement(frame: Buffer): string | undefined
  /** Sees every frame of the server. */
  received(frame: Buffer): void
}

const postgresProtocol: Protocol = {
  // The very first message of a client has no type.
  frame: (bytes, first) => {
    const at = first ? 0 : 1
    return bytes.length < at + 4 ? undefined : at + bytes.readUInt32BE(at)
  },
  reader: () => {
    // What was parsed under a name is bound by it later.
    const named = new Map<string, string>()
    const statement = (frame: Buffer): string | undefined => {
      const type = String.fromCharCode(frame[0] ?? 0)
      if (type === 'Q') return frame.toString('utf8', 5, frame.length - 1)
      const first = textAt(frame, 5)
      const second = textAt(frame, 5 + Buffer.byteLength(first) + 1)
      if (type === 'P') named.set(first, second)
      if (type === 'P') return second
      return type === 'B' && second !== '' ? named.get(second) : undefined
    }
    return { statement, received: () => {} }
  },
  endsAnswer: (frame) => frame[0] === 'Z'.charCodeAt(0),
}

/** A text of a frame, up to its zero byte. */
function textAt(frame: Buffer, start: number): string {
  const end = frame.indexOf(0, start)
  return end === -1 ? '' : frame.toString('utf8', start, end)
}

const COM_QUERY = 0x03
const COM_STMT_PREPARE = 0x16
const COM_STMT_EXECUTE = 0x17

/** Where the server takes query attributes, as MySQL does, their number comes first: none, in one set. */
function hasAttributes(frame: Buffer): boolean {
  return frame[4] === COM_QUERY && frame[5] === 0 && frame[6] === 1
}

const mysqlProtocol: Protocol = {
  frame: (bytes) => (bytes.length < 4 ? undefined : 4 + bytes.readUIntLE(0, 3)),
  reader: () => {
    // What was prepared is run by its number later.
    const prepared = new Map<number, string>()
    let preparing: string | undefined
    return {
      statement: (frame) => {
        // Commands start a new sequence; the login does not.
        if (frame[3] !== 0) return undefined
        if (frame[4] === COM_STMT_EXECUTE) return prepared.get(frame.readUInt32LE(5))
        const text = frame.toString('utf8', hasAttributes(frame) ? 7 : 5)
        if (frame[4] === COM_STMT_PREPARE) preparing = text
        return frame[4] === COM_QUERY ? text : undefined
      },
      received: (frame) => {
        if (preparing !== undefined && frame[4] === 0) prepared.set(frame.readUInt32LE(5), preparing)
        preparing = undefined
      },
    }
  },
  endsAnswer: () => true,
}

/** One connection of a client, and the one to the server that belongs to it. */
class Link {
  onEnd = (): void => {}
  readonly #client: Socket
  readonly #server: Socket
  #fault: Armed | undefined

  constructor(client: Socket, server: Socket, protocol: Protocol, meet: (statement: string) => Armed | undefined) {
    this.#client = client
    this.#server = server
    client.setNoDelay()
    server.setNoDelay()
    const reader = protocol.reader()
    const fromClient = new Frames(protocol, true)
    const fromServer = new Frames(protocol, false)
    client.on('data', (chunk) => {
      for (const frame of fromClient.take(chunk)) {
        const statement = reader.statement(frame)
        if (this.#fault === undefined && statement !== undefined) this.#meet(meet(statement))
        if (this.#fault === undefined || this.#fault.fault === 'swallow' || this.#fault.fault === 'hold-answer') {
          server.write(frame)
        }
      }
    })
    server.on('data', (chunk) => {
      for (const frame of fromServer.take(chunk)) {
        reader.received(frame)
        if (this.#fault === undefined) client.write(frame)
        else if (protocol.endsAnswer(frame)) this.#answered(this.#fault)
      }
    })
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      socket.on('error', () => {})
      socket.on('close', () => {
        // A client that gives up a held link does not tell the server: the network is dead.
        if (this.#fault?.fault.startsWith('hold')) return
        other.destroy()
        this.onEnd()
      })
    }
  }

  destroy(): void {
    this.#client.destroy()
    this.#server.destroy()
    this.onEnd()
  }

  #meet(armed: Armed | undefined): void {
    if (armed === undefined) return
    this.#fault = armed
    if (armed.fault === 'drop') this.destroy()
    if (armed.fault === 'drop' || armed.fault === 'hold') armed.happened()
  }

  #answered(armed: Armed): void {
    if (armed.fault === 'swallow') this.destroy()
    armed.happened()
  }
}

/** Cuts a stream into frames. */
class Frames {
  readonly #protocol: Protocol
  #first: boolean
  #rest = Buffer.alloc(0)

  constructor(protocol: Protocol, fromClient: boolean) {
    this.#protocol = protocol
    this.#first = fromClient
  }

  *take(chunk: Buffer): Generator<Buffer> {
    this.#rest = Buffer.concat([this.#rest, chunk])
    for (;;) {
      const length = this.#protocol.frame(this.#rest, this.#first)
      if (length === undefined || this.#rest.length < length) return
      this.#first = false
      const frame = this.#rest.subarray(0, length)
      this.#rest = this.#rest.subarray(length)
      yield frame
    }
  }
}
