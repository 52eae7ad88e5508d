import { vi } from 'vitest'
import { runBrokerCases } from '../support/broker-suite.ts'
import { kafkaHarness } from '../support/kafka-place.ts'

// Nearly all of the time goes into joining groups: the mock waits for three seconds.
vi.setConfig({ maxConcurrency: 25 })

runBrokerCases(kafkaHarness)
