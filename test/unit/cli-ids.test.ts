import { describe, expect, it } from 'vitest'
import { createHapax, defineMessage, Permanent, silentLogger } from '../../src/index.ts'
import { sqlite } from '../../src/stores/sqlite/index.ts'
import { cli, sharedDatabase } from '../support/cli.ts'

const OrderPlaced = defineMessage<{ n: number }>('order.placed')

/** order-1 has failed at billing and at stock, the others at billing alone. Two of the ids look like numbers, one like a whole seq. */
const shop = sharedDatabase(async (path) => {
  const hapax = createHapax({ store: sqlite({ path }), source: '/shop', logger: silentLogger })
  await hapax.migrate()
  for (const name of ['billing', 'stock']) {
    const consumer = hapax.consumer(name).on(OrderPlaced, () => Promise.reject(new Permanent('no')))
    for (const id of name === 'billing' ? ['order-1', 'order-2', '2', '70', '7-123'] : ['order-1']) {
      await consumer.handle({ id, source: '/sender', type: 'order.placed', data: { n: 1 } })
    }
  }
  await hapax.close()
})

describe('ids in the place of numbers', () => {
  it.for([
    [['show', 'order-2', '--json'], /"id": "order-2"/],
    [['retry', 'order-2'], /^retried .*order-2 of billing/],
    [['discard', 'order-2'], /^discarded .*order-2 of billing/],
    [['edit', 'order-2', '--data', '{"n":2}', '--json'], /"id"/],
    [['show', 'order-1', '--consumer', 'stock', '--json'], /"consumer": "stock"/],
    [['retry', 'order-1', '--consumer', 'stock'], /order-1 of stock/],
  ] as const)('failed %s', async ([argv, said]) => {
    expect(await cli(['failed', ...argv], shop.copy())).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(said),
    })
  })

  it.for(['show', 'retry', 'discard'])('failed %s names the candidates of an id that is not enough', async (change) => {
    const { exitCode, stderr } = await cli(['failed', change, 'order-1'], shop.copy())
    expect(exitCode).toBe(2)
    expect(stderr).toMatch(/several failed messages have the id order-1: add --consumer, or give the number of one/)
    expect(stderr).toMatch(/\d+-\d+ of billing\n {2}\d+-\d+ of stock|\d+-\d+ of stock\n {2}\d+-\d+ of billing/)
  })

  it.for(['show', 'retry', 'discard'])('failed %s does not guess whether a number is an id', async (change) => {
    const { exitCode, stderr } = await cli(['failed', change, '2'], shop.copy())
    expect(exitCode).toBe(2)
    expect(stderr).toMatch(/several failed messages have the number or the id 2: give one as it is listed/)
    expect(stderr).toMatch(/2-\d+ of billing\n {2}3-\d+ of billing/)
  })

  it.for([
    [['70'], '70'],
    [['7-123'], '7-123'],
    [['1'], 'order-1'],
  ] as const)('an id that looks like a number is found where it can mean nothing else: %s', async ([argv, id]) => {
    const { stdout } = await cli(['failed', 'show', ...argv, '--json'], shop.copy())
    expect(JSON.parse(stdout)).toMatchObject({ id })
  })

  it('a number of another consumer than the named one is not changed', async () => {
    const { exitCode, stdout } = await cli(['failed', 'discard', '1', '--consumer', 'stock', '--json'], shop.copy())
    expect(exitCode).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({ done: 0, results: [{ error: { code: 'not-found' } }] })
  })

  it('says that there is none', async () => {
    expect(await cli(['failed', 'show', 'order-9'], shop.copy())).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('there is no failed message order-9'),
    })
  })
})
