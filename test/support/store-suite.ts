import { type StoreCase, type StoreHarness, storeCases } from 'hapax/testing'
import { describe, it } from 'vitest'

/** The topics of the suite that depend on the way to the database, and not on the database alone. */
export const connectionTopics: readonly string[] = [
  'receipts',
  'atomicity',
  'connections',
  'ended transactions',
  'publishing',
  'late publishes',
  'workers',
  'stopping',
  'used-up pools',
  'migrations',
]

/** Runs the conformance suite of stores, or a choice of its cases; cases that do not apply are skipped with their reason. */
export function runStoreCases<Tx, Own>(
  harness: StoreHarness<Tx, Own>,
  choose: (cases: readonly StoreCase[]) => readonly StoreCase[] = (cases) => cases,
): void {
  for (const [topic, cases] of Map.groupBy(choose(storeCases(harness)), ({ topic }) => topic)) {
    describe.concurrent(topic, () => {
      for (const { name, skip, run } of cases) {
        if (skip === undefined) it(name, run)
        else it(name, (context) => context.skip(skip))
      }
    })
  }
}
