import { natsHarness } from '../../src/conformance/brokers/nats.ts'
import { runBrokerCases } from '../support/broker-suite.ts'
import { requireServer } from '../support/servers.ts'

runBrokerCases(natsHarness(requireServer('nats')))
