// What the expired draft-ietf-httpapi-idempotency-key-header-07 says of keys, and what has to be refused.

import assert from 'node:assert/strict'
import { gate, until } from '../wait.ts'
import { assertProblem, assertReplay, eventually, placing, post, type RequestCase, type Sent } from './world.ts'

/** Pairs of requests with the same key that are two requests all the same. */
const APART: readonly [what: string, first: Sent, second: Sent][] = [
  ['principals', { user: 'ann' }, { user: 'bob' }],
  ['paths', {}, { url: 'http://localhost/other' }],
  ['methods', { method: 'POST' }, { method: 'PATCH' }],
]

/** Pairs of requests with the same key that claim to be one and are not. */
const REUSED: readonly [what: string, second: Sent][] = [
  ['another body', { body: '{"n":2}' }],
  ['another query', { url: 'http://localhost/orders?dry=1' }],
  ['an empty body', { body: '' }],
]

const BROKEN_KEYS = ['', '""', '"open', 'a, b', '"a";b=1', 'a\u00e9', 'x'.repeat(256), `"${'x'.repeat(256)}"`]

/** Requests that are refused before their handler is called. */
const REFUSED: readonly [what: string, request: () => Request, status: number, code: string][] = [
  ['no key', () => post(undefined), 400, 'missing-key'],
  ...BROKEN_KEYS.map((key): [string, () => Request, number, string] => [
    `the key ${JSON.stringify(key.slice(0, 10))} of ${key.length}`,
    () => post(key),
    400,
    'invalid-key',
  ]),
  ['no principal', () => post('a', { user: '' }), 401, 'missing-principal'],
  ['a body over the limit', () => post('a', { body: 'x'.repeat(1_001) }), 413, 'too-large'],
  ['a compressed body', () => post('a', { headers: { 'content-encoding': 'gzip' } }), 415, 'unsupported-encoding'],
  ['a body that was read', () => consumed(), 500, 'body-consumed'],
  ['a body that breaks off', () => broken(), 400, 'broken-body'],
]

function consumed(): Request {
  const request = post('a')
  void request.text()
  return request
}

function broken(): Request {
  const body = new ReadableStream({ pull: (controller) => controller.error(new Error('gone')) })
  return new Request('http://localhost/orders', {
    method: 'POST',
    headers: { 'x-user': 'ann', 'idempotency-key': 'a' },
    body,
    duplex: 'half',
  })
}

