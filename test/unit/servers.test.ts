import { globSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { leftOut, unknownFiles } from '../support/narrowing.ts'
import { testBrokers, testStores, withoutRedis } from '../support/servers.ts'

const root = join(import.meta.dirname, '..', '..')

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

test('K25: the files of stores and brokers that are left out are not run at all', () => {
  vi.stubEnv('HAPAX_TEST_STORES', 'mysql')
  vi.stubEnv('HAPAX_TEST_BROKERS', 'none')
  const left = new Set(leftOut().flatMap((files) => globSync(files, { cwd: root })))
  for (const file of ['postgres', 'drizzle', 'pgbouncer', 'sqlite', 'redis']) {
    expect(left).toContain(`test/stores/${file}.test.ts`)
  }
  for (const file of ['rabbitmq', 'nats', 'redis-streams', 'kafka']) {
    expect(left).toContain(`test/brokers/${file}.test.ts`)
  }
  for (const file of ['stores/mysql', 'stores/sql-publish', 'stores/closing', 'faults/commit-cut']) {
    expect(left).not.toContain(`test/${file}.test.ts`)
  }
})

test('K25: all of them are run when nothing is left out', () => {
  vi.stubEnv('HAPAX_TEST_STORES', undefined)
  vi.stubEnv('HAPAX_TEST_BROKERS', undefined)
  expect(leftOut()).toEqual([])
})

test('K25: test/support/narrowing.ts says of every file with servers what it needs', () => {
  expect(unknownFiles(root)).toEqual([])
})
