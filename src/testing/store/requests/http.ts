// Requests on stores with transactions, in both modes.

import assert from 'node:assert/strict'
import type { HapaxEvents } from '../../../base/index.ts'
import { HapaxError } from '../../../base/index.ts'
import type { HttpContext, HttpHandler, HttpOptions, RequestHandler } from '../../../contracts/index.ts'
import { altered } from '../../altered.ts'
import { requestResponses } from '../../requests/responses.ts'
import { requestRules } from '../../requests/rules.ts'
import {
  assertProblem,
  assertReplay,
  eventually,
  post,
  type RequestCase,
  type RequestWorld,
  senderOf,
} from '../../requests/world.ts'
import type { Case } from '../case.ts'
import { lossy } from '../doubles.ts'
import { type AnyHapax, type AnyStore, assertRejects, Pong, type Tx, type World } from '../world.ts'

type Handler = HttpHandler<HttpContext<Tx>>

/** A scope whose handlers run in a transaction. */
function orders(
  world: World,
  handler: Handler,
  options: Partial<HttpOptions> = {},
  hapax: AnyHapax = world.hapax(),
): RequestHandler {
  return hapax.http('orders', { principal: senderOf, ...options }).handler(handler)
}

function transactionWorld(world: World): RequestWorld {
  return {
    open: async (handler, options, rival) => {
      const hapax = rival === undefined ? world.hapax() : await world.rival()
      const effect = (ctx: HttpContext<Tx>) => (label: string) => world.database.effect(ctx.tx, label)
      const run: Handler = (request, ctx) =>
        handler(request, { key: ctx.key, principal: ctx.principal, effect: effect(ctx) })
      return orders(world, run, options, hapax)
    },
    effects: async () => [...(await world.database.effects())].sort(),
  }
}

/** A case of requests as one of stores. */
export function onStore(
  { name, rival, run }: RequestCase,
  worldOf: (world: World) => RequestWorld,
  skip?: Case['skip'],
): Case {
  const needs = rival ? { needs: ['another store'] as const } : {}
  return { name, ...needs, ...(skip && { skip }), open: { connections: 10 }, run: (world) => run(worldOf(world)) }
}

/** A process that shares one writer with others cannot tell a request that runs from any other transaction. */
const toldApart: Case['skip'] = ({ parallelWriters }) =>
  parallelWriters ? undefined : 'one writer: a request of another process waits for the writer, whatever its key is'

/** The same store, whose transactions the database does not take. */
function away(store: AnyStore): AnyStore {
  const run = (): Promise<never> => Promise.reject(new HapaxError('store-unavailable', 'connect ECONNREFUSED 10.1.2.3'))
  return altered(store, { transactions: { run } })
}

const rules = [...requestRules, ...requestResponses].map((each) =>
  onStore(each, transactionWorld, each.rival && toldApart),
)

