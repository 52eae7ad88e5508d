// Publishes that name no transaction: they belong to the one that the code is inside of.

import assert from 'node:assert/strict'
import type { Instrument } from '../../../base/index.ts'
import { isHapaxError } from '../../../base/index.ts'
import type { Published } from '../../../contracts/index.ts'
import { type MessageAttributes, unpackAttributes } from '../../../message/index.ts'
import { post, senderOf } from '../../requests/world.ts'
import { type Case, parallelOnly } from '../case.ts'
import { TestDestination } from '../doubles.ts'
import { leased } from '../leased/world.ts'
import {
  type AnyHapax,
  AT_ONCE,
  assertOutcome,
  assertRejects,
  type Gate,
  gate,
  Ping,
  Pong,
  ping,
  type World,
} from '../world.ts'
import { outbox } from './outgoing.ts'

const TRACED = {
  correlationId: 'checkout 7',
  traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  tracestate: 'vendor=1',
} as const
const IDS = Array.from({ length: 12 }, (_, index) => `m${index}`)

/** The code of a user, called without a transaction and without a context. */
type Code = () => unknown

/** Where code may publish, and what the messages then name as their cause. */
interface Place {
  readonly run: (world: World, hapax: AnyHapax, code: Code) => Promise<unknown>
  readonly cause: 'message' | 'request' | 'none'
}

const traced = (more: object = {}) => ping('a', { ...TRACED, ...more })

const PLACES: Readonly<Record<string, Place>> = {
  'hapax.transaction': { run: (_, hapax, code) => hapax.transaction(async () => code()), cause: 'none' },
  'a handler': {
    run: (world, hapax, code) => world.reader(code, { hapax }).consumer.handle(traced()),
    cause: 'message',
  },
  'a wrapped handler': {
    run: (_, hapax, code) => hapax.consumer('billing').wrap(Ping, code)(traced()),
    cause: 'message',
  },
  'a handler of a stored message': {
    run: async (world, hapax, code) => {
      const { consumer } = world.reader(code, { hapax, receive: 'store' })
      await consumer.handle(traced())
      await world.drain({ hapax, consumer })
    },
    cause: 'message',
  },
  'a handler of unknown types': {
    run: (_, hapax, code) => hapax.consumer('billing', { unknown: code }).handle(traced({ type: 'novel' })),
    cause: 'message',
  },
  onMany: {
    run: (_, hapax, code) => hapax.consumer('billing').onMany(Ping, code).handleMany([traced()]),
    cause: 'none',
  },
  onFailed: {
    run: (world, hapax, code) => {
      const { consumer } = world.reader(() => Promise.reject(new Error('no')), { hapax, retry: { attempts: 1 } })
      return consumer.onFailed(Ping, code).handle(traced())
    },
    cause: 'message',
  },
  'ctx.complete': {
    run: (world, hapax, code) => leased(world, (ctx) => ctx.complete(code), { hapax }).handle(traced()),
    cause: 'message',
  },
  'a handler of requests': {
    run: (_, hapax, code) => hapax.http('orders', { principal: senderOf }).handler(answering(code))(post('k')),
    cause: 'request',
  },
  'ctx.complete of a request': {
    run: (_, hapax, code) =>
      hapax.http('orders', { principal: senderOf, mode: 'leased' }).handler((_request, ctx) => {
        ctx.complete(code)
        return new Response('placed')
      })(post('k')),
    cause: 'request',
  },
}

function answering(code: Code): () => Promise<Response> {
  return async () => {
    await code()
    return new Response('placed')
  }
}

/** The causes of what is in the outbox, in order. */
async function published(world: World): Promise<readonly Partial<MessageAttributes>[]> {
  return (await outbox(world.store)).map(({ message }) => {
    const { causationId, correlationId, traceparent, tracestate } = unpackAttributes(message)
    return JSON.parse(JSON.stringify({ causationId, correlationId, traceparent, tracestate }))
  })
}

/** What is refused, and the sentence that says what to do instead. */
async function refused(publishing: Promise<unknown>, sentence: RegExp): Promise<void> {
  await assert.rejects(publishing, (error) => isHapaxError(error, 'not-in-transaction') && sentence.test(error.message))
}

