import { rabbitmqHarness } from '../../src/conformance/brokers/rabbitmq.ts'
import { runBrokerCases } from '../support/broker-suite.ts'
import { requireServer } from '../support/servers.ts'

runBrokerCases(rabbitmqHarness(requireServer('rabbitmq')))
