import { createHapax, defineMessage, type Logger, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { expect, it, onTestFinished } from 'vitest'

const Placed = defineMessage<{ n: number }>('order.placed')
const four = [0, 1, 2, 3].map((n) => ({ id: `m${n}`, source: '/test', type: Placed.type, data: { n } }))

it('tells each outcome of a group once, also if the group is split because one message fails', async () => {
  const hapax = createHapax({ store: memory(), source: '/test', logger: silentLogger })
  onTestFinished(() => hapax.close())
  const billing = hapax.consumer('billing', { group: { size: 4 } }).on(Placed, ({ n }) => {
    if (n === 2) throw new Error('this one')
  })
  const told: [number, string][] = []
  await billing.handleMany(four, undefined, (index, { status }) => told.push([index, status]))
  expect(told.sort(([a], [b]) => a - b)).toEqual([
    [0, 'processed'],
    [1, 'processed'],
    [2, 'retrying'],
    [3, 'processed'],
  ])
})

it('logs what a listener of outcomes throws, and goes on', async () => {
  const errors: string[] = []
  const logger: Logger = { ...silentLogger, error: (_, message) => void errors.push(message) }
  const hapax = createHapax({ store: memory(), source: '/test', logger })
  onTestFinished(() => hapax.close())
  const billing = hapax.consumer('billing').on(Placed, () => {})
  const outcomes = await billing.handleMany(four, undefined, () => {
    throw new Error('the listener')
  })
  expect(outcomes.map(({ status }) => status)).toEqual(four.map(() => 'processed'))
  expect(errors).toContain('a listener of outcomes failed')
})

it('does not report messages as unavailable whose outcome is known', async () => {
  const store = memory()
  const hapax = createHapax({ store, source: '/test', logger: silentLogger })
  onTestFinished(() => hapax.close())
  const unavailable: string[] = []
  hapax.events.on('unavailable', ({ message }) => unavailable.push(message.id))
  const billing = hapax.consumer('billing', { group: { size: 4 } }).on(Placed, ({ n }) => {
    if (n < 3) return
    Object.assign(store.transactions, { run: () => Promise.reject(new Error('the server is gone')) })
    throw new Error('the group is split')
  })
  // The first half of the group was committed before by its own call.
  const outcomes = await billing.handleMany(four.slice(0, 2))
  expect(outcomes.map(({ status }) => status)).toEqual(['processed', 'processed'])
  await expect(billing.handleMany(four.slice(2))).rejects.toThrow()
  expect(new Set(unavailable)).toEqual(new Set(['m2', 'm3']))
})
