import { type Case, skipReason, timesOf } from './case.ts'
import { delivering } from './delivering.ts'
import { encodings } from './encodings.ts'
import { handling } from './handling.ts'
import type { BrokerHarness } from './harness.ts'
import { interruptions } from './interruptions.ts'
import { keys } from './keys.ts'
import { poison } from './poison.ts'
import { publishing } from './publishing.ts'
import { puttingBack } from './putting-back.ts'
import type { RowStore } from './shop.ts'
import { single } from './single.ts'
import { wire } from './wire.ts'
import { World } from './world.ts'

const topics: Readonly<Record<string, readonly Case[]>> = {
  publishing,
  wire,
  encodings,
  delivering,
  'putting back': puttingBack,
  interruptions,
  'single reader': single,
  poison,
  'with hapax': handling,
  'keys of messages': keys,
}

/** Whether a case applies to a broker, and why not. */
export interface BrokerSupport {
  readonly topic: string
  readonly name: string
  /** Why it does not apply to this broker; undefined if it must pass. */
  readonly skip: string | undefined
}

/** One case for one broker. */
export interface BrokerCase extends BrokerSupport {
  run(): Promise<void>
}

/**
 * Every case for this broker. Those that do not apply to it have a reason in `skip`. `openStore` creates the stores for the cases
 * that take messages from outbox to effect: pass `memory` of hapax/memory.
 */
export function brokerCases(harness: BrokerHarness, openStore: () => RowStore): readonly BrokerCase[] {
  return listed(harness.cannot).map(({ topic, name, skip, each }) => ({
    topic,
    name,
    skip,
    run: () => runCase(each, harness, openStore),
  }))
}

async function runCase(each: Case, harness: BrokerHarness, openStore: () => RowStore): Promise<void> {
  const world = new World(await harness.open(timesOf(each)), harness.cannot, openStore)
  try {
    await each.run(world)
  } catch (error) {
    // The first error is the one to report, even if closing fails after it.
    await world.close().catch(() => {})
    throw error
  }
  await world.close()
}

/** The cases that a broker must pass, and those that do not apply. */
export function brokerSupport(cannot: BrokerHarness['cannot']): readonly BrokerSupport[] {
  return listed(cannot).map(({ topic, name, skip }) => ({ topic, name, skip }))
}

function listed(cannot: BrokerHarness['cannot']) {
  return Object.entries(topics).flatMap(([topic, cases]) =>
    cases.map((each) => ({ topic, name: each.name, skip: skipReason(each, cannot), each })),
  )
}
