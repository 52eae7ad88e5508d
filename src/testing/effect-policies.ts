import assert from 'node:assert/strict'
import type { EffectState } from '../base/index.ts'
import { HapaxError, NotDone } from '../base/index.ts'
import type { ClaimContext, EffectOptions, EffectRow, Lease, Outcome, StoreJournal } from '../contracts/index.ts'
import { assertOutcome } from './store/world.ts'
import { gate } from './wait.ts'

type BeginEffect = StoreJournal['begin']

/** What the cases need of a store: the same for those with an inbox and those without. */
export interface PolicyWorld {
  /** The outcome of an attempt after which there is another one. */
  readonly retry: Outcome['status']
  /** The outcome of an attempt whose message another process took over. */
  readonly lost: Outcome['status']
  /** A leased consumer whose retries are due at once; `begin` stands between it and the journal. */
  sms(
    handler: (ctx: ClaimContext) => unknown,
    begin?: (begin: BeginEffect) => BeginEffect,
    leaseMs?: number,
  ): PolicyConsumer
  /** Another process takes a message over from the owner of this lease. */
  takeOver(id: string, lease: Lease): Promise<void>
  /** A process dies in the middle of a call 'send': only the journal knows that it had begun. */
  dieInside(id: string): Promise<void>
  journal(id: string): Promise<readonly EffectRow[]>
}

interface PolicyConsumer {
  handle(id: string): Promise<Outcome>
  /** The next attempt at a message, once it is due. */
  again(id: string): Promise<Outcome>
}

/** A case for both kinds of stores. */
export interface PolicyCase {
  readonly name: string
  run(world: PolicyWorld): Promise<void>
}

/** What becomes of a message by the policy of its call: how often it is called in this attempt, and what is known in the end. */
interface Expected {
  readonly status: 'processed' | 'held' | 'again'
  readonly calls: number
  readonly state: EffectState
}

const verified = (answer: () => unknown): EffectOptions<unknown> => ({ onUnknown: answer as () => 'unknown' })

const policies: readonly (readonly [
  string,
  EffectOptions<unknown>,
  { readonly late: Expected; readonly dead: Expected },
])[] = [
  [
    'held, and not called again',
    {},
    { late: { status: 'held', calls: 1, state: 'unknown' }, dead: { status: 'held', calls: 0, state: 'unknown' } },
  ],
  [
    'retry-same-key calls again',
    { onUnknown: 'retry-same-key' },
    { late: { status: 'again', calls: 1, state: 'unknown' }, dead: { status: 'processed', calls: 1, state: 'done' } },
  ],
  [
    'the provider is asked, and says that it happened',
    verified(() => ({ done: 'asked' })),
    { late: { status: 'processed', calls: 1, state: 'done' }, dead: { status: 'processed', calls: 0, state: 'done' } },
  ],
  [
    'the provider is asked, and says that it did not happen',
    verified(async () => 'not-done'),
    { late: { status: 'processed', calls: 2, state: 'done' }, dead: { status: 'processed', calls: 1, state: 'done' } },
  ],
  ...['unknown', 'certainly', null].map(
    (answer) =>
      [
        `the provider is asked, and returns ${answer}: held`,
        verified(() => answer),
        { late: { status: 'held', calls: 1, state: 'unknown' }, dead: { status: 'held', calls: 0, state: 'unknown' } },
      ] as const,
  ),
  [
    'the provider is asked, and that fails: held',
    verified(() => Promise.reject(new Error('not now'))),
    { late: { status: 'held', calls: 1, state: 'unknown' }, dead: { status: 'held', calls: 0, state: 'unknown' } },
  ],
]

async function assertBecame(world: PolicyWorld, outcome: Outcome, keys: string[], expected: Expected): Promise<void> {
  const { status, calls, state } = expected
  if (status === 'held') assertOutcome(outcome, 'held', 'unknown-effect')
  else assertOutcome(outcome, status === 'again' ? world.retry : 'processed')
  assert.equal(keys.length, calls)
  assert.ok(new Set(keys).size <= 1, 'the key is always the same')
  assert.deepEqual(
    (await world.journal('a')).map((row) => [row.name, row.state]),
    [['send', state]],
  )
}

