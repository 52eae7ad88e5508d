import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { fingerprintOfRequest, messageOf, rebuilt } from '../../src/requests/identity.ts'
import { capture, httpSettings, PROBLEMS } from '../../src/requests/index.ts'
import { parseKey } from '../../src/requests/key.ts'

const headers = (value: string): Headers => new Headers({ 'idempotency-key': value })

describe('a key', () => {
  const valid: [value: string, key: string][] = [
    ['"8e03978e-40d5-43dd-bc93-6894a57f9324"', '8e03978e-40d5-43dd-bc93-6894a57f9324'],
    ['8e03978e-40d5-43dd-bc93-6894a57f9324', '8e03978e-40d5-43dd-bc93-6894a57f9324'],
    ['  padded  ', 'padded'],
    ['"a"', 'a'],
    ['" a "', ' a '],
    ['"a,b;c"', 'a,b;c'],
    [String.raw`"say \"hi\" \\ bye"`, String.raw`say "hi" \ bye`],
    [String.raw`a\b`, String.raw`a\b`],
    ['a b', 'a b'],
    ['?1', '?1'],
  ]
  it.for(valid)('%s is %s', ([value, key]) => {
    expect(parseKey(headers(value), 64)).toEqual({ kind: 'key', key })
  })

  const invalid: [value: string, why: string][] = [
    ['', 'not be empty'],
    ['""', 'not be empty'],
    ['   ', 'not be empty'],
    ['x'.repeat(65), 'at most 64 characters'],
    [`"${'x'.repeat(65)}"`, 'at most 64 characters'],
    ['"open', 'end with a quotation mark'],
    [String.raw`"bad \n escape"`, 'end with a quotation mark'],
    [String.raw`"a\"`, 'end with a quotation mark'],
    ['a"b', 'quotation marks at both ends'],
    ['a, b', 'be sent once'],
    ['"a", "b"', 'be sent once'],
    ['"a";v=1', 'without parameters'],
    ['a;v=1', 'without parameters'],
    ['"a" b', 'without parameters'],
    ['schl\u00fcssel', 'printable ASCII'],
    ['a\tb', 'printable ASCII'],
    ['a\u007fb', 'printable ASCII'],
  ]
  it.for(invalid)('is refused: %s', ([value, why]) => {
    expect(parseKey(headers(value), 64)).toEqual({ kind: 'invalid', detail: expect.stringContaining(why) })
  })

  it('is refused when it comes twice', () => {
    const twice = headers('a')
    twice.append('idempotency-key', 'b')
    expect(parseKey(twice, 64)).toMatchObject({ kind: 'invalid' })
  })

  it('may be missing', () => {
    expect(parseKey(new Headers(), 64)).toEqual({ kind: 'missing' })
  })
})

describe('the options of a scope', () => {
  const refused: [options: Record<string, unknown>, why: RegExp][] = [
    [{}, /expected principal to be a function .* or 'none' .*, got undefined/],
    [{ principal: 'some' }, /expected principal/],
    [{ keepMs: 0 }, /expected keepMs/],
    [{ waitMs: -1 }, /expected waitMs to be a whole number, got -1/],
    [{ require: 'yes' }, /expected require/],
    [{ store: '3xx' }, /expected store to be 'no-5xx', '2xx', 'all' or a function, got "3xx"/],
    [{ headers: 'x-a' }, /expected headers to be an array/],
    [{ headers: ['bad name'] }, /expected headers/],
    [{ route: '' }, /expected route/],
    [{ maxKeyLength: 5_000 }, /expected maxKeyLength to be at most 2048/],
    [{ maxBodyBytes: 0 }, /expected maxBodyBytes/],
    [{ maxResponseBytes: 1.5 }, /expected maxResponseBytes/],
    [{ keepMS: 5 }, /expected options of http .*, got "keepMS"/],
    ...['Set-Cookie', 'authorization', 'Date', 'WWW-Authenticate', 'connection', 'content-length', 'X-Api-Key'].map(
      (name): [Record<string, unknown>, RegExp] => [{ headers: [name] }, /expected headers to be names of headers/],
    ),
  ]
  it.for(refused)('are refused: %j', ([options, why]) => {
    const given = Object.keys(options).length === 0 ? options : { principal: 'none', ...options }
    expect(() => httpSettings('orders', given as never, [])).toThrow(why)
  })

  it.for(['', 'a\nb', 'x'.repeat(251)])('refuse the scope %j', (scope) => {
    expect(() => httpSettings(scope, { principal: 'none' }, [])).toThrow(/expected scope/)
  })
})

