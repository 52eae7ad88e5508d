import { memory } from 'hapax/memory'
import { type BrokerHarness, brokerCases } from 'hapax/testing'
import { describe, it } from 'vitest'

/** Runs the conformance suite of brokers; what a broker cannot show is skipped with its reason. */
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
