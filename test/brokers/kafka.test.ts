import { describe, vi } from 'vitest'
import { kafkaHarness } from '../../src/conformance/brokers/kafka.ts'
import { runBrokerCases } from '../support/broker-suite.ts'
import { kafkaPlace } from '../support/kafka-place.ts'
import { kafkaServer } from '../support/kafka-server.ts'

// Nearly all of the time goes into joining groups: the mock waits for three seconds.
vi.setConfig({ maxConcurrency: 25 })

describe.skipIf(kafkaServer === undefined)(kafkaServer ?? 'Kafka (no server is named)', () => {
  runBrokerCases(kafkaHarness(kafkaPlace, { name: `kafka (${kafkaServer})` }))
})
