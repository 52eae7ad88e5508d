import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate } from 'node:timers/promises'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { expect, it, onTestFinished } from 'vitest'

const Placed = defineMessage<object>('order.placed')
const message = { id: '1', source: '/test', type: Placed.type, data: {} }
const storage = new AsyncLocalStorage<unknown>()

it('waits for the handler although around returns nothing', async () => {
  const around = ((tx: unknown, call: () => unknown) => {
    storage.run(tx, call)
  }) as never
  const hapax = createHapax({ store: memory(), source: '/test', logger: silentLogger, around })
  onTestFinished(() => hapax.close())
  const billing = hapax.consumer('billing').on(Placed, async () => {
    await setImmediate()
    throw new Error('after the commit')
  })
  expect((await billing.handle(message)).status).toBe('retrying')
})

it.for([
  ['does not call its function', () => undefined],
  ['calls its function later', (_: unknown, call: () => unknown) => setImmediate().then(call)],
])('processes no message if around %s', async ([, around]) => {
  let handled = 0
  const options = { store: memory(), source: '/test', logger: silentLogger, around: around as never }
  const hapax = createHapax(options)
  onTestFinished(() => hapax.close())
  const billing = hapax.consumer('billing').on(Placed, () => {
    handled += 1
  })
  const { status, error } = await billing.handle(message)
  await setImmediate()
  expect([status, String(error), handled]).toEqual(['retrying', expect.stringContaining('expected around to call'), 0])
})
