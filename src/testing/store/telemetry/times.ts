// What events say about time: how long a message waited and was checked, and how old it is by the clock of the database.

import assert from 'node:assert/strict'
import { type HapaxEvents, Permanent } from '../../../base/index.ts'
import type { InboxRow, Opening } from '../../../contracts/index.ts'
import { defineMessage, type MessageType, messageKey } from '../../../message/index.ts'
import { LeapingClock } from '../../clock.ts'
import type { Case } from '../case.ts'
import { TestDestination } from '../doubles.ts'
import { type AnyHapax, type Count, Ping, type World } from '../world.ts'

const HOUR_MS = 3_600_000
const DELAY_MS = 500
/** How late the time of the database may be read, on a busy machine. */
const READ_MS = 60_000
const Many: MessageType<Count> = defineMessage<Count>('many')

/** The clock of a process that is an hour fast, or slow. */
class WrongClock extends LeapingClock {
  readonly #offMs: number

  constructor(offMs: number) {
    super()
    this.#offMs = offMs
  }

  override now(): number {
    return super.now() + this.#offMs
  }
}

type Processed = HapaxEvents['processed']

/** What becomes processed, by id. */
function processedBy(hapax: AnyHapax): Map<string, Processed> {
  const processed = new Map<string, Processed>()
  hapax.events.on('processed', (event) => processed.set(event.message.id, event))
  return processed
}

function assertTimes(event: { waitMs?: number | undefined; checkMs?: number | undefined } | undefined): void {
  assert.ok(event !== undefined, 'an event')
  for (const name of ['waitMs', 'checkMs'] as const) {
    const ms = event[name]
    assert.ok(ms !== undefined && ms >= 0 && ms < HOUR_MS, `${name} is ${ms}`)
  }
}

/** Waits for so long that no rounding hides it. Returns how long that was. */
async function aWhile(world: World): Promise<number> {
  const began = performance.now()
  await world.until(() => performance.now() - began > 100)
  return performance.now() - began
}

/** Clocks of machines go by steps and are corrected: about as long. */
function assertLag(lagMs: number | undefined, leastMs: number): void {
  assert.ok(lagMs !== undefined && lagMs >= leastMs - 20 && lagMs < leastMs + HOUR_MS / 2, `lag: ${lagMs}`)
}

/** The row of a message of this application in the inbox of billing, claimed and put back. */
async function claimed(world: World, id: string): Promise<InboxRow | undefined> {
  const seq = await world.store.inbox.find('billing', messageKey('/test', id))
  if (seq === undefined) return undefined
  const options = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }
  const opening: Opening = { kind: 'claim', seqs: [seq], locked: 'skip', aged: true }
  return world.store.transactions.run(options, opening, async (unit) => ({
    value: unit.claimed.get(seq),
    writes: undefined,
  }))
}

