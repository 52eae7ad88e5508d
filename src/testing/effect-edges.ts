import assert from 'node:assert/strict'
import { HapaxError, NotDone, Permanent } from '../base/index.ts'
import type { ClaimContext, EffectRow, Outcome } from '../contracts/index.ts'
import { assertOutcome } from './store/world.ts'
import { gate, until } from './wait.ts'

/** A leased consumer of pings on any store. */
interface EdgeConsumer {
  handle(id: string): Promise<Outcome>
  /** The next attempt at what has failed once. */
  again(id: string): Promise<unknown>
  /** Runs the next attempt of a message that a person retried. */
  retried(): Promise<unknown>
  /** The ids of what is shown as failed. */
  failed(): Promise<readonly string[]>
}

/** What the cases need of a store: the same for those with an inbox and those without. */
export interface EdgeWorld {
  /** The outcome of an attempt after which there is another one. */
  readonly retry: Outcome['status']
  sms(handler: (ctx: ClaimContext) => unknown, options?: { readonly leaseMs?: number }): EdgeConsumer
  journal(id: string): Promise<readonly EffectRow[]>
}

/** A case for both kinds of stores. */
export interface EdgeCase {
  readonly name: string
  run(world: EdgeWorld): Promise<void>
}

async function states(world: EdgeWorld, id: string): Promise<Readonly<Record<string, string>>> {
  return Object.fromEntries(
    (await world.journal(id)).map(({ name, state, attempts }) => [name, `${state} ${attempts}`]),
  )
}

