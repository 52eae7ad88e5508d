// What an SDK, a clock or an error may do to spans without anybody else noticing.

import { TracerProvider } from '@opentelemetry/sdk-trace'
import { createHapax, defineMessage, type Hapax, silentLogger } from 'hapax'
import { type MemoryTx, memory } from 'hapax/memory'
import { opentelemetry } from 'hapax/opentelemetry'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { Tracing } from '../support/tracing.ts'

const Ping = defineMessage<{ n: number }>('ping')
const ping = (id: string) => ({ id, source: '/sender', type: 'ping', data: { n: 1 }, traceparent: PARENT })
const PARENT = '00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01'

async function open(tracerProvider: TracerProvider, consume: 'link' | 'parent' = 'link'): Promise<Hapax<MemoryTx>> {
  const instrument = opentelemetry({ tracerProvider, consume })
  const hapax = createHapax({ store: memory(), source: '/shop', logger: silentLogger, instrument })
  await hapax.migrate()
  onTestFinished(() => hapax.close())
  return hapax
}

// A rejection that nobody handles fails these tests, as it would end the process.
describe('a processor of spans that throws disturbs nobody', () => {
  it.for([
    ['onStart', 'link'],
    ['onEnd', 'link'],
    ['onEnd', 'parent'],
  ] as const)('in %s, with consume: %s', async ([method, consume]) => {
    const fail = (): never => {
      throw new Error(method)
    }
    const quiet = { onStart: () => {}, onEnd: () => {}, forceFlush: async () => {}, shutdown: async () => {} }
    const provider = new TracerProvider({ spanProcessors: [{ ...quiet, [method]: fail }] })
    const hapax = await open(provider, consume)
    const billing = hapax.consumer('billing').on(Ping, async () => {})
    const outcomes = await billing.handleMany([ping('a'), ping('b')])
    expect(outcomes.map(({ status }) => status)).toEqual(['processed', 'processed'])
    await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }))
    await new Promise(setImmediate)
  })
})

it('an error whose name cannot be read ends its span like any other', async () => {
  const tracing = Tracing.open()
  const hapax = await open(tracing.provider)
  const thrown = new Error('no')
  Object.defineProperty(thrown, 'name', {
    get: () => {
      throw new Error('name')
    },
  })
  const billing = hapax.consumer('billing').on(Ping, () => Promise.reject(thrown))
  expect(await billing.handle(ping('a'))).toMatchObject({ status: 'retrying' })
  await new Promise(setImmediate)
  expect(tracing.named('process')).toMatchObject([{ failed: true, attributes: { 'error.type': '_OTHER' } }])
})

it('a clock that is set while a handler runs does not change how long its span is', async () => {
  const tracing = Tracing.open()
  const hapax = await open(tracing.provider)
  const billing = hapax.consumer('billing').on(Ping, () => {
    const { now } = Date
    vi.spyOn(Date, 'now').mockImplementation(() => now() + 3_600_000)
    onTestFinished(() => void vi.restoreAllMocks())
  })
  await billing.handle(ping('a'))
  const [process] = tracing.named('process')
  expect(process?.durationMs).toBeGreaterThan(0)
  expect(process?.durationMs).toBeLessThan(600_000)
})

it('of two hapaxes with one instrument, the rules of both keep secrets out of spans', async () => {
  const tracing = Tracing.open()
  const instrument = opentelemetry({ tracerProvider: tracing.provider })
  const handlers: (() => Promise<unknown>)[] = []
  for (const secret of ['secret-1', 'secret-2']) {
    const redact = (text: string): string => text.replaceAll(secret, '***')
    const hapax = createHapax({ store: memory(), source: '/shop', logger: silentLogger, instrument, redact })
    onTestFinished(() => hapax.close())
    const billing = hapax.consumer('billing').on(Ping, () => Promise.reject(new Error(`no: ${secret}`)))
    handlers.push(() => billing.handle(ping('a')))
  }
  for (const handle of handlers) await handle()
  await new Promise(setImmediate)
  expect(tracing.named('process').map(({ status }) => status)).toEqual(['no: ***', 'no: ***'])
})
