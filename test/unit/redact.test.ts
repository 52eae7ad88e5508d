import { createHapax, defineMessage, type HapaxOptions, type Logger, Permanent } from 'hapax'
import { type MemoryTx, memory } from 'hapax/memory'
import { expect, it } from 'vitest'

const Ping = defineMessage<unknown>('ping')
const message = (id: string) => ({ id, source: '/sender', type: 'ping', data: {} })
const SECRET = 'patient Ada'
const failure = () => new Permanent(`no bed for ${SECRET}`, { cause: new Error(`full: ${SECRET}`) })

/** What a hapax stores and logs about failures of every kind. */
async function told(redact: HapaxOptions<MemoryTx, MemoryTx>['redact']): Promise<string> {
  const logged: unknown[] = []
  const log = (fields: object, text: string): void => void logged.push({ ...fields, text })
  const logger: Logger = { debug: log, info: log, warn: log, error: log }
  const store = memory()
  const hapax = createHapax({ store, source: '/test', logger, ...(redact && { redact }) })
  const billing = hapax.consumer('billing', { retry: { attempts: 2 } }).on(Ping, (_, { attempt }) => {
    throw attempt === 1 ? new Error(`busy with ${SECRET}`) : failure()
  })
  const sms = hapax.leased('sms', { retry: { attempts: 1 } }).on(Ping, async (_, ctx) => {
    await ctx.effect('send', () => Promise.reject(failure()))
  })
  expect((await billing.handle(message('a'))).status).toBe('retrying')
  expect((await hapax.consumer('other').wrap(Ping, () => Promise.reject(failure()))(message('b'))).status).toBe(
    'failed',
  )
  expect((await sms.handle(message('c'))).status).toBe('failed')
  hapax.events.on('published', () => {
    throw failure()
  })
  await hapax.transaction((tx) => hapax.publish(tx, Ping, {}))
  const tables = ['inbox', 'failed', 'effects'].map((table) => store.rows(`hapax_${table}`))
  expect(tables.map((rows) => rows.length)).toEqual([1, 2, 1])
  return JSON.stringify([tables, logged, await hapax.failed.list(), await hapax.explain('c')])
}

it('K21: rules of the user are applied to every error that is stored or logged', async () => {
  expect(await told(undefined)).toContain(SECRET)
  const clean = await told((text) => text.replaceAll(SECRET, '(a patient)'))
  expect(clean).not.toContain(SECRET)
  expect(clean).toContain('no bed for (a patient)')
  expect(clean).toContain('full: (a patient)')
})

it('K21: where the rules of the user fail, nothing is told, and nothing else goes wrong', async () => {
  const broken: unknown[] = [
    () => {
      throw new Error(SECRET)
    },
    () => Promise.reject(new Error(SECRET)),
    () => undefined,
    () => ({ toString: () => SECRET }),
  ]
  for (const redact of broken) {
    const clean = await told(redact as (text: string) => string)
    expect(clean).not.toContain(SECRET)
    expect(clean).toContain('(withheld: redact gave no text)')
  }
})
