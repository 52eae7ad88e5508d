import { describe, vi } from 'vitest'
import { runBrokerCases } from '../support/broker-suite.ts'
import { kafkaHarness } from '../support/kafka-harness.ts'
import { serverVariables } from '../support/servers.ts'

// Nearly all of the time goes into joining groups: the mock waits for three seconds.
vi.setConfig({ maxConcurrency: 25 })

describe.skipIf(!process.env[serverVariables.kafka])('Kafka, protocol mock (skipped where it cannot be built)', () => {
  runBrokerCases(kafkaHarness)
})