const inPlaces: readonly Case[] = Object.entries(PLACES).flatMap(([name, { run, cause }]): Case[] => [
  {
    name: `publishes in ${name}, with the same cause as its context`,
    run: async (world) => {
      const hapax = world.hapax()
      const ids: string[] = []
      await run(world, hapax, async () => {
        ids.push((await hapax.publish(Pong, { n: 1 }, { id: 'one' })).id)
        // Elsewhere in the code of the user, after other work.
        await new Promise((resolve) => setTimeout(resolve, 1))
        const many = await hapax.publishMany([Pong.of({ n: 1 }), Pong.of({ n: 1 }, { correlationId: 'own' })])
        ids.push(...many.map(({ id }) => id))
      })
      assert.equal(ids.length, 3)
      assert.deepEqual(await world.database.outbox(), ids)
      const causes = {
        message: { causationId: 'a', ...TRACED },
        request: { causationId: 'k', correlationId: 'k' },
        none: {},
      }
      const expected = causes[cause]
      assert.deepEqual(await published(world), [expected, expected, { ...expected, correlationId: 'own' }])
    },
  },
  {
    name: `what is published in ${name} is rolled back with it`,
    run: async (world) => {
      const hapax = world.hapax()
      const runs: Published[] = []
      const running = run(world, hapax, async () => {
        runs.push(await hapax.publish(Pong, { n: 1 }), ...(await hapax.publishMany([Pong.of({ n: 1 })])))
        throw new Error('given up')
      })
      await running.catch((error: Error) => assert.equal(error.message, 'given up'))
      assert.ok(runs.length > 0)
      assert.deepEqual(await world.database.outbox(), [])
    },
  },
])

const groups: readonly Case[] = [false, true].map((together): Case => {
  const group = { size: IDS.length, ...(together && { together }) }
  return {
    name: `each of several handlers in one transaction publishes for its own message: ${together ? 'together' : 'one by one, or overlapping'}`,
    run: async (world) => {
      const hapax = world.hapax()
      const reader = world.reader(
        async ({ tx, message: { id } }) => {
          await world.database.effect(tx, id)
          // The earlier ones take longer, and still come first.
          if (!together) for (let turns = 2 * (IDS.length - IDS.indexOf(id)); turns > 0; turns--) await undefined
          await hapax.publish(Pong, { n: 1 }, { id: `of ${id}` })
        },
        { hapax, group },
      )
      // Handlers overlap once they are known to be simple.
      await reader.deliverMany(['x', 'y', 'z'])
      await reader.deliverMany(IDS)
      const rows = (await outbox(world.store)).slice(3)
      const found = rows.map(({ message }) => [message.id, unpackAttributes(message).causationId])
      assert.deepEqual(
        found,
        IDS.map((id) => [`of ${id}`, id]),
      )
    },
  }
})

const refusals: readonly Case[] = [
  {
    name: 'outside a transaction it is refused, and says what to pass',
    run: async (world) => {
      const hapax = world.hapax()
      await refused(hapax.publish(Pong, { n: 1 }), /hapax\.publish\(tx, type, data\)/)
      await refused(hapax.publishMany([Pong.of({ n: 1 })]), /hapax\.publish\(tx, type, data\)/)
      await hapax.transaction(async () => {})
      await refused(hapax.publish(Pong, { n: 1 }), /pass the transaction/)
    },
  },
  {
    name: 'in a leased handler it is refused, also inside a transaction, and names ctx.complete',
    run: async (world) => {
      const hapax = world.hapax()
      const sentences: string[] = []
      const consumer = leased(
        world,
        async () => {
          await refused(hapax.publish(Pong, { n: 1 }), /ctx\.complete/)
          await refused(hapax.publishMany([Pong.of({ n: 1 })]), /ctx\.complete/)
          sentences.push('refused')
        },
        { hapax },
      )
      assertOutcome(await consumer.handle(ping('a')), 'processed')
      if (world.features.parallelWriters) await hapax.transaction(() => consumer.handle(ping('b')))
      assert.equal(sentences.length, world.features.parallelWriters ? 2 : 1)
      assert.deepEqual(await world.database.outbox(), [])
    },
  },
  {
    name: 'another hapax does not publish in the transaction of this one',
    run: async (world) => {
      const [hapax, other] = [world.hapax(), world.hapax()]
      await hapax.transaction(async () => {
        await refused(other.publish(Pong, { n: 1 }), /pass the transaction/)
        await hapax.publish(Pong, { n: 1 }, { id: 'a' })
      })
      assert.deepEqual(await world.database.outbox(), ['a'])
    },
  },
  {
    name: "a transaction of the user's own is not found",
    skip: ({ ownTransactions }) => (ownTransactions ? undefined : 'it has no transactions of your own'),
    run: async (world) => {
      const hapax = world.hapax()
      await world.database.own(() => refused(hapax.publish(Pong, { n: 1 }), /pass the transaction/))
      assert.deepEqual(await world.database.outbox(), [])
    },
  },
  {
    name: 'code that outlives its transaction is refused, also while another one runs',
    run: async (world) => {
      const hapax = world.hapax()
      let late: Promise<unknown> = Promise.resolve()
      const outlive = async (ended: Gate): Promise<void> => {
        await ended.passed
        await assertRejects(hapax.publish(Pong, { n: 1 }), 'transaction-closed')
        await assertRejects(hapax.publishMany([Pong.of({ n: 1 })]), 'transaction-closed')
      }
      const [one, two] = [gate(), gate()]
      await hapax.transaction(async () => {
        late = outlive(one)
      })
      await hapax.transaction(async () => {
        one.open()
        await late
      })
      const reader = world.reader(
        () => {
          late = outlive(two)
        },
        { hapax },
      )
      assertOutcome(await reader.deliver('a'), 'processed')
      two.open()
      await late
      assert.deepEqual(await world.database.outbox(), [])
    },
  },
  {
    name: 'work in the background that was begun in a transaction is not inside it',
    skip: parallelOnly,
    run: async (world) => {
      const hapax = world.hapax()
      const seen: Promise<void>[] = []
      hapax.events.on('relayed', () => {
        seen.push(refused(hapax.publish(Pong, { n: 1 }), /pass the transaction/))
      })
      await hapax.transaction(async () => {
        await world.worker({ hapax }, { relay: new TestDestination() })
        await hapax.publish(Pong, { n: 1 })
      })
      await world.until(() => seen.length > 0)
      await Promise.all(seen)
    },
  },
]

