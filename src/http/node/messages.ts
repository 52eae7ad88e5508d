import type { Duplex, Readable, Writable } from 'node:stream'

/** The part of `IncomingMessage`, and of its counterpart of HTTP/2, that is used. */
export type NodeRequest = Readable & {
  readonly method?: string | undefined
  readonly url?: string | undefined
  /** What the client asked for, where a router has shortened `url`: Express, Connect. */
  readonly originalUrl?: string | undefined
  readonly rawHeaders: readonly string[]
  readonly httpVersionMajor: number
  readonly socket: object
  /** HTTP/2 only: what carries this request. */
  readonly stream?: Duplex & {
    readonly aborted: boolean
    readonly rstCode?: number | undefined
    readonly endAfterHeaders?: boolean
    close(code: number): void
  }
  /** The bytes, where a body parser keeps them. */
  readonly rawBody?: unknown
  /** What a body parser made of them: perhaps nothing else, as `express.raw()` does. */
  readonly body?: unknown
}

/** The part of `ServerResponse`, and of its counterpart of HTTP/2, that is used. */
export type NodeResponse = Writable & {
  statusCode: number
  statusMessage: string
  readonly headersSent: boolean
  getHeader(name: string): unknown
  setHeader(name: string, value: string | readonly string[]): unknown
  removeHeader(name: string): void
}

/** A header as it was sent; several of one name are joined. */
export function headerOf({ rawHeaders }: NodeRequest, name: string): string | undefined {
  const values = rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === name)
  return values.length === 0 ? undefined : values.join(', ')
}
