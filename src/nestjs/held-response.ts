import type { ServerResponse } from 'node:http'
import { HeldBody } from './held-body.ts'

/** What is held back. */
const METHODS = [
  'setHeader',
  'appendHeader',
  'removeHeader',
  'writeHead',
  'flushHeaders',
  'write',
  'end',
  'destroy',
] as const

type Methods = Record<(typeof METHODS)[number], (...args: never[]) => unknown>

/**
 * The response of Node.js under Express or Fastify, of which nothing is sent before the transaction has committed. What the framework
 * sends is what is kept: after all interceptors, serialised, with its status and headers.
 */
export class HeldResponse {
  readonly #res: ServerResponse
  readonly #before: { readonly status: number; readonly headers: ReturnType<ServerResponse['getHeaders']> }
  readonly #own: Pick<ServerResponse, keyof Methods>
  #captured = captured()
  /** What follows the headers; undefined: they were not sent yet. */
  #body: HeldBody | undefined
  #isPiped = false
  #isOver = false

  constructor(res: ServerResponse) {
    this.#res = res
    this.#before = { status: res.statusCode, headers: { ...res.getHeaders() } }
    const { setHeader, appendHeader, removeHeader, writeHead, flushHeaders, write, end, destroy } = res
    this.#own = { setHeader, appendHeader, removeHeader, writeHead, flushHeaders, write, end, destroy }
    Object.assign(res, this.#holding())
    // Frameworks do not begin anew after a part of a body: they destroy the response.
    Object.defineProperty(res, 'headersSent', { configurable: true, get: () => this.hasBegun })
    res.on('pipe', this.#piped).on('unpipe', this.#abandoned)
  }

  /** What the framework sends, as soon as its headers are known. Its body fails where the framework gives it up. */
  get captured(): Promise<Response> {
    return this.#captured.promise
  }

  /** Whether the framework has begun to send. */
  get hasBegun(): boolean {
    return this.#body !== undefined
  }

  /** The status that it would have now. */
  get status(): number {
    return this.#res.statusCode
  }

  /** Forgets what was set and sent: the method that did it has failed, or is called again. */
  takeBack(): void {
    if (this.#isOver) return
    this.#body = undefined
    this.#isPiped = false
    this.#captured = captured()
    this.#reset()
  }

  /** Sends what the framework sends, from now on. */
  release(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#restore()
  }

  /** Sends this one; whatever the framework has sent or will send is dropped. */
  async send(response: Response): Promise<void> {
    if (this.#isOver) return
    this.#isOver = true
    const body = Buffer.from(await response.arrayBuffer())
    this.#restore()
    if (!this.#res.headersSent) this.#begin(response)
    this.#res.end(body)
    Object.assign(this.#res, this.#ignoring())
  }

  /** Status and headers; of those that were set meanwhile none is left. */
  #begin({ status, headers }: Response): void {
    const res = this.#res
    this.#reset()
    for (const [name, value] of headers) if (name !== 'set-cookie') res.setHeader(name, value)
    const cookies = headers.getSetCookie()
    if (cookies.length > 0) res.setHeader('set-cookie', cookies)
    res.statusCode = status
  }

  #reset(): void {
    const res = this.#res
    const { status, headers } = this.#before
    for (const name of res.getHeaderNames()) res.removeHeader(name)
    for (const [name, value] of Object.entries(headers)) if (value !== undefined) res.setHeader(name, value)
    res.statusCode = status
  }

  #restore(): void {
    const res = this.#res
    Object.assign(res, this.#own)
    Reflect.deleteProperty(res, 'headersSent')
    res.off('pipe', this.#piped).off('unpipe', this.#abandoned)
  }

  #holding(): Partial<Methods> {
    const res = this.#res
    return {
      // Fastify gives its headers here.
      writeHead: (status: number, ...more: readonly unknown[]) => {
        res.statusCode = status
        const headers = more.find((each) => typeof each === 'object' && each !== null)
        for (const [name, value] of headersIn(headers ?? {})) res.setHeader(name, value)
        return res
      },
      flushHeaders: () => void this.#begun(),
      // A method that writes by itself must not wait: nobody reads before it has returned.
      write: (...args: readonly unknown[]) => this.#begun().write(args, this.#isPiped),
      end: (...args: readonly unknown[]) => {
        this.#begun().end(args)
        return res
      },
      destroy: (error?: unknown) => {
        this.#begun().fail(error ?? new Error('the response was destroyed before its end'))
        return res
      },
    }
  }

  /** Nothing has to be sent for a status and headers to be final. */
  #begun(): HeldBody {
    if (this.#body !== undefined) return this.#body
    this.#body = new HeldBody(() => this.#res.emit('drain'))
    try {
      this.#captured.resolve(this.#taken(this.#body))
    } catch (error) {
      this.#captured.reject(error)
    }
    return this.#body
  }

  readonly #piped = (): void => {
    this.#isPiped = true
    this.#abandoned()
  }

  /** Streams are not read to their end once the client is gone, and nobody says so. */
  readonly #abandoned = (): void => {
    if (this.#res.destroyed) this.#begun().fail(new Error('the client went away before the end of a stream'))
  }

  #ignoring(): Methods {
    const res = this.#res
    const ignore = () => res
    return {
      setHeader: ignore,
      appendHeader: ignore,
      removeHeader: () => {},
      writeHead: ignore,
      flushHeaders: () => {},
      write: () => true,
      end: ignore,
      destroy: ignore,
    }
  }

  #taken(body: HeldBody): Response {
    const { statusCode: status } = this.#res
    const headers = new Headers()
    for (const [name, value] of Object.entries(this.#res.getHeaders())) {
      for (const each of [value].flat()) if (each !== undefined) headers.append(name, String(each))
    }
    return new Response(BODYLESS.includes(status) ? null : body.stream, { status, headers })
  }
}

/** Statuses that have no body: `Response` refuses even an empty one. */
const BODYLESS: readonly number[] = [204, 205, 304]

/** Nobody may wait for it. */
function captured(): PromiseWithResolvers<Response> {
  const made = Promise.withResolvers<Response>()
  made.promise.catch(() => {})
  return made
}

/** Headers by name; `writeHead` also takes a list of names and values in turn. */
function headersIn(headers: object): readonly (readonly [string, string])[] {
  if (!Array.isArray(headers)) return Object.entries(headers)
  return headers.flatMap((name, index) => (index % 2 === 0 ? [[String(name), headers[index + 1]] as const] : []))
}
