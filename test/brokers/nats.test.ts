import { runBrokerCases } from '../support/broker-suite.ts'
import { natsHarness } from '../support/nats-harness.ts'

runBrokerCases(natsHarness)
