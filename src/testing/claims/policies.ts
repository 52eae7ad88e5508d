import type { Outcome } from '../../contracts/index.ts'
import { messageKey } from '../../message/index.ts'
import { altered } from '../altered.ts'
import { effectPolicies, type PolicyWorld } from '../effect-policies.ts'
import { ping } from '../store/world.ts'
import { until } from '../wait.ts'
import type { ClaimCase } from './index.ts'
import type { ClaimWorld } from './world.ts'

/** A store without an inbox, as the common cases see it. */
function policyWorld(world: ClaimWorld): PolicyWorld {
  return {
    retry: 'rolled-back',
    lost: 'busy',
    sms: (handler, begin, leaseMs) => {
      const { journal } = world.store
      const between = begin?.((...args) => journal.begin(...args))
      const store = between === undefined ? world.store : altered(world.store, { journal: { begin: between } })
      const sms = world.sms(handler, { hapax: world.hapax({ store }), ...(leaseMs && { leaseMs }) })
      return {
        handle: (id) => sms.handle(ping(id)),
        again: async (id) => {
          let outcome: Outcome | undefined
          await until(async () => {
            outcome = await sms.handle(ping(id))
            return outcome.status !== 'busy'
          })
          return outcome as Outcome
        },
      }
    },
    takeOver: async (id, lease) => {
      // The owner may renew its lease at any time.
      await until(async () => {
        if ((await world.claim(id)).kind === 'ours') return true
        await world.store.claims.renew([lease], 1)
        return false
      })
    },
    dieInside: async (id) => {
      const effect = { consumer: 'sms', messageKey: messageKey('/sender', id), name: 'send' }
      await world.store.journal.begin(await world.lease(id, { leaseMs: 1 }), 1, effect, false)
    },
    journal: (id) => world.store.journal.of('sms', messageKey('/sender', id)),
  }
}

export const policies: readonly Omit<ClaimCase<ClaimWorld>, 'topic'>[] = effectPolicies.map(({ name, run }) => ({
  name,
  run: (world) => run(policyWorld(world)),
}))
