import { createHapax, defineMessage, Permanent, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { expect, it } from 'vitest'
import { StillClock } from '../support/still-clock.ts'

const Placed = defineMessage<{ n: number }>('placed')
const BY = { actor: 'ada', action: 'begin' } as const

/** A store on which no time passes, with two failed messages; those in `bad` fail again when retried. */
async function standing() {
  const store = memory({ clock: new StillClock() })
  const hapax = createHapax({ store, source: '/shop', logger: silentLogger })
  const bad = new Set(['a', 'b'])
  const billing = hapax.consumer('billing').on(Placed, (_, { message }) => {
    if (bad.has(message.id)) throw new Permanent('bad')
  })
  for (const id of bad) await billing.handle({ id, source: '/shop', type: 'placed', data: { n: 1 } })
  const worked = () => hapax.workOnce({ maxMs: 1_000, consume: [billing] })
  return { store, hapax, worked }
}

it('an operation leaves alone a message that failed again within the millisecond in which it began', async () => {
  const { store, worked } = await standing()
  const [first = '', second = ''] = await store.failed.seqs({}, undefined, 9)
  const draft = { kind: 'retry', where: {}, perSecond: null, limit: null } as const
  const begun = await store.operations.begin({ ...draft, id: '0199c1a0-0000-7000-8000-000000000001' }, BY)
  const step = { id: begun.id, token: 'token' }
  await store.operations.lease(step.token, 60_000, begun.id)
  await store.failed.retry(first, { actor: 'bob', action: 'retry' })
  await worked()
  expect(await store.failed.seqs({}, undefined, 9)).toEqual([first, second])
  expect(await store.failed.seqs({ lastFailure: begun.lastFailure ?? '' }, undefined, 9)).toEqual([second])
  expect(await store.failed.retry(first, { actor: 'ada', action: 'retry' }, step)).toBe(false)
  expect(await store.failed.discard(first, { actor: 'ada', action: 'discard' }, step)).toBe(false)
  expect(await store.failed.retry(second, { actor: 'ada', action: 'retry' }, step)).toBe(true)
})

it('calls of one millisecond are listed in the order in which they began', async () => {
  const { store } = await standing()
  const hapax = createHapax({ store, source: '/shop', logger: silentLogger })
  const names = ['z', 'a', 'm']
  const sms = hapax.leased('sms').on(Placed, async (_, ctx) => {
    for (const name of names) await ctx.effect(name, () => name)
  })
  await sms.handle({ id: 'c', source: '/shop', type: 'placed', data: { n: 1 } })
  const traces = await hapax.explain('c')
  expect(traces.flatMap((each) => (each.where === 'effect' ? [each.effect.name] : []))).toEqual(names)
  expect(traces.map(({ where }) => where)).toEqual(['receipt', 'effect', 'effect', 'effect'])
})