/** The rules of keys. */
export const requestRules: readonly RequestCase[] = [
  {
    name: 'runs a request once, and sends its response again',
    run: async (world) => {
      const { calls, place } = placing()
      const handle = await world.open(place)
      const first = await handle(post('a'))
      assert.equal(first.status, 201)
      await assertReplay(first, await handle(post('a')))
      await assertReplay(await handle(post('b')), await handle(post('b')))
      assert.deepEqual(calls, ['{"n":1}', '{"n":1}'])
      assert.deepEqual(await world.effects(), ['a {"n":1}', 'b {"n":1}'])
    },
  },
  {
    name: 'takes a key with quotation marks and without them as the same',
    run: async (world) => {
      const { calls, place } = placing()
      const handle = await world.open(place)
      await assertReplay(await handle(post('"a b"')), await handle(post('a b')))
      assert.equal(calls.length, 1)
    },
  },
  ...APART.map(
    ([what, first, second]): RequestCase => ({
      name: `takes equal keys of other ${what} as two requests`,
      run: async (world) => {
        const { calls, place } = placing()
        const handle = await world.open(place)
        for (const sent of [first, second]) {
          const response = await handle(post('a', sent))
          assert.equal(response.status, 201)
          assert.equal(response.headers.get('idempotent-replayed'), null)
        }
        assert.equal(calls.length, 2)
      },
    }),
  ),
  ...REUSED.map(
    ([what, second]): RequestCase => ({
      name: `refuses a key that comes with ${what}`,
      run: async (world) => {
        const { calls, place } = placing()
        const handle = await world.open(place)
        const first = await handle(post('a'))
        await assertProblem(await handle(post('a', second)), 422, 'key-reused')
        await assertReplay(first, await handle(post('a')))
        assert.equal(calls.length, 1)
      },
    }),
  ),
  {
    name: 'refuses a key that comes with another path of its route',
    run: async (world) => {
      const { calls, place } = placing()
      const handle = await world.open(place, { route: '/orders/:id/cancel' })
      const cancel = (id: number): Request => post('a', { url: `http://localhost/orders/${id}/cancel` })
      const first = await handle(cancel(1))
      await assertProblem(await handle(cancel(2)), 422, 'key-reused')
      await assertReplay(first, await handle(cancel(1)))
      assert.equal(calls.length, 1)
    },
  },
  {
    name: 'refuses principals that are no whole text, which would be the same to a hash',
    run: async (world) => {
      const { calls, place } = placing()
      const halves = ['\ud800', '\udc00']
      const handle = await world.open(place, { principal: () => halves.shift() })
      for (const _ of [1, 2]) await assertProblem(await handle(post('a')), 500, 'handler-failed')
      assert.deepEqual(calls, [])
    },
  },
  ...REFUSED.map(
    ([what, request, status, code]): RequestCase => ({
      name: `refuses ${what}, and keeps nothing`,
      run: async (world) => {
        const { calls, place } = placing()
        const handle = await world.open(place, { maxBodyBytes: 1_000 })
        await assertProblem(await handle(request()), status, code)
        assert.deepEqual(calls, [])
        assert.equal((await handle(post('a'))).headers.get('idempotent-replayed'), null)
      },
    }),
  ),
  {
    name: 'sends the response that the principal function throws',
    run: async (world) => {
      const { calls, place } = placing()
      const principal = (): never => {
        throw new Response('who are you?', { status: 403 })
      }
      const response = await (await world.open(place, { principal }))(post('a'))
      assert.equal(response.status, 403)
      assert.equal(await response.text(), 'who are you?')
      assert.deepEqual(calls, [])
    },
  },
  {
    name: 'says nothing of an error of the principal function',
    run: async (world) => {
      const { place } = placing()
      const principal = (): never => {
        throw new Error('secret of the session store')
      }
      const response = await (await world.open(place, { principal }))(post('a'))
      assert.doesNotMatch(await response.clone().text(), /secret/)
      await assertProblem(response, 500, 'handler-failed')
    },
  },
  {
    name: 'tells the second request to come later while the first one runs, and lets it wait if it may',
    run: async (world) => {
      const [began, goOn] = [gate(), gate()]
      let calls = 0
      const handler = async (): Promise<Response> => {
        calls += 1
        began.open()
        await goOn.passed
        return new Response('done')
      }
      const handle = await world.open(handler)
      const first = handle(post('a'))
      await began.passed
      const second = await handle(post('a'))
      assert.equal(second.headers.get('retry-after'), '1')
      await assertProblem(second, 409, 'in-progress')
      goOn.open()
      await assertReplay(await first, await handle(post('a')))
      assert.equal(calls, 1)
    },
  },
  {
    name: 'lets a copy wait for the first request',
    run: async (world) => {
      const [began, goOn] = [gate(), gate()]
      let calls = 0
      const handler = async (): Promise<Response> => {
        calls += 1
        began.open()
        await goOn.passed
        return new Response('done')
      }
      const handle = await world.open(handler, { waitMs: 30_000 })
      const first = handle(post('a'))
      await began.passed
      const waiting = [handle(post('a')), handle(post('a', { body: 'other' }))] as const
      goOn.open()
      await assertReplay(await first, await waiting[0])
      await assertProblem(await waiting[1], 422, 'key-reused')
      assert.equal(calls, 1)
    },
  },
  {
    name: 'tells the second request to come later while another process has the first one',
    rival: true,
    run: async (world) => {
      const [began, goOn] = [gate(), gate()]
      const calls: string[] = []
      const handler = async (): Promise<Response> => {
        calls.push('first')
        began.open()
        await goOn.passed
        return new Response('done')
      }
      const other = async (): Promise<Response> => {
        calls.push('second')
        return new Response('done')
      }
      const handle = await world.open(handler)
      const elsewhere = await world.open(other, {}, 'rival')
      const patient = await world.open(other, { waitMs: 30_000 }, 'rival')
      const first = handle(post('a'))
      await began.passed
      const second = await elsewhere(post('a'))
      assert.ok(second.headers.get('retry-after'))
      await assertProblem(second, 409, 'in-progress')
      const third = patient(post('a'))
      goOn.open()
      const done = await first
      await assertReplay(done.clone(), await third)
      await assertReplay(done, await elsewhere(post('a')))
      assert.deepEqual(calls, ['first'])
    },
  },
  {
    name: 'runs a request again when its response has expired',
    run: async (world) => {
      const { calls, place } = placing()
      // Not shorter: a store that lost the answer asks once more, and has to find what it wrote.
      const handle = await world.open(place, { keepMs: 1_000 })
      assert.equal((await handle(post('a'))).status, 201)
      await until(async () => {
        const response = await eventually(handle, () => post('a'))
        return response.headers.get('idempotent-replayed') === null
      })
      assert.ok(calls.length >= 2)
    },
  },
  {
    name: 'runs 1 of 500 copies, and sends its response to all who may wait',
    run: async (world) => {
      const { calls, place } = placing()
      const handle = await world.open(place, { waitMs: 60_000 })
      const responses = await Promise.all(Array.from({ length: 500 }, () => handle(post('a'))))
      assert.deepEqual(calls, ['{"n":1}'])
      assert.deepEqual(new Set(responses.map(({ status }) => status)), new Set([201]))
      assert.equal(responses.filter(({ headers }) => headers.get('idempotent-replayed') === 'true').length, 499)
      assert.equal(new Set(await Promise.all(responses.map((each) => each.text()))).size, 1)
      assert.deepEqual(await world.effects(), ['a {"n":1}'])
    },
  },
  {
    name: 'runs 1 of 500 copies, and tells the others to come later',
    run: async (world) => {
      const goOn = gate()
      let calls = 0
      const handle = await world.open(async () => {
        calls += 1
        await goOn.passed
        return new Response('done')
      })
      let refused = 0
      const sent = Array.from({ length: 500 }, async () => {
        const response = await handle(post('a'))
        refused += response.status === 409 ? 1 : 0
        return response.status
      })
      await until(() => refused === 499)
      goOn.open()
      assert.equal((await Promise.all(sent)).filter((status) => status === 200).length, 1)
      assert.equal(calls, 1)
    },
  },
]
