import { runBrokerCases } from '../support/broker-suite.ts'
import { rabbitmqHarness } from '../support/rabbitmq-place.ts'

runBrokerCases(rabbitmqHarness)
