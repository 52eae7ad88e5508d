import { once } from 'node:events'
import { createServer, get } from 'node:http'
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net'
import { NotDone, Permanent, RetryAfter } from 'hapax'
import { describe, expect, it, onTestFinished } from 'vitest'
import { classifyError } from '../../src/leased/classify.ts'
import { effectKey } from '../../src/leased/effect.ts'

/**
 * Nobody listens on this port, and nobody begins to: the system gives only higher ones to those who ask for any. `fetch` refuses some that
 * are as low, and not this one.
 */
const NOBODY = 2

function systemError(code: string, more: object = {}): Error {
  return Object.assign(new Error(code), { code, ...more })
}

/** As it comes from a link that was never made. */
function refused(code: string): Error {
  return systemError(code, { syscall: 'connect' })
}

function circle(): Error {
  const error = new Error('a circle')
  error.cause = error
  return error
}

describe('whether a call happened', () => {
  const notDone: readonly [string, unknown][] = [
    ['NotDone', new NotDone('no')],
    ['Permanent', new Permanent('never')],
    ['RetryAfter', new RetryAfter(100)],
    ['a NotDone that was wrapped', new Error('wrapped', { cause: new NotDone('no') })],
    ['a refused connection', systemError('ECONNREFUSED', { syscall: 'connect' })],
    ['an unknown host', systemError('ENOTFOUND', { syscall: 'getaddrinfo' })],
    ['a name server that is away', systemError('EAI_AGAIN')],
    ['a time-out while connecting', systemError('ETIMEDOUT', { syscall: 'connect' })],
    ['a time-out of undici while connecting', systemError('UND_ERR_CONNECT_TIMEOUT')],
    ['a certificate that has expired', systemError('CERT_HAS_EXPIRED')],
    ['what fetch throws about them', new TypeError('fetch failed', { cause: systemError('ENOTFOUND') })],
    ['several addresses, all refused', new AggregateError([refused('ECONNREFUSED'), refused('EHOSTUNREACH')], 'all')],
  ]
  it.each(notDone)('%s: it did not', (_, error) => expect(classifyError(error)).toBe('not-done'))

  const unknown: readonly [string, unknown][] = [
    ['a connection that was reset', systemError('ECONNRESET', { syscall: 'read' })],
    ['a host that was lost while the request was under way', systemError('EHOSTUNREACH', { syscall: 'read' })],
    ['a firewall that refuses a link in use', systemError('ECONNREFUSED', { syscall: 'read' })],
    ['a refused connection of whatever', systemError('ECONNREFUSED')],
    ['a pipe that broke', systemError('EPIPE', { syscall: 'write' })],
    ['a time-out while reading', systemError('ETIMEDOUT', { syscall: 'read' })],
    ['a time-out of undici for the answer', systemError('UND_ERR_HEADERS_TIMEOUT')],
    ['an abort', new DOMException('aborted', 'AbortError')],
    ['a time-out signal', new DOMException('late', 'TimeoutError')],
    ['any other error', new Error('status 500')],
    ['what fetch throws about a reset', new TypeError('fetch failed', { cause: systemError('ECONNRESET') })],
    ['several addresses, one of them reset', new AggregateError([refused('ECONNREFUSED'), systemError('ECONNRESET')])],
    ['no errors at all', new AggregateError([])],
    ['a circle of causes', circle()],
    ['a text', 'ECONNREFUSED'],
    ['nothing', undefined],
  ]
  it.each(unknown)('%s: nobody knows', (_, error) => expect(classifyError(error)).toBe('unknown'))
})

describe('what the network throws', () => {
  it('a port where nobody listens: fetch and http did not send', async () => {
    expect(classifyError(await thrown(fetch(`http://127.0.0.1:${NOBODY}`)))).toBe('not-done')
    expect(classifyError(await thrown(fetch(`http://localhost:${NOBODY}`)))).toBe('not-done')
    expect(classifyError((await once(get(`http://127.0.0.1:${NOBODY}`), 'error'))[0])).toBe('not-done')
    expect(classifyError((await once(connect(NOBODY, '127.0.0.1'), 'error'))[0])).toBe('not-done')
  })

  it('a host that does not exist: fetch did not send', async () => {
    expect(classifyError(await thrown(fetch('http://nobody.invalid')))).toBe('not-done')
  })

  it('a URL that is none: fetch did not send', async () => {
    expect(classifyError(await thrown(fetch('http://')))).toBe('not-done')
  })

  it('a server that takes the request and closes: nobody knows', async () => {
    const url = await serve((socket) => socket.once('data', () => socket.destroy()))
    expect(classifyError(await thrown(fetch(url, { method: 'POST', body: 'sms' })))).toBe('unknown')
    expect(classifyError((await once(get(url), 'error'))[0])).toBe('unknown')
  })

  it('a server that never answers: nobody knows', async () => {
    const url = await serve(() => {})
    expect(classifyError(await thrown(fetch(url, { signal: AbortSignal.timeout(50) })))).toBe('unknown')
  })

  it('a redirect to a host that is away: nobody knows, if it is not followed', async () => {
    const url = await listening(
      createServer((_, response) => response.writeHead(303, { location: `http://127.0.0.1:${NOBODY}` }).end()),
    )
    const post = (redirect: 'error' | 'manual' | 'follow') => fetch(url, { method: 'POST', body: 'sms', redirect })
    expect(classifyError(await thrown(post('error')))).toBe('unknown')
    expect((await post('manual')).status).toBe(303)
    // Why docs/leased.md says so: this is the error of a first request that was refused.
    expect(classifyError(await thrown(post('follow')))).toBe('not-done')
  })

  it('an answer that breaks off in the middle: nobody knows', async () => {
    const server = createServer((_, response) => {
      response.writeHead(200, { 'content-length': 100 })
      response.write('begun', () => response.destroy())
    })
    const url = await listening(server)
    expect(classifyError(await thrown(fetch(url).then((response) => response.text())))).toBe('unknown')
  })
})

describe('the key of an effect', () => {
  const message = { source: '/shop', id: '1' }

  it('is the same for the same call, and another one for any other', () => {
    const keys = [
      effectKey('sms', message, 'send'),
      effectKey('sms', message, 'sen d'),
      effectKey('sms', { source: '/shop', id: '2' }, 'send'),
      effectKey('sms', { source: '/shop1', id: '' }, 'send'),
      effectKey('mail', message, 'send'),
    ]
    expect(new Set(keys).size).toBe(keys.length)
    expect(effectKey('sms', { ...message }, 'send')).toBe(keys[0])
  })

  it('never changes between versions', () => {
    expect(effectKey('sms', message, 'send')).toBe('2868ffb6-372e-8fdc-9720-160def4e0260')
  })
})

function thrown(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => expect.fail('it did not fail'),
    (error: unknown) => error,
  )
}

function serve(accept: (socket: Socket) => void): Promise<string> {
  return listening(
    createTcpServer((socket) => {
      socket.on('error', () => {})
      accept(socket)
    }),
  )
}

async function listening(server: ReturnType<typeof createTcpServer>): Promise<string> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => sockets.add(socket))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
