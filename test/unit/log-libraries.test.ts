// The loggers that applications have, as they are: sentence, level, code, message and stack arrive in the fields where these libraries
// and the pipelines behind them look.
import { Console } from 'node:console'
import { Writable } from 'node:stream'
import { createHapax, defineMessage, type Logger } from 'hapax'
import { memory } from 'hapax/memory'
import pino from 'pino'
import { describe, expect, it, vi } from 'vitest'
import winston from 'winston'

const Order = defineMessage<{ card: string }>('order.placed')
const ABOUT = { id: '17', source: '/shop', type: 'order.placed' }

/** A stream that keeps its lines. */
function kept(): { readonly stream: Writable; readonly lines: () => Record<string, unknown>[] } {
  let text = ''
  const stream = new Writable({
    write: (chunk, _encoding, done) => {
      text += String(chunk)
      done()
    },
  })
  const lines = (): Record<string, unknown>[] =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line))
  return { stream, lines }
}

/** A message that its handler logs and fails at, and a second delivery of it. */
async function run(logger: Logger): Promise<void> {
  const hapax = createHapax({ store: memory(), source: '/shop', logger })
  const consumer = hapax.consumer('billing', { onError: 'store' }).on(Order, (_, ctx) => {
    ctx.logger.info({ card: 'visa' }, 'charging')
    throw Object.assign(new Error('the card was declined'), { code: 'DECLINED' })
  })
  const message = { ...ABOUT, data: { card: '4111' } }
  expect(await consumer.handle(message)).toMatchObject({ status: 'retrying' })
  expect(await consumer.handle(message)).toMatchObject({ status: 'duplicate' })
  await hapax.close()
}

const FAILED = /the handler of order\.placed failed \(attempt 1 of \d+\)/
const FIELDS = {
  failed: {
    consumer: 'billing',
    about: ABOUT,
    attempt: 1,
    error: 'the card was declined',
    code: 'DECLINED',
    stack: expect.stringContaining('log-libraries.test.ts'),
  },
  handler: { consumer: 'billing', about: ABOUT, attempt: 1, card: 'visa' },
  duplicate: { consumer: 'billing', about: ABOUT },
}

it('pino gets the fields first, and the sentence as msg', async () => {
  const { stream, lines } = kept()
  await run(pino({ level: 'debug' }, stream))
  const [warn, info] = [pino.levels.values['warn'], pino.levels.values['info']]
  expect(lines()).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ level: warn, msg: expect.stringMatching(FAILED), ...FIELDS.failed }),
      expect.objectContaining({ level: info, msg: 'charging', ...FIELDS.handler }),
      expect.objectContaining({ level: info, msg: 'a duplicate was dropped', ...FIELDS.duplicate }),
    ]),
  )
})

describe.each(['a logger', 'a child'])('%s of winston', (kind) => {
  it('gets the sentence as message, and the fields beside it', async () => {
    const { stream, lines } = kept()
    const root = winston.createLogger({
      level: 'debug',
      format: winston.format.combine(winston.format.timestamp(), winston.format.json()),
      transports: [new winston.transports.Stream({ stream })],
    })
    await run(kind === 'a child' ? root.child({ app: 'shop' }) : root)
    const own = kind === 'a child' ? { app: 'shop' } : {}
    expect(lines()).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ level: 'warn', message: expect.stringMatching(FAILED), ...FIELDS.failed, ...own }),
        expect.objectContaining({ level: 'info', message: 'charging', ...FIELDS.handler, ...own }),
        expect.objectContaining({ level: 'info', message: 'a duplicate was dropped', ...FIELDS.duplicate, ...own }),
      ]),
    )
  })
})

it('a console writes one line of JSON for each call, at every level', async () => {
  const { stream, lines } = kept()
  await run(new Console(stream, stream))
  const head = { time: expect.stringMatching(/^\d{4}-\d\d-\d\dT/) }
  const written = lines()
  expect(written).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ ...head, level: 'warn', msg: expect.stringMatching(FAILED), ...FIELDS.failed }),
      expect.objectContaining({ ...head, level: 'info', msg: 'hapax: charging', ...FIELDS.handler }),
      expect.objectContaining({ ...head, level: 'info', msg: 'hapax: a duplicate was dropped', ...FIELDS.duplicate }),
    ]),
  )
  expect(written.map(({ level }) => level)).toContain('info')
})

it('so does the global one', async () => {
  const spies = (['debug', 'info', 'warn', 'error'] as const).map((level) => {
    return vi.spyOn(console, level).mockImplementation(() => {})
  })
  try {
    await run(console)
    const calls = spies.flatMap((spy) => spy.mock.calls)
    expect(calls.length).toBeGreaterThan(2)
    for (const args of calls) {
      expect(args).toHaveLength(1)
      expect(JSON.parse(String(args[0]))).toMatchObject({ level: expect.any(String), msg: expect.any(String) })
    }
  } finally {
    for (const spy of spies) spy.mockRestore()
  }
})

/** What a handler's call of the logger writes to a console. */
async function logged(...args: readonly unknown[]): Promise<Record<string, unknown> | undefined> {
  const { stream, lines } = kept()
  const redact = (text: string): string => text.replaceAll('secret-7', '***')
  const hapax = createHapax({ store: memory(), source: '/shop', logger: new Console(stream, stream), redact })
  const consumer = hapax.consumer('billing', { onError: 'rollback' }).on(Order, (_, { logger }) => {
    Reflect.apply(logger.warn, logger, args)
  })
  expect(await consumer.handle({ ...ABOUT, data: { card: '4111' } })).toMatchObject({ status: 'processed' })
  await hapax.close()
  return lines()[0]
}

const BOUND = { level: 'warn', msg: 'hapax: charged', consumer: 'billing', about: ABOUT, attempt: 1 }

it('a field that is no JSON hides neither what happened nor the others', async () => {
  const circle: { self?: unknown } = {}
  circle.self = circle
  const line = await logged({ cents: 10n, circle, card: 'visa' }, 'charged')
  expect(line).toMatchObject({ ...BOUND, cents: '10', circle: '(cannot be written as JSON)', card: 'visa' })
})

it('an error is logged with its message and its stack, in place of the fields or as one of them', async () => {
  const shown = { error: 'declined: ***', stack: expect.stringContaining('log-libraries.test.ts') }
  expect(await logged(new Error('declined: secret-7'), 'charged')).toMatchObject({ ...BOUND, ...shown })
  const stack = expect.stringContaining('log-libraries.test.ts')
  const field = await logged({ err: new Error('declined') }, 'charged')
  expect(field).toMatchObject({ ...BOUND, err: { error: 'declined', stack } })
})

it('fields that cannot be read do not fail the handler', async () => {
  const hostile = {
    get card(): string {
      throw new Error('no')
    },
  }
  expect(await logged(hostile, 'charged')).toMatchObject({ ...BOUND, lost: expect.any(String) })
})
