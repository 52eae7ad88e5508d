import assert from 'node:assert/strict'
import type { StoredResponse } from '../../../contracts/index.ts'
import { atEachLevel, type Case } from '../case.ts'
import { lossy, watched } from '../doubles.ts'
import { assertRejects, gate, type World } from '../world.ts'
import { answer, CREATED, DAY_MS, ORDERS, request, rowOf, take, UNIT } from './request.ts'

/** The first of two requests with the same key, in a process of its own, whose handler waits until it is let go. */
async function first(world: World, id: string, ends: 'commits' | 'rolls back') {
  const running = gate()
  const go = gate()
  const message = request(id)
  const winning = take(world, message, {
    body: async ({ tx }) => {
      await world.database.effect(tx, 'first')
      running.open()
      await go.passed
      return ends === 'commits' ? { response: rowOf(message) } : undefined
    },
  })
  await running.passed
  const { store, begun } = watched(await world.database.another(), world.features)
  return { go, winning, message, store, begun }
}

const levels: readonly Case[] = [
  {
    name: 'a response commits with the receipt, and comes with it when the request is taken again',
    run: async (world) => {
      const message = request('a')
      const { token, receipt } = await take(world, message)
      assert.equal(receipt, undefined)
      const again = await take(world, message)
      assert.equal(again.receipt?.token, token)
      assert.equal(again.receipt.expired, false)
      assertResponse(again.receipt.response, CREATED)
      const known = await world.store.responses.read(ORDERS, message.messageKey)
      assert.equal(known?.receipt.token, token)
      assert.deepEqual([known.receipt.source, known.receipt.id], [message.source, 'a'])
      assertResponse(known.response, CREATED)
    },
  },
  {
    name: 'neither the receipt nor the response is kept when the handler throws, or the transaction rolls back',
    run: async (world) => {
      const message = request('a')
      const failing = take(world, message, {
        body: async ({ tx }) => {
          await world.database.effect(tx, 'a')
          throw new Error('no')
        },
      })
      await assert.rejects(failing, /no/)
      await take(world, message, { body: async () => undefined })
      assert.equal(await world.store.responses.read(ORDERS, message.messageKey), undefined)
      assert.equal((await take(world, message)).receipt, undefined)
      await world.assertEffects([])
    },
  },
  {
    name: 'a second request with the same key waits for the first, and gets its response',
    needs: ['another store'],
    run: async (world) => {
      const { go, winning, message, store, begun } = await first(world, 'a', 'commits')
      const losing = take(world, message, {
        store,
        body: async ({ tx }) => void (await world.database.effect(tx, 'second')),
      })
      await begun.passed
      go.open()
      const { token } = await winning
      const { receipt, runs } = await losing
      assert.equal(receipt?.token, token)
      assertResponse(receipt.response, CREATED)
      await world.assertEffects(['first'])
      // What it waited for is seen by the same opening; other levels have a snapshot that is too old.
      if (world.isolation === 'read committed') assert.equal(runs, 1)
    },
  },
  {
    name: 'a second request with the same key runs when the first rolls back',
    needs: ['another store'],
    run: async (world) => {
      const { go, winning, message, store, begun } = await first(world, 'a', 'rolls back')
      const second = { ...CREATED, status: 202 }
      const losing = take(world, message, {
        store,
        body: async ({ tx }) => {
          await world.database.effect(tx, 'second')
          return { response: rowOf(message, second) }
        },
      })
      await begun.passed
      go.open()
      await winning
      assert.equal((await losing).receipt, undefined)
      await world.assertEffects(['second'])
      assert.equal((await take(world, message)).receipt?.response?.status, 202)
    },
  },
  {
    name: 'a second request with the same key that does not wait is busy',
    needs: ['another store'],
    run: async (world) => {
      const { go, winning, message, store } = await first(world, 'a', 'commits')
      await assertRejects(take(world, message, { store, lockTimeoutMs: 1 }), 'busy')
      go.open()
      await winning
      assertResponse((await take(world, message, { store })).receipt?.response, CREATED)
    },
  },
  {
    name: 'after a commit that succeeded without a reply, the response is found under the token of the request',
    run: async (world) => {
      const message = request('a')
      const token = crypto.randomUUID()
      const opening = { kind: 'take', consumer: ORDERS, token, messages: [message], responses: true } as const
      const { transactions } = lossy(world.store, 'after')
      const lost = transactions.run({ ...UNIT, isolation: world.isolation }, opening, async () => ({
        value: undefined,
        writes: { response: rowOf(message) },
      }))
      await assertRejects(lost, 'commit-unknown')
      const known = await world.store.responses.read(ORDERS, message.messageKey)
      assert.equal(known?.receipt.token, token)
      assertResponse(known.response, CREATED)
    },
  },
]

