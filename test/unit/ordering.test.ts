import { expect, it } from 'vitest'
import { systemClock, systemRandom } from '../../src/base/index.ts'
import { Ordering } from '../../src/worker/ordering.ts'

it('looks once more for all changes that come while rows are put in order, so that a stop waits for one more at most', async () => {
  const adding: PromiseWithResolvers<number>[] = []
  const engine = {
    store: { inbox: { addOrder: () => adding[adding.push(Promise.withResolvers<number>()) - 1]?.promise } },
    clock: systemClock,
    random: systemRandom,
    logger: { info: () => {} },
    detached: <T>(run: () => T) => run(),
  }
  const ordering = new Ordering({
    engine: engine as never,
    consumers: [
      { name: 'billing', ordered: true },
      { name: 'other', ordered: false },
    ],
    report: (error) => expect.fail(String(error)),
  })
  ordering.addLater()
  await expect.poll(() => adding.length).toBe(1)
  for (let change = 0; change < 5; change++) ordering.addLater()
  adding[0]?.resolve(0)
  await expect.poll(() => adding.length).toBe(2)
  ordering.addLater()
  adding[1]?.resolve(0)
  await expect.poll(() => adding.length).toBe(3)
  adding[2]?.resolve(0)
  await ordering.ended()
  expect(adding).toHaveLength(3)
})