const dead = policies.map(
  ([what, options, expected]): PolicyCase => ({
    name: `B7: a process died inside its call: ${what}`,
    run: async (world) => {
      await world.dieInside('a')
      const keys: string[] = []
      const sms = world.sms((ctx) => ctx.effect('send', (key) => keys.push(key), options))
      await assertBecame(world, await sms.again('a'), keys, expected.dead)
    },
  }),
)

/** Does not respond before it is aborted. */
function silence(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
}

const late = policies.map(
  ([what, options, expected]): PolicyCase => ({
    name: `B8: the provider does not respond in time: ${what}`,
    run: async (world) => {
      const keys: string[] = []
      const sms = world.sms((ctx) => {
        const call = (key: string, signal: AbortSignal): unknown => (keys.push(key) === 1 ? silence(signal) : 'called')
        return ctx.effect('send', call, { ...options, timeoutMs: 50 })
      })
      await assertBecame(world, await sms.handle('a'), keys, expected.late)
      const [row] = await world.journal('a')
      if (row?.state === 'unknown') assert.equal(row.error?.code, 'effect-timeout')
      if (expected.late.status !== 'again') return
      assertOutcome(await sms.again('a'), 'processed')
      assert.deepEqual([keys.length, keys[0] === keys[1]], [2, true])
    },
  }),
)

const again: readonly PolicyCase[] = [
  {
    name: 'B8: the provider is asked about a call that is made again as well, and may deny it again: then the next attempt makes it',
    run: async (world) => {
      const answers = ['not-done', 'not-done', 'not-done', { done: 'asked' }]
      const keys: string[] = []
      const results: unknown[] = []
      const sms = world.sms(async (ctx) => {
        const lost = (key: string): never => {
          keys.push(key)
          throw new Error('reset')
        }
        results.push(
          await ctx.effect(
            'send',
            lost,
            verified(() => answers.shift()),
          ),
        )
      })
      assertOutcome(await sms.handle('a'), world.retry)
      assert.deepEqual([keys.length, await state(world)], [2, 'not-done'])
      assertOutcome(await sms.again('a'), 'processed')
      assert.deepEqual([keys.length, new Set(keys).size, results, await state(world)], [4, 1, ['asked'], 'done'])
    },
  },
]

const overtaken: readonly PolicyCase[] = [
  {
    name: 'B8: a late call that happens after the provider was asked is asked about again, and not repeated',
    run: async (world) => {
      const asked = gate()
      let sent = 0
      const sms = world.sms((ctx) => {
        const call = async (): Promise<void> => {
          await asked.passed
          sent += 1
        }
        const onUnknown = (): { done: undefined } | 'not-done' => {
          asked.open()
          return sent > 0 ? { done: undefined } : 'not-done'
        }
        return ctx.effect('send', call, { timeoutMs: 50, onUnknown })
      })
      assertOutcome(await sms.handle('a'), 'processed')
      assert.deepEqual([sent, await state(world)], [1, 'done'])
    },
  },
]

const refusal = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED', syscall: 'connect' })

/** A handler whose call ends like this, one after the other; undefined: well. */
function calling(
  ends: readonly (Error | undefined)[],
  options: EffectOptions<unknown>,
): (ctx: ClaimContext) => unknown {
  let calls = 0
  return (ctx) =>
    ctx.effect(
      'send',
      () => {
        const end = ends[calls++]
        if (end !== undefined) throw end
      },
      options,
    )
}

async function state(world: PolicyWorld, id = 'a'): Promise<string> {
  return (await world.journal(id)).map((row) => row.state).join()
}

