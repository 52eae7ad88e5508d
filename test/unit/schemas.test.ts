import { runInNewContext } from 'node:vm'
import { type } from 'arktype'
import { createHapax, defineMessage, type HapaxOptions, isHapaxError, type MessageType, silentLogger } from 'hapax'
import { type MemoryStore, type MemoryTx, memory } from 'hapax/memory'
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'

interface Amount {
  readonly amount: string
}
interface Parsed {
  readonly amount: number
}

/** The same message by three libraries: the wire carries text, handlers receive a number of cents. */
const KINDS: Readonly<Record<string, MessageType<Amount, Parsed>>> = {
  zod: defineMessage('paid', {
    schema: z.object({
      amount: z
        .string()
        .regex(/^\d+$/)
        .transform((text) => Number(text) * 100),
    }),
  }),
  valibot: defineMessage('paid', {
    schema: v.object({
      amount: v.pipe(
        v.string(),
        v.digits(),
        v.transform((text) => Number(text) * 100),
      ),
    }),
  }),
  arktype: defineMessage('paid', {
    schema: type({ amount: type('/^\\d+$/').pipe((text) => Number(text) * 100) }),
  }),
  'zod, asynchronous': defineMessage('paid', {
    schema: z.object({
      amount: z
        .string()
        .regex(/^\d+$/)
        .transform(async (text) => Number(text) * 100),
    }),
  }),
}

function setUp(more: Partial<HapaxOptions<MemoryTx, MemoryTx>> = {}) {
  const store: MemoryStore = memory()
  const hapax = createHapax({ store, source: '/test', logger: silentLogger, ...more })
  return { store, hapax, consumer: hapax.consumer('billing') }
}

describe.for(Object.entries(KINDS))('a schema of %s', ([, Paid]) => {
  it('transforms once: the wire carries its input, handlers receive its output', async () => {
    const { hapax, consumer } = setUp({ delivery: 'local' })
    const seen: unknown[] = []
    consumer.on(Paid, ({ amount }, { message }) => void seen.push(amount, message.data))
    await hapax.transaction((tx) => hapax.publish(tx, Paid, { amount: '5' }))
    const worker = hapax.worker({ consume: [consumer] })
    await worker.start()
    await worker.drain()
    await hapax.close()
    expect(seen).toEqual([500, { amount: '5' }])
  })

  it('refuses to publish what does not fit, and says where', async () => {
    const { hapax, store } = setUp()
    const published = hapax.transaction((tx) => hapax.publish(tx, Paid, { amount: 'five' }))
    const error = await published.catch((thrown: unknown) => thrown)
    expect(isHapaxError(error, 'invalid-payload')).toBe(true)
    expect((error as Error).message).toMatch(/^expected data of paid to fit its schema: .*amount/)
    expect(store.rows('hapax_outbox')).toEqual([])
  })

  it.for([
    ['a promise that nobody awaited', Promise.resolve({ amount: '5' }), 'await it'],
    ['a map', new Map([['amount', '5']]), 'nothing would be left'],
    ['a set', new Set(['5']), 'nothing would be left'],
  ] as const)('refuses to publish %s, which JSON would make empty', async ([, data, why]) => {
    const { hapax, store } = setUp()
    const Free = defineMessage<unknown>('free')
    const error = await hapax.transaction((tx) => hapax.publish(tx, Free, data)).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'invalid-payload', message: expect.stringContaining(why) })
    expect(store.rows('hapax_outbox')).toEqual([])
  })

  it.for([
    [{ lines: [{ tags: [] }, { tags: new Map([['a', 1]]) }] }, 'an object (Map) at lines[1].tags'],
    [{ tags: new Set(['a']) }, 'an object (Set) at tags'],
    [{ total: Promise.resolve(5) }, 'an object (Promise) at total'],
    [{ photo: new Uint8Array([1, 2]) }, '2 bytes at photo'],
    [{ photo: new Uint8Array(0) }, '0 bytes at photo'],
    [[new Float64Array(1)], 'an object (Float64Array) at [0]'],
    [{ photo: new ArrayBuffer(2) }, 'an object (ArrayBuffer) at photo'],
    [{ amounts: [1, Number.NaN] }, 'NaN at amounts[1]'],
    [{ amount: Number.NEGATIVE_INFINITY }, '-Infinity at amount'],
    [Number.NaN, 'NaN'],
  ] as const)('refuses to publish %s, of which JSON would keep something else', async ([data, got]) => {
    const { hapax, store } = setUp()
    const published = hapax.transaction((tx) => hapax.publish(tx, defineMessage<unknown>('free'), data))
    await expect(published).rejects.toMatchObject({
      code: 'invalid-payload',
      message: `expected data of free to be a JSON value, got ${got}, which JSON cannot carry`,
    })
    expect(store.rows('hapax_outbox')).toEqual([])
  })

  it('publishes what only looks like it', async () => {
    const { hapax, store } = setUp()
    const fine = {
      none: null,
      empty: {},
      0: { 0: 'null' },
      list: [undefined],
      at: new Date(0),
      own: { toJSON: () => null },
    }
    await hapax.transaction((tx) => hapax.publish(tx, defineMessage<unknown>('free'), fine))
    expect(store.rows('hapax_outbox')).toHaveLength(1)
  })

  it('a delivery that does not fit is failed, not retried', async () => {
    const { hapax, consumer } = setUp()
    consumer.on(Paid, () => {})
    const outcome = await consumer.handle({ id: 'a', source: '/s', type: 'paid', data: { amount: 7 } })
    expect(outcome).toMatchObject({ status: 'failed', ack: true, error: { code: 'invalid-payload' } })
    expect(await hapax.failed.list()).toMatchObject([{ reason: 'invalid-payload', attempts: 0 }])
  })
})

