import assert from 'node:assert/strict'
import type { Confirmation } from '../../../contracts/index.ts'
import { ALL_LANES } from '../../../message/index.ts'
import { LeapingClock } from '../../clock.ts'
import type { Case } from '../case.ts'
import { TestDestination } from '../doubles.ts'
import { type AnyHapax, assertRejects, gate, Ping, type World } from '../world.ts'

const CONFIRMED: Confirmation = { status: 'confirmed' }
const failed = (): Confirmation => ({ status: 'failed', error: new Error('nacked') })
const refused = (): Confirmation => ({ status: 'refused', error: new Error('too large') })
const unavailable = (): Confirmation => ({ status: 'unavailable', error: new Error('not there') })

/** Publishes messages with these ids; `a1` has the key `a`, those that begin with `-` have none. */
async function publish(hapax: AnyHapax, ids: readonly string[], relay?: string): Promise<void> {
  await hapax.transaction(async (tx) => {
    for (const id of ids) {
      const key = id.startsWith('-') ? {} : { key: id.slice(0, 1) }
      await hapax.publish(tx, Ping, { n: 1 }, { id, ...key, ...(relay === undefined ? {} : { relay }) })
    }
  })
}

/** A destination that can be asked, and takes no message. */
class ReachableDestination extends TestDestination {
  isThere = false
  takes = false
  asked = 0

  constructor() {
    super(() => (this.takes ? CONFIRMED : unavailable()))
  }

  async reach(): Promise<void> {
    this.asked += 1
    if (!this.isThere) throw new Error('not there')
  }
}

const firsts = (arrived: readonly string[], key: string): readonly string[] => [
  ...new Set(arrived.filter((id) => id.startsWith(key))),
]

async function outboxIsEmpty(world: World): Promise<boolean> {
  return (await world.database.outbox()).length === 0
}

