import { execFile } from 'node:child_process'
import type { RequestListener } from 'node:http'
import type { Socket } from 'node:net'
import { promisify } from 'node:util'
import type { Delivered, Endpoint } from 'hapax/contracts'
import { type WebhooksOptions, webhooks } from 'hapax/webhooks'
import { Webhook as Standard } from 'standardwebhooks'
import { Webhook as Svix } from 'svix'
import { describe, expect, it, test } from 'vitest'
import { claimPort } from '../../src/conformance/claimed-port.ts'
import { WebhooksDestination } from '../../src/http/webhooks/outgoing/destination.ts'
import { webhooksSettings } from '../../src/http/webhooks/outgoing/options.ts'
import { certificate, endpointAt, outgoing, rawReceiver, receiver } from '../support/receivers.ts'

const NEAR: WebhooksOptions = { allowHttp: true, ports: 'all', allow: ['127.0.0.1', 'localhost'] }
const never = new AbortController().signal

function deliver(url: string, options: WebhooksOptions = {}, over: Partial<Endpoint> = {}): Promise<Delivered> {
  return webhooks({ ...NEAR, ...options }).deliver(endpointAt(url, over), outgoing(), never)
}

/** Delivers to a receiver that answers like this. */
async function answered(answer: RequestListener, options: WebhooksOptions = {}): Promise<Delivered> {
  await using to = await receiver(answer)
  return await deliver(`http://127.0.0.1:${to.port}/hook?a=1`, options)
}

/** Delivers to a server that does this with its connection. */
async function served(serve: (socket: Socket) => void, options: WebhooksOptions = {}): Promise<Delivered> {
  await using to = await rawReceiver(serve)
  return await deliver(`http://127.0.0.1:${to.port}/`, options)
}

const said = (what: string, code = 'endpoint-unavailable'): object => ({
  status: 'failed',
  code: undefined,
  answer: '',
  retryAfterMs: undefined,
  error: expect.objectContaining({ code, message: what }),
})

