import { type ConsumerOptions, createHapax, defineMessage, type HapaxOptions, isHapaxError, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import { sqlite } from 'hapax/sqlite'
import pg from 'pg'
import { describe, expect, it } from 'vitest'

const Ping = defineMessage('ping')
const hapax = () => createHapax({ store: memory(), source: '/test', logger: silentLogger })

/** What is said about options that cannot be. */
function refusal(make: () => unknown): string {
  try {
    make()
  } catch (error) {
    if (isHapaxError(error, 'invalid-option')) return error.message
    throw error
  }
  return 'accepted'
}

describe('consumer options', () => {
  const cases: [options: object, said: string][] = [
    [{ timeoutMs: -1 }, 'expected timeoutMs to be a positive integer, got -1'],
    [{ timeoutMs: 1.5 }, 'expected timeoutMs to be a positive integer, got 1.5'],
    [{ timeoutMs: '30' }, 'expected timeoutMs to be a positive integer, got "30"'],
    [{ lockTimeoutMs: 0 }, 'expected lockTimeoutMs to be a positive integer, got 0'],
    [{ concurrency: Number.NaN }, 'expected concurrency to be a positive integer, got NaN'],
    [{ receive: 'later' }, `expected receive to be 'direct' or 'store', got "later"`],
    [{ onError: 'ignore' }, `expected onError to be 'store' or 'rollback', got "ignore"`],
    [{ onMismatch: null }, `expected onMismatch to be 'duplicate' or 'conflict', got null`],
    [{ missingId: 'guess' }, `expected missingId to be 'reject', 'hash' or a function, got "guess"`],
    [
      { isolation: 'dirty' },
      `expected isolation to be 'read committed' or 'repeatable read' or 'serializable', got "dirty"`,
    ],
    [{ group: { size: 0 } }, 'expected group.size to be a positive integer, got 0'],
    [{ group: 10 }, 'expected group to be an object, got 10'],
    [{ group: { length: 1 } }, 'expected group to be an object with the options size, together, got "length"'],
    [{ retry: { attempts: 0 } }, 'expected retry.attempts to be a positive integer, got 0'],
    [{ retry: { minDelayMs: -1 } }, 'expected retry.minDelayMs to be a number of at least 0, got -1'],
    [{ retry: { minDelayMs: 10, maxDelayMs: 9 } }, 'expected retry.maxDelayMs to be a number of at least 10, got 9'],
    [{ retry: { factor: 0.5 } }, 'expected retry.factor to be a number of at least 1, got 0.5'],
    [{ unknown: 'drop' }, `expected unknown to be 'fail', 'ignore' or a function, got "drop"`],
    [{ maxAgeMs: 0 }, 'expected maxAgeMs to be a positive integer, got 0'],
  ]

  it.for(cases)('%j: %s', ([options, said]) => {
    expect(refusal(() => hapax().consumer('billing', options as ConsumerOptions))).toBe(said)
  })

  it('a misspelt option is refused, not ignored', () => {
    expect(refusal(() => hapax().consumer('billing', { timeoutMS: 5 } as ConsumerOptions))).toMatch(
      /^expected options of consumer to be an object with the options enabled, .*, got "timeoutMS"$/,
    )
  })

  it('a name is a well-formed text of at most 255 bytes', () => {
    for (const name of ['', undefined, 7, '\ud800', 'x'.repeat(256), 'é'.repeat(128)]) {
      expect(refusal(() => hapax().consumer(name as string))).toMatch(
        /^expected name to be a non-empty, well-formed string/,
      )
    }
    expect(refusal(() => hapax().consumer('é'.repeat(127)))).toBe('accepted')
  })
})

describe('other options', () => {
  const store = memory()
  const cases: [name: string, make: () => unknown, said: RegExp][] = [
    [
      'no store',
      () => createHapax({ source: '/s' } as HapaxOptions<unknown, unknown>),
      /^expected store to be a store, for example sqlite\(\{ path \}\), got undefined$/,
    ],
    ['no source', () => createHapax({ store } as never), /^expected source to be .*, got undefined$/],
    [
      'another delivery',
      () => createHapax({ store, source: '/s', delivery: 'pigeon' as never }),
      /^expected delivery to be 'relay' or 'local', got "pigeon"$/,
    ],
    [
      'no bytes',
      () => createHapax({ store, source: '/s', maxMessageBytes: 0 }),
      /^expected maxMessageBytes to be a positive integer, got 0$/,
    ],
    ['a misspelt option', () => createHapax({ store, source: '/s', loger: silentLogger } as never), /got "loger"$/],
    [
      'a worker without consumers',
      () => hapax().worker({ consume: [] }),
      /^expected options of worker to be something to consume or a relay, got "neither"$/,
    ],
    [
      'a worker without a list',
      () => hapax().worker({ consume: 'billing' } as never),
      /^expected consume to be a list of consumers, got "billing"$/,
    ],
    [
      'a relay that is no destination',
      () => hapax().worker({ relay: 'amqp://localhost' } as never),
      /^expected relay default to be a destination, for example an exchange of a broker, got "amqp:/,
    ],
    [
      'a worker that sends one relay to two places',
      () => hapax().worker({ relay: {}, relays: { default: {} } } as never),
      /^expected relay to be absent, because relays names 'default'/,
    ],
    [
      'a subscription that is none',
      () =>
        hapax()
          .consumer('a')
          .from('queue' as never),
      /^expected subscription to be a subscription, for example a queue of a broker, got "queue"$/,
    ],
    [
      'nothing in hand',
      () =>
        hapax()
          .consumer('a')
          .from({ open: () => {} } as never, { prefetch: 0 }),
      /^expected prefetch to be a positive integer, got 0$/,
    ],
    [
      'handlers together, in order',
      () => hapax().consumer('a', { order: 'wait', group: { size: 2, together: true } }),
      /^expected group.together to be false together with order, got true$/,
    ],
    [
      'messages older than what is remembered',
      () => hapax().consumer('a', { retentionMs: 1_000, maxAgeMs: 2_000 }),
      /^expected maxAgeMs to be at most retentionMs \(1000\), because older receipts are forgotten, got 2000$/,
    ],
    [
      'a worker that never looks',
      () => {
        const one = hapax()
        return one.worker({ consume: [one.consumer('a').on(Ping, () => {})], pollMs: 0 })
      },
      /^expected pollMs to be a positive integer, got 0$/,
    ],
    [
      'a type without a name',
      () => defineMessage(''),
      /^expected type to be a non-empty, well-formed string of at most 255 bytes, got ""$/,
    ],
    [
      'a key that is no function',
      () => defineMessage('a', { key: 'id' as never }),
      /^expected key to be a function, got "id"$/,
    ],
    [
      'a schema that is none',
      () => defineMessage('a', { schema: {} as never }),
      /^expected schema to be a Standard Schema, got an object$/,
    ],
    [
      'a handler that is none',
      () =>
        hapax()
          .consumer('a')
          .on(Ping, 'handler' as never),
      /^expected handler of ping to be a function, got "handler"$/,
    ],
    ['sqlite without a path', () => sqlite({} as never), /^expected path to be the path of a file, got undefined$/],
    [
      'postgres without a pool',
      () => postgres({ pool: {} } as never),
      /^expected pool to be a pool of pg, got an object$/,
    ],
    [
      'postgres with the pool itself',
      () => postgres(new pg.Pool() as never),
      /^expected options of postgres to be an object such as \{ pool \}, got "the pool itself"$/,
    ],
    [
      'postgres with another URL',
      () => postgres({ url: 'mysql://root:hunter2@db' }),
      /^expected url to be a postgres:\/\/ URL, got "\(not shown\)"$/,
    ],
    [
      'mysql with another URL',
      () => mysql({ url: 'postgres://root:hunter2@db' }),
      /^expected url to be a mysql:\/\/ URL, got "\(not shown\)"$/,
    ],
  ]

  it.for(cases)('%s', ([, make, said]) => {
    expect(refusal(make)).toMatch(said)
  })

  it('S1: a schema or a prefix is a plain name', () => {
    for (const name of ['', 'Hapax', 'a b', 'a;drop table x', 'a"b', "a'b", 'é', '1a', 'x'.repeat(49), 7]) {
      expect(refusal(() => postgres({ url: 'postgres://db', schema: name as string }))).toMatch(
        /^expected schema to be a name of lower-case/,
      )
      expect(refusal(() => mysql({ url: 'mysql://db', prefix: name as string }))).toMatch(
        /^expected prefix to be a name of lower-case/,
      )
      expect(refusal(() => sqlite({ path: ':memory:', prefix: name as string }))).toMatch(
        /^expected prefix to be a name of lower-case/,
      )
    }
  })

  it('rule 17: one handler per type, one consumer per name', () => {
    const one = hapax()
    const consumer = one.consumer('billing').on(Ping, () => {})
    expect(() => consumer.onMany(Ping, () => {})).toThrow(
      'expected one handler of ping in consumer billing, got a second one',
    )
    expect(() => one.consumer('billing')).toThrow('expected one consumer of the name billing, got a second one')
  })
})
