import type { BrokerHarness, BrokerNeed, PlaceTimes } from './harness.ts'
import type { World } from './world.ts'

/** Longer than any case takes. */
const LONG_MS = 60_000

/** A case as its topic defines it. */
export interface Case {
  readonly name: string
  /** What it needs beyond the contract. */
  readonly needs?: readonly BrokerNeed[]
  /** Whether it waits for messages that a reader could not return. @default false */
  readonly awaitsReturn?: boolean
  readonly run: (world: World) => Promise<void>
}

/** Timeouts expire only where a case waits for them. Elsewhere, a stalled machine would be mistaken for a fault. */
export function timesOf({ needs = [], awaitsReturn = false }: Case): PlaceTimes {
  const silenceMs = needs.includes('freezing links') ? 5_000 : LONG_MS
  return { silenceMs, returnMs: awaitsReturn ? 5_000 : LONG_MS }
}

/** Why a case does not apply to a broker; undefined if it does. */
export function skipReason({ needs = [] }: Case, cannot: BrokerHarness['cannot']): string | undefined {
  for (const need of needs) {
    const reason = cannot[need]
    if (reason !== undefined) return `needs ${need}: ${reason}`
  }
  return undefined
}
