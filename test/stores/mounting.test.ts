import { once } from 'node:events'
import type { createServer } from 'node:http'
import {
  connect,
  createServer as createHttp2Server,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http2'
import { createConnection } from 'node:net'
import express, { type ErrorRequestHandler } from 'express'
import express4 from 'express4'
import fastify, { type FastifyInstance } from 'fastify'
import { type FetchHandler, type MountOptions, toExpress, toFastify, toNode } from 'hapax/http'
import Koa from 'koa'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../src/testing/wait.ts'
import { listening, mounted } from '../support/mounts.ts'
import { RawConnection } from '../support/raw-http.ts'
import { uncaughtErrors } from '../support/uncaught.ts'

const JSON_TYPE = { 'content-type': 'application/json' }
const BODY = '{ "amount": 1.0 }'

const echo: FetchHandler = async (request) => new Response(await request.arrayBuffer())

/** Serves until the end of the test. */
async function served(listener: Parameters<typeof createServer>[1]): Promise<string> {
  const { url, close } = await listening(listener ?? (() => {}))
  onTestFinished(close)
  return url
}

/** Fastify, until the end of the test. */
async function onFastify(build: (app: FastifyInstance) => void): Promise<string> {
  const app = fastify()
  build(app)
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { url, close } = mounted(app.server)
  onTestFinished(close)
  return url
}

async function posted(
  url: string,
  body: string | null = BODY,
): Promise<{ status: number; text: string; code: unknown }> {
  const response = await fetch(url, { method: 'POST', body, headers: JSON_TYPE })
  const text = await response.text()
  const isProblem = response.headers.get('content-type') === 'application/problem+json'
  return { status: response.status, text, code: isProblem ? JSON.parse(text).code : undefined }
}

describe('a body parser that was first', () => {
  const parsed: [name: string, serve: (handler: FetchHandler, options: MountOptions) => Promise<string>][] = [
    ['express.json()', (handler, options) => served(express().use(express.json(), toExpress(handler, options)))],
    [
      'express.json() of Express 4',
      (handler, options) => served(express4().use(express4.json(), toExpress(handler, options))),
    ],
    [
      'express.text()',
      (handler, options) => served(express().use(express.text({ type: '*/*' }), toExpress(handler, options))),
    ],
    [
      'the parser of Fastify',
      (handler, options) => onFastify((app) => app.post('/', toFastify(handler, options).handler)),
    ],
    [
      'a parser of Koa',
      (handler, options) => {
        const serve = toNode(handler, options)
        const app = new Koa()
        app.use(async (ctx) => {
          for await (const _ of ctx.req);
          ctx.respond = false
          serve(ctx.req, ctx.res)
        })
        return served(app.callback())
      },
    ],
    [
      'something that has read a part',
      (handler, options) => {
        const serve = toNode(handler, options)
        return served(async (req, res) => {
          const [first] = await once(
            req
              .pause()
              .on('data', () => req.pause())
              .resume(),
            'data',
          )
          expect(first.byteLength).toBeGreaterThan(0)
          req.removeAllListeners('data')
          serve(req, res)
        })
      },
    ],
  ]

  it.for(parsed)('is found out: %s', async ([, serve]) => {
    const reported: unknown[] = []
    let called = 0
    const handler: FetchHandler = () => {
      called += 1
      return new Response()
    }
    const url = await serve(handler, { onError: (error) => reported.push(error) })
    for (let index = 0; index < 3; index += 1) {
      const { status, text, code } = await posted(url)
      expect([status, code]).toEqual([500, 'body-consumed'])
      expect(JSON.parse(text).detail).toContain('before express.json()')
    }
    expect(called).toBe(0)
    expect(reported).toEqual([expect.objectContaining({ name: 'HapaxError', code: 'body-consumed' })])
  })

  const keeping: [name: string, serve: () => Promise<string>][] = [
    [
      'express.json() with verify',
      () => {
        const verify = (req: object, _: unknown, bytes: Buffer): void => void Object.assign(req, { rawBody: bytes })
        return served(express().use(express.json({ verify }), toExpress(echo)))
      },
    ],
    [
      'express.json() of Express 4 with verify',
      () => {
        const verify = (req: object, _: unknown, bytes: Buffer): void => void Object.assign(req, { rawBody: bytes })
        return served(express4().use(express4.json({ verify }), toExpress(echo)))
      },
    ],
    ['express.raw()', () => served(express().use(express.raw({ type: '*/*' }), toExpress(echo)))],
    ['express.raw() of Express 4', () => served(express4().use(express4.raw({ type: '*/*' }), toExpress(echo)))],
    [
      'a parser of Fastify for bytes',
      () =>
        onFastify((app) => {
          app.removeAllContentTypeParsers()
          app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, bytes, done) => done(null, bytes))
          app.post('/', toFastify(echo).handler)
        }),
    ],
    [
      'a hook of Fastify, as that of fastify-raw-body',
      () =>
        onFastify((app) => {
          app.addHook('preParsing', (request, _reply, payload, done) => {
            const chunks: Buffer[] = []
            payload.on('data', (chunk: Buffer) => chunks.push(chunk))
            payload.on('end', () => Object.assign(request, { rawBody: Buffer.concat(chunks) }))
            done()
          })
          app.post('/', toFastify(echo))
        }),
    ],
  ]

  it.for(keeping)('and kept the bytes is as good as none: %s', async ([, serve]) => {
    expect(await posted(await serve())).toMatchObject({ status: 200, text: BODY })
  })

  it('and kept only a part is found out', async () => {
    const verify = (req: object, _: unknown, bytes: Buffer): void =>
      void Object.assign(req, { rawBody: bytes.subarray(1) })
    const url = await served(express().use(express.json({ verify }), toExpress(echo, { onError: () => {} })))
    expect(await posted(url)).toMatchObject({ status: 500, code: 'body-consumed' })
  })

  it.for([
    ['Express 5', express],
    ['Express 4', express4],
  ] as const)('does no harm where there is no body, on %s', async ([, framework]) => {
    const url = await served(framework().use(framework.json(), toExpress(echo)))
    expect(await posted(url, null)).toMatchObject({ status: 200, text: '' })
    expect((await fetch(url)).status).toBe(200)
    const connection = new RawConnection(url)
    connection.send(
      'POST / HTTP/1.1',
      'Host: a',
      'Content-Type: text/plain',
      'Transfer-Encoding: chunked',
      '',
      '0',
      '',
      '',
    )
    expect((await connection.response()).status).toBe(200)
  })
})

