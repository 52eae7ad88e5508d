// Requests whose handlers call the outside world, on stores with transactions.

import assert from 'node:assert/strict'
import { Permanent, silentLogger } from '../../../base/index.ts'
import type { HttpHandler, LeasedHttpContext, LeasedHttpOptions, RequestHandler } from '../../../contracts/index.ts'
import { altered } from '../../altered.ts'
import { LeapingClock } from '../../clock.ts'
import { requestResponses } from '../../requests/responses.ts'
import { requestRules } from '../../requests/rules.ts'
import { assertProblem, assertReplay, eventually, post, type RequestWorld, senderOf } from '../../requests/world.ts'
import type { Case } from '../case.ts'
import { lossy } from '../doubles.ts'
import { silent } from '../leased/world.ts'
import { type AnyHapax, type AnyStore, gate, Pong, type Tx, type World } from '../world.ts'
import { onStore } from './http.ts'

type Handler = HttpHandler<LeasedHttpContext<Tx>>

/** A scope whose handlers run under a lease. */
function orders(
  world: World,
  handler: Handler,
  options: Partial<LeasedHttpOptions> = {},
  hapax: AnyHapax = world.hapax(),
): RequestHandler {
  return hapax.http('orders', { principal: senderOf, ...options, mode: 'leased' }).handler(handler)
}

function leasedWorld(world: World): RequestWorld {
  const effects: string[] = []
  return {
    open: async (handler, options, rival) => {
      const hapax = rival === undefined ? world.hapax() : await world.rival()
      const run: Handler = (request, ctx) =>
        handler(request, {
          key: ctx.key,
          principal: ctx.principal,
          effect: (label) => ctx.effect('effect', async () => effects.push(label)),
        })
      return orders(world, run, options, hapax)
    },
    effects: async () => [...effects].sort(),
  }
}

/** A provider that counts what is sent. */
function provider(): { readonly keys: string[]; readonly send: (key: string) => Promise<number> } {
  const keys: string[] = []
  return { keys, send: async (key) => keys.push(key) }
}

