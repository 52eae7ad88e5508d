import type { HarnessFeatures, Need, OpenOptions } from './harness.ts'
import type { World } from './world.ts'

/** A case as the topics write it. */
export interface Case {
  readonly name: string
  /** What has to be there beyond the contract. */
  readonly needs?: readonly Need[]
  /** Why a store with these features cannot show this; undefined: it can. */
  readonly skip?: (features: HarnessFeatures) => string | undefined
  /** Whether it runs once for each isolation level. */
  readonly levels?: boolean
  readonly open?: Partial<OpenOptions>
  readonly run: (world: World) => Promise<void>
}

/** Why a store cannot show a case; undefined: it can. */
export function skipReason({ needs = [], skip }: Case, features: HarnessFeatures): string | undefined {
  for (const need of needs) {
    const reason = features.cannot[need]
    if (reason !== undefined) return `no ${need}: ${reason}`
  }
  return skip?.(features)
}

/** The same cases, once for each isolation level. */
export function atEachLevel(cases: readonly Case[]): readonly Case[] {
  return cases.map((each) => ({ ...each, levels: true }))
}

/** For what only shows where two handlers can run at the same time. */
export function parallelOnly({ parallelWriters }: HarnessFeatures): string | undefined {
  return parallelWriters ? undefined : 'one writer at a time: two transactions never meet'
}