describe('defineMessage', () => {
  it('z.date() is refused at publish: a date arrives as text', async () => {
    const { hapax } = setUp()
    const Dated = defineMessage('dated', { schema: z.object({ at: z.date() }) })
    const published = hapax.transaction((tx) => hapax.publish(tx, Dated, { at: new Date() }))
    await expect(published).rejects.toMatchObject({ code: 'invalid-payload' })
    const Coerced = defineMessage('coerced', { schema: z.object({ at: z.coerce.date() }) })
    await hapax.transaction((tx) => hapax.publish(tx, Coerced, { at: new Date() }))
  })

  it('computes the key from the data as it is published', () => {
    const Placed = defineMessage('placed', {
      schema: z.object({ order: z.string().transform((text) => text.length) }),
      key: ({ order }) => order,
    })
    expect(Placed.keyOf({ order: 'o-1' })).toBe('o-1')
    expect(Placed.of({ order: 'o-1' }, { id: 'a' })).toMatchObject({ data: { order: 'o-1' }, options: { id: 'a' } })
    expect(defineMessage('free').keyOf({})).toBeUndefined()
  })

  it('a schema that throws makes an invalid payload, not a crash', async () => {
    const { consumer } = setUp()
    const validate = (): never => {
      throw new Error('schema broken')
    }
    consumer.on(defineMessage('a', { schema: { '~standard': { version: 1, vendor: 'x', validate } } }), () => {})
    const outcome = await consumer.handle({ id: 'a', source: '/s', type: 'a', data: 1 })
    expect(outcome).toMatchObject({ status: 'failed', error: { code: 'invalid-payload' } })
  })

  it('a result that is a promise of another realm is waited for; one that is no result is refused', async () => {
    const { hapax, consumer } = setUp()
    const typed = (type: string, validate: () => unknown) =>
      defineMessage<unknown>(type, { schema: { '~standard': { version: 1, vendor: 'x', validate } } } as never)
    const seen: unknown[] = []
    const elsewhere = runInNewContext('() => Promise.resolve({ value: 7 })') as () => unknown
    consumer.on(typed('elsewhere', elsewhere), (data) => void seen.push(data))
    expect(await consumer.handle({ id: 'a', source: '/s', type: 'elsewhere', data: 1 })).toMatchObject({
      status: 'processed',
    })
    expect(seen).toEqual([7])
    for (const result of [null, undefined, 7, 'fine', {}, { data: 1 }]) {
      const published = hapax.transaction((tx) =>
        hapax.publish(
          tx,
          typed('wrong', () => result),
          {},
        ),
      )
      await expect(published).rejects.toMatchObject({ code: 'invalid-payload' })
    }
  })

  it('without a schema passes on what came', async () => {
    const { consumer } = setUp()
    const seen: unknown[] = []
    consumer.on(defineMessage<unknown>('any'), (data) => void seen.push(data))
    const values = [null, 0, '', [], { a: [1, { b: null }] }, undefined]
    for (const [index, data] of values.entries()) {
      await consumer.handle({ id: `${index}`, source: '/s', type: 'any', data })
    }
    expect(seen).toEqual(values)
  })
})
