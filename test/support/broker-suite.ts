import { memory } from 'hapax/memory'
import { type BrokerHarness, brokerCases } from 'hapax/testing'
import { describe, it } from 'vitest'

/** Runs the conformance suite of brokers; cases that do not apply are skipped with their reason. */
export function runBrokerCases(harness: BrokerHarness): void {
  for (const [topic, cases] of Map.groupBy(brokerCases(harness, memory), ({ topic }) => topic)) {
    describe.concurrent(topic, () => {
      for (const { name, skip, run } of cases) {
        if (skip === undefined) it(name, run)
        else it(name, (context) => context.skip(skip))
      }
    })
  }
}