const once: readonly Case[] = [
  {
    name: 'bodies come back byte by byte: every value, none at all, and a mebibyte',
    run: async (world) => {
      const every = Uint8Array.from({ length: 256 }, (_, index) => index)
      const large = new Uint8Array(1024 * 1024).map((_, index) => (index * 31) % 256)
      for (const [id, body] of Object.entries({ every, empty: new Uint8Array(), large })) {
        await take(world, request(id), { response: { ...CREATED, body } })
        assertResponse((await take(world, request(id))).receipt?.response, { ...CREATED, body })
      }
    },
  },
  {
    name: 'a part of a larger buffer is kept, and nothing around it',
    run: async (world) => {
      const body = new Uint8Array(Buffer.from('<<{"n":1}>>')).subarray(2, 9)
      await take(world, request('a'), { response: { ...CREATED, body } })
      assert.equal(Buffer.from((await responseOf(world, 'a'))?.body ?? []).toString(), '{"n":1}')
    },
  },
  {
    name: 'headers come back as they were, in their order: several of a name, quotes, any character',
    run: async (world) => {
      const headers: StoredResponse['headers'] = [
        ['content-type', 'text/plain; charset="utf-8"'],
        ['x-note', `it's "quoted", back\\slashed; naïve Zoë \u{1f600} 中文`],
        ['link', '</a>; rel=next'],
        ['link', '</b>; rel=prev'],
        ['x-odd', 'nul \u0000, one \u0001, lone \ud800, %00, {}, []'],
        ['x-empty', ''],
      ]
      await take(world, request('a'), { response: { ...CREATED, headers } })
      await take(world, request('none'), { response: { ...CREATED, headers: [] } })
      assert.deepEqual((await responseOf(world, 'a'))?.headers, headers)
      assert.deepEqual((await responseOf(world, 'none'))?.headers, [])
    },
  },
  {
    name: 'every status comes back',
    run: async (world) => {
      for (const status of [200, 204, 301, 400, 422, 500, 599, 999]) {
        await take(world, request(`s-${status}`), { response: { ...CREATED, status } })
        assert.equal((await responseOf(world, `s-${status}`))?.status, status)
      }
    },
  },
  {
    name: 'ids of 2048 bytes, and any text, are kept and found',
    run: async (world) => {
      const ids = [
        'k'.repeat(2048),
        'é'.repeat(1024),
        `${'k'.repeat(2047)}l`,
        'a"b\\c',
        'UPPER and lower',
        'nul \u0000',
        "'; --",
      ]
      for (const [index, id] of ids.entries()) {
        await take(world, request(id), { response: { ...CREATED, status: 200 + index } })
      }
      for (const [index, id] of ids.entries()) {
        assert.equal((await responseOf(world, id))?.status, 200 + index)
        const traces = await world.store.admin.trace(id)
        const found = traces.flatMap((each) => (each.where === 'response' ? [each.status] : []))
        assert.deepEqual(found, [200 + index])
      }
    },
  },
  {
    name: 'a response is never seen by another consumer, another source or another id',
    run: async (world) => {
      await take(world, request('a'))
      const others = [
        [request('a'), 'http:refunds'],
        [request('a', 'POST /orders ~bob'), ORDERS],
        [request('b'), ORDERS],
        [request('A'), ORDERS],
      ] as const
      for (const [message, consumer] of others) {
        assert.equal(await world.store.responses.read(consumer, message.messageKey), undefined)
        assert.equal((await take(world, message, { consumer })).receipt, undefined)
      }
    },
  },
  {
    name: 'without being asked for, a response does not come with its receipt',
    run: async (world) => {
      const message = request('a')
      await take(world, message)
      const opening = { kind: 'take', consumer: ORDERS, token: crypto.randomUUID(), messages: [message] } as const
      await world.store.transactions.run(UNIT, opening, async ({ existing }) => {
        assert.equal(existing.get(message.messageKey)?.response, undefined)
        return { value: undefined, writes: undefined }
      })
    },
  },
  {
    name: 'a receipt without a response is known, and has none',
    run: async (world) => {
      const message = request('a')
      await take(world, message, { body: async () => ({}) })
      const known = await world.store.responses.read(ORDERS, message.messageKey)
      assert.deepEqual([known?.receipt.id, known?.response], ['a', undefined])
      const { receipt } = await take(world, message)
      assert.deepEqual([receipt?.id, receipt?.response, receipt?.expired], ['a', undefined, false])
    },
  },
  {
    name: 'a request that runs again gets another response in the place of the first',
    run: async (world) => {
      const message = request('a')
      await take(world, message, { keepMs: 0 })
      await answer(world, rowOf(message, { ...CREATED, status: 200 }, DAY_MS))
      const { receipt } = await take(world, message)
      assert.deepEqual([receipt?.response?.status, receipt?.expired], [200, false])
      const traces = await world.store.admin.trace('a')
      assert.equal(traces.filter(({ where }) => where === 'response').length, 1)
    },
  },
  {
    name: 'several requests are taken at once, each with what is known of it',
    run: async (world) => {
      const messages = ['a', 'b', 'c'].map((id) => request(id))
      const [a, b] = messages
      assert.ok(a && b)
      await take(world, a)
      await take(world, b, { body: async () => ({}) })
      const opening = { kind: 'take', consumer: ORDERS, token: crypto.randomUUID(), messages, responses: true } as const
      await world.store.transactions.run(UNIT, opening, async ({ existing }) => {
        const found = [...existing.values()].map(({ id, response }) => [id, response?.status])
        assert.deepEqual(found.sort(), [
          ['a', 201],
          ['b', undefined],
        ])
        return { value: undefined, writes: undefined }
      })
    },
  },
]

async function responseOf(world: World, id: string): Promise<StoredResponse | undefined> {
  return (await world.store.responses.read(ORDERS, request(id).messageKey))?.response
}

function assertResponse(found: StoredResponse | undefined, expected: StoredResponse): void {
  assert.deepEqual([found?.status, found?.headers], [expected.status, expected.headers])
  assert.ok(found !== undefined && Buffer.from(expected.body).equals(found.body), 'expected the same bytes')
}

export const responses: readonly Case[] = [...atEachLevel(levels), ...once]
