import { createHapax, type Destination, defineMessage, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { describe, expect, it } from 'vitest'
import { unlessStopped } from '../../src/worker/life-cycle.ts'
import { uncaughtErrors } from '../support/uncaught.ts'

const Ping = defineMessage<{ n: number }>('ping')

describe('what nobody waits for does not end the process:', () => {
  it('a note that could not be written', async () => {
    const uncaught = uncaughtErrors()
    const hapax = createHapax({ store: memory(), source: '/test', logger: silentLogger })
    const sms = hapax.leased('sms').on(Ping, (_, ctx) => {
      void ctx.note('no object' as never)
    })
    await sms.handle({ id: 'a', source: '/sender', type: 'ping', data: { n: 1 } })
    const worker = hapax.worker({ consume: [sms] })
    await worker.start()
    await worker.drain()
    expect((await hapax.explain('a')).map(({ where }) => where)).toEqual(['receipt'])
    await hapax.close()
    await new Promise(setImmediate)
    expect(uncaught).toEqual([])
  })

  it('what a destination rejects that returns a promise', async () => {
    const uncaught = uncaughtErrors()
    const down = Promise.withResolvers<string>()
    const hapax = createHapax({ store: memory(), source: '/test', logger: silentLogger })
    hapax.events.on('relay-down', ({ error }) => down.resolve(error.message))
    const relay: Destination = {
      name: 'careless',
      features: { keepsOrder: true },
      prepare: async () => {},
      publish: (async () => {
        throw new Error('not connected')
      }) as never,
      close: async () => {},
    }
    const worker = hapax.worker({ relay })
    await worker.start()
    await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }))
    expect(await down.promise).toBe('not connected')
    await hapax.close()
    await new Promise(setImmediate)
    expect(uncaught).toEqual([])
  })

  it('the end of a start that was stopped before it began', async () => {
    const uncaught = uncaughtErrors()
    const begun = (): never => {
      throw new Error('begun')
    }
    await expect(unlessStopped(AbortSignal.abort(), begun)).rejects.toMatchObject({ code: 'closed' })
    await new Promise(setImmediate)
    expect(uncaught).toEqual([])
  })
})
