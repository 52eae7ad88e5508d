import { type LeaseHarness, leaseCases } from 'hapax/testing'
import { describe, it } from 'vitest'

/** Runs the conformance suite of lease stores. */
export function runLeaseCases(harness: LeaseHarness): void {
  for (const [topic, cases] of Map.groupBy(leaseCases(harness), ({ topic }) => topic)) {
    describe.concurrent(topic, () => {
      for (const { name, run } of cases) it(name, () => run())
    })
  }
}
