import {
  createHapax,
  defineMessage,
  type Hapax,
  HapaxError,
  type HapaxOptions,
  type Logger,
  Permanent,
  silentLogger,
} from 'hapax'
import { type MemoryTx, memory } from 'hapax/memory'
import { expect, it, vi } from 'vitest'
import { LeapingClock } from '../../src/testing/clock.ts'

interface Line {
  readonly level: keyof Logger
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
}

type App = { readonly hapax: Hapax<MemoryTx>; readonly lines: Line[]; readonly clock: LeapingClock }

const Order = defineMessage<{ card: string }>('order.placed')

function app(options: Partial<HapaxOptions<MemoryTx, MemoryTx>> = {}): App {
  const lines: Line[] = []
  const log = (level: keyof Logger) => (fields: object, message: string) =>
    void lines.push({ level, message, fields: { ...fields } })
  const logger: Logger = { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') }
  const clock = new LeapingClock()
  return { hapax: createHapax({ store: memory(), source: '/shop', logger, clock, ...options }), lines, clock }
}

const order = (id: string) => ({ id, source: '/shop', type: 'order.placed', data: { card: '4111' } })
const linesOf = ({ lines }: App, level: keyof Logger): readonly Line[] => lines.filter((line) => line.level === level)
const aboutHandlers = (each: App, level: keyof Logger): readonly Line[] =>
  linesOf(each, level).filter(({ message }) => message.includes('handler of'))

function thrower(): never {
  throw Object.assign(new Error('the card was declined', { cause: new TypeError('no network') }), { code: 'DECLINED' })
}

it('the first failure of a handler is a warning with attempt, next attempt, code, stack and cause, and no payload', async () => {
  const shop = app()
  const consumer = shop.hapax.consumer('mail', { retry: { attempts: 4 } }).on(Order, thrower)
  expect(await consumer.handle(order('17'))).toMatchObject({ status: 'retrying' })
  const [line] = aboutHandlers(shop, 'warn')
  expect(line?.message).toMatch(
    /^the handler of order\.placed failed \(attempt 1 of 4\); the next attempt is in \d+\.\d s$/,
  )
  expect(line?.fields).toMatchObject({
    consumer: 'mail',
    about: { id: '17', type: 'order.placed', source: '/shop' },
    attempt: 1,
    attempts: 4,
    delayMs: expect.any(Number),
    error: 'the card was declined',
    code: 'DECLINED',
    stack: expect.stringMatching(/^Error: the card was declined\n\s+at thrower .*\ncaused by TypeError: no network$/s),
  })
  expect(JSON.stringify(shop.lines)).not.toContain('4111')
})

it('a final failure is an error with the command that shows the message', async () => {
  const shop = app()
  const consumer = shop.hapax.consumer('billing').on(Order, () => {
    throw new Permanent('there is no such card')
  })
  await consumer.handle(order("it's 17"))
  const [line] = linesOf(shop, 'error')
  expect(line?.message).toBe('the message is in the failed store')
  expect(line?.fields).toMatchObject({
    reason: 'permanent',
    error: 'there is no such card',
    stack: expect.stringContaining('failure-logs.test.ts'),
    advice: "To see it: npx hapax explain 'it'\\''s 17' --source /shop",
  })
})

it('what hapax itself refuses has its code, and no stack of hapax', async () => {
  const shop = app()
  const consumer = shop.hapax.consumer('billing').on(Order, () => {})
  await consumer.handle({ ...order('17'), type: 'order.unheard' })
  const [line] = linesOf(shop, 'error')
  expect(line?.fields).toMatchObject({ code: 'unknown-type', error: expect.stringContaining('order.unheard') })
  expect(line?.fields).not.toHaveProperty('stack')
})

it('the stack is logged without secrets, by the rules of hapax and by those of the application', async () => {
  const shop = app({ redact: (text) => text.replaceAll('4111', '****') })
  const consumer = shop.hapax.consumer('billing').on(Order, ({ card }) => {
    throw new Error(`card ${card}, password=hunter2`)
  })
  await consumer.handle(order('17'))
  const text = JSON.stringify(shop.lines)
  expect(text).toContain('****')
  expect(text).not.toMatch(/4111|hunter2/)
})

it('failures of one kind are bounded, and it is said how many were left out', async () => {
  const shop = app()
  const consumer = shop.hapax.consumer('billing').on(Order, ({ card }, { message }) => {
    throw new Error(card === '4111' ? `no card for ${message.id.length} orders` : 'another reason')
  })
  for (let n = 0; n < 50; n++) await consumer.handle(order(`order ${n}`))
  expect(aboutHandlers(shop, 'warn')).toHaveLength(5)
  expect(aboutHandlers(shop, 'debug')).toHaveLength(45)
  // Another error is another kind.
  await consumer.handle({ ...order('other'), data: { card: '' } })
  expect(aboutHandlers(shop, 'warn')).toHaveLength(6)

  shop.clock.leap(61_000)
  await consumer.handle(order('later'))
  const [, , , , , , summary, ...rest] = aboutHandlers(shop, 'warn')
  expect(summary?.message).toMatch(/\(45 more like this were not logged\)$/)
  expect(summary?.fields).toMatchObject({ consumer: 'billing', type: 'order.placed', leftOut: 45 })
  expect(rest).toHaveLength(1)
})

it('what was left out is said at the latest when hapax is closed', async () => {
  const shop = app()
  const consumer = shop.hapax.consumer('billing').on(Order, thrower)
  for (let n = 0; n < 6; n++) await consumer.handle(order(`order ${n}`))
  await shop.hapax.close()
  expect(aboutHandlers(shop, 'warn').at(-1)?.message).toMatch(/\(1 more like this was not logged\)$/)
})

it('errors whose texts never repeat fill neither the log nor the memory', async () => {
  const shop = app()
  const consumer = shop.hapax.consumer('billing').on(Order, (_, { message }) => {
    throw new HapaxError('broker-refused', `refused by ${message.id}`)
  })
  const words = Array.from({ length: 1_100 }, (_, n) =>
    [...String(n)].map((digit) => 'ghijklmnop'[Number(digit)]).join(''),
  )
  for (const word of words) await consumer.handle(order(word))
  const logged = aboutHandlers(shop, 'warn').length
  expect(logged).toBeGreaterThanOrEqual(1_000)
  expect(logged).toBeLessThanOrEqual(1_006)
})

it('what a handler logs is not bounded', async () => {
  const shop = app()
  const consumer = shop.hapax.consumer('billing').on(Order, (_, { logger }) => logger.warn({}, 'charged'))
  for (let n = 0; n < 20; n++) await consumer.handle(order(`order ${n}`))
  expect(linesOf(shop, 'warn').filter(({ message }) => message === 'charged')).toHaveLength(20)
})

it('ctx.logger is bound to the message, in handlers of one, leased ones and hooks; of many, to the consumer', async () => {
  const shop = app({ delivery: 'local' })
  const { hapax } = shop
  const Refund = defineMessage<{ card: string }>('refund')
  const Mail = defineMessage<{ card: string }>('mail')
  const about = (id: string, type: string) => ({ id, source: '/shop', type })
  const direct = hapax
    .consumer('direct')
    .on(Order, (_, { logger }) => {
      logger.info({ n: 1 }, 'one')
      throw new Permanent('bad')
    })
    .onFailed(Order, (_, _error, { logger }) => logger.info({ consumer: 'mine' }, 'hook'))
    .onMany(Refund, (_, { logger }) => logger.info({ n: 2 }, 'many'))
  const leased = hapax.leased('leased').on(Mail, (_, { logger }) => logger.info({ n: 3 }, 'leased'))
  await direct.handle(order('a'))
  await direct.handle({ ...order('b'), type: 'refund' })
  await leased.handle({ ...order('c'), type: 'mail' })
  const fieldsOf = (message: string) => shop.lines.find((line) => line.message === message)?.fields
  expect(fieldsOf('one')).toEqual({ consumer: 'direct', about: about('a', 'order.placed'), attempt: 1, n: 1 })
  expect(fieldsOf('hook')).toEqual({ consumer: 'mine', about: about('a', 'order.placed'), attempt: 1 })
  expect(fieldsOf('many')).toEqual({ consumer: 'direct', n: 2 })
  expect(fieldsOf('leased')).toEqual({ consumer: 'leased', about: about('c', 'mail'), attempt: 1, n: 3 })
})

it('a duplicate, the start and the stop of a worker, and what a cleanup deleted are told as info', async () => {
  const shop = app()
  const consumer = shop.hapax.consumer('billing', { retentionMs: 1, retry: { attempts: 1 } }).on(Order, () => {})
  await consumer.handle(order('17'))
  await consumer.handle(order('17'))
  const worker = shop.hapax.worker({ consume: [consumer], cleanup: { everyMs: 1 } })
  await worker.start()
  await expect.poll(() => linesOf(shop, 'info').map(({ message }) => message)).toContain('old rows were deleted')
  await worker.stop()
  const told = linesOf(shop, 'info')
  expect(told.map(({ message }) => message)).toEqual([
    'a duplicate was dropped',
    'the worker has started',
    'old rows were deleted',
    'the worker has stopped',
  ])
  expect(told[2]?.fields).toMatchObject({ what: 'receipts', of: 'billing', deleted: 1 })
  expect(linesOf(shop, 'warn')).toEqual([])
})

it('a failure that is left to the sender is a warning as well', async () => {
  const shop = app()
  const consumer = shop.hapax.consumer('mail', { onError: 'rollback' }).on(Order, thrower)
  expect(await consumer.handle(order('17'))).toMatchObject({ status: 'rolled-back' })
  const [line] = aboutHandlers(shop, 'warn')
  expect(line?.message).toMatch(/nothing was kept, and the message is to be delivered again$/)
  expect(line?.fields).toMatchObject({
    consumer: 'mail',
    about: { id: '17', type: 'order.placed', source: '/shop' },
    error: 'the card was declined',
    code: 'DECLINED',
    stack: expect.stringContaining('at thrower'),
  })
})

it('a processed message is a debug line with its attempt and duration', async () => {
  const shop = app()
  const consumer = shop.hapax.consumer('billing').on(Order, () => shop.clock.leap(12))
  expect(await consumer.handle(order('17'))).toMatchObject({ status: 'processed' })
  const about = { id: '17', type: 'order.placed', source: '/shop' }
  const fields = { consumer: 'billing', about, attempt: 1, durationMs: expect.any(Number) }
  expect(linesOf(shop, 'debug')).toEqual([{ level: 'debug', message: 'a message was processed', fields }])
  expect(linesOf(shop, 'debug')[0]?.fields['durationMs']).toBeGreaterThanOrEqual(12)
})

it('a logger that writes no debug lines gets none, until its level changes', async () => {
  let level = 'info'
  const shop = app()
  const debug = vi.fn()
  const logger = { ...silentLogger, debug, isLevelEnabled: (name: string) => name === level }
  const hapax = createHapax({ store: memory(), source: '/shop', logger, clock: shop.clock })
  const consumer = hapax.consumer('billing').on(Order, () => {})
  await consumer.handle(order('17'))
  expect(debug).not.toHaveBeenCalled()
  level = 'debug'
  await consumer.handle(order('18'))
  expect(debug).toHaveBeenCalledWith(expect.objectContaining({ consumer: 'billing' }), 'a message was processed')
})

it('a dropped duplicate says when the message was first taken, and how many of its duplicates were dropped', async () => {
  const shop = app()
  const consumer = shop.hapax.consumer('billing').on(Order, () => {})
  for (const id of ['17', '18', '17', '17', '18']) await consumer.handle(order(id))
  expect(linesOf(shop, 'info').map(({ message, fields }) => [message, fields])).toEqual(
    [
      ['17', 1],
      ['17', 2],
      ['18', 1],
    ].map(([id, blocked]) => [
      'a duplicate was dropped',
      { consumer: 'billing', about: expect.objectContaining({ id }), takenAt: expect.any(Date), blocked },
    ]),
  )
})