describe('what a handler does wrong', () => {
  const wrong: Readonly<Record<string, () => unknown>> = {
    '/throws': () => {
      throw new Error('the password is 123')
    },
    '/rejects': () => Promise.reject(new Error('the password is 123')),
    '/nothing': () => undefined,
    '/text': () => 'ok',
    '/error': () => Response.error(),
    '/control': () => new Response('ok', { headers: { 'x-ok': 'a', 'x-control': 'a\u0001' } }),
    '/used': async () => {
      const response = new Response('ok')
      await response.text()
      return response
    },
  }
  const handler: FetchHandler = (request) => wrong[new URL(request.url).pathname]?.() as Response

  it('is a problem for the client, and reported, on node:http', async () => {
    const uncaught = uncaughtErrors()
    const errors: unknown[] = []
    const onError = (error: unknown): never => {
      errors.push(error)
      throw new Error('a listener that throws')
    }
    const url = await served(toNode(handler, { onError }))
    for (const path of Object.keys(wrong)) {
      const response = await fetch(url + path)
      expect([path, response.status, response.headers.get('x-ok')]).toEqual([path, 500, null])
      expect(await response.json()).toEqual({
        type: 'about:blank',
        title: 'Internal Server Error',
        status: 500,
        detail: 'The request could not be handled.',
        code: 'internal',
      })
    }
    expect(errors).toHaveLength(Object.keys(wrong).length)
    expect(errors[2]).toMatchObject({ message: 'expected the handler to return a Response, got undefined' })
    expect(uncaught).toEqual([])
  })

  it('goes to next in Express, and to the error handler of Fastify', async () => {
    const uncaught = uncaughtErrors()
    const rescue: ErrorRequestHandler = (error, _req, res, _next) => void res.status(418).send(String(error))
    const onExpress = await served(express().use(toExpress(handler)).use(rescue))
    const onExpress4 = await served(express4().use(toExpress(handler)).use(rescue))
    const inFastify = await onFastify((app) => {
      app.setErrorHandler((error, _request, reply) => reply.code(418).send(String(error)))
      app.all('/*', toFastify(handler))
    })
    for (const url of [onExpress, onExpress4, inFastify]) {
      for (const path of Object.keys(wrong)) {
        const response = await fetch(url + path)
        expect([path, response.status]).toEqual([path, 418])
      }
    }
    expect(uncaught).toEqual([])
  })

  it('a response that something else has begun is left as it is', async () => {
    const errors: unknown[] = []
    const serve = toNode(() => new Response('late'), { onError: (error) => errors.push(error) })
    const url = await served((req, res) => {
      res.end('early')
      serve(req, res)
    })
    expect(await (await fetch(url)).text()).toBe('early')
    expect(errors).toEqual([
      expect.objectContaining({ message: 'another function has already responded to this request' }),
    ])
  })
})

