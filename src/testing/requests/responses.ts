// What is kept of responses, and what handlers may do.

import assert from 'node:assert/strict'
import type { StorePolicy } from '../../contracts/index.ts'
import {
  assertProblem,
  assertReplay,
  bytesOf,
  type CaseHandler,
  eventually,
  placing,
  post,
  type RequestCase,
} from './world.ts'

/** Every byte there is: no text. */
const BYTES = Uint8Array.from({ length: 256 }, (_, index) => index)

/** Whether a status is kept, by policy. */
const KEPT: readonly [policy: StorePolicy | undefined, status: number, kept: boolean][] = [
  [undefined, 200, true],
  [undefined, 302, true],
  [undefined, 404, true],
  [undefined, 422, true],
  [undefined, 500, false],
  [undefined, 503, false],
  ['2xx', 201, true],
  ['2xx', 404, false],
  ['all', 500, true],
  [(response) => response.status !== 429, 503, true],
  [(response) => response.status !== 429, 429, false],
]

/** Responses that cannot be kept. */
const UNSTORABLE: readonly [what: string, response: () => Response | Promise<Response>][] = [
  ['a body over the limit', () => new Response('x'.repeat(2_000))],
  ['a stream over the limit', () => new Response(endless())],
  ['a stream of events', () => new Response('data: 1\n\n', { headers: { 'content-type': 'text/event-stream' } })],
  ['a body that was read', () => readBefore()],
  ['a stream of texts', () => new Response(texts())],
]

async function readBefore(): Promise<Response> {
  const response = new Response('x')
  await response.text()
  return response
}

function endless(): ReadableStream<Uint8Array> {
  return new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(100)) })
}

/** What a type checker would not let pass. */
function texts(): ReadableStream {
  return new ReadableStream({
    start: (controller) => {
      controller.enqueue('text')
      controller.close()
    },
  })
}

/** A response that is none of ours, as packages have it that bring their own. */
function foreign(status: number): Response {
  const own = new Response('foreign', { status })
  const { statusText, headers, body } = own
  return { status, statusText, headers, body, bodyUsed: false, arrayBuffer: () => own.arrayBuffer() } as Response
}

/** A handler whose first call is another one than the later ones. */
function firstly(first: CaseHandler, later: CaseHandler): { readonly calls: number[]; readonly handler: CaseHandler } {
  const calls: number[] = []
  return {
    calls,
    handler: (request, call) => {
      calls.push(calls.length)
      return calls.length === 1 ? first(request, call) : later(request, call)
    },
  }
}

