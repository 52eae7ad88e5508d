import { describe, expect, it } from 'vitest'
import { noNetwork } from '../../support/clusters/network.ts'
import { noPrivateServer } from '../../support/private-server.ts'
import { type FailOver, failOver } from './databases/fail-over.ts'
import { full, nothingWrong, STORY_MS, summary } from './databases/story.ts'

const missing = noNetwork() ?? noPrivateServer('mysql')

type Case = Omit<FailOver, 'store' | 'synchronous'> & { readonly what: string }

const short: readonly Case[] = [
  { what: 'is killed', fault: 'kill', links: 'cut' },
  { what: 'lives on without its replica, with clients that are still connected', fault: 'split', links: 'stay' },
]
const cases = full ? [...short, { what: 'falls silent', fault: 'partition', links: 'stay' } as const] : short

describe.skipIf(missing)('mariadb with a semi-synchronous replica', () => {
  it.concurrent.for(cases)(
    'nothing is lost, doubled or inverted when the primary $what',
    {
      timeout: STORY_MS,
    },
    async ({ what: _, ...fault }, { annotate }) => {
      const told = await failOver({ store: 'mysql', synchronous: true, ...fault }, { timeoutMs: 20_000 })
      await annotate(summary(told))
      expect(told.count).toMatchObject(nothingWrong)
    },
  )
})