describe('in a framework', () => {
  it('the URL is the one that the client asked for, also in a router of Express', async () => {
    for (const framework of [express, express4]) {
      const router = framework.Router().post(
        '/orders',
        toExpress((request) => new Response(request.url)),
      )
      const url = await served(framework().use('/api/v1', router))
      expect(await posted(`${url}/api/v1/orders?a=1`)).toMatchObject({ text: `${url}/api/v1/orders?a=1` })
    }
  })

  it('headers of middlewares are sent too', async () => {
    const middleware = express().use((_req, res, next) => {
      res.setHeader('access-control-allow-origin', '*')
      res.setHeader('x-both', 'middleware')
      res.cookie('a', '1')
      next()
    })
    const handler: FetchHandler = () => new Response('', { headers: { 'x-both': 'handler', 'set-cookie': 'b=2' } })
    const inFastify = await onFastify((app) => {
      app.addHook('onRequest', async (_request, reply) => {
        reply.header('access-control-allow-origin', '*').header('x-both', 'hook').header('set-cookie', 'a=1; Path=/')
      })
      app.post('/', toFastify(handler))
    })
    for (const url of [await served(middleware.use(toExpress(handler))), inFastify]) {
      const { headers } = await fetch(url, { method: 'POST' })
      expect([headers.get('access-control-allow-origin'), headers.get('x-both')]).toEqual(['*', 'handler'])
      expect(headers.getSetCookie()).toEqual(['a=1; Path=/', 'b=2'])
    }
  })

  it('hooks of Fastify run, see all headers, and may refuse', async () => {
    const seen: unknown[] = []
    const url = await onFastify((app) => {
      const hear = (request: { headers: IncomingHttpHeaders }): void => {
        seen.push([request.headers['content-type'], request.headers['content-length']])
      }
      app.addHook('preValidation', async (request) => hear(request))
      app.addHook('onSend', async (_request, reply) => void reply.header('x-hook', 'yes'))
      const preHandler = async (
        request: { headers: IncomingHttpHeaders },
        reply: { code(status: number): { send(text: string): unknown } },
      ) => {
        hear(request)
        if (request.headers.authorization === undefined) return reply.code(401).send('no')
        return undefined
      }
      app.post('/', { preHandler, ...toFastify(echo) })
    })
    const refused = await fetch(url, { method: 'POST', body: BODY, headers: JSON_TYPE })
    expect([refused.status, await refused.text()]).toEqual([401, 'no'])
    const taken = await fetch(url, { method: 'POST', body: BODY, headers: { ...JSON_TYPE, authorization: 'x' } })
    expect([taken.status, taken.headers.get('x-hook'), await taken.text()]).toEqual([200, 'yes', BODY])
    expect(seen).toEqual(Array.from({ length: 4 }, () => ['application/json', String(BODY.length)]))
  })

  it('a route of Fastify says in a sentence why it was called with a body that was parsed', async () => {
    const url = await onFastify((app) => app.post('/', toFastify(echo, { onError: () => {} }).handler))
    expect((await posted(url)).text).toMatch(/^\{"type":"about:blank","title":"Body already read"/)
  })
})

describe('the URL', () => {
  const urlOf = (options: MountOptions): Promise<string> =>
    served(toNode((request) => new Response(request.url), options))

  async function got(url: string, ...lines: string[]): Promise<string> {
    const connection = new RawConnection(url)
    connection.send(...lines, 'Connection: close', '', '')
    const { status, body } = await connection.response()
    return status === 200 ? body.toString() : String(status)
  }

  it('has the host of the target before that of the header, and never its scheme', async () => {
    const url = await urlOf({})
    expect(await got(url, 'GET http://shop.example/a?b HTTP/1.1', 'Host: evil.example')).toBe('http://shop.example/a?b')
    expect(await got(url, 'GET https://shop.example HTTP/1.1', 'Host: a')).toBe('http://shop.example/')
    expect(await got(url, 'GET http://a@b/ HTTP/1.1', 'Host: a')).toBe('400')
    expect(await got(url, 'GET ftp://a/ HTTP/1.1', 'Host: a')).toBe('400')
    expect(await got(url, 'OPTIONS * HTTP/1.1', 'Host: a')).toBe('http://a/')
    expect(await got(url, 'GET /a HTTP/1.1', 'Host:')).toBe('http://localhost/a')
    expect(await got(url, 'TRACE / HTTP/1.1', 'Host: a')).toBe('501')
  })

  it('believes a proxy only if it is told to', async () => {
    const lines = [
      'GET /a HTTP/1.1',
      'Host: inside:8080',
      'X-Forwarded-Proto: https, http',
      'X-Forwarded-Host: shop.example',
    ]
    expect(await got(await urlOf({}), ...lines)).toBe('http://inside:8080/a')
    const trusting = await urlOf({ trustProxy: true })
    expect(await got(trusting, ...lines)).toBe('https://shop.example/a')
    expect(await got(trusting, 'GET /a HTTP/1.1', 'Host: inside')).toBe('http://inside/a')
    expect(await got(trusting, 'GET /a HTTP/1.1', 'Host: a', 'X-Forwarded-Proto: javascript')).toBe('400')
    expect(await got(trusting, 'GET /a HTTP/1.1', 'Host: a', 'X-Forwarded-Host: a@b')).toBe('400')
  })

  it('begins with the origin where one is given', async () => {
    const url = await urlOf({ origin: 'https://API.example.com/', trustProxy: true })
    const forwarded = ['X-Forwarded-Host: evil.example', 'X-Forwarded-Proto: http']
    expect(await got(url, 'GET /a HTTP/1.1', 'Host: <>', ...forwarded)).toBe('https://api.example.com/a')
    expect(await got(url, 'GET http://evil.example/a HTTP/1.1', 'Host: a')).toBe('https://api.example.com/a')
  })
})

describe('HTTP/2', () => {
  async function session(handler: FetchHandler, options?: MountOptions) {
    const server = createHttp2Server(toNode(handler, options)).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    const client = connect(`http://127.0.0.1:${port}`)
    client.on('error', () => {})
    onTestFinished(() => {
      client.destroy()
      server.close()
    })
    return client
  }

  /** Sends a request, whole, and resolves with the whole response. */
  async function asked(
    client: Awaited<ReturnType<typeof session>>,
    headers: OutgoingHttpHeaders,
    body?: Uint8Array | string,
  ) {
    const stream = client.request(headers, { endStream: body === undefined })
    if (body !== undefined) stream.end(body)
    const [received] = (await once(stream, 'response')) as [IncomingHttpHeaders]
    const chunks: Buffer[] = []
    for await (const chunk of stream) chunks.push(chunk)
    return { headers: received, body: Buffer.concat(chunks) }
  }

  it('has lower-case headers without pseudo-headers, and the URL of its authority', async () => {
    const client = await session(({ method, url, headers, body }) => Response.json([method, url, [...headers], body]))
    const { body } = await asked(client, {
      ':method': 'POST',
      ':path': '/orders?a=1',
      ':authority': 'shop.example',
      'Idempotency-Key': ['one', 'two'],
      cookie: ['a=1', 'b=2'],
    })
    expect(JSON.parse(body.toString())).toEqual([
      'POST',
      'http://shop.example/orders?a=1',
      [
        ['cookie', 'a=1; b=2'],
        ['idempotency-key', 'one, two'],
      ],
      null,
    ])
  })

  it('carries bodies both ways, and drops headers of the connection', async () => {
    const headers = [
      ['connection', 'close'],
      ['keep-alive', 'timeout=5'],
      ['transfer-encoding', 'chunked'],
      ['upgrade', 'h3'],
      ['set-cookie', 'a=1'],
      ['set-cookie', 'b=2'],
    ] as [string, string][]
    const client = await session((request) => new Response(request.body, { status: 201, statusText: 'Made', headers }))
    const bytes = Buffer.alloc(1_048_576, 'abcdefg')
    const response = await asked(client, { ':method': 'POST' }, bytes)
    expect(response.body.equals(bytes)).toBe(true)
    expect(response.headers).toMatchObject({ ':status': 201, 'set-cookie': ['a=1', 'b=2'] })
    expect(Object.keys(response.headers)).not.toContain('connection')
  })

  it('serves HEAD, 204, a body that nobody read, and errors', async () => {
    const client = await session(
      ({ method }) => {
        if (method === 'PUT') throw new Error('declined')
        return new Response(method === 'DELETE' ? null : 'ok', { status: method === 'DELETE' ? 204 : 200 })
      },
      { onError: () => {} },
    )
    expect((await asked(client, { ':method': 'HEAD' })).headers[':status']).toBe(200)
    expect((await asked(client, { ':method': 'DELETE' })).headers[':status']).toBe(204)
    const large = Buffer.alloc(300_000)
    expect((await asked(client, { ':method': 'POST' }, large)).body.toString()).toBe('ok')
    expect(JSON.parse((await asked(client, { ':method': 'PUT' }, large)).body.toString())).toMatchObject({
      code: 'internal',
    })
    expect((await asked(client, { ':method': 'TRACE' })).headers[':status']).toBe(501)
    expect((await asked(client, { ':method': 'GET', ':authority': '127.1' })).headers[':status']).toBe(400)
  })

  it('aborts the signal when the client cancels, and not after the end', async () => {
    const uncaught = uncaughtErrors()
    const signals: AbortSignal[] = []
    const client = await session(async (request) => {
      signals.push(request.signal)
      if (request.method === 'PUT')
        return new Response(new ReadableStream({ pull: (each) => each.enqueue(new Uint8Array(9_999)) }))
      return new Response('ok')
    })
    const downloading = client.request({ ':method': 'PUT' })
    downloading.on('error', () => {})
    await once(
      downloading.on('data', () => {}),
      'response',
    )
    downloading.close(8)
    await until(() => signals[0]?.aborted === true, 'the download breaks')
    await asked(client, { ':method': 'GET' })
    await asked(client, { ':method': 'HEAD' })
    client.destroy()
    await until(() => client.destroyed, 'the session ends')
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false, false])
    expect(uncaught).toEqual([])
  })

  it('takes no body for a whole one that was reset', async () => {
    const uncaught = uncaughtErrors()
    const outcomes: unknown[] = []
    let signal: AbortSignal | undefined
    const client = await session(async (request) => {
      signal = request.signal
      outcomes.push(await request.text().catch(({ name }: Error) => name))
      return new Response()
    })
    await once(client, 'connect')
    const socket = createConnection({ host: '127.0.0.1', port: client.socket.remotePort ?? 0 })
    onTestFinished(() => void socket.destroy())
    // The client of Node ends a stream before it resets it. This one does not: POST / of the host a, four bytes, and a reset.
    socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
    socket.write(
      Buffer.concat([frame(4, 0), frame(1, 4, [0x83, 0x86, 0x84, 0x41, 1, 0x61]), frame(0, 0, [1, 2, 3, 4])]),
    )
    await until(() => signal !== undefined, 'the handler is called')
    socket.write(frame(3, 0, [0, 0, 0, 8]))
    await until(() => outcomes.length > 0 && signal?.aborted === true, 'the body breaks')
    expect(outcomes).toEqual(['AbortError'])
    expect(uncaught).toEqual([])
  })

  it('ends a response that breaks with an error', async () => {
    const client = await session(
      () => {
        let pulls = 0
        const pull = (controller: ReadableStreamDefaultController): void => {
          pulls += 1
          if (pulls === 1) controller.enqueue(new Uint8Array(5))
          else controller.error(new Error('broken'))
        }
        return new Response(new ReadableStream({ pull }, { highWaterMark: 0 }))
      },
      { onError: () => {} },
    )
    const stream = client.request({ ':method': 'GET' })
    const failed = once(stream, 'error')
    stream.on('data', () => {})
    expect(await failed).toMatchObject([{ code: 'ERR_HTTP2_STREAM_ERROR' }])
    expect(stream.rstCode).toBe(2)
  })
})

/** A frame of HTTP/2, of the first stream; settings are of no stream. */
function frame(type: number, flags: number, payload: readonly number[] = []): Buffer {
  return Buffer.from([0, 0, payload.length, type, flags, 0, 0, 0, type === 4 ? 0 : 1, ...payload])
}