describe('the identity of a request', () => {
  const settings = httpSettings('orders', { principal: 'none' }, [])
  const identity = (url: string, key = 'k', principal?: string, method = 'POST'): string =>
    messageOf({ request: new Request(url, { method }), key, principal, body: new Uint8Array() }, settings).messageKey

  it('depends on method, path, principal and key, and on nothing else of the URL', () => {
    const same = identity('http://a/orders')
    expect(identity('http://b/orders?x=1')).toBe(same)
    const others = [
      identity('http://a/order'),
      identity('http://a/orders', 'K'),
      identity('http://a/orders', 'k', 'ann'),
      identity('http://a/orders', 'k', 'bob'),
      identity('http://a/orders', 'k', undefined, 'PUT'),
    ]
    expect(new Set([same, ...others]).size).toBe(6)
  })

  it('tells long paths apart', () => {
    expect(identity(`http://a/${'x'.repeat(3_000)}1`)).not.toBe(identity(`http://a/${'x'.repeat(3_000)}2`))
  })

  it('is rebuilt without credentials', async () => {
    const request = new Request('http://a/orders?x=1', {
      method: 'PUT',
      headers: { authorization: 'Bearer x', cookie: 'a=b', 'content-type': 'text/plain', 'idempotency-key': 'k' },
      body: 'data',
    })
    const body = Buffer.from('data')
    const { attributes } = messageOf({ request, key: 'k', principal: 'ann', body }, settings)
    const again = rebuilt(JSON.parse(attributes).headers, body)
    expect(again.principal).toBe('ann')
    expect([again.request.method, again.request.url, await again.request.text()]).toEqual(['PUT', request.url, 'data'])
    expect([...again.request.headers.keys()]).toEqual(['content-type', 'idempotency-key'])
  })

  it('has a fingerprint that separates query and body', () => {
    const [a, b] = [Buffer.from('bc'), Buffer.from('c')]
    const of = (url: string, body: Uint8Array): string => fingerprintOfRequest(new URL(url, 'http://a'), body)
    expect(of('?a', a)).not.toBe(of('?ab', b))
    expect(of('/b', a)).not.toBe(of('/c', a))
    expect(of('?a', a)).toMatch(/^[0-9a-f]{16}$/)
  })
})

describe('a captured response', () => {
  const settings = httpSettings('orders', { principal: 'none', headers: ['X-Order'], maxResponseBytes: 10 }, [])

  it('keeps what may be sent again, and sends everything the first time', async () => {
    const headers = [
      ['set-cookie', 'a=1'],
      ['set-cookie', 'b=2'],
      ['x-order', '7'],
      ['x-other', '8'],
      ['location', '/orders/7'],
      ['date', 'now'],
      ['www-authenticate', 'Basic'],
      ['content-length', '3'],
    ] as [string, string][]
    const captured = await capture(new Response('{}\n', { status: 201, statusText: 'Made', headers }), settings)
    expect(captured.stored).toEqual({
      status: 201,
      headers: [
        ['content-type', 'text/plain;charset=UTF-8'],
        ['location', '/orders/7'],
        ['x-order', '7'],
      ],
      body: new Uint8Array(Buffer.from('{}\n')),
    })
    for (const sent of [captured.send(), captured.send()]) {
      expect([sent.status, sent.statusText, await sent.text()]).toEqual([201, 'Made', '{}\n'])
      expect(sent.headers.getSetCookie()).toEqual(['a=1', 'b=2'])
      expect(sent.headers.get('x-other')).toBe('8')
    }
  })

  it('may have no body', async () => {
    const captured = await capture(new Response(null, { status: 204 }), settings)
    expect([captured.send().status, captured.send().body]).toEqual([204, null])
  })

  const used = new Response('x')
  void used.text()
  const locked = new Response('x')
  locked.body?.getReader()
  const refused: [response: Response, why: string][] = [
    [new Response('x'.repeat(11)), 'larger than maxResponseBytes (10)'],
    [new Response('x', { headers: { 'content-type': 'Text/Event-Stream; charset=utf-8' } }), 'a stream of events'],
    [used, 'has been read already'],
    [locked, 'has been read already'],
    [Response.error(), 'its status is 0'],
  ]
  it.for(refused)('is refused: %s', async ([response, why]) => {
    await expect(capture(response, settings)).rejects.toMatchObject({
      code: 'response-not-storable',
      message: expect.stringContaining(why),
    })
  })
})

it('the page about HTTP lists every problem with its status', () => {
  const page = readFileSync(new URL('../../docs/http.md', import.meta.url), 'utf8')
  const listed = [...page.matchAll(/^\| (\d{3}) \| `([a-z-]+)` \|/gm)].map(([, status, code]) => `${status} ${code}`)
  const known = Object.entries(PROBLEMS).map(([code, [status]]) => `${status} ${code}`)
  expect(listed.sort()).toEqual(known.sort())
})