export const relays: readonly Case[] = [
  {
    name: 'K9: a relay that does not reach its destination leaves its messages to one that does, and takes part again',
    needs: ['another store'],
    run: async (world) => {
      const clock = new LeapingClock()
      let reached = false
      const hapax = world.hapax({ clock })
      // Its pauses are over at once.
      hapax.events.on('relay-down', ({ pauseMs }) => void setImmediate(() => clock.leap(pauseMs + 3_000)))
      const away = new TestDestination(() => (reached ? CONFIRMED : unavailable()))
      const there = new TestDestination()
      const ids = Array.from({ length: 60 }, (_, n) => `-${n}`)
      await world.worker({ hapax }, { relay: away })
      const rival = await world.rival()
      await world.worker({ hapax: rival }, { relay: there, takeoverMs: 1_000 })
      await world.until(async () => (await rival.status()).workers.length === 2)
      await publish(rival, ids)
      await world.until(() => outboxIsEmpty(world))
      assert.deepEqual(new Set(there.arrived), new Set(ids))
      await world.until(async () => (await rival.doctor()).some(({ message }) => message.includes('cannot reach')))
      reached = true
      const before = away.arrived.length
      clock.leap(60_000)
      await world.until(async () => {
        await publish(rival, [`-${crypto.randomUUID()}`])
        return away.arrived.length > before
      })
    },
  },
  {
    name: 'a relay that is down says why, and finds out that its broker is back while it has nothing to send',
    run: async (world) => {
      const clock = new LeapingClock()
      const hapax = world.hapax({ clock })
      const up: number[] = []
      hapax.events.on('relay-up', ({ downMs }) => up.push(downMs))
      // Its pauses are over at once.
      hapax.events.on('relay-down', ({ pauseMs }) => void setImmediate(() => clock.leap(pauseMs + 1_000)))
      const relay = new ReachableDestination()
      await world.worker({ hapax }, { relay })
      await publish(hapax, ['-1'])
      const isDown = async (): Promise<boolean> =>
        (await hapax.doctor()).some(({ message }) => message.includes('cannot reach') && message.includes('not there'))
      await world.until(isDown)
      const [waiting] = (await hapax.messages.list({ origin: 'outbox' })).rows
      assert.ok(waiting)
      const why = await hapax.messages.why('outbox', waiting.seq)
      assert.equal(why, 'No live worker of the relay default reaches its broker (not there): it waits until one does.')
      // Another worker sends it.
      await world.store.outbox.confirm([waiting.seq], false)
      await world.until(() => relay.asked > 2)
      assert.deepEqual(up, [])
      relay.isThere = true
      await world.until(() => up.length === 1)
      await world.until(async () => !(await isDown()))
      assert.deepEqual(new Set(relay.arrived), new Set(['-1']))
    },
  },
  {
    name: 'a destination that answers and takes no message is asked again only after it has confirmed one',
    run: async (world) => {
      const clock = new LeapingClock()
      const hapax = world.hapax({ clock })
      let [up, down] = [0, 0]
      hapax.events.on('relay-up', () => {
        up += 1
      })
      hapax.events.on('relay-down', ({ pauseMs }) => {
        down += 1
        setImmediate(() => clock.leap(pauseMs + 1_000))
      })
      const relay = new ReachableDestination()
      relay.isThere = true
      await world.worker({ hapax }, { relay })
      for (const id of ['-1', '-2']) {
        await publish(hapax, [id])
        await world.until(() => relay.arrived.includes(id))
        const [waiting] = (await hapax.messages.list({ origin: 'outbox' })).rows
        await world.store.outbox.confirm([waiting?.seq ?? ''], false)
        await world.until(() => up === 1)
      }
      await world.until(() => down >= 2)
      const { asked } = relay
      await publish(hapax, ['-3'])
      relay.takes = true
      await world.until(() => outboxIsEmpty(world))
      await world.until(() => up === 2)
      assert.equal(relay.asked, asked)
    },
  },
  {
    name: 'I7: sends every message, those of a key in order, and deletes what was confirmed',
    run: async (world) => {
      const hapax = world.hapax()
      const ids = ['a', 'b', '-'].flatMap((key) => Array.from({ length: 30 }, (_, n) => `${key}${n}`))
      await publish(hapax, ids)
      const relay = new TestDestination()
      const worker = await world.worker({ hapax }, { relay })
      await worker.drain()
      assert.deepEqual([...relay.arrived].sort(), [...ids].sort())
      for (const key of ['a', 'b'])
        assert.deepEqual(
          firsts(relay.arrived, key),
          ids.filter((id) => id.startsWith(key)),
        )
      assert.ok(await outboxIsEmpty(world))
      assert.deepEqual(await hapax.failed.list(), [])
    },
  },
  {
    name: 'D6: a message that is not confirmed yet is still in the outbox',
    run: async (world) => {
      const hapax = world.hapax()
      await publish(hapax, ['a1', 'b1'])
      const sent = gate()
      const confirm = gate()
      const relay = new TestDestination(async ({ id }) => {
        if (id === 'a1') {
          sent.open()
          await confirm.passed
        }
        return CONFIRMED
      })
      const worker = await world.worker({ hapax }, { relay })
      await sent.passed
      await world.until(async () => (await world.database.outbox()).length === 1)
      assert.deepEqual(await world.database.outbox(), ['a1'])
      confirm.open()
      await worker.drain()
      assert.ok(await outboxIsEmpty(world))
      assert.deepEqual(relay.arrived, ['a1', 'b1'])
    },
  },
  {
    name: 'D13: a message that the broker nacks is sent again, holds its key and no other',
    run: async (world) => {
      const hapax = world.hapax()
      const ids = ['a1', 'a2', 'b1', '-1', 'a3', 'b2']
      await publish(hapax, ids)
      const relay = new TestDestination(({ id }, times) => (id === 'a2' && times < 2 ? failed() : CONFIRMED))
      await world.worker({ hapax }, { relay })
      await world.until(() => outboxIsEmpty(world))
      assert.deepEqual(firsts(relay.arrived, 'a'), ['a1', 'a2', 'a3'])
      assert.ok(relay.arrived.indexOf('b2') < relay.arrived.indexOf('a3'))
      assert.equal(relay.arrived.filter((id) => id === 'a2').length, 2)
    },
  },
  {
    name: 'D14: a message that is refused for good is held with its key, or fails if it has none',
    run: async (world) => {
      const hapax = world.hapax()
      let bad = true
      await publish(hapax, ['a1', 'a2', '-1', 'b1'])
      const relay = new TestDestination(({ id }) => (bad && id.endsWith('1') && id !== 'b1' ? refused() : CONFIRMED))
      const worker = await world.worker({ hapax }, { relay })
      await worker.drain()
      assert.deepEqual([...(await world.database.outbox())].sort(), ['a1', 'a2'])
      const rows = await hapax.failed.list({ origin: 'outbox' })
      assert.deepEqual(rows.map(({ message, held, consumer, reason }) => [message.id, held, consumer, reason]).sort(), [
        ['-1', false, 'default', 'refused-by-broker'],
        ['a1', true, 'default', 'refused-by-broker'],
      ])
      const keys = await hapax.keys.list()
      assert.deepEqual(
        keys.map(({ origin, scope, key, waiting }) => ({ origin, scope, key, waiting })),
        [{ origin: 'outbox', scope: 'default', key: 'a', waiting: 1 }],
      )
      bad = false
      for (const { seq } of rows) await hapax.failed.retry(seq)
      await worker.drain()
      assert.ok(await outboxIsEmpty(world))
      assert.deepEqual(firsts(relay.arrived, 'a'), ['a1', 'a2'])
      assert.deepEqual(await hapax.failed.list(), [])
    },
  },
  {
    name: 'a message that is refused again after its key was released is named as the one that holds it',
    run: async (world) => {
      const hapax = world.hapax()
      const relay = new TestDestination(() => refused())
      const worker = await world.worker({ hapax }, { relay })
      await publish(hapax, ['a1'])
      await worker.drain()
      await hapax.keys.release({ origin: 'outbox', scope: 'default', key: 'a' })
      await publish(hapax, ['a1'])
      await worker.drain()
      const [row, ...others] = await hapax.failed.list()
      assert.deepEqual([row?.held, others.length], [true, 0])
      await hapax.failed.discard(row?.seq as string)
      assert.ok(await outboxIsEmpty(world))
    },
  },
  {
    name: 'D30: an unavailable broker costs no attempts, and everything is sent when it is back',
    run: async (world) => {
      const hapax = world.hapax()
      await publish(hapax, ['a1', 'a2', '-1'])
      let away = true
      const down: number[] = []
      hapax.events.on('relay-down', ({ pauseMs }) => down.push(pauseMs))
      const relay = new TestDestination(() => (away ? unavailable() : CONFIRMED))
      await world.worker({ hapax }, { relay })
      await world.until(() => down.length >= 3)
      // One more attempt may be in progress.
      assert.ok(
        relay.arrived.length <= 3 * (down.length + 1),
        `${relay.arrived.length} sent, ${down.length} times away`,
      )
      assert.equal((await world.database.outbox()).length, 3)
      const [trace] = (await world.store.admin.trace('a1')).filter(({ where }) => where === 'outbox')
      assert.ok(trace?.where === 'outbox')
      assert.equal(trace.attempts, 0)
      away = false
      await world.until(() => outboxIsEmpty(world))
      assert.deepEqual(firsts(relay.arrived, 'a'), ['a1', 'a2'])
    },
  },
  {
    name: 'relays have names, and each takes its own messages',
    run: async (world) => {
      const hapax = world.hapax()
      await publish(hapax, ['a1'])
      await publish(hapax, ['b1'], 'partners')
      const [shop, partners] = [new TestDestination(), new TestDestination(undefined, 'another topic')]
      const worker = await world.worker({ hapax }, { relays: { default: shop, partners } })
      await worker.drain()
      assert.deepEqual([shop.arrived, partners.arrived], [['a1'], ['b1']])
    },
  },
  {
    name: 'a relay whose destination is not the recorded one refuses to start, until the move is recorded',
    run: async (world) => {
      const hapax = world.hapax()
      await (await world.worker({ hapax }, { relay: new TestDestination(undefined, 'old') })).stop()
      const moved = (): Promise<unknown> => world.worker({ hapax }, { relay: new TestDestination(undefined, 'new') })
      await assertRejects(moved(), 'relay-moved')
      await hapax.relays.move('default', 'new')
      await moved()
    },
  },
  {
    name: 'D11: published messages are kept if wanted, and can be published again under the same id',
    run: async (world) => {
      const hapax = world.hapax()
      await publish(hapax, ['a1', 'a2'])
      const relay = new TestDestination()
      const worker = await world.worker({ hapax }, { relay, keepSentMs: 60_000 })
      await worker.drain()
      const sent = await hapax.sent.list()
      assert.deepEqual(sent.map(({ message }) => message.id).sort(), ['a1', 'a2'])
      await hapax.sent.republish(sent.find(({ message }) => message.id === 'a1')?.seq as string)
      await worker.drain()
      assert.deepEqual(relay.arrived.filter((id) => id === 'a1').length, 2)
    },
  },
  {
    name: 'D29: what two relays have sent is kept once',
    run: async (world) => {
      const hapax = world.hapax()
      await publish(hapax, ['a1', 'b1', 'c1'])
      const share = {
        table: 'outbox',
        scope: 'default',
        types: [],
        lanes: ALL_LANES,
        limit: 10,
        after: new Map(),
      } as const
      const [look] = await world.store.workers.look([share])
      const seqs = (look?.entries ?? []).map(({ seq }) => seq)
      assert.equal(seqs.length, 3)
      await Promise.all([1, 2, 3, 4].map(() => world.store.outbox.confirm(seqs, true)))
      assert.equal((await hapax.sent.list()).length, 3)
    },
  },
  {
    name: 'D29: two relays send each message, those of a key first in order',
    needs: ['another store'],
    run: async (world) => {
      const hapax = world.hapax()
      const ids = ['a', 'b', 'c', 'd'].flatMap((key) => Array.from({ length: 25 }, (_, n) => `${key}${n}`))
      const arrived: string[] = []
      const answer = ({ id }: { id: string }): Confirmation => {
        arrived.push(id)
        return CONFIRMED
      }
      const one = await world.worker({ hapax }, { relay: new TestDestination(answer) })
      const two = await world.worker({ hapax: await world.rival() }, { relay: new TestDestination(answer) })
      await publish(hapax, ids)
      await one.drain()
      await two.drain()
      assert.ok(await outboxIsEmpty(world))
      for (const key of ['a', 'b', 'c', 'd']) {
        assert.deepEqual(
          firsts(arrived, key),
          ids.filter((id) => id.startsWith(key)),
        )
      }
    },
  },
]
