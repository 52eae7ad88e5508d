import { claiming } from './claiming.ts'
import { crashes } from './crashes.ts'
import { edges } from './edges.ts'
import { effects } from './effects.ts'
import type { ClaimHarness } from './harness.ts'
import { histories } from './histories.ts'
import { owners } from './owners.ts'
import { people } from './people.ts'
import { requestCases } from './request-rules.ts'
import { requests } from './requests.ts'
import { responses } from './responses.ts'
import { rivals } from './rivals.ts'
import { ClaimWorld } from './world.ts'

/** One case for a lease store. */
export interface ClaimCase<On = void> {
  readonly topic: string
  readonly name: string
  run(on: On): Promise<void>
}

const topics = {
  claiming,
  owners: [...owners, ...crashes],
  effects,
  edges,
  people,
  histories,
  responses,
  requests,
  'requests everywhere': requestCases,
  rivals,
} as const

/** Every case for this lease store: run them all. They are independent and may run concurrently. */
export function claimCases(harness: ClaimHarness): readonly ClaimCase[] {
  return Object.entries(topics).flatMap(([topic, cases]) =>
    cases.map(({ name, run }) => ({
      topic,
      name,
      run: async () => {
        const world = new ClaimWorld(await harness.open())
        try {
          await run(world)
        } finally {
          await world.close()
        }
      },
    })),
  )
}