/** Requests whose handlers run in a transaction. */
export const httpRequests: readonly Case[] = [
  ...rules,
  {
    name: 'commits rows, messages and the response together',
    run: async (world) => {
      const handle = orders(world, async (_, ctx) => {
        await world.database.effect(ctx.tx, 'row')
        const { id } = await ctx.publish(Pong, { n: 1 })
        return Response.json({ id }, { status: 201 })
      })
      const first = await handle(post('a'))
      const { id } = (await first.clone().json()) as { id: string }
      assert.deepEqual([first.status, await world.database.outbox()], [201, [id]])
      await world.assertEffects(['row'])
      await assertReplay(first, await handle(post('a')))
      assert.deepEqual(await world.database.outbox(), [id])
      await world.assertPlaces('a', ['receipt', 'response'])
    },
  },
  ...(['returns 500', 'throws', 'throws a response', 'returns no response', 'returns a stream of events'] as const).map(
    (how): Case => ({
      name: `leaves no row, no message and no receipt when the handler ${how}`,
      run: async (world) => {
        const handle = orders(world, async (_, ctx) => {
          await world.database.effect(ctx.tx, 'row')
          await ctx.publish(Pong, { n: 1 })
          if (how === 'throws') throw new Error('no')
          if (how === 'throws a response') throw new Response('no', { status: 400 })
          if (how === 'returns no response') return undefined as never
          if (how === 'returns 500') return new Response('no', { status: 500 })
          return new Response('data: 1', { headers: { 'content-type': 'text/event-stream' } })
        })
        const { status } = await handle(post('a'))
        assert.equal(status, how === 'throws a response' ? 400 : 500)
        await world.assertEffects([])
        assert.deepEqual(await world.database.outbox(), [])
        await world.assertPlaces('a', [])
      },
    }),
  ),
  ...(['before', 'after'] as const).flatMap((cut) =>
    [1, 2].map(
      (times): Case => ({
        name: `G3: a link that is cut ${cut} the commit, ${times} times, leaves one effect and one response`,
        run: async (world) => {
          const calls: string[] = []
          const hapax = world.hapax({ store: lossy(world.store, cut, times) })
          const run: Handler = async (_, ctx) => {
            calls.push('called')
            await world.database.effect(ctx.tx, 'row')
            return new Response(`call ${calls.length}`, { headers: { 'set-cookie': 'a=1' } })
          }
          const first = await orders(world, run, {}, hapax)(post('a'))
          assert.equal(first.status, 200)
          // Its own response, not a repetition.
          assert.deepEqual(first.headers.getSetCookie(), ['a=1'])
          await world.assertEffects(['row'])
          assert.equal(calls.length, cut === 'after' ? 1 : times + 1)
          await assertReplay(first, await orders(world, run)(post('a')))
        },
      }),
    ),
  ),
  {
    name: 'G3: a commit whose outcome stays unknown gets 503, and the next request finds out',
    run: async (world) => {
      let hidden = false
      const { run: running } = lossy(world.store, 'after', 1).transactions
      const run: AnyStore['transactions']['run'] = async (options, opening, body) => {
        if (hidden) throw new HapaxError('store-unavailable', 'connect ECONNREFUSED 10.1.2.3')
        try {
          return await running(options, opening, body)
        } catch (error) {
          hidden = true
          throw error
        }
      }
      const store = altered(world.store, { transactions: { run } })
      const place: Handler = async (_, ctx) => {
        await world.database.effect(ctx.tx, 'row')
        return new Response('placed')
      }
      const first = await orders(world, place, {}, world.hapax({ store }))(post('a'))
      assert.equal(first.headers.get('retry-after'), '5')
      assert.doesNotMatch(await first.clone().text(), /10\.1/)
      await assertProblem(first, 503, 'outcome-unknown')
      const second = await orders(world, place)(post('a'))
      assert.deepEqual([second.headers.get('idempotent-replayed'), await second.text()], ['true', 'placed'])
      await world.assertEffects(['row'])
    },
  },
  {
    name: 'a request without a key runs once, even if its commit is unknown',
    run: async (world) => {
      let calls = 0
      const hapax = world.hapax({ store: lossy(world.store, 'after', 1) })
      const run: Handler = async (_, ctx) => {
        calls += 1
        await world.database.effect(ctx.tx, 'row')
        return new Response('placed')
      }
      const handle = orders(world, run, { require: false }, hapax)
      await assertProblem(await handle(post(undefined)), 503, 'outcome-unknown')
      assert.equal(calls, 1)
      assert.equal((await handle(post(undefined))).status, 200)
      await world.assertEffects(['row', 'row'])
    },
  },
  {
    name: 'a request that needs no key runs in a transaction, and is not kept',
    run: async (world) => {
      const seen: unknown[] = []
      const handle = orders(world, async (request, ctx) => {
        seen.push([request.method, ctx.key, ctx.principal])
        await world.database.effect(ctx.tx, `row ${seen.length}`)
        return new Response(null, { status: seen.length === 2 ? 500 : 204 })
      })
      const statuses: number[] = []
      for (const _ of [1, 2, 3]) statuses.push((await handle(post('a', { method: 'GET' }))).status)
      assert.deepEqual(statuses, [204, 500, 204])
      assert.deepEqual(seen[0], ['GET', undefined, 'ann'])
      await world.assertEffects(['row 1', 'row 3'])
      await world.assertPlaces('a', [])
    },
  },
  {
    name: 'a database that is away gets 503, without a word of its own',
    run: async (world) => {
      const handle = orders(world, () => new Response('x'), {}, world.hapax({ store: away(world.store) }))
      const response = await handle(post('a'))
      assert.equal(response.headers.get('retry-after'), '1')
      assert.doesNotMatch(await response.clone().text(), /ECONN/)
      await assertProblem(response, 503, 'database-unavailable')
    },
  },
  {
    name: 'a handler that takes too long is stopped, and leaves its key free',
    run: async (world) => {
      let calls = 0
      const run: Handler = async (_, ctx) => {
        calls += 1
        if (calls > 1) return new Response('placed')
        await world.database.effect(ctx.tx, 'row')
        return new Promise((_, reject) => ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason)))
      }
      const handle = orders(world, run, { timeoutMs: 300 })
      await assertProblem(await handle(post('a')), 503, 'handler-timeout')
      // Its key may be locked for another moment, until the database has ended the first transaction.
      assert.equal(await (await eventually(handle, () => post('a'))).text(), 'placed')
      await world.assertEffects([])
    },
  },
  {
    name: 'a handler that commits by itself is noticed, and not run again',
    needs: ['ending the transaction'],
    run: async (world) => {
      let calls = 0
      const handle = orders(world, async (_, ctx) => {
        calls += 1
        await world.database.effect(ctx.tx, 'row')
        await world.database.commitInside(ctx.tx)
        return new Response('placed')
      })
      const first = await handle(post('a'))
      assert.doesNotMatch(await first.clone().text(), /nothing was changed/)
      await assertProblem(first, 500, 'handler-failed')
      await assertProblem(await handle(post('a')), 409, 'response-gone')
      await assertProblem(await handle(post('a', { body: 'x' })), 422, 'key-reused')
      assert.equal(calls, 1)
    },
  },
  {
    name: 'a handler that sends its own request to itself is told so',
    run: async (world) => {
      const http = world.hapax().http('orders', { principal: senderOf })
      const handle = http.handler(async () => {
        await assertRejects(
          http.handle(post('a'), () => new Response('x')),
          'reentrant',
        )
        return new Response('placed')
      })
      assert.equal(await (await handle(post('a'))).text(), 'placed')
    },
  },
  {
    name: 'a client that goes away does not stop its request',
    run: async (world) => {
      const client = new AbortController()
      const handle = orders(world, async (request, ctx) => {
        client.abort()
        await world.database.effect(ctx.tx, await request.text())
        return new Response(String(request.signal.aborted || ctx.signal.aborted))
      })
      const first = await handle(new Request(post('a'), { signal: client.signal }))
      assert.equal(await first.clone().text(), 'false')
      await world.assertEffects(['{"n":1}'])
      await assertReplay(first, await handle(post('a')))
    },
  },
  {
    name: 'events tell what became of each request',
    run: async (world) => {
      const hapax = world.hapax()
      const events: HapaxEvents['http-request'][] = []
      hapax.events.on('http-request', (event) => events.push(event))
      const statuses = [201, 500]
      const handle = orders(
        world,
        () => new Response('x', { status: statuses.shift() ?? 200 }),
        { require: false },
        hapax,
      )
      const sent = [post('a'), post('a'), post('a', { body: 'y' }), post('b'), post(undefined), post(''), post('c')]
      for (const request of sent) await handle(request)
      assert.deepEqual(
        events.map(({ scope, outcome, status }) => [scope, outcome, status]),
        [
          ['orders', 'first', 201],
          ['orders', 'replayed', 201],
          ['orders', 'mismatch', 422],
          ['orders', 'rolled-back', 500],
          ['orders', 'unprotected', 200],
          ['orders', 'rejected', 400],
          ['orders', 'first', 200],
        ],
      )
      assert.ok(events.every(({ durationMs }) => durationMs >= 0))
    },
  },
  {
    name: 'responses that have expired are deleted by requests, without a worker',
    run: async (world) => {
      const handle = orders(world, () => new Response('x'), { keepMs: 1 })
      await handle(post('a'))
      await world.until(async () => {
        // Another hapax, as a new process has it: each looks for them once a minute.
        await orders(world, () => new Response('x'))(post(crypto.randomUUID()))
        return (await world.store.admin.trace('a')).length === 0
      })
    },
  },
]