describe('a delivery', () => {
  it('over TLS arrives as it was signed', async () => {
    const tls = certificate('DNS:localhost', 'IP:127.0.0.1')
    await using to = await receiver(undefined, { tls })
    for (const host of ['localhost', '127.0.0.1']) {
      const endpoint = endpointAt(`https://${host}:${to.port}/hook?a=1&b=%20`)
      const outcome = await webhooks({ ...NEAR, allowHttp: false, ca: tls.cert }).deliver(endpoint, outgoing(), never)
      expect(outcome).toEqual({ status: 'delivered', code: 200, answer: 'thanks' })
      const got = to.got.at(-1)
      expect(got).toMatchObject({ method: 'POST', url: '/hook?a=1&b=%20' })
      expect(got?.headers).toMatchObject({
        host: `${host}:${to.port}`,
        'content-type': 'application/json',
        'content-length': String(got?.body.byteLength),
        'user-agent': expect.stringMatching(/^hapax\/\d/),
      })
      const secret = endpoint.secrets[0]?.secret ?? ''
      const text = got?.body.toString() ?? ''
      expect(new Standard(secret).verify(text, got?.headers ?? {})).toMatchObject({ data: { orderId: '17' } })
      new Svix(secret).verify(text, got?.headers ?? {})
    }
  })

  test.for([
    [200, { status: 'delivered', code: 200 }],
    [204, { status: 'delivered', code: 204 }],
    [299, { status: 'delivered', code: 299 }],
    [400, { status: 'failed', code: 400 }],
    [401, { status: 'failed', code: 401 }],
    [404, { status: 'failed', code: 404 }],
    [410, { status: 'gone' }],
    [500, { status: 'failed', code: 500 }],
    [599, { status: 'failed', code: 599 }],
  ] as const)('with the status %d is one that %o', async ([code, expected]) => {
    expect(await answered((_, response) => void response.writeHead(code).end())).toMatchObject(expected)
  })

  test.for([301, 302, 303, 307, 308, 300, 304])('does not follow a redirect with %d', async (code) => {
    await using secret = await receiver()
    const location = `http://127.0.0.1:${secret.port}/admin`
    const outcome = await answered((_, response) => void response.writeHead(code, { location }).end())
    expect(outcome).toMatchObject({
      status: 'failed',
      code,
      error: {
        code: 'endpoint-refused',
        message: `the endpoint responded with ${code}, and redirects are not followed`,
      },
    })
    expect(secret.connections).toBe(0)
  })

  it('waits for as long as the receiver asks', async () => {
    const asking = (code: number, value: string): Promise<Delivered> =>
      answered((_, response) => void response.writeHead(code, { 'retry-after': value }).end())
    expect(await asking(429, '120')).toMatchObject({ status: 'failed', code: 429, retryAfterMs: 120_000 })
    expect(await asking(503, '0')).toMatchObject({ retryAfterMs: 0 })
    expect(await asking(503, '999999999')).toMatchObject({ retryAfterMs: 86_400_000 })
    const date = await asking(503, new Date(Date.now() + 3_600_000).toUTCString())
    expect(date.status === 'failed' && date.retryAfterMs).toBeGreaterThan(3_000_000)
    expect(await asking(429, new Date(0).toUTCString())).toMatchObject({ retryAfterMs: 0 })
    for (const nonsense of ['soon', '-5', '1.5', '', '1e9', '0x10', '99999999999999999999']) {
      expect(await asking(429, nonsense)).toMatchObject({ retryAfterMs: undefined })
    }
    expect(await asking(500, '120')).toMatchObject({ retryAfterMs: undefined })
  })

  it('keeps the beginning of the answer, without credentials and control characters', async () => {
    const body = `a\0b\u001b[31m\n{"password":"hunter2"} whsec_${'A'.repeat(40)} ${'é'.repeat(1_000)}`
    const outcome = await answered((_, response) => void response.writeHead(500).end(body))
    const { answer = '' } = outcome.status === 'failed' ? outcome : {}
    expect(answer).toMatch(/^a b \[31m \{"password":\*\*\*\S* \*\*\* é+$/)
    expect(answer.length).toBe(500)
  })
})

describe('a receiver', () => {
  it('that never ends its answer has answered', async () => {
    const outcome = await served((socket) => socket.write('HTTP/1.1 200 OK\r\n\r\nhello'), { timeoutMs: 4_000 })
    expect(outcome).toEqual({ status: 'delivered', code: 200, answer: 'hello' })
  })

  it('that sends too much is cut off', async () => {
    let sent = 0
    let closed = false
    const outcome = await served((socket) => {
      socket.write('HTTP/1.1 500 No\r\ncontent-length: 1000000000\r\n\r\n')
      const chunk = Buffer.alloc(65_536, 'x')
      const more = (): void => {
        while (!socket.destroyed && socket.write(chunk)) sent += chunk.length
      }
      socket.on('drain', more)
      socket.on('close', () => {
        closed = true
      })
      more()
    })
    expect(outcome).toMatchObject({ status: 'failed', code: 500, answer: 'x'.repeat(500) })
    await expect.poll(() => closed).toBe(true)
    expect(sent).toBeLessThan(100_000_000)
  })

  it('that goes away inside its answer has answered', async () => {
    expect(
      await served((socket) => {
        socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf')
      }),
    ).toEqual({ status: 'delivered', code: 200, answer: 'half' })
    expect(
      await served((socket) => {
        socket.write('HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n')
      }),
    ).toMatchObject({ status: 'failed', code: 500 })
  })

  test.for([
    ['says nothing', (): void => {}, 'there was no response within 400 ms'],
    [
      'sends a head that never ends',
      (socket: Socket): void => void socket.write('HTTP/1.1 200 OK\r\nx: '),
      'there was no response within 400 ms',
    ],
    [
      'only ever says continue',
      (socket: Socket): void => void socket.write('HTTP/1.1 100 Continue\r\n\r\n'.repeat(50)),
      'there was no response within 400 ms',
    ],
    ['closes at once', (socket: Socket): void => void socket.end(), 'the connection was closed before the response'],
    [
      'resets the connection',
      (socket: Socket): void => void socket.resetAndDestroy(),
      'the connection was closed before the response',
    ],
    [
      'closes inside the head',
      (socket: Socket): void => void socket.end('HTTP/1.1 200 OK\r\ncontent'),
      'the connection was closed before the response',
    ],
    [
      'switches protocols',
      (socket: Socket): void => void socket.end('HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'),
      'the connection was closed before the response',
    ],
    [
      'speaks another protocol',
      (socket: Socket): void => void socket.end('SSH-2.0-OpenSSH_9.6\r\n'),
      'the response is not HTTP',
    ],
    [
      'sends a huge head',
      (socket: Socket): void => void socket.end(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`),
      'the response is not HTTP',
    ],
  ] as const)('that %s has not answered', async ([, serve, what]) => {
    const heard = (socket: Socket): void => {
      socket.once('data', () => serve(socket))
    }
    expect(await served(heard, { timeoutMs: what.includes('400') ? 400 : 20_000 })).toEqual(said(what))
  })

  it('that nobody listens for is not reached', async () => {
    using nobody = await claimPort()
    expect(await deliver(`http://127.0.0.1:${nobody.port}/`)).toEqual(said('the connection was refused'))
  })

  it('with a certificate that is not trusted is not told anything', async () => {
    await using to = await receiver(undefined, { tls: certificate('DNS:localhost') })
    const what = 'its certificate was not issued by an authority that is trusted here'
    expect(await deliver(`https://localhost:${to.port}/`)).toEqual(said(what))
    expect(to.got).toEqual([])
  })

  test.for([
    ['localhost', 'IP:127.0.0.1'],
    ['127.0.0.1', 'DNS:localhost'],
    ['localhost', 'DNS:other.test'],
  ] as const)('called %s, with a certificate for %s, is not told anything', async ([host, name]) => {
    const tls = certificate(name)
    await using to = await receiver(undefined, { tls })
    const outcome = await deliver(`https://${host}:${to.port}/`, { ca: tls.cert })
    expect(outcome).toEqual(said('its certificate is for another name'))
    expect(to.got).toEqual([])
  })

  it('is told by TLS which name is meant, and connected to at the address that was checked', async () => {
    const asked: string[] = []
    const tls = {
      ...certificate('DNS:hooks.test'),
      SNICallback: (name: string, done: (error: null) => void) => {
        asked.push(name)
        done(null)
      },
    }
    await using to = await receiver(undefined, { tls })
    const settings = webhooksSettings({ ports: 'all', allow: ['127.0.0.1'], ca: tls.cert })
    const destination = new WebhooksDestination(settings, async () => ['127.0.0.1'])
    const outcome = await destination.deliver(endpointAt(`https://Hooks.test:${to.port}/`), outgoing(), never)
    expect(outcome).toMatchObject({ status: 'delivered' })
    expect(asked).toEqual(['hooks.test'])
    expect(to.got[0]?.headers).toMatchObject({ host: `hooks.test:${to.port}` })
  })

  it('that accepts the connection and agrees on nothing is given up', async () => {
    await using to = await rawReceiver(() => {})
    expect(await deliver(`https://127.0.0.1:${to.port}/`)).toEqual(said('no connection was made within 5000 ms'))
    const soon = await deliver(`https://127.0.0.1:${to.port}/`, { timeoutMs: 300 })
    expect(soon).toEqual(said('there was no response within 300 ms'))
  })

  it('whose name is not resolved in time is given up', async () => {
    const settings = webhooksSettings({ timeoutMs: 300 })
    const destination = new WebhooksDestination(settings, () => new Promise(() => {}))
    const outcome = await destination.deliver(endpointAt('https://hooks.test/'), outgoing(), never)
    expect(outcome).toEqual(said('there was no response within 300 ms'))
  })

  it('without TLS is not spoken to with TLS', async () => {
    await using to = await receiver()
    expect(await deliver(`https://127.0.0.1:${to.port}/`)).toEqual(said('a TLS connection could not be agreed on'))
    expect(to.got).toEqual([])
  })
})

describe('an interruption', () => {
  it('ends a delivery at once, and its connection', async () => {
    let closed = false
    await using to = await rawReceiver((socket) => {
      socket.on('data', () => ending.abort())
      socket.on('close', () => {
        closed = true
      })
    })
    const ending = new AbortController()
    const outcome = await webhooks(NEAR).deliver(endpointAt(`http://127.0.0.1:${to.port}/`), outgoing(), ending.signal)
    expect(outcome).toEqual(said('the delivery was interrupted'))
    await expect.poll(() => closed).toBe(true)
  })

  it('before a delivery keeps it from being sent', async () => {
    await using to = await receiver()
    const url = `http://127.0.0.1:${to.port}/`
    expect(await webhooks(NEAR).deliver(endpointAt(url), outgoing(), AbortSignal.abort())).toEqual(
      said('the delivery was interrupted'),
    )
    expect(to.connections).toBe(0)
  })
})

it('refuses for good what cannot be sent, and tries again what can be mended', async () => {
  await using to = await receiver()
  const url = `http://127.0.0.1:${to.port}/`
  const text = outgoing({ datacontenttype: 'text/plain' })
  expect(await webhooks(NEAR).deliver(endpointAt(url), text, never)).toMatchObject({
    status: 'refused',
    error: { code: 'invalid-payload' },
  })
  expect(await deliver(url, {}, { secrets: [] })).toEqual(
    said('the endpoint has no secret to sign with', 'unusable-secret'),
  )
  expect(to.connections).toBe(0)
})

it('ignores proxies and lax TLS settings of the environment', async () => {
  await using proxy = await receiver()
  await using to = await receiver(undefined, { tls: certificate('DNS:localhost') })
  await using plain = await receiver()
  const address = `http://127.0.0.1:${proxy.port}`
  const { stdout } = await deliveredByChild([`http://127.0.0.1:${plain.port}/`, `https://localhost:${to.port}/`], {
    NODE_USE_ENV_PROXY: '1',
    HTTP_PROXY: address,
    HTTPS_PROXY: address,
    http_proxy: address,
    https_proxy: address,
    NO_PROXY: '',
    NODE_TLS_REJECT_UNAUTHORIZED: '0',
  })
  expect(stdout.trim()).toBe('delivered failed')
  expect([proxy.connections, plain.got.length, to.got.length]).toEqual([0, 1, 0])
})

/** Delivers to each URL in a process with this environment, and says what became of it. */
function deliveredByChild(urls: readonly string[], env: Record<string, string>): Promise<{ stdout: string }> {
  const program = `
    import { webhooks } from 'hapax/webhooks'
    const { options, message, endpoints } = JSON.parse(process.argv[1])
    const to = webhooks(options)
    message.data = Buffer.from('{}')
    const outcomes = []
    for (const each of endpoints) outcomes.push((await to.deliver(each, message, new AbortController().signal)).status)
    console.log(outcomes.join(' '))`
  const job = JSON.stringify({ options: NEAR, message: outgoing(), endpoints: urls.map((url) => endpointAt(url)) })
  const args = ['--conditions=hapax-source', '--no-warnings', '--input-type=module', '-e', program, job]
  return promisify(execFile)(process.execPath, args, { env: { ...process.env, ...env } })
}
