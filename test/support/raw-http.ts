import { connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** A response as it came over the wire. */
export interface RawResponse {
  readonly status: number
  /** In lower case, in the order in which they came. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: Buffer
}

/** A connection to a server of HTTP/1.1, for requests that no client would send. */
export class RawConnection {
  readonly socket: Socket
  #received = Buffer.alloc(0)
  #ended = false
  #wake = (): void => {}

  constructor(url: string) {
    const { hostname, port } = new URL(url)
    this.socket = connect({ host: hostname, port: Number(port) })
    this.socket.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk])
      this.#wake()
    })
    this.socket.on('close', () => {
      this.#ended = true
      this.#wake()
    })
    this.socket.on('error', () => {})
    onTestFinished(() => void this.socket.destroy())
  }

  /** Lines without their ends. A body follows an empty line. */
  send(...lines: string[]): void {
    this.socket.write(lines.join('\r\n'), 'latin1')
  }

  /** What was received until this text, which must come. */
  async until(text: string): Promise<string> {
    for (;;) {
      const at = this.#received.indexOf(text, 0, 'latin1')
      if (at >= 0) return this.#take(at + text.length).toString('latin1')
      await this.#more(`no ${JSON.stringify(text)}`)
    }
  }

  /** The next response, whole. `bodiless` is for one to HEAD. */
  async response(bodiless = false): Promise<RawResponse> {
    const [first = '', ...lines] = (await this.until('\r\n\r\n')).trimEnd().split('\r\n')
    const headers = lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const
    })
    const status = Number(first.split(' ')[1])
    const none = bodiless || status === 204 || status === 304
    return { status, headers, body: none ? Buffer.alloc(0) : await this.#body(new Map(headers)) }
  }

  /** Resolves when the server has closed the connection. */
  async closed(): Promise<void> {
    while (!this.#ended) await this.#more('')
  }

  async #body(headers: ReadonlyMap<string, string>): Promise<Buffer> {
    if (headers.get('transfer-encoding') !== 'chunked') return this.#exactly(Number(headers.get('content-length')))
    const chunks: Buffer[] = []
    for (;;) {
      const size = Number.parseInt(await this.until('\r\n'), 16)
      chunks.push(await this.#exactly(size))
      await this.until('\r\n')
      if (size === 0) return Buffer.concat(chunks)
    }
  }

  async #exactly(bytes: number): Promise<Buffer> {
    while (this.#received.length < bytes) await this.#more(`${bytes} bytes are missing`)
    return this.#take(bytes)
  }

  #take(bytes: number): Buffer {
    const taken = this.#received.subarray(0, bytes)
    this.#received = this.#received.subarray(bytes)
    return taken
  }

  async #more(missing: string): Promise<void> {
    if (this.#ended) throw new Error(`the server closed the connection: ${missing}`)
    await new Promise<void>((resolve) => {
      this.#wake = resolve
    })
  }
}
