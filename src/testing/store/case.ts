import type { HarnessFeatures, Need, OpenOptions } from './harness.ts'
import type { World } from './world.ts'

/** A case as its topic defines it. */
export interface Case {
  readonly name: string
  /** What it needs beyond the contract. */
  readonly needs?: readonly Need[]
  /** Why it does not apply to a store with these features; undefined if it does. */
  readonly skip?: (features: HarnessFeatures) => string | undefined
  /** Whether it runs once for each isolation level. */
  readonly levels?: boolean
  /** Whether it is a part of the suite of connections. */
  readonly connection?: boolean
  readonly open?: Partial<OpenOptions>
  readonly run: (world: World) => Promise<void>
}

/** Why a case does not apply to a store; undefined if it does. */
export function skipReason({ needs = [], skip }: Case, features: HarnessFeatures): string | undefined {
  for (const need of needs) {
    const reason = features.cannot[need]
    if (reason !== undefined) return `needs ${need}: ${reason}`
  }
  return skip?.(features)
}

/** The same cases, once for each isolation level. */
export function atEachLevel(cases: readonly Case[]): readonly Case[] {
  return cases.map((each) => ({ ...each, levels: true }))
}

/** For cases that need two handlers running concurrently. */
export function parallelOnly({ parallelWriters }: HarnessFeatures): string | undefined {
  return parallelWriters ? undefined : 'one writer at a time: two transactions never meet'
}

/** The same cases, as a part of the suite of connections: what they show depends on the way to the database. */
export function ofConnections(cases: readonly Case[]): readonly Case[] {
  return cases.map((each) => ({ ...each, connection: true }))
}