export const times: readonly Case[] = [
  {
    name: 'processed and duplicate say how long the check took, also to a listener that comes late',
    run: async (world) => {
      const reader = world.reader()
      await reader.deliver('before')
      const processed = processedBy(reader.hapax)
      const checks: (number | undefined)[] = []
      reader.hapax.events.on('duplicate', ({ checkMs }) => checks.push(checkMs))
      await reader.deliver('a')
      await reader.deliverMany(['b', 'c'])
      await reader.deliver('a')
      for (const id of ['a', 'b', 'c']) {
        const event = processed.get(id)
        assertTimes(event)
        assert.ok(event !== undefined && event.durationMs >= (event.checkMs ?? 0))
      }
      assert.equal(processed.has('before'), false)
      assert.ok(checks.length === 1 && checks.every((ms) => ms !== undefined && ms >= 0), `${checks}`)
    },
  },
  {
    name: 'so do messages that are stored or leased',
    run: async (world) => {
      const stored = world.reader(undefined, { receive: 'store' })
      const checks: (number | undefined)[] = []
      stored.hapax.events.on('duplicate', ({ checkMs }) => checks.push(checkMs))
      const processed = processedBy(stored.hapax)
      const leased = stored.hapax.leased('sender').on(Many, () => {})
      await stored.deliver('a')
      await stored.deliver('a')
      await leased.handle({ id: 'b', source: '/sender', type: 'many', data: { n: 1 } })
      await world.drain(stored)
      assertTimes(processed.get('a'))
      assertTimes(processed.get('b'))
      assert.ok(checks.length === 1 && checks.every((ms) => ms !== undefined && ms >= 0), `${checks}`)
    },
  },
  {
    name: 'the lag of a message of local delivery counts from publish, by the clock of the database',
    run: async (world) => {
      for (const [index, offMs] of [HOUR_MS, -HOUR_MS].entries()) {
        const hapax = world.hapax({ delivery: 'local', clock: new WrongClock(offMs) })
        let fails = true
        const reader = world.reader(
          () => {
            if (!fails) return
            fails = false
            throw new Error('once')
          },
          { hapax, name: `billing-${index}` },
        )
        const leased = hapax.leased(`sender-${index}`).on(Many, () => {})
        const processed = processedBy(hapax)
        await hapax.transaction(async (tx) => {
          await hapax.publish(tx, Ping, { n: 1 }, { id: `a${index}` })
          await hapax.publish(tx, Many, { n: 1 }, { id: `b${index}` })
        })
        const waitedMs = await aWhile(world)
        const worker = await world.worker(reader, { consume: [reader.consumer, leased] })
        await worker.drain()
        await world.until(() => processed.size === 2)
        await worker.stop()
        assert.equal(processed.get(`a${index}`)?.attempt, 2)
        assertLag(processed.get(`a${index}`)?.lagMs, waitedMs)
        assertLag(processed.get(`b${index}`)?.lagMs, waitedMs)
      }
    },
  },
  {
    name: 'a delay is no lag',
    run: async (world) => {
      const hapax = world.hapax({ delivery: 'local' })
      world.reader(undefined, { hapax })
      await hapax.transaction(async (tx) => {
        await hapax.publish(tx, Ping, { n: 1 }, { id: 'later', delayMs: HOUR_MS })
        await hapax.publish(tx, Ping, { n: 1 }, { id: 'now' })
      })
      await aWhile(world)
      assert.equal((await claimed(world, 'later'))?.ageMs, 0)
      assertLag((await claimed(world, 'now'))?.ageMs ?? undefined, 100)
    },
  },
  {
    name: 'the lag of a message of a broker counts from its time; a worker learns the clock of the database',
    run: async (world) => {
      const hapax = world.hapax({ clock: new WrongClock(HOUR_MS) })
      const processed = processedBy(hapax)
      const reader = world.reader(undefined, { hapax })
      const now = (): string => new Date().toISOString()
      await reader.deliver('alone', { time: now() })
      await world.worker(reader)
      const messages = { now: now(), old: new Date(Date.now() - HOUR_MS).toISOString(), early: '2999-01-01T00:00:00Z' }
      for (const [id, time] of Object.entries(messages)) await reader.deliver(id, { time })
      await reader.deliver('without')
      assertLag(processed.get('alone')?.lagMs, HOUR_MS)
      assertLag(processed.get('now')?.lagMs, 0)
      // The time of the database is learnt when its reply is read: what that took is missing from the lag.
      assertLag(processed.get('old')?.lagMs, HOUR_MS - READ_MS)
      assert.equal(processed.get('early')?.lagMs, 0)
      assert.equal(processed.get('without')?.lagMs, undefined)
    },
  },
  {
    name: 'the lag of a message of the outbox counts from publish, without its delay, by the clock of the database',
    run: async (world) => {
      const hapax = world.hapax({ clock: new WrongClock(-HOUR_MS) })
      const relayed = new Map<string, number | undefined>()
      hapax.events.on('relayed', ({ message, lagMs }) => relayed.set(message.id, lagMs))
      const published = performance.now()
      await hapax.transaction(async (tx) => {
        for (const id of ['a', 'b']) await hapax.publish(tx, Ping, { n: 1 }, { id })
        await hapax.publish(tx, Ping, { n: 1 }, { id: 'later', delayMs: DELAY_MS })
      })
      const waitedMs = await aWhile(world)
      await world.until(async () => (await world.look({ table: 'outbox', scope: 'default' })).entries.length === 3)
      const { entries } = await world.look({ table: 'outbox', scope: 'default' })
      const rows = await world.store.outbox.read(
        entries.map(({ seq }) => seq),
        true,
      )
      const sinceMs = performance.now() - published
      for (const { message, ageMs = -1 } of rows) {
        assertLag(ageMs, message.id === 'later' ? 0 : waitedMs)
        if (message.id === 'later') assert.ok(ageMs + DELAY_MS <= sinceMs + 20, `${ageMs} of ${sinceMs}`)
      }
      const worker = await world.worker({ hapax }, { relay: new TestDestination() })
      await worker.drain()
      for (const id of ['a', 'b']) assertLag(relayed.get(id), waitedMs)
    },
  },
  {
    name: 'a pass of the cleanup says how long it took, and how old the oldest receipt is that is left',
    run: async (world) => {
      const reader = world.reader(
        ({ message }) => {
          if (message.id === 'kept') throw new Permanent('bad')
        },
        { retentionMs: 1_000 * HOUR_MS },
      )
      for (const id of ['kept', 'a', 'b', 'c']) await reader.deliver(id)
      const waitedMs = await aWhile(world)
      const clean = async (olderThanMs: number): Promise<readonly [deleted: number, oldestMs: number]> => {
        let [deleted, oldestMs] = [0, 0]
        let after: string | undefined
        do {
          const step = await world.store.admin.clean({ kind: 'receipts', consumer: 'billing', after }, olderThanMs, 3)
          deleted += step.deleted
          oldestMs = Math.max(oldestMs, step.oldestMs ?? 0)
          after = step.after
        } while (after !== undefined)
        return [deleted, oldestMs]
      }
      for (const [olderThanMs, expected] of [
        [HOUR_MS, 0],
        [1, 3],
      ] as const) {
        const [deleted, oldestMs] = await clean(olderThanMs)
        assert.equal(deleted, expected)
        assertLag(oldestMs, waitedMs)
      }
      const passes: HapaxEvents['cleaned'][] = []
      reader.hapax.events.on('cleaned', (event) => passes.push(event))
      await world.worker(reader, { cleanup: { everyMs: 1 } })
      await world.until(() => passes.some(({ what }) => what === 'receipts'))
      const pass = passes.find(({ what }) => what === 'receipts')
      assert.deepEqual([pass?.of, pass?.deleted], ['billing', 0])
      assert.ok(pass !== undefined && pass.durationMs >= 0 && (pass.oldestMs ?? -1) >= 0)
    },
  },
]
