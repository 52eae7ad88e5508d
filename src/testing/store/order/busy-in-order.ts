import assert from 'node:assert/strict'
import { HapaxError } from '../../../base/index.ts'
import { altered } from '../../altered.ts'
import type { Case } from '../case.ts'
import { type AnyStore, assertOutcome, ping, type World } from '../world.ts'

const REFUSED = 'refused'

/** Wraps a store whose inbox always refuses REFUSED; another transaction has the receipt of every message in `ids`. */
function contended(store: AnyStore, ids: ReadonlySet<string>): AnyStore {
  const check = (messages: readonly { readonly id: string }[]): void => {
    if (messages.some(({ id }) => ids.has(id))) throw new HapaxError('busy', 'another transaction has its receipt')
  }
  const storing: AnyStore['inbox']['store'] = async (options, deliveries) => {
    if (deliveries.messages.some(({ id }) => id === REFUSED)) throw new HapaxError('unstorable', 'no')
    check(deliveries.messages)
    return store.inbox.store(options, deliveries)
  }
  const run: AnyStore['transactions']['run'] = async (options, opening, body) => {
    if (opening.kind === 'take') check(opening.messages)
    return store.transactions.run(options, opening, body)
  }
  return altered(store, { transactions: { run }, inbox: { store: storing } })
}

/** The statuses of a batch with one busy message; afterwards it is redelivered, and everything is handled. */
async function withBusy(world: World, order: 'wait' | 'skip' | 'none', ids: readonly string[], busy: string) {
  const blocked = new Set([busy])
  const hapax = world.hapax({ store: contended(world.store, blocked) })
  const reader = world.reader(undefined, { hapax, receive: 'store', order })
  const deliver = (some: readonly string[]) => reader.consumer.handleMany(some.map((id) => ping(id, { key: 'k' })))
  const outcomes = await deliver(ids)
  blocked.clear()
  const again = ids.filter((_, index) => !outcomes[index]?.ack)
  for (const [index, outcome] of (await deliver(again)).entries()) {
    assertOutcome(outcome, again[index] === REFUSED ? 'failed' : 'stored')
  }
  await world.drain(reader)
  return { statuses: outcomes.map(({ status }) => status), calls: reader.calls }
}

const IDS = ['a', 'b', 'c', 'd', 'e'] as const

/** Batches with one message that another process has. */
export const busyInOrder: readonly Case[] = [
  ...(['wait', 'skip'] as const).flatMap((order) =>
    IDS.map((busy, index) => ({
      name: `E2: order ${order}: if message ${index + 1} of a batch of 5 is busy, no later one is stored`,
      run: async (world: World) => {
        const { statuses, calls } = await withBusy(world, order, IDS, busy)
        assert.deepEqual(
          statuses,
          IDS.map((_, at) => (at < index ? 'stored' : 'busy')),
        )
        assert.deepEqual(calls, IDS)
      },
    })),
  ),
  {
    name: 'E2: no message after a busy one is stored, even if the store refuses a later one',
    run: async (world) => {
      const ids = ['a', 'b', 'c', 'd', REFUSED]
      const { statuses, calls } = await withBusy(world, 'skip', ids, 'b')
      assert.deepEqual(statuses, ['stored', 'busy', 'busy', 'busy', 'busy'])
      assert.deepEqual(calls, ['a', 'b', 'c', 'd'])
    },
  },
  {
    name: 'B2: without order, a busy message of a batch is put back, and the others are stored',
    run: async (world) => {
      const { statuses, calls } = await withBusy(world, 'none', IDS, 'c')
      assert.deepEqual(statuses, ['stored', 'stored', 'busy', 'stored', 'stored'])
      assert.deepEqual([...calls].sort(), IDS)
    },
  },
]
