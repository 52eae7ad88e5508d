import { type Case, skipReason } from './case.ts'
import { delivering } from './delivering.ts'
import type { BrokerHarness } from './harness.ts'
import { interruptions } from './interruptions.ts'
import { publishing } from './publishing.ts'
import { puttingBack } from './putting-back.ts'
import { single } from './single.ts'
import { World } from './world.ts'

const topics: Readonly<Record<string, readonly Case[]>> = {
  publishing,
  delivering,
  'putting back': puttingBack,
  interruptions,
  'single reader': single,
}

/** Whether a broker can show a case, and why not. */
export interface BrokerSupport {
  readonly topic: string
  readonly name: string
  /** Why this broker cannot show it; undefined: it has to pass. */
  readonly skip: string | undefined
}

/** One case for one broker. */
export interface BrokerCase extends BrokerSupport {
  run(): Promise<void>
}

/** Every case for this broker, also those that it cannot show: they have a reason in `skip`. */
export function brokerCases(harness: BrokerHarness): readonly BrokerCase[] {
  return listed(harness.cannot).map(({ topic, name, skip, each }) => ({
    topic,
    name,
    skip,
    run: async () => {
      const world = new World(await harness.open(), harness.cannot)
      try {
        await each.run(world)
      } finally {
        await world.close()
      }
    },
  }))
}

/** What a broker has to pass, and what it cannot show. */
export function brokerSupport(cannot: BrokerHarness['cannot']): readonly BrokerSupport[] {
  return listed(cannot).map(({ topic, name, skip }) => ({ topic, name, skip }))
}

function listed(cannot: BrokerHarness['cannot']) {
  return Object.entries(topics).flatMap(([topic, cases]) =>
    cases.map((each) => ({ topic, name: each.name, skip: skipReason(each, cannot), each })),
  )
}