/** Enough time for a consumer that does not wait to release its message: a few round trips to the store. */
async function aWhile(world: EdgeWorld, id: string): Promise<void> {
  for (let look = 0; look < 20; look++) {
    await world.journal(id)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Two calls at once: one is refused while the other still runs, and ends only when `go` is called. */
function twoAtOnce(world: EdgeWorld, end: () => unknown) {
  const calls: string[] = []
  const calling = gate()
  const go = gate()
  const slow = async (): Promise<unknown> => {
    calls.push('slow')
    calling.open()
    await go.passed
    return end()
  }
  const sms = world.sms(async (ctx) => {
    const quick = async (): Promise<void> => {
      calls.push('quick')
      await calling.passed
      if (ctx.attempt === 1) throw new NotDone('not now')
    }
    await Promise.all([ctx.effect('slow', slow), ctx.effect('quick', quick)])
  })
  const refused = async (): Promise<void> => {
    await until(async () => (await states(world, 'a'))['quick'] === 'not-done 1')
    await aWhile(world, 'a')
  }
  return { sms, calls, refused, go }
}

const forgotten: readonly EdgeCase[] = [
  {
    name: 'B22: an effect that fails unawaited does not count as done; one that is awaited later is fine',
    run: async (world) => {
      const ended = gate()
      const sms = world.sms(async (ctx) => {
        const refused = async () => {
          ended.open()
          throw new NotDone('not now')
        }
        const forgotten = ctx.effect('send', refused)
        await ended.passed
        await until(async () => (await states(world, ctx.message.id))['send'] === 'not-done 1')
        await ctx.effect('other', () => 'sent')
        if (ctx.message.id === 'later') await assert.rejects(forgotten, { message: 'not now' })
      })
      assertOutcome(await sms.handle('a'), world.retry, 'unawaited-effect')
      assertOutcome(await sms.handle('later'), 'processed')
    },
  },
]

const undecided: readonly EdgeCase[] = [
  {
    name: 'B21: a message retried without a decision is held again, even if its handler does not reach the unknown call',
    run: async (world) => {
      const sms = world.sms(async (ctx) => {
        const first = (await world.journal('a')).length === 0
        const send = () => (first ? Promise.reject(new Error('reset')) : 'sent')
        await ctx.effect(first ? 'send' : 'send-sms', send)
      })
      assertOutcome(await sms.handle('a'), 'held', 'unknown-effect')
      for (let retry = 0; retry < 2; retry++) {
        await sms.retried()
        assert.deepEqual(await states(world, 'a'), { send: 'unknown 1', 'send-sms': 'done 1' })
        assert.deepEqual(await sms.failed(), ['a'])
      }
    },
  },
]

const together: readonly EdgeCase[] = [
  {
    name: 'a call is refused while another one runs: the message is released when that one has ended, and the retry knows about it',
    run: async (world) => {
      const { sms, calls, refused, go } = twoAtOnce(world, () => 'SM1')
      const handled = sms.handle('a')
      await refused()
      go.open()
      assertOutcome(await handled, world.retry)
      assert.deepEqual(await states(world, 'a'), { slow: 'done 1', quick: 'not-done 1' })
      await sms.again('a')
      assert.deepEqual([...calls].sort(), ['quick', 'quick', 'slow'])
      assert.deepEqual(await states(world, 'a'), { slow: 'done 1', quick: 'done 2' })
    },
  },
  {
    name: 'a call is refused while another one of unknown outcome runs: the latter prevails, and the message is held',
    run: async (world) => {
      const end = (): never => {
        throw new Error('reset')
      }
      const { sms, refused, go } = twoAtOnce(world, end)
      const handled = sms.handle('a')
      await refused()
      go.open()
      assertOutcome(await handled, 'held', 'unknown-effect')
      assert.deepEqual(await states(world, 'a'), { slow: 'unknown 1', quick: 'not-done 1' })
    },
  },
  {
    name: 'a call that does not end is awaited for at most one lease: it is aborted, and its outcome is unknown to the retry',
    run: async (world) => {
      let told: unknown
      const calling = gate()
      const sms = world.sms(
        async (ctx) => {
          const endless = (_: string, signal: AbortSignal): Promise<void> => {
            signal.addEventListener('abort', () => {
              told = signal.reason
            })
            calling.open()
            return new Promise(() => {})
          }
          const refused = async (): Promise<never> => {
            // The lease is short: without this it may be over before the other call has begun.
            await calling.passed
            throw new NotDone('not now')
          }
          await Promise.all([ctx.effect('endless', endless), ctx.effect('refused', refused)])
        },
        { leaseMs: 100 },
      )
      assertOutcome(await sms.handle('a'), world.retry)
      assert.ok(told instanceof HapaxError && told.code === 'effect-timeout', String(told))
      await sms.again('a')
      assert.equal((await states(world, 'a'))['endless'], 'unknown 1')
    },
  },
  {
    name: 'a handler that has ended begins nothing new',
    run: async (world) => {
      const [calling, go, tried] = [gate(), gate(), gate()]
      const codes: unknown[] = []
      const sms = world.sms(async (ctx) => {
        const both = async (): Promise<void> => {
          await ctx.effect('first', () => {
            calling.open()
            return go.passed
          })
          const keep = (error: HapaxError): unknown => codes.push(error.code)
          await ctx.effect('second', () => assert.fail('begun by a handler that had ended')).catch(keep)
          await ctx.note({ no: true }).catch(keep)
          tried.open()
        }
        const fails = calling.passed.then(() => Promise.reject(new Error('no')))
        await Promise.all([both(), fails])
      })
      const handled = sms.handle('a')
      await calling.passed
      await aWhile(world, 'a')
      go.open()
      assertOutcome(await handled, world.retry)
      await tried.passed
      assert.deepEqual(codes, ['transaction-closed', 'transaction-closed'])
      assert.deepEqual(await states(world, 'a'), { first: 'done 1' })
    },
  },
  {
    name: 'an unawaited effect is awaited before the message fails: its outcome is known',
    run: async (world) => {
      const go = gate()
      const sms = world.sms((ctx) => void ctx.effect('send', () => go.passed))
      const handled = sms.handle('a')
      await until(async () => (await states(world, 'a'))['send'] === 'started 1')
      await aWhile(world, 'a')
      go.open()
      assertOutcome(await handled, world.retry, 'unawaited-effect')
      assert.deepEqual(await states(world, 'a'), { send: 'done 1' })
    },
  },
]

/** A message whose call, or what asks about it, uses the context; what is thrown there, and what becomes of the message. */
async function misused(world: EdgeWorld, use: (ctx: ClaimContext) => unknown, where: 'call' | 'verify'): Promise<void> {
  let thrown: unknown
  const inside = async (ctx: ClaimContext): Promise<never> => {
    await Promise.resolve()
    try {
      use(ctx)
    } catch (error) {
      thrown = error
      throw error
    }
    return assert.fail('not refused')
  }
  const sms = world.sms(async (ctx) => {
    const lost = (): Promise<never> => Promise.reject(new Error('reset'))
    if (where === 'call') await ctx.effect('send', () => inside(ctx))
    else await ctx.effect('send', lost, { onUnknown: () => inside(ctx) })
  })
  const id = crypto.randomUUID()
  assertOutcome(await sms.handle(id), 'held', 'unknown-effect')
  assert.ok(thrown instanceof HapaxError && thrown.code === 'reentrant', String(thrown))
  assert.deepEqual(await states(world, id), { send: 'unknown 1' })
}

/** Uses of a context that a retry would miss if they were inside a call; `more` are those of one kind of stores. */
export function insideCalls(more: readonly ((ctx: ClaimContext) => unknown)[]): EdgeCase {
  return {
    name: 'the context cannot be used inside a call: a retry does not repeat the call, and would miss it',
    run: async (world) => {
      const uses = [
        (ctx: ClaimContext) => ctx.note({ no: true }),
        (ctx: ClaimContext) => ctx.effect('another', () => assert.fail('called')),
        ...more,
      ]
      for (const use of uses) {
        await misused(world, use, 'call')
        await misused(world, use, 'verify')
      }
    },
  }
}

const inside: readonly EdgeCase[] = [
  {
    name: 'beside a call that runs, and after one, the context can be used',
    run: async (world) => {
      const [calling, go] = [gate(), gate()]
      const sms = world.sms(async (ctx) => {
        const call = async (): Promise<void> => {
          calling.open()
          await go.passed
        }
        const beside = async (): Promise<void> => {
          await calling.passed
          await ctx.note({ beside: true })
          await ctx.effect('other', () => {})
          go.open()
        }
        await Promise.all([ctx.effect('send', call).then(() => ctx.effect('after', () => {})), beside()])
        await ctx.note({ after: true })
      })
      assertOutcome(await sms.handle('a'), 'processed')
      assert.deepEqual(await states(world, 'a'), { send: 'done 1', '': 'done 1', other: 'done 1', after: 'done 1' })
    },
  },
]

async function notes(world: EdgeWorld, id: string): Promise<unknown> {
  const row = (await world.journal(id)).find(({ name }) => name === '')
  return JSON.parse(row?.result ?? 'null')
}

const noting: readonly EdgeCase[] = [
  {
    name: 'notes of earlier attempts stay; of two of the same name the later one',
    run: async (world) => {
      const sms = world.sms(async (ctx) => {
        await ctx.note(ctx.attempt === 1 ? { to: '+41', try: 1 } : { try: 2 })
        await ctx.note(ctx.attempt === 1 ? { first: true } : { second: true })
        if (ctx.attempt === 1) throw new Error('again')
      })
      assertOutcome(await sms.handle('a'), world.retry)
      await sms.again('a')
      assert.deepEqual(await notes(world, 'a'), { to: '+41', try: 2, first: true, second: true })
    },
  },
  {
    name: 'notes stay when a person retries the message',
    run: async (world) => {
      let runs = 0
      const sms = world.sms(async (ctx) => {
        runs += 1
        await ctx.note({ [`run ${runs}`]: true })
        if (runs === 1) throw new Permanent('no')
      })
      assertOutcome(await sms.handle('a'), 'failed')
      await sms.retried()
      assert.deepEqual(await notes(world, 'a'), { 'run 1': true, 'run 2': true })
    },
  },
  {
    name: 'notes that are too large together: those of the last attempt stay',
    run: async (world) => {
      const sms = world.sms(async (ctx) => {
        await ctx.note({ [`attempt ${ctx.attempt}`]: 'x'.repeat(40_000) })
        if (ctx.attempt === 1) throw new Error('again')
      })
      assertOutcome(await sms.handle('a'), world.retry)
      await sms.again('a')
      assert.deepEqual(Object.keys((await notes(world, 'a')) as object), ['attempt 2'])
    },
  },
  {
    name: 'a note that was not awaited by a handler that failed is written all the same',
    run: async (world) => {
      const sms = world.sms(async (ctx) => {
        void ctx.note({ to: '+41' })
        throw new Error('no')
      })
      assertOutcome(await sms.handle('a'), world.retry)
      assert.deepEqual(await notes(world, 'a'), { to: '+41' })
    },
  },
]

class Sent {
  readonly id = 'SM1'
  get link(): string {
    return `/sms/${this.id}`
  }
}

const results: readonly EdgeCase[] = [
  {
    name: 'a result is what JSON makes of it, from the first attempt on, so that a handler sees the same in every one',
    run: async (world) => {
      const at = new Date(0)
      const own = { at, sent: new Sent(), none: undefined, list: [undefined, Number.NaN], map: new Map([[1, 2]]) }
      const kept = { at: at.toISOString(), sent: { id: 'SM1' }, list: [null, null], map: {} }
      const seen: unknown[] = []
      const sms = world.sms(async (ctx) => {
        const made: unknown = await ctx.effect<unknown>('send', () => own)
        const lost = (): Promise<never> => Promise.reject(new Error('reset'))
        const asked: unknown = await ctx.effect<unknown>('ask', lost, { onUnknown: () => ({ done: own }) })
        const text: unknown = await ctx.effect<unknown>('date', () => at)
        seen.push([made, asked, text])
        assert.notEqual(made, own)
        if (ctx.attempt === 1) throw new Error('again')
      })
      assertOutcome(await sms.handle('a'), world.retry)
      await sms.again('a')
      const all = [kept, kept, at.toISOString()]
      assert.deepStrictEqual(seen, [all, all])
    },
  },
]

export const effectEdges: readonly EdgeCase[] = [
  ...together,
  ...forgotten,
  ...undecided,
  ...inside,
  ...noting,
  ...results,
]
