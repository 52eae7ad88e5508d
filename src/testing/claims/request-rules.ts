import { requestResponses } from '../requests/responses.ts'
import { requestRules } from '../requests/rules.ts'
import { type RequestWorld, senderOf } from '../requests/world.ts'
import type { ClaimCase } from './index.ts'
import type { ClaimWorld } from './world.ts'

/** A store that has only claims, as the common cases of requests see it. Their effects are outside calls. */
function requestWorld(world: ClaimWorld): RequestWorld {
  const effects: string[] = []
  return {
    open: async (handler, options = {}, rival) => {
      const { require: _, ...others } = options
      const hapax = rival === undefined ? world.hapax() : await world.rival()
      const http = hapax.http('orders', { principal: senderOf, ...others })
      return http.handler((request, { key, principal, effect }) =>
        handler(request, { key, principal, effect: (label) => effect(label, () => void effects.push(label)) }),
      )
    },
    effects: async () => effects.toSorted(),
  }
}

/** What `hapax.http` promises on every store. */
export const requestCases: readonly Omit<ClaimCase<ClaimWorld>, 'topic'>[] = [...requestRules, ...requestResponses].map(
  ({ name, run }) => ({ name, run: (world) => run(requestWorld(world)) }),
)
