import type { BrokerHarness, BrokerNeed, PlaceTimes } from './harness.ts'
import type { World } from './world.ts'

/** Longer than any case takes. */
const LONG_MS = 60_000

/** A case as the topics write it. */
export interface Case {
  readonly name: string
  /** What has to be there beyond the contract. */
  readonly needs?: readonly BrokerNeed[]
  /** Whether it waits for messages that a reader could not give back. @default false */
  readonly awaitsReturn?: boolean
  readonly run: (world: World) => Promise<void>
}

/** Times run out only where a case waits for that: elsewhere a machine that stands still would be taken for a fault. */
export function timesOf({ needs = [], awaitsReturn = false }: Case): PlaceTimes {
  const silenceMs = needs.includes('freezing links') ? 5_000 : LONG_MS
  return { silenceMs, returnMs: awaitsReturn ? 5_000 : LONG_MS }
}

/** Why a broker cannot show a case; undefined: it can. */
export function skipReason({ needs = [] }: Case, cannot: BrokerHarness['cannot']): string | undefined {
  for (const need of needs) {
    const reason = cannot[need]
    if (reason !== undefined) return `no ${need}: ${reason}`
  }
  return undefined
}