/** Requests whose handlers run under a lease. */
export const leasedRequests: readonly Case[] = [
  ...[...requestRules, ...requestResponses].map((each) => onStore(each, leasedWorld)),
  {
    name: 'does not repeat what was done when the handler fails after it',
    run: async (world) => {
      const { keys, send } = provider()
      let calls = 0
      const handle = orders(world, async (_, ctx) => {
        calls += 1
        const sent = await ctx.effect('send', send)
        if (calls === 1) return new Response('not yet', { status: 503 })
        return Response.json({ sent, attempt: ctx.attempt })
      })
      const first = await handle(post('a'))
      assert.deepEqual([first.status, await first.text()], [503, 'not yet'])
      assert.ok(first.headers.get('retry-after'))
      const second = await eventually(handle, () => post('a'))
      assert.deepEqual(await second.clone().json(), { sent: 1, attempt: 2 })
      assert.equal(second.headers.get('idempotent-replayed'), null)
      await assertReplay(second, await handle(post('a')))
      assert.equal(keys.length, 1)
    },
  },
  {
    name: 'commits what is completed and published with the response',
    run: async (world) => {
      const handle = orders(world, async (_, ctx) => {
        ctx.complete((tx) => world.database.effect(tx, 'row'))
        const { id } = await ctx.publish(Pong, { n: 1 })
        return Response.json({ id })
      })
      const first = await handle(post('a'))
      const { id } = (await first.clone().json()) as { id: string }
      await world.assertEffects(['row'])
      assert.deepEqual(await world.database.outbox(), [id])
      await assertReplay(first, await handle(post('a')))
      await world.assertPlaces('a', ['receipt', 'response'])
    },
  },
  {
    name: 'goes on with a request whose process died, without repeating what was done',
    needs: ['another store'],
    run: async (world) => {
      const { keys, send } = provider()
      const died = gate()
      // A process that hangs for ever and whose heartbeats do not come through is as good as dead.
      const dead = world.hapax({ store: silent(await world.database.another()) })
      const hanging = orders(
        world,
        async (_, ctx) => {
          await ctx.effect('send', send)
          died.open()
          return new Promise(() => {})
        },
        { leaseMs: 500 },
        dead,
      )
      void hanging(post('a'))
      await died.passed
      const handle = orders(world, async (_, ctx) => Response.json({ sent: await ctx.effect('send', send) }))
      const response = await eventually(handle, () => post('a'))
      assert.deepEqual(await response.json(), { sent: 1 })
      assert.equal(keys.length, 1)
    },
  },
  {
    name: 'a worker goes on with what a client has left, and knows the sender but not the credentials',
    run: async (world) => {
      const seen: unknown[] = []
      const hapax = world.hapax()
      const http = hapax.http('orders', { principal: senderOf, mode: 'leased' })
      const handle = http.handler(async (request, ctx) => {
        const { method, url, headers } = request
        seen.push([method, url, headers.get('authorization'), await request.text(), ctx.key, ctx.principal])
        return new Response(`call ${seen.length}`, { status: seen.length === 1 ? 500 : 201 })
      })
      const request = (): Request => post('"a"', { headers: { authorization: 'Bearer secret' }, body: 'data' })
      assert.equal((await handle(request())).status, 500)
      const worker = hapax.worker({ consume: [http], pollMs: 20 })
      await worker.start()
      await world.until(() => seen.length === 2)
      await world.until(async () => (await world.store.admin.trace('a')).some(({ where }) => where === 'response'))
      await worker.stop()
      const response = await handle(request())
      assert.deepEqual(
        [response.status, response.headers.get('idempotent-replayed'), await response.text()],
        [201, 'true', 'call 2'],
      )
      assert.deepEqual(seen, [
        ['POST', 'http://localhost/orders', 'Bearer secret', 'data', 'a', 'ann'],
        ['POST', 'http://localhost/orders', null, 'data', 'a', 'ann'],
      ])
    },
  },
  {
    name: 'a call whose outcome is unknown waits for a person',
    run: async (world) => {
      let calls = 0
      const handle = orders(world, async (_, ctx) => {
        await ctx.effect('send', async () => {
          calls += 1
          throw new Error('the connection broke')
        })
        return new Response('sent')
      })
      await assertProblem(await handle(post('a')), 500, 'unknown-effect')
      await assertProblem(await handle(post('a')), 409, 'needs-a-person')
      assert.equal(calls, 1)
    },
  },
  {
    name: 'does not say that nothing was changed when a request has failed for good',
    run: async (world) => {
      const handle = orders(world, () => {
        throw new Permanent('no')
      })
      const first = await handle(post('a'))
      assert.doesNotMatch(await first.clone().text(), /nothing was changed|sent again/)
      await assertProblem(first, 500, 'handler-failed')
      await assertProblem(await handle(post('a')), 409, 'needs-a-person')
    },
  },
  {
    name: 'leaves requests to their clients, without asking for a worker',
    run: async (world) => {
      const warned: string[] = []
      const logger = { ...silentLogger, warn: (_: unknown, message: string) => void warned.push(message) }
      const refuse: Handler = () => {
        throw new Response('no', { status: 400 })
      }
      const first = await orders(world, refuse, {}, world.hapax({ logger }))(post('a'))
      assert.deepEqual([first.status, first.headers.get('retry-after')], [400, null])
      assert.equal(warned.filter((message) => message.includes('no live worker')).length, 0)
    },
  },
  {
    name: 'a worker runs a request with its own body, while a client sends another one with its key',
    run: async (world) => {
      const bodies: string[] = []
      const [asked, goOn] = [gate(), gate()]
      const { read } = world.store.responses
      let slow = false
      const store = altered(world.store, {
        responses: {
          read: async (consumer: string, key: string) => {
            if (slow) {
              asked.open()
              await goOn.passed
            }
            return read(consumer, key)
          },
        },
      })
      const hapax = world.hapax({ store })
      const http = hapax.http('orders', { principal: senderOf, mode: 'leased' })
      const handle = http.handler(async (request) => {
        bodies.push(await request.text())
        return new Response('x', { status: bodies.length === 1 ? 500 : 201 })
      })
      await handle(post('a', { body: 'first' }))
      slow = true
      const other = handle(post('a', { body: 'other' }))
      await asked.passed
      const worker = hapax.worker({ consume: [http], pollMs: 20 })
      await worker.start()
      await world.until(async () => (await world.store.admin.trace('a')).some(({ where }) => where === 'response'))
      await worker.stop()
      goOn.open()
      await assertProblem(await other, 422, 'key-reused')
      assert.deepEqual(bodies, ['first', 'first'])
    },
  },
  {
    name: 'a database that goes silent after the call gets 503 in time, and the call is not made again',
    run: async (world) => {
      const { keys, send } = provider()
      const clock = new LeapingClock()
      const [asked, back] = [gate(), gate()]
      const running = world.store.transactions.run
      const run: AnyStore['transactions']['run'] = async (options, opening, body) => {
        if (opening.kind !== 'settle') return running(options, opening, body)
        asked.open()
        await back.passed
        return running(options, opening, body)
      }
      const hapax = world.hapax({ clock, store: altered(world.store, { transactions: { run } }) })
      const handle = orders(world, async (_, ctx) => Response.json({ sent: await ctx.effect('send', send) }), {}, hapax)
      const first = handle(post('a'))
      await asked.passed
      clock.leap(20_000)
      await assertProblem(await first, 503, 'outcome-unknown')
      back.open()
      // Whoever goes on with it, and when, the call is not made again.
      const second = await handle(post('a'))
      assert.ok([200, 409].includes(second.status), await second.text())
      assert.equal(keys.length, 1)
    },
  },
  {
    name: 'keeps nothing of a request that reuses a key',
    run: async (world) => {
      const hapax = world.hapax()
      const handle = orders(world, () => new Response('x'), {}, hapax)
      await handle(post('a'))
      await assertProblem(await handle(post('a', { body: 'other' })), 422, 'key-reused')
      await world.assertPlaces('a', ['receipt', 'response'])
    },
  },
  ...(['before', 'after'] as const).map(
    (cut): Case => ({
      name: `G3: a link that is cut ${cut} the commit of each step leaves one call and one response`,
      run: async (world) => {
        const { keys, send } = provider()
        const hapax = world.hapax({ store: lossy(world.store, cut, 2) })
        const handler: Handler = async (_, ctx) => Response.json({ sent: await ctx.effect('send', send) })
        const first = await eventually(orders(world, handler, {}, hapax), () => post('a'))
        assert.deepEqual(await first.json(), { sent: 1 })
        const again = await eventually(orders(world, handler), () => post('a'))
        assert.deepEqual(await again.json(), { sent: 1 })
        assert.equal(keys.length, 1)
      },
    }),
  ),
  {
    name: 'takes requests with a key only, and one handler per scope',
    run: async (world) => {
      const http = world.hapax().http('orders', { principal: senderOf, mode: 'leased' })
      const handle = http.handler(() => new Response('x'))
      await assertProblem(await handle(post('a', { method: 'GET' })), 405, 'method-not-allowed')
      assert.throws(() => http.handler(() => new Response('y')), /each handler needs a scope of its own/)
      await assert.rejects(
        http.handle(post('a'), () => new Response('z')),
        /handle\(\) cannot be used with mode leased/,
      )
      const options = { principal: 'none', mode: 'leased', require: false } as const
      assert.throws(() => world.hapax().http('orders', options), /expected require to be true with mode leased/)
    },
  },
]
