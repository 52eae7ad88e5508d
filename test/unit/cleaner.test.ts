import { expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../src/base/index.ts'
import { createHapax, defineMessage, Permanent, silentLogger } from '../../src/index.ts'
import { memory } from '../../src/stores/memory/index.ts'
import { until } from '../../src/testing/wait.ts'

/** A pass takes no time by this clock, however busy the machine is: the rest after it is as long as the worker is told. */
const STILL = { ...systemClock, monotonic: () => 0 }
const Placed = defineMessage<{ fine: boolean }>('order.placed')

it('cleans as often as the worker is told, and keeps the audit for a time of its own', async () => {
  const hapax = createHapax({ store: memory(), source: '/shop', logger: silentLogger, clock: STILL })
  onTestFinished(() => hapax.close())
  const billing = hapax.consumer('billing', { retentionMs: 1, retry: { attempts: 1 } })
  billing.on(Placed, ({ fine }) => {
    if (!fine) throw new Permanent('bad')
  })
  const deliver = (id: string, fine: boolean) =>
    billing.handle({ id, source: '/sender', type: 'order.placed', data: { fine } })
  const places = async (id: string): Promise<string[]> => (await hapax.explain(id)).map(({ where }) => where).sort()

  await deliver('bad', false)
  await hapax.failed.discardAll({ all: true })
  const keeping = hapax.worker({ consume: [billing], cleanup: { everyMs: 5, auditRetentionMs: 'forever' } })
  await keeping.start()
  // The second one is gone only after a whole pass that followed another one.
  for (const id of ['a', 'b']) {
    await deliver(id, true)
    await until(async () => (await places(id)).length === 0)
  }
  await keeping.stop()
  expect(await places('bad')).toEqual(['audit'])

  const forgetting = hapax.worker({ consume: [billing], cleanup: { everyMs: 5, auditRetentionMs: 1 } })
  await forgetting.start()
  await until(async () => (await places('bad')).length === 0)
})
