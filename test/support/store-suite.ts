import { type StoreHarness, storeCases } from 'hapax/testing'
import { describe, it } from 'vitest'

/** Runs the conformance suite of stores; what a store cannot show is skipped with its reason. */
export function runStoreCases<Tx, Own>(harness: StoreHarness<Tx, Own>): void {
  for (const [topic, cases] of Map.groupBy(storeCases(harness), ({ topic }) => topic)) {
    describe.concurrent(topic, () => {
      for (const { name, skip, run } of cases) {
        if (skip === undefined) it(name, run)
        else it(name, (context) => context.skip(skip))
      }
    })
  }
}