const refused: readonly PolicyCase[] = [
  {
    name: 'B8: a call whose connection is refused is retried under every policy, and not held',
    run: async (world) => {
      const fetched = new TypeError('fetch failed', { cause: refusal })
      for (const [, options] of policies) {
        const sms = world.sms(calling([refusal, fetched, undefined], options))
        const id = crypto.randomUUID()
        assertOutcome(await sms.handle(id), world.retry)
        assertOutcome(await sms.again(id), world.retry)
        assertOutcome(await sms.again(id), 'processed')
        assert.equal(await state(world, id), 'done')
      }
    },
  },
  {
    name: 'a call that was refused after one that may have happened stays unknown',
    run: async (world) => {
      const ends = [new Error('reset'), new NotDone('refused'), undefined]
      const sms = world.sms(calling(ends, { onUnknown: 'retry-same-key' }))
      assertOutcome(await sms.handle('a'), world.retry)
      assert.equal(await state(world), 'unknown')
      assertOutcome(await sms.again('a'), world.retry)
      assert.equal(await state(world), 'unknown')
      assertOutcome(await sms.again('a'), 'processed')
      assert.equal(await state(world), 'done')
    },
  },
  {
    name: 'B17: the same holds if the reply of the journal was lost, so that the call is found started',
    run: async (world) => {
      let begins = 0
      const losing =
        (begin: BeginEffect): BeginEffect =>
        async (...args) => {
          const answer = await begin(...args)
          begins += 1
          if (begins === 2) throw new HapaxError('commit-unknown', 'the link was cut')
          return answer
        }
      const ends = [new Error('reset'), new NotDone('refused')]
      const sms = world.sms(calling(ends, { onUnknown: 'retry-same-key' }), losing)
      assertOutcome(await sms.handle('a'), world.retry)
      assertOutcome(await sms.again('a'), world.retry)
      assert.equal(begins, 3)
      assert.equal(await state(world), 'unknown')
      // A policy that holds the message does so now.
      const careful = world.sms((ctx) => ctx.effect('send', () => assert.fail('sent perhaps twice')))
      assertOutcome(await careful.again('a'), 'held', 'unknown-effect')
    },
  },
]

const kept = policies.map(
  ([what, options]): PolicyCase => ({
    name: `B8: no later attempt repeats a call that was made, and each gets its result; policy: ${what}`,
    run: async (world) => {
      const keys: string[] = []
      const results: unknown[] = []
      const sms = world.sms(async (ctx) => {
        results.push(await ctx.effect('send', (key) => keys.push(key), options))
        // One attempt could corrupt the journal, and the next one call again.
        if (results.length < 3) throw new Error('flaw')
      })
      assertOutcome(await sms.handle('a'), world.retry)
      assertOutcome(await sms.again('a'), world.retry)
      assert.equal(await state(world), 'done')
      assertOutcome(await sms.again('a'), 'processed')
      assert.deepEqual([keys.length, results, await state(world)], [1, [1, 1, 1], 'done'])
    },
  }),
)

const tooLate: readonly PolicyCase[] = [
  {
    name: 'B3: an owner that loses its lease while it waits for the journal does not make the call',
    run: async (world) => {
      const keys: string[] = []
      const told = gate()
      const losing =
        (begin: BeginEffect): BeginEffect =>
        async (lease, ...rest) => {
          const answer = await begin(lease, ...rest)
          await world.takeOver('a', lease)
          await told.passed
          return answer
        }
      const sms = world.sms(
        (ctx) => {
          ctx.signal.addEventListener('abort', told.open)
          return ctx.effect('send', (key) => keys.push(key))
        },
        losing,
        300,
      )
      assertOutcome(await sms.handle('a'), world.lost)
      assert.deepEqual([keys.length, await state(world)], [0, 'started'])
    },
  },
]

/** The outcome of calls under each policy: unknown calls, completed ones, and those that were certainly not made. */
export const effectPolicies: readonly PolicyCase[] = [
  ...dead,
  ...late,
  ...again,
  ...overtaken,
  ...refused,
  ...kept,
  ...tooLate,
]
