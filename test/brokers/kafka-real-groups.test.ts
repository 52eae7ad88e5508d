import { afterAll, beforeAll, describe, vi } from 'vitest'
import { kafkaHarness, kafkaPlace } from '../../src/conformance/brokers/kafka.ts'
import { runBrokerCases } from '../support/broker-suite.ts'
import { noRealKafka, type RealKafka, realKafka } from '../support/kafka-real.ts'

vi.setConfig({ maxConcurrency: 25 })

const missing = noRealKafka()

// The mock does not know this protocol.
describe.skipIf(missing !== undefined)(`groups of the protocol 'consumer'${missing ? `: ${missing}` : ''}`, () => {
  let server: RealKafka
  beforeAll(async () => {
    server = await realKafka()
  })
  afterAll(() => server?.[Symbol.asyncDispose]())

  runBrokerCases(
    kafkaHarness(() => kafkaPlace(server.url), {
      name: 'kafka, groups of the protocol consumer',
      protocol: 'consumer',
    }),
  )
})
