import assert from 'node:assert/strict'
import { isHapaxError, NotDone } from '../base/index.ts'
import type { ClaimContext } from '../contracts/index.ts'
import type { EdgeCase, EdgeWorld } from './effect-edges.ts'
import { assertOutcome } from './store/world.ts'

const TO = ['ann', 'bob', 'cy'] as const

type Send = (ctx: ClaimContext, to: string) => Promise<unknown>

/** Ways in which a handler calls three recipients. */
const loops: Readonly<Record<string, (ctx: ClaimContext, send: Send) => unknown>> = {
  'one after the other': async (ctx, send) => {
    for (const to of TO) await send(ctx, to)
  },
  'all at once': (ctx, send) => Promise.all(TO.map((to) => send(ctx, to))),
  'all at once, whatever becomes of them': (ctx, send) => Promise.allSettled(TO.map((to) => send(ctx, to))),
  'without waiting': (ctx, send) => TO.forEach((to) => void send(ctx, to)),
  'past every error': async (ctx, send) => {
    for (const to of TO) await send(ctx, to).catch(() => {})
  },
}

async function journal(world: EdgeWorld): Promise<readonly string[]> {
  return (await world.journal('a')).map(({ name, state }) => `${name} ${state}`)
}

const refused = Object.entries(loops).map(
  ([how, loop]): EdgeCase => ({
    name: `K4: a name that a loop uses for three calls is refused, ${how}: the message fails and says how to name them`,
    run: async (world) => {
      const sent: string[] = []
      const sms = world.sms((ctx) => loop(ctx, (context, to) => context.effect('send', () => sent.push(to))))
      const outcome = await sms.handle('a')
      assertOutcome(outcome, 'failed', 'reused-effect')
      assert.match(outcome.error?.message ?? '', /'send:' \+ to/)
      assert.deepEqual(sent, ['ann'])
      assert.deepEqual(await sms.failed(), ['a'])
      assert.deepEqual(await journal(world), ['send done'])
    },
  }),
)

const allowed: readonly EdgeCase[] = [
  {
    name: 'K4: calls of a loop with names of their own are made once each, also when the handler is called again',
    run: async (world) => {
      const sent: string[] = []
      const sms = world.sms(async (ctx) => {
        for (const to of TO) {
          await ctx.effect(`send:${to}`, () => {
            if (ctx.attempt === 1 && to === 'cy') throw new NotDone('not now')
            sent.push(to)
          })
        }
      })
      assertOutcome(await sms.handle('a'), world.retry)
      await sms.again('a')
      assert.deepEqual(sent, [...TO])
      assert.deepEqual(
        await journal(world),
        TO.map((to) => `send:${to} done`),
      )
    },
  },
  {
    name: 'K4: a call that certainly did not happen may be made again in the same attempt; one that may have happened may not',
    run: async (world) => {
      const errors = [new NotDone('not now'), new Error('reset')]
      const seen: unknown[] = []
      const sms = world.sms(async (ctx) => {
        for (let call = 0; call < 3; call++) {
          const made = ctx.effect('send', () => Promise.reject(errors[call] ?? new Error('called once more')), {
            onUnknown: 'retry-same-key',
          })
          await made.catch((error: unknown) => seen.push(isHapaxError(error) ? error.code : (error as Error).message))
        }
      })
      await sms.handle('a')
      assert.deepEqual(seen, ['not now', 'reset', 'reused-effect'])
      assert.deepEqual(await journal(world), ['send unknown'])
    },
  },
]

/** One name is one call. */
export const effectNames: readonly EdgeCase[] = [...refused, ...allowed]
