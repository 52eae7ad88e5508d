import { afterEach, expect, test, vi } from 'vitest'
import { testBrokers, testStores, withoutRedis } from '../support/servers.ts'

afterEach(() => {
  vi.unstubAllEnvs()
})

test.for([
  [undefined, ['rabbitmq', 'nats', 'redis-streams', 'kafka']],
  ['kafka, nats', ['nats', 'kafka']],
  ['none', []],
  ['', []],
] as const)('HAPAX_TEST_BROKERS=%s tests %o', ([list, brokers]) => {
  vi.stubEnv('HAPAX_TEST_BROKERS', list)
  expect(testBrokers()).toEqual(brokers)
})

test('the store for leased work alone is listed among the others', () => {
  expect([testStores('sqlite,redis'), withoutRedis('sqlite,redis')]).toEqual([['sqlite'], undefined])
  expect(withoutRedis('sqlite')).toBe('left out by HAPAX_TEST_STORES')
})

test('a name that is none is refused', () => {
  expect(() => testBrokers('nats,redis')).toThrow(
    "expected HAPAX_TEST_BROKERS to list some of rabbitmq, nats, redis-streams, kafka, got 'redis'",
  )
  expect(() => testStores('oracle')).toThrow('expected HAPAX_TEST_STORES to list some of')
})
