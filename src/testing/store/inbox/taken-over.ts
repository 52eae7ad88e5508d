import assert from 'node:assert/strict'
import { messageKey } from '../../../message/index.ts'
import { altered } from '../../altered.ts'
import { LeapingClock } from '../../clock.ts'
import type { Case } from '../case.ts'
import { leased, type Sms } from '../leased/world.ts'
import { type AnyStore, assertOutcome, type Context, gate, ping, type Reader, type World } from '../world.ts'

const TIMEOUT_MS = 60_000

/** Simulates a standstill: the handler is cut off, and another worker settles its message before that is recorded. */
class StoodStill {
  readonly world: World
  readonly #clock = new LeapingClock()
  readonly #overtake: () => Promise<unknown>
  readonly #timeUp = gate()
  #late = false

  constructor(world: World, overtake: () => Promise<unknown>) {
    this.world = world
    this.#overtake = overtake
  }

  reader(
    handler: (ctx: Context) => Promise<unknown>,
    options: { receive?: 'store'; group?: { size: number } },
  ): Reader {
    const hapax = this.world.hapax({ clock: this.#clock, store: this.#store() })
    return this.world.reader(handler, { timeoutMs: TIMEOUT_MS, hapax, ...options })
  }

  /** Blocks inside a handler until it times out. */
  async still(signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => {
      this.#late = true
      this.#timeUp.open()
    })
    this.#clock.leap(TIMEOUT_MS)
    await this.#timeUp.passed
  }

  #store(): AnyStore {
    const { store } = this.world
    const once = async (): Promise<void> => {
      const late = this.#late
      this.#late = false
      if (late) await this.#overtake()
    }
    return altered(store, {
      transactions: {
        run: async (options, opening, body) => {
          await once()
          return store.transactions.run(options, opening, body)
        },
      },
      inbox: {
        reschedule: async (row) => {
          await once()
          return store.inbox.reschedule(row)
        },
      },
    })
  }
}

/** Settles these messages as another worker would. */
async function settle(world: World, ids: readonly string[]): Promise<void> {
  const found = await Promise.all(ids.map((id) => world.store.inbox.find('billing', messageKey('/sender', id))))
  const seqs = found.filter((seq) => seq !== undefined)
  const options = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }
  await world.store.transactions.run(options, { kind: 'claim', seqs, locked: 'wait' }, async ({ tx, claimed }) => {
    for (const { message } of claimed.values()) await world.database.effect(tx, message.id)
    return { value: undefined, writes: {} }
  })
}

async function assertSettledOnce(world: World, { hapax }: Reader, ids: readonly string[]): Promise<void> {
  await world.assertEffects(ids)
  assert.deepEqual(await hapax.failed.list(), [])
  for (const id of ids) await world.assertPlaces(id, ['receipt'])
}

/** Asserts that its effects are partly committed, and that it is shown as failed. */
async function assertShown(world: World, { hapax }: Pick<Reader, 'hapax'>): Promise<void> {
  assert.deepEqual(
    (await hapax.failed.list()).map(({ message, reason }) => [message.id, reason]),
    [['a', 'broken-atomicity']],
  )
  await world.assertPlaces('a', ['failed', 'receipt'])
  await world.assertEffects(['a'])
}

const others: readonly Case[] = [
  {
    name: 'A13: a stored message that another worker settled after the handler was cut off is a duplicate',
    run: async (world) => {
      const stood = new StoodStill(world, () => settle(world, ['a']))
      const reader = stood.reader(
        async ({ tx, message, signal }) => {
          await world.database.effect(tx, message.id)
          await stood.still(signal)
        },
        { receive: 'store' },
      )
      await reader.deliver('a')
      const duplicates: unknown[] = []
      reader.hapax.events.on('duplicate', ({ message }) => duplicates.push(message.id))
      await world.drain(reader)
      assert.deepEqual(duplicates, ['a'])
      await assertSettledOnce(world, reader, ['a'])
    },
  },
  {
    name: 'A13: a stored message that another worker settled while a statement of the handler ran is a duplicate',
    needs: ['something left open'],
    run: async (world) => {
      const stood = new StoodStill(world, () => settle(world, ['a']))
      const reader = stood.reader(
        async ({ tx, message, signal }) => {
          await world.database.effect(tx, message.id)
          void Promise.resolve(world.database.leaveOpen(tx)).catch(() => {})
          await stood.still(signal)
        },
        { receive: 'store' },
      )
      await reader.deliver('a')
      await world.drain(reader)
      await assertSettledOnce(world, reader, ['a'])
    },
  },
  {
    name: 'A13: a group whose messages another worker settled after it was cut off leaves no trace of its own',
    run: async (world) => {
      const ids = ['a', 'b', 'c']
      const stood = new StoodStill(world, () => settle(world, ids))
      const reader = stood.reader(
        async ({ tx, message, signal }) => {
          await world.database.effect(tx, message.id)
          if (message.id === 'c') await stood.still(signal)
        },
        { receive: 'store', group: { size: 3 } },
      )
      await reader.deliverMany(ids)
      await world.drain(reader)
      await assertSettledOnce(world, reader, ids)
    },
  },
  {
    name: 'A13: a delivery that another process took after the handler was cut off is a duplicate',
    run: async (world) => {
      const overtaken = gate()
      // Not inside the handler.
      const other = overtaken.passed.then(() => world.reader().deliver('a'))
      const stood = new StoodStill(world, () => {
        overtaken.open()
        return other
      })
      const reader = stood.reader(async ({ tx, message, signal }) => {
        await world.database.effect(tx, message.id)
        await stood.still(signal)
      }, {})
      assertOutcome(await reader.deliver('a'), 'duplicate')
      await assertSettledOnce(world, reader, ['a'])
    },
  },
]

const own: readonly Case[] = [
  {
    name: 'A4: a handler that is cut off after a statement that commits fails as broken atomicity',
    needs: ['statements that commit'],
    run: async (world) => {
      const stood = new StoodStill(world, async () => {})
      const reader = stood.reader(
        async ({ tx, message, signal }) => {
          await world.database.effect(tx, message.id)
          await world.database.define?.(tx)
          await stood.still(signal)
        },
        { receive: 'store' },
      )
      await reader.deliver('a')
      await world.drain(reader)
      await assertShown(world, reader)
    },
  },
  {
    name: 'A4: a handler that loses its session after a statement that commits fails as broken atomicity',
    needs: ['statements that commit', 'sessions'],
    run: async (world) => {
      const reader = world.reader(
        async ({ tx, message }) => {
          await world.database.effect(tx, message.id)
          await world.database.define?.(tx)
          await world.database.server?.end(tx)
          await world.database.effect(tx, 'after')
        },
        { receive: 'store' },
      )
      await reader.deliver('a')
      await world.drain(reader)
      await assertShown(world, reader)
    },
  },
  {
    name: 'A4: a leased message whose `complete` commits by itself and then times out fails as broken atomicity',
    needs: ['ending the transaction'],
    run: async (world) => {
      const clock = new LeapingClock()
      const timeUp = gate()
      const hapax = world.hapax({ clock })
      const handler: Sms = ({ complete, signal }) =>
        complete(async (tx) => {
          await world.database.effect(tx, 'a')
          await world.database.commitInside(tx)
          signal.addEventListener('abort', timeUp.open)
          clock.leap(TIMEOUT_MS)
          await timeUp.passed
        })
      const sms = leased(world, handler, { hapax })
      assertOutcome(await sms.handle(ping('a')), 'failed', 'broken-atomicity')
      await assertShown(world, { hapax })
    },
  },
]

export const takenOver: readonly Case[] = [...others, ...own]