const details: readonly Case[] = [
  {
    name: 'the innermost transaction counts, and after it the outer one',
    skip: parallelOnly,
    run: async (world) => {
      const hapax = world.hapax()
      const given = hapax.transaction(async () => {
        await hapax.publish(Pong, { n: 1 }, { id: 'outer, gone' })
        await hapax.transaction(async () => void (await hapax.publish(Pong, { n: 1 }, { id: 'inner' })))
        await hapax.publish(Pong, { n: 1 }, { id: 'outer again, gone' })
        throw new Error('given up')
      })
      await assert.rejects(given, /given up/)
      assert.deepEqual(await world.database.outbox(), ['inner'])
    },
  },
  {
    name: 'now writes at once, in the savepoint that is open',
    needs: ['savepoints'],
    run: async (world) => {
      const hapax = world.hapax()
      await hapax.transaction(async (tx) => {
        await world.database.undone(tx, async () => {
          await hapax.publish(Pong, { n: 1 }, { id: 'at once', now: true })
          await hapax.publish(Pong, { n: 2 }, { id: 'buffered' })
        })
      })
      assert.deepEqual(await world.database.outbox(), ['buffered'])
    },
  },
  {
    name: 'with local delivery, an id that was there before is told',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local' })
      hapax.consumer('audit').on(Pong, () => {})
      const publish = () => hapax.transaction(() => hapax.publish(Pong, { n: 1 }, { id: 'a' }))
      assert.deepEqual([await publish(), await publish()], [{ id: 'a' }, { id: 'a', duplicate: true }])
    },
  },
  {
    name: 'a publish that fails and is not awaited is noticed',
    run: async (world) => {
      const hapax = world.hapax()
      const { consumer } = world.reader(() => void hapax.publish(Pong, { n: 1 }, { id: '' }), { hapax, retry: AT_ONCE })
      assertOutcome(await consumer.handle(ping('a')), 'retrying', 'unawaited-publish')
    },
  },
  {
    name: 'carries the context of an instrument',
    run: async (world) => {
      const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
      const running = { add: () => {}, end: () => {}, enter: <T>(work: () => T) => work() }
      const instrument: Instrument = {
        capture: () => ({ traceparent }),
        around: (_operation, _facts, work) => work(running),
      }
      const hapax = world.hapax({ instrument })
      const reader = world.reader(
        async () => {
          await hapax.publish(Pong, { n: 1 })
          await hapax.publishMany([Pong.of({ n: 1 })])
        },
        { hapax },
      )
      await reader.deliver('a', TRACED)
      const { correlationId } = TRACED
      const expected = { causationId: 'a', correlationId, traceparent }
      assert.deepEqual(await published(world), [expected, expected])
    },
  },
]

export const ambient: readonly Case[] = [...inPlaces, ...groups, ...refusals, ...details]
