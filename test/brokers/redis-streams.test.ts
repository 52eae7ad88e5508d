import { runBrokerCases } from '../support/broker-suite.ts'
import { redisStreamsHarness } from '../support/redis-streams-harness.ts'

runBrokerCases(redisStreamsHarness)
