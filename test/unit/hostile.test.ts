import { setImmediate } from 'node:timers/promises'
import type { ConsumerOptions } from 'hapax'
import {
  createHapax,
  defineMessage,
  type ErrorCode,
  type HapaxOptions,
  type IncomingMessage,
  isHapaxError,
  type Outcome,
  type Store,
  silentLogger,
} from 'hapax'
import { memory } from 'hapax/memory'
import { sqlite } from 'hapax/sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

const Ping = defineMessage<unknown>('ping')
const AT_ONCE = { attempts: 2, minDelayMs: 0, maxDelayMs: 0 }

const ping = (id: string | undefined, more: object = {}): IncomingMessage =>
  ({ id, source: '/sender', type: 'ping', data: { n: 1 }, ...more }) as IncomingMessage

const unhandled: unknown[] = []
const note = (error: unknown): void => void unhandled.push(error)

beforeEach(() => {
  unhandled.length = 0
  process.on('unhandledRejection', note)
})

afterEach(async () => {
  // A rejection that nobody handles is reported when the microtasks have run.
  await setImmediate()
  await setImmediate()
  process.off('unhandledRejection', note)
  expect(unhandled).toEqual([])
})

const EVENTS = [
  'processed',
  'duplicate',
  'mismatch',
  'stored',
  'retrying',
  'failed',
  'published',
  'worker-error',
] as const

/** Delivers what is processed, duplicate, mismatched, retried and given up, and works it to its end. */
async function assertUndisturbed(options: Partial<HapaxOptions<never, never>>, listener?: () => unknown) {
  const store = memory()
  const hapax = createHapax({ logger: silentLogger, ...options, store, source: '/test', delivery: 'local' })
  if (listener !== undefined) for (const name of EVENTS) hapax.events.on(name, listener as () => void)
  const consumer = hapax.consumer('billing', { retry: AT_ONCE })
  consumer.on(Ping, (_, { message, attempt, tx, logger }) => {
    tx.insert('effects', { id: message.id })
    if (message.id === 'never' || (message.id === 'second' && attempt === 1)) throw new Error('no')
    return options.logger === undefined ? logger.info({}, 'done') : undefined
  })
  const worker = hapax.worker({ consume: [consumer] })
  await worker.start()
  const statuses: string[] = []
  for (const message of [ping('first'), ping('first'), ping('first', { data: 2 }), ping('second'), ping('never')]) {
    statuses.push((await consumer.handle(message)).status)
  }
  await hapax.transaction((tx) => hapax.publish(tx, Ping, 1, { id: 'published' }))
  await worker.drain()
  expect(statuses).toEqual(['processed', 'duplicate', 'duplicate', 'retrying', 'retrying'])
  const effects = store.rows('effects').map((row) => (row as { id: string }).id)
  expect(effects.sort()).toEqual(['first', 'published', 'second'])
  expect(await hapax.failed.list()).toMatchObject([{ message: { id: 'never' }, reason: 'attempts-exhausted' }])
  await hapax.close()
}

describe('H9: what the user plugs in', () => {
  const refuse = (): never => {
    throw new Error('of the listener')
  }

  it('a listener that throws disturbs nothing', () => assertUndisturbed({}, refuse))

  it('a listener that rejects disturbs nothing', () => assertUndisturbed({}, async () => refuse()))

  it('a listener that answers a hostile thenable disturbs nothing', () =>
    assertUndisturbed({}, () => Object.defineProperty({}, 'then', { get: refuse })))

  it('a logger that throws disturbs nothing, not even together with listeners that fail', async () => {
    const logger = { debug: refuse, info: refuse, warn: refuse, error: refuse }
    await assertUndisturbed({ logger })
    await assertUndisturbed({ logger }, refuse)
    await assertUndisturbed({ logger }, async () => refuse())
  })
})

/** An error with a property that cannot be read. */
function unreadable(name: string): Error {
  return Object.defineProperty(new Error('unreadable'), name, {
    get: () => {
      throw new Error(`the getter of ${name}`)
    },
  })
}

function revoked<T extends object>(target: T): T {
  const { proxy, revoke } = Proxy.revocable(target, {})
  revoke()
  return proxy
}

function circular(): Error {
  const error = new Error('circular')
  error.cause = error
  return error
}

