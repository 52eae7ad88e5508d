import assert from 'node:assert/strict'
import type { Outcome } from '../../../contracts/index.ts'
import { coreOf } from '../../../leased/index.ts'
import { messageKey } from '../../../message/index.ts'
import { altered } from '../../altered.ts'
import { effectPolicies, type PolicyWorld } from '../../effect-policies.ts'
import type { Case } from '../case.ts'
import { ping, type World } from '../world.ts'
import { leased, seqOf, storeOne } from './world.ts'

/** A store with an inbox, as the common cases see it. */
function policyWorld(world: World): PolicyWorld {
  return {
    retry: 'retrying',
    lost: 'stored',
    sms: (handler, begin, leaseMs) => {
      const { journal } = world.store
      const between = begin?.((...args) => journal.begin(...args))
      const store = between === undefined ? world.store : altered(world.store, { journal: { begin: between } })
      const sms = leased(world, handler, { hapax: world.hapax({ store }), ...(leaseMs && { leaseMs }) })
      return {
        handle: (id) => sms.handle(ping(id)),
        again: async (id) => {
          const seq = await seqOf(world, id)
          return (await coreOf(sms).work([seq])).get(seq) as Outcome
        },
      }
    },
    takeOver: async (_, lease) => {
      const { inbox } = world.store
      // The owner may renew its lease at any time.
      await world.until(async () => {
        if ((await inbox.lease([lease.seq], crypto.randomUUID(), 60_000)).length > 0) return true
        await inbox.renew([lease], 1)
        return false
      })
    },
    dieInside: (id) => dieInside(world, id),
    journal: (id) => world.store.journal.of('billing', messageKey('/sender', id)),
  }
}

async function dieInside(world: World, id: string): Promise<void> {
  await storeOne(world, id)
  const seq = await seqOf(world, id)
  const token = crypto.randomUUID()
  const [row] = await world.store.inbox.lease([seq], token, 60_000)
  const lease = { seq, token, fence: row?.fence as number }
  const effect = { consumer: 'billing', messageKey: messageKey('/sender', id), name: 'send' }
  assert.deepEqual(await world.store.journal.begin(lease, 60_000, effect, false), { before: undefined })
  assert.equal((await world.store.inbox.renew([lease], 1)).size, 1)
  await world.until(async () => (await world.due()).includes(seq))
}

export const policies: readonly Case[] = effectPolicies.map(({ name, run }) => ({
  name,
  run: (world) => run(policyWorld(world)),
}))
