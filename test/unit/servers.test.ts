import { globSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { moveInto } from '../../scripts/servers/kafka.ts'
import { onlyInstalled } from '../../scripts/services/all.ts'
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
  for (const file of ['postgres', 'pgbouncer', 'sqlite', 'redis']) {
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

test('what the cluster tests of Galera need is installed where that is possible', () => {
  expect(onlyInstalled.flatMap(({ debianPackages }) => debianPackages)).toEqual(
    expect.arrayContaining(['galera-4', 'rsync']),
  )
})

test('the first of two processes that fetch the same wins, and the other one goes on', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hapax-move-'))
  const [first, second, home] = ['first', 'second', 'home'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ]
  for (const each of [first, second]) mkdirSync(join(each, `libs-${each === first}`), { recursive: true })
  try {
    for (const each of [first, second]) moveInto(each, home)
    expect(readdirSync(home)).toEqual(['libs-true'])
    expect(() => moveInto(join(folder, 'none'), join(folder, 'other'))).toThrow('ENOENT')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
