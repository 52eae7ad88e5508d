import { redisStreamsHarness } from '../../src/conformance/brokers/redis-streams.ts'
import { runBrokerCases } from '../support/broker-suite.ts'
import { requireServer } from '../support/servers.ts'

runBrokerCases(redisStreamsHarness(requireServer('redis')))