/** What becomes of responses. */
export const requestResponses: readonly RequestCase[] = [
  ...KEPT.map(
    ([policy, status, kept]): RequestCase => ({
      name: `${kept ? 'keeps' : 'does not keep'} a response of ${status} with the policy ${typeof policy === 'function' ? 'of a function' : (policy ?? 'that is the default')}`,
      run: async (world) => {
        const done: CaseHandler = () => new Response('later', { status: 201 })
        const { calls, handler } = firstly(() => new Response('first', { status }), done)
        const handle = await world.open(handler, policy === undefined ? {} : { store: policy })
        const first = await handle(post('a'))
        assert.deepEqual([first.status, await first.clone().text()], [status, 'first'])
        const second = await eventually(handle, () => post('a'))
        if (kept) await assertReplay(first, second)
        else assert.deepEqual([second.status, await second.text()], [201, 'later'])
        assert.equal(calls.length, kept ? 1 : 2)
      },
    }),
  ),
  {
    name: 'sends bytes as they came, both ways',
    run: async (world) => {
      const handle = await world.open(async (request) => {
        const bytes = await request.bytes()
        return new Response(bytes, { headers: { 'content-type': 'application/octet-stream' } })
      })
      const first = await handle(post('a', { body: BYTES }))
      assert.deepEqual(await bytesOf(first.clone()), Buffer.from(BYTES))
      await assertReplay(first, await handle(post('a', { body: BYTES })))
      const other = BYTES.slice()
      other[200] = 0
      await assertProblem(await handle(post('a', { body: other })), 422, 'key-reused')
    },
  },
  {
    name: 'sends a response without a body again',
    run: async (world) => {
      const handle = await world.open(() => new Response(null, { status: 204 }))
      const first = await handle(post('a'))
      assert.equal(first.status, 204)
      await assertReplay(first, await handle(post('a')))
    },
  },
  {
    name: 'sends all headers once, and again only those that are kept',
    run: async (world) => {
      const headers = new Headers({
        'content-type': 'application/json',
        etag: '"1"',
        'x-order': '7',
        'x-other': '8',
        'www-authenticate': 'Basic',
        authorization: 'Bearer secret',
        connection: 'close',
        date: 'Tue, 17 Nov 2026 15:00:00 GMT',
      })
      headers.append('set-cookie', 'session=secret')
      const handle = await world.open(() => new Response('{}', { headers }), { headers: ['X-Order'] })
      const first = await handle(post('a'))
      assert.deepEqual(first.headers.getSetCookie(), ['session=secret'])
      assert.equal(first.headers.get('x-other'), '8')
      const second = await handle(post('a'))
      assert.deepEqual(
        [...second.headers].sort(),
        [
          ['content-length', '2'],
          ['content-type', 'application/json'],
          ['etag', '"1"'],
          ['idempotent-replayed', 'true'],
          ['x-order', '7'],
        ].sort(),
      )
    },
  },
  {
    name: 'says nothing of the error that a handler throws, and runs again',
    run: async (world) => {
      const { place } = placing()
      const { handler } = firstly(() => {
        throw new Error('password of the database')
      }, place)
      const handle = await world.open(handler)
      const first = await handle(post('a'))
      assert.doesNotMatch(await first.clone().text(), /password/)
      await assertProblem(first, 500, 'handler-failed')
      assert.equal((await eventually(handle, () => post('a'))).status, 201)
      assert.deepEqual(await world.effects(), ['a {"n":1}'])
    },
  },
  {
    name: 'sends the response that a handler throws, and runs again',
    run: async (world) => {
      const { place } = placing()
      const { handler } = firstly(() => {
        throw new Response('not now', { status: 404 })
      }, place)
      const handle = await world.open(handler)
      const first = await handle(post('a'))
      assert.deepEqual([first.status, await first.text()], [404, 'not now'])
      assert.equal((await eventually(handle, () => post('a'))).status, 201)
    },
  },
  ...UNSTORABLE.map(
    ([what, response]): RequestCase => ({
      name: `refuses to keep ${what}`,
      run: async (world) => {
        const handle = await world.open(response, { maxResponseBytes: 1_000 })
        const refused = await handle(post('a'))
        assert.equal(refused.status, 500)
        assert.equal(refused.headers.get('idempotent-replayed'), null)
      },
    }),
  ),
  ...([201, 503] as const).flatMap((status) =>
    (['returned', 'thrown'] as const).map(
      (how): RequestCase => ({
        name: `sends a response of ${status} of another copy of the Fetch standard, ${how}`,
        run: async (world) => {
          const handle = await world.open(() => {
            if (how === 'thrown') throw foreign(status)
            return foreign(status)
          })
          const response = await handle(post('a'))
          assert.ok(response instanceof Response)
          assert.deepEqual([response.status, await response.text()], [status, 'foreign'])
        },
      }),
    ),
  ),
  {
    name: 'tells the handler the key and the principal, and gives it the request as it came',
    run: async (world) => {
      const handle = await world.open(async (request, { key, principal }) =>
        Response.json([
          request.method,
          request.url,
          request.headers.get('x-more'),
          await request.text(),
          key,
          principal,
        ]),
      )
      const url = 'http://localhost/orders?a=1'
      const response = await handle(post('"k"', { url, method: 'PUT', body: 'data', headers: { 'x-more': 'm' } }))
      assert.deepEqual(await response.json(), ['PUT', url, 'm', 'data', 'k', 'ann'])
    },
  },
]
