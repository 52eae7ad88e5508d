import type { BrokerHarness, BrokerNeed } from './harness.ts'
import type { World } from './world.ts'

/** A case as the topics write it. */
export interface Case {
  readonly name: string
  /** What has to be there beyond the contract. */
  readonly needs?: readonly BrokerNeed[]
  readonly run: (world: World) => Promise<void>
}

/** Why a broker cannot show a case; undefined: it can. */
export function skipReason({ needs = [] }: Case, cannot: BrokerHarness['cannot']): string | undefined {
  for (const need of needs) {
    const reason = cannot[need]
    if (reason !== undefined) return `no ${need}: ${reason}`
  }
  return undefined
}
