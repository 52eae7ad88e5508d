import { type ClaimHarness, claimCases } from 'hapax/testing'
import { describe, it } from 'vitest'

/** Runs the conformance suite of lease stores. */
export function runLeaseCases(harness: ClaimHarness): void {
  for (const [topic, cases] of Map.groupBy(claimCases(harness), ({ topic }) => topic)) {
    describe.concurrent(topic, () => {
      for (const { name, run } of cases) it(name, () => run())
    })
  }
}