const THROWN: Readonly<Record<string, () => unknown>> = {
  undefined: () => undefined,
  null: () => null,
  'a symbol': () => Symbol('thrown'),
  'a function': () => () => {},
  'an object without a prototype': () => Object.create(null),
  'an object whose constructor cannot be read': () =>
    Object.defineProperty({}, 'constructor', { get: unreadableGetter }),
  'a revoked proxy': () => revoked({}),
  'a revoked proxy of an error': () => revoked(new Error('revoked')),
  'an error caused by a revoked proxy': () => new Error('outer', { cause: revoked({}) }),
  'an error that is its own cause': circular,
  'a frozen error': () => Object.freeze(new Error('frozen')),
  'a message that is an object': () => Object.assign(new Error(), { message: { a: 1 } }),
  'a message that is undefined': () => Object.assign(new Error(), { message: undefined }),
  'a message that is a symbol': () => Object.assign(new Error(), { message: Symbol('message') }),
  'a message with NUL and a lone surrogate': () => new Error('\ud800 \0'),
  'a name that is a symbol': () => Object.assign(new Error('named'), { name: Symbol('name') }),
  'a code that is an object': () => Object.assign(new Error('coded'), { code: { a: 1 } }),
  'a stack that is an object': () => Object.assign(new Error('stacked'), { stack: { a: 1 } }),
  ...Object.fromEntries(
    ['message', 'stack', 'name', 'code', 'cause'].map((name) => [
      `a ${name} that cannot be read`,
      () => unreadable(name),
    ]),
  ),
}

function unreadableGetter(): never {
  throw new Error('the getter')
}

describe.for(Object.entries({ memory, sqlite: () => sqlite({ path: ':memory:' }) }))(
  'C1: thrown by a handler, on %s,',
  ([, store]) => {
    it.for(Object.entries(THROWN))(
      '%s is a failure like any other: stored, retried, then in failed',
      async ([, make]) => {
        const hapax = createHapax({ store: store() as Store<unknown>, source: '/test', logger: silentLogger })
        await hapax.migrate()
        const consumer = hapax.consumer('billing', { retry: AT_ONCE }).on(Ping, () => {
          throw make()
        })
        const seen: string[] = []
        for (const name of ['retrying', 'failed'] as const) hapax.events.on(name, () => seen.push(name))
        expect(await consumer.handle(ping('a'))).toMatchObject({ status: 'retrying', ack: true })
        const worker = hapax.worker({ consume: [consumer] })
        await worker.start()
        await worker.drain()
        expect(seen).toEqual(['retrying', 'failed'])
        const [failed] = await hapax.failed.list()
        expect(failed).toMatchObject({ message: { id: 'a' }, reason: 'attempts-exhausted', attempts: 2 })
        expect(failed?.error.message).toBeTypeOf('string')
        expect((await hapax.explain('a')).map(({ where }) => where).sort()).toEqual(['failed', 'receipt'])
        await hapax.close()
      },
    )
  },
)

/** The outcomes of a batch whose second message is hostile; the others have to be processed. */
async function batch(
  hostile: IncomingMessage,
  missingId: NonNullable<ConsumerOptions['missingId']> = 'reject',
  size = 1,
): Promise<Outcome> {
  const hapax = createHapax({ store: memory(), source: '/test', logger: silentLogger })
  const consumer = hapax.consumer('billing', { missingId, group: { size } }).on(Ping, () => {})
  const outcomes = await consumer.handleMany([ping('before'), hostile, ping('after')])
  expect(outcomes.map(({ status }) => status)).toEqual(['processed', 'failed', 'processed'])
  expect(await hapax.failed.list()).toHaveLength(1)
  return outcomes[1] as Outcome
}

function isOneOf(error: unknown, ...codes: ErrorCode[]): boolean {
  return codes.some((code) => isHapaxError(error, code))
}

describe('C5: one hostile message of a batch', () => {
  const policies: [what: string, policy: unknown][] = [
    ['throws', unreadableGetter],
    ['throws a revoked proxy', () => throwRevoked()],
    ['answers a promise', async () => 'an id'],
    ['answers a promise that rejects', async () => unreadableGetter()],
    ['answers a revoked proxy', () => revoked({})],
  ]

  it.for(policies)('a missingId that %s refuses that message only', async ([, policy]) => {
    for (const size of [1, 3]) {
      const { error } = await batch(ping(undefined), policy as NonNullable<ConsumerOptions['missingId']>, size)
      expect(isOneOf(error, 'missing-id', 'invalid-id'), String(error)).toBe(true)
    }
  })

  it.for(['id', 'source', 'type', 'data', 'key', 'time', 'subject', 'headers', 'redelivered', 'datacontenttype'])(
    'a message whose %s cannot be read is refused, and no other',
    async (name) => {
      for (const size of [1, 3]) {
        const hostile = Object.defineProperty(ping('hostile'), name, { get: unreadableGetter, enumerable: true })
        await batch(hostile, 'reject', size)
      }
    },
  )

  it('data that cannot be turned into JSON is refused, and no other', async () => {
    const toJSON = { toJSON: unreadableGetter }
    for (const data of [toJSON, revoked({}), 5n, () => {}]) {
      expect(isOneOf((await batch(ping('hostile', { data }))).error, 'invalid-payload', 'invalid-message')).toBe(true)
    }
  })
})

function throwRevoked(): never {
  throw revoked({})
}
