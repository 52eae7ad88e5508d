import assert from 'node:assert/strict'
import type { InboxRow } from '../../../contracts/index.ts'
import type { Case } from '../case.ts'
import type { World } from '../world.ts'
import { answer, CREATED, leasedRequest, ORDERS, request, rowOf, take, UNIT } from './request.ts'

/** Settles leased work with a response. */
async function settle(world: World, { seq, leaseToken, fence, message }: InboxRow, keepMs: number): Promise<boolean> {
  const lease = { seq, token: leaseToken ?? '', fence }
  return world.store.transactions.run(UNIT, { kind: 'settle', lease }, async ({ claimed }) => ({
    value: claimed.size > 0,
    writes: claimed.size > 0 ? { response: rowOf(message, CREATED, keepMs) } : undefined,
  }))
}

/** What is left of a request. */
async function places(world: World, id: string): Promise<readonly string[]> {
  return (await world.store.admin.trace(id)).map(({ where }) => where).sort()
}

export const expiry: readonly Case[] = [
  {
    name: 'a response that has expired is flagged, and not read; once it is forgotten, the key is free',
    run: async (world) => {
      const message = request('a')
      const { token } = await take(world, message, { keepMs: 0 })
      const { receipt } = await take(world, message)
      assert.deepEqual([receipt?.token, receipt?.expired, receipt?.response?.status], [token, true, 201])
      assert.equal(await world.store.responses.read(ORDERS, message.messageKey), undefined)
      assert.equal(await world.store.responses.forget(ORDERS, message.messageKey), true)
      assert.deepEqual(await places(world, 'a'), [])
      assert.equal(await world.store.responses.forget(ORDERS, message.messageKey), false)
      assert.equal((await take(world, message)).receipt, undefined)
    },
  },
  {
    name: 'a response that has not expired is not forgotten, nor is that of another consumer',
    run: async (world) => {
      const message = request('a')
      await take(world, message)
      await take(world, message, { consumer: 'http:refunds', keepMs: 0 })
      await take(world, request('b'), { keepMs: 0, body: async () => ({}) })
      assert.equal(await world.store.responses.forget(ORDERS, message.messageKey), false)
      assert.equal(await world.store.responses.forget(ORDERS, request('b').messageKey), false)
      assert.ok((await take(world, message)).receipt?.response)
      assert.ok((await take(world, message, { consumer: 'http:refunds' })).receipt?.expired)
    },
  },
  {
    name: 'of two that forget a response at once, or forget and expire it, one does',
    run: async (world) => {
      const message = request('a')
      await take(world, message, { keepMs: 0 })
      const { responses } = world.store
      const results = await Promise.all([
        responses.forget(ORDERS, message.messageKey),
        responses.forget(ORDERS, message.messageKey),
        responses.expire(10),
      ])
      assert.equal(
        results.map(Number).reduce((sum, each) => sum + each),
        1,
      )
      assert.deepEqual(await places(world, 'a'), [])
    },
  },
  {
    name: 'G3: expired responses go with their receipts, the oldest first, so many at a time; the others stay',
    run: async (world) => {
      for (const id of ['a', 'b', 'c', 'd', 'e']) await take(world, request(id), { keepMs: 0 })
      await take(world, request('kept'))
      await take(world, request('unanswered'), { body: async () => ({}) })
      // Expired before all others.
      await answer(world, rowOf(request('e'), CREATED, -60_000))
      assert.equal(await world.store.responses.expire(2), 2)
      assert.deepEqual(await places(world, 'e'), [])
      assert.deepEqual(await places(world, 'a'), [])
      assert.deepEqual(await places(world, 'b'), ['receipt', 'response'])
      assert.equal(await world.store.responses.expire(2), 2)
      assert.equal(await world.store.responses.expire(2), 1)
      assert.equal(await world.store.responses.expire(2), 0)
      assert.deepEqual(await places(world, 'kept'), ['receipt', 'response'])
      assert.deepEqual(await places(world, 'unanswered'), ['receipt'])
    },
  },
  {
    name: 'the journal of a request goes with its response',
    run: async (world) => {
      const { store } = world
      const [old, young] = [request('old'), request('young')]
      for (const [message, keepMs] of [
        [old, 0],
        [young, 60_000],
      ] as const) {
        const row = await leasedRequest(world, message)
        const lease = { seq: row.seq, token: row.leaseToken ?? '', fence: row.fence }
        const effect = { consumer: ORDERS, messageKey: message.messageKey, name: 'charge' }
        await store.journal.begin(lease, 60_000, effect, false)
        await store.journal.end(lease, effect, { state: 'done', result: '1', error: null })
        assert.equal(await settle(world, row, keepMs), true)
      }
      assert.deepEqual(await places(world, 'old'), ['effect', 'receipt', 'response'])
      assert.equal(await store.responses.expire(10), 1)
      assert.deepEqual(await store.journal.of(ORDERS, old.messageKey), [])
      assert.equal((await store.journal.of(ORDERS, young.messageKey)).length, 1)
      assert.deepEqual(await places(world, 'old'), [])
      assert.deepEqual(await places(world, 'young'), ['effect', 'receipt', 'response'])
    },
  },
  {
    name: 'G2: a request that waits in the inbox or is in the failed store keeps its key, and holds up no others',
    run: async (world) => {
      const { store } = world
      const [waiting, failed] = [request('waiting'), request('failed')]
      const row = await leasedRequest(world, waiting)
      const other = await leasedRequest(world, failed)
      const error = { name: 'Error', message: 'no' }
      const end = { attempts: 1, reason: 'permanent', error, entry: '{}', hold: false, leaseToken: other.leaseToken }
      assert.ok(await store.inbox.fail({ seq: other.seq, ...end }))
      for (const message of [waiting, failed]) await answer(world, rowOf(message, CREATED, -60_000))
      await take(world, request('done'), { keepMs: 0 })
      assert.equal(await store.responses.expire(1), 1)
      assert.deepEqual(await places(world, 'done'), [])
      assert.equal(await store.responses.expire(10), 0)
      for (const { messageKey } of [waiting, failed])
        assert.equal(await store.responses.forget(ORDERS, messageKey), false)
      assert.deepEqual(await places(world, 'waiting'), ['inbox', 'receipt', 'response'])
      assert.deepEqual(await places(world, 'failed'), ['failed', 'receipt', 'response'])
      assert.equal(await settle(world, row, 0), true)
      const [listed] = await store.failed.list({ limit: 1 })
      assert.ok(await store.failed.discard(listed?.seq ?? '', { actor: 'ada', action: 'discard' }))
      assert.equal(await store.responses.expire(10), 2)
    },
  },
  {
    name: 'a settled request is not answered again by a lease that has ended',
    run: async (world) => {
      const row = await leasedRequest(world, request('a'))
      assert.equal(await settle(world, row, 60_000), true)
      assert.equal(await settle(world, row, 60_000), false)
      assert.deepEqual(await places(world, 'a'), ['receipt', 'response'])
    },
  },
  {
    name: 'G2: cleaning leaves a receipt whose response is kept, expired or not, to those who expire it',
    run: async (world) => {
      await take(world, request('kept'))
      await take(world, request('expired'), { keepMs: 0 })
      await take(world, request('unanswered'), { body: async () => ({}) })
      await world.until(async () => (await world.cleanable(ORDERS)) === 1)
      const step = { kind: 'receipts', consumer: ORDERS, after: undefined } as const
      assert.equal((await world.store.admin.clean(step, 1, 100)).deleted, 1)
      assert.deepEqual(await places(world, 'unanswered'), [])
      assert.deepEqual(await places(world, 'kept'), ['receipt', 'response'])
      assert.deepEqual(await places(world, 'expired'), ['receipt', 'response'])
      assert.equal(await world.store.responses.expire(100), 1)
    },
  },
  {
    name: 'a request is found by its key alone, in every scope and of every principal',
    run: async (world) => {
      const from = ['POST /orders ~ada', 'POST /orders ~bob', 'PUT /orders/1 ~ada']
      await take(world, request('key-17', from[0]))
      await take(world, request('key-17', from[1]), { response: { ...CREATED, status: 422 }, keepMs: 0 })
      await take(world, request('key-17', from[2]), { consumer: 'http:changes' })
      await take(world, request('key-18'))
      const traces = await world.store.admin.trace('key-17')
      const found = traces.flatMap((each) =>
        each.where === 'response' ? [[each.consumer, each.source, each.type, each.status]] : [],
      )
      assert.deepEqual(found.sort(), [
        ['http:changes', from[2], 'http.request', 201],
        [ORDERS, from[0], 'http.request', 201],
        [ORDERS, from[1], 'http.request', 422],
      ])
      assert.deepEqual(await places(world, 'key-17'), [
        ...Array<string>(3).fill('receipt'),
        ...Array<string>(3).fill('response'),
      ])
      const [only] = (await world.store.admin.trace('key-17', from[1])).filter(({ where }) => where === 'response')
      // A database may look at its clock twice.
      assert.ok(only?.where === 'response' && Math.abs(only.expiresAt.getTime() - only.at.getTime()) < 60_000)
      assert.equal((await world.store.admin.trace('key-17', 'elsewhere')).length, 0)
      assert.equal((await world.store.admin.trace('key-17', undefined, true)).length, 6)
    },
  },
]
