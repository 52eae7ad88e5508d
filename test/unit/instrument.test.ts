// The seam for instruments: what they are told, what they may throw, and what background work sees of its caller.
import { AsyncLocalStorage } from 'node:async_hooks'
import { type Consumer, createHapax, defineMessage, type Hapax, type Logger, silentLogger } from 'hapax'
import type { Facts, Findings, Instrument, Operation, Running, TraceContext } from 'hapax/contracts'
import { type MemoryTx, memory } from 'hapax/memory'
import { memoryBroker } from 'hapax/memory-broker'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Batcher } from '../../src/base/batcher.ts'
import { detached, detachedClock, systemClock } from '../../src/base/index.ts'

const Ping = defineMessage<{ n: number }>('ping')
const Pong = defineMessage<{ n: number }>('pong')
const request = new AsyncLocalStorage<string>()

/** One operation as the instrument saw it. */
interface Seen {
  readonly operation: Operation
  readonly facts: Facts
  readonly found: Findings[]
  readonly inside: string | undefined
}

/** Writes down what it is told, and has a context of its own, which nests. */
class Recording implements Instrument {
  readonly seen: Seen[] = []
  readonly context = new AsyncLocalStorage<string>()
  #count = 0

  capture(): TraceContext | undefined {
    const number = this.context.getStore()?.split('-').at(-1)
    if (number === undefined) return undefined
    return { traceparent: `00-${'a'.repeat(32)}-${number.padStart(16, '0')}-01` }
  }

  around<T>(operation: Operation, facts: Facts, work: (running: Running) => T): T {
    const name = operation === 'upkeep' ? 'upkeep' : `${operation}-${++this.#count}`
    const found: Findings[] = []
    if (operation !== 'upkeep') this.seen.push({ operation, facts, found, inside: this.context.getStore() })
    const running: Running = {
      add: (findings) => found.push(findings),
      end: (findings) => found.push(findings ?? {}),
      enter: (inner) => this.context.run(name, inner),
    }
    return this.context.run(name, () => work(running))
  }

  of(operation: Operation): readonly Seen[] {
    return this.seen.filter((each) => each.operation === operation)
  }
}

interface Made {
  readonly hapax: Hapax<MemoryTx>
  readonly logged: { readonly fields: object; readonly text: string }[]
}

async function open(instrument?: Instrument, delivery: 'relay' | 'local' = 'relay'): Promise<Made> {
  const logged: Made['logged'] = []
  const logger: Logger = { ...silentLogger, error: (fields, text) => void logged.push({ fields, text }) }
  const hapax = createHapax({ store: memory(), source: '/shop', delivery, logger, ...(instrument && { instrument }) })
  await hapax.migrate()
  onTestFinished(() => hapax.close())
  return { hapax, logged }
}

function ping(id: string, more: object = {}) {
  return { id, source: '/shop', type: 'ping', data: { n: 1 }, ...more }
}

async function drained(hapax: Hapax<MemoryTx>, consumer: Consumer<MemoryTx>): Promise<void> {
  await using worker = hapax.worker({ consume: [consumer] })
  await worker.start()
  await worker.drain()
}

const outcomesOf = (seen: Seen | undefined): unknown => seen?.found.findLast(({ outcomes }) => outcomes)?.outcomes
const idsOf = (facts: Pick<Facts, 'messages'> | undefined): readonly string[] =>
  [...(facts?.messages ?? [])].map(({ id }) => id)

describe('what an instrument is told', () => {
  it('a delivery is processed, its handler runs inside, and what it publishes carries the context of the publish', async () => {
    const instrument = new Recording()
    const { hapax } = await open(instrument, 'local')
    const inside: unknown[] = []
    const carried: unknown[] = []
    const billing = hapax
      .consumer('billing')
      .on(Ping, async (_data, ctx) => {
        inside.push(instrument.context.getStore())
        await ctx.publish(Pong, { n: 1 })
      })
      .on(Pong, (_data, { message }) => void carried.push(message.traceparent, message.causationId))
    expect(await billing.handle(ping('a', { key: 'k' }))).toMatchObject({ status: 'processed' })
    await drained(hapax, billing)
    const [first, publish, second] = instrument.seen
    expect(first).toMatchObject({ operation: 'process', facts: { system: 'hapax', consumer: 'billing' } })
    expect([...(first?.facts.messages ?? [])]).toEqual([
      { id: 'a', source: '/shop', type: 'ping', key: 'k', bytes: 7, attempt: 1 },
    ])
    expect(outcomesOf(first)).toEqual(['processed'])
    expect(inside).toEqual(['process-1'])
    expect(publish).toMatchObject({ operation: 'publish', inside: 'process-1', facts: { destination: 'pong' } })
    expect(carried).toEqual([`00-${'a'.repeat(32)}-${'2'.padStart(16, '0')}-01`, 'a'])
    // The second one comes from the inbox: it is claimed first.
    expect(second).toMatchObject({ operation: 'process', inside: 'upkeep', facts: { destination: 'billing' } })
    expect(second?.facts.messages).toBeUndefined()
    expect(idsOf(second?.found[0])).toEqual(idsOf(publish?.found[0]))
  })

  it('what the caller of publish says comes first, then the context, then the cause', async () => {
    const own = `00-${'b'.repeat(32)}-${'b'.repeat(16)}-00`
    const cause = `00-${'c'.repeat(32)}-${'c'.repeat(16)}-01`
    const instrument = new Recording()
    const { hapax } = await open(instrument, 'local')
    const carried = new Map<number, unknown>()
    const audit = hapax.consumer('audit').on(Pong, ({ n }, { message }) => {
      carried.set(n, [message.traceparent, message.tracestate, message.correlationId, message.causationId])
    })
    const billing = hapax.consumer('billing').onMany(Ping, async (items) => {
      for (const { publish } of items) await publish(Pong, { n: 1 })
      for (const { publish } of items) await publish(Pong, { n: 2 }, { traceparent: own })
    })
    await billing.handle(ping('a', { traceparent: cause, tracestate: 'x=1', correlationId: 'c' }))
    await hapax.transaction((tx) => hapax.publishMany(tx, [Pong.of({ n: 3 }), Pong.of({ n: 4 }, { traceparent: own })]))
    await drained(hapax, audit)
    const captured = (publish: number): string => `00-${'a'.repeat(32)}-${String(publish).padStart(16, '0')}-01`
    expect(carried.get(1)).toEqual([captured(2), undefined, 'c', 'a'])
    expect(carried.get(2)).toEqual([own, undefined, 'c', 'a'])
    expect(carried.get(3)).toEqual([captured(4), undefined, undefined, undefined])
    expect(carried.get(4)).toEqual([own, undefined, undefined, undefined])
  })

  it('without a context to capture, a message passes on what it came with', async () => {
    const cause = `00-${'c'.repeat(32)}-${'c'.repeat(16)}-01`
    const instrument = new Recording()
    instrument.capture = () => undefined
    const { hapax } = await open(instrument, 'local')
    const carried: unknown[] = []
    const audit = hapax.consumer('audit').on(Pong, (_data, { message }) => {
      carried.push(message.traceparent, message.tracestate)
    })
    const billing = hapax.consumer('billing').on(Ping, (_data, { publish }) => publish(Pong, { n: 1 }))
    await billing.handle(ping('a', { traceparent: cause, tracestate: 'x=1' }))
    await drained(hapax, audit)
    expect(carried).toEqual([cause, 'x=1'])
  })

  it('a group is one attempt, and its parts are others when it fails', async () => {
    const instrument = new Recording()
    const { hapax } = await open(instrument)
    const billing = hapax.consumer('billing', { group: { size: 10 } }).on(Ping, (_data, { message }) => {
      if (message.id === 'b') throw new Error('no')
    })
    await billing.handleMany([ping('a'), ping('b'), ping('c')])
    expect(instrument.of('process').map(({ facts }) => idsOf(facts))).toEqual([['a', 'b', 'c'], ['a'], ['b'], ['c']])
    expect(instrument.of('process').map(outcomesOf)).toEqual([
      ['processed', 'retrying', 'processed'],
      ['processed'],
      ['retrying'],
      ['processed'],
    ])
    expect(instrument.of('process')[0]?.found[0]).toMatchObject({ error: expect.any(Error) })
  })

  it('a relay, a subscription and the answers to the broker', async () => {
    const instrument = new Recording()
    const { hapax } = await open(instrument)
    const broker = memoryBroker()
    const billing = hapax.consumer('billing').on(Ping, () => {})
    const source = billing.from(broker.queue('orders', { topic: 'shop' }))
    const worker = hapax.worker({ consume: [source], relay: broker.topic('shop') })
    await worker.start()
    await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }))
    await expect.poll(() => instrument.of('settle').length).toBe(1)
    const [relay] = instrument.of('relay')
    expect(relay).toMatchObject({ facts: { system: 'memory', destination: 'shop', relay: 'default' } })
    expect(outcomesOf(relay)).toEqual(['confirmed'])
    const [receive] = instrument.of('receive')
    expect(receive).toMatchObject({ facts: { system: 'memory', destination: 'orders', consumer: 'billing' } })
    expect(outcomesOf(receive)).toEqual(['processed'])
    expect([...(receive?.found[0]?.messages ?? [])]).toMatchObject([{ type: 'ping', trace: {} }])
    expect(instrument.of('process')[0]?.inside).toMatch(/^receive-/)
    expect(instrument.of('settle')[0]?.inside).toMatch(/^receive-/)
  })

  it('an effect and the settling of leased work', async () => {
    const instrument = new Recording()
    const { hapax } = await open(instrument)
    const sms = hapax.leased('sms').on(Ping, async (_data, ctx) => {
      await ctx.effect('send', async () => 'sent')
      await ctx.publish(Pong, { n: 1 })
    })
    expect(await sms.handle(ping('a'))).toMatchObject({ status: 'processed' })
    const [process, effect, publish, settle] = instrument.seen
    expect(process).toMatchObject({ operation: 'process', facts: { consumer: 'sms' } })
    expect(effect).toMatchObject({ operation: 'effect', inside: 'process-1', facts: { effect: 'send' } })
    expect(outcomesOf(effect)).toEqual(['done'])
    expect(publish).toMatchObject({ operation: 'publish', inside: 'process-1' })
    expect(settle).toMatchObject({ operation: 'settle', inside: 'process-1' })
    expect(instrument.seen.length).toBe(4)
  })
})

/** Instruments that misbehave. Each method has to be survived. */
const BAD: Readonly<Record<string, Instrument>> = {
  'throws everywhere': {
    capture: () => fail('capture'),
    around: () => fail('around'),
    listen: () => fail('listen'),
  },
  'throws after the work': {
    capture: () => undefined,
    around: (_operation, _facts, work) => {
      work(misbehaving)
      return fail('around')
    },
  },
  'rejects after the work': {
    capture: () => undefined,
    around: (_operation, _facts, work) => {
      const value = work(misbehaving)
      const late: unknown = value instanceof Promise ? value.then(() => fail('late')) : value
      return late as typeof value
    },
  },
  'calls the work twice': {
    capture: () => undefined,
    around: (_operation, _facts, work) => {
      work(misbehaving)
      return work(misbehaving)
    },
  },
  'returns nothing': {
    capture: () => ({ traceparent: 'no trace' }),
    around: (_operation, _facts, work) => {
      work(misbehaving)
      return undefined as ReturnType<typeof work>
    },
  },
  'never calls the work': { capture: () => undefined, around: () => undefined as never },
  'captures nonsense': {
    capture: () => ({ traceparent: 7 }) as never,
    around: (_operation, _facts, work) => work(misbehaving),
  },
  'captures what throws when it is read': {
    capture: () => ({
      get traceparent() {
        return fail('traceparent')
      },
    }),
    around: (_operation, _facts, work) => work(misbehaving),
  },
  // Written in JavaScript, every method may be asynchronous.
  'rejects everywhere': {
    capture: () => rejection('capture'),
    around: (_operation, _facts, work) => {
      void work(rejecting)
      return rejection('around')
    },
    listen: () => rejection('listen'),
  },
}

function rejection(what: string): never {
  return Promise.reject(new Error(what)) as never
}

const rejecting: Running = {
  add: () => rejection('add'),
  end: () => rejection('end'),
  enter: (work) => {
    void work()
    return rejection('enter')
  },
}

const misbehaving: Running = {
  add: () => fail('add'),
  end: () => fail('end'),
  enter: () => fail('enter'),
}

function fail(what: string): never {
  throw new Error(`bad instrument: ${what}`)
}

describe('an instrument that fails', () => {
  it.for(Object.entries(BAD))('%s, and changes nothing', async ([, instrument]) => {
    const { hapax, logged } = await open(instrument, 'local')
    const called: string[] = []
    const billing = hapax
      .consumer('billing', { group: { size: 10 }, retry: { attempts: 1 } })
      .on(Ping, async (_data, ctx) => {
        called.push(ctx.message.id)
        if (ctx.message.id === 'bad') throw new Error('no')
        if (ctx.message.id === 'a') await ctx.publish(Pong, { n: 1 })
      })
    const pongs: unknown[] = []
    billing.on(Pong, (data) => void pongs.push(data))
    const sms = hapax.leased('sms').on(Ping, async (_data, ctx) => {
      called.push(await ctx.effect('send', async () => `sms ${ctx.message.id}`))
    })
    const outcomes = await billing.handleMany([ping('a'), ping('b')])
    expect(outcomes.map(({ status }) => status)).toEqual(['processed', 'processed'])
    expect(await billing.handle(ping('bad'))).toMatchObject({ status: 'failed', error: { message: 'no' } })
    expect(await sms.handle(ping('c'))).toMatchObject({ status: 'processed' })
    await drained(hapax, billing)
    expect(called).toEqual(['a', 'b', 'bad', 'sms c'])
    expect(pongs).toEqual([{ n: 1 }])
    await expect(hapax.transaction((tx) => hapax.publish(tx, Ping, 7 as never, { id: '' }))).rejects.toMatchObject({
      code: 'invalid-id',
    })
    const told = logged.filter(({ text }) => text.includes('instrument'))
    expect(told.length).toBeLessThanOrEqual(1)
  })

  it('is logged once', async () => {
    const { hapax, logged } = await open(BAD['throws everywhere'])
    const billing = hapax.consumer('billing').on(Ping, () => {})
    await billing.handle(ping('a'))
    await billing.handle(ping('b'))
    const told = logged.filter(({ text }) => text.includes('instrument'))
    expect(told).toMatchObject([{ text: 'the instrument failed; this is logged once' }])
  })

  it('is refused if it is none', async () => {
    await expect(open({} as never)).rejects.toMatchObject({ code: 'invalid-option' })
  })
})

describe('background work does not see the context of its caller', () => {
  it.for([undefined, new Recording()])(
    'a handler after local delivery, and one of a worker that is started inside',
    async (instrument) => {
      const { hapax } = await open(instrument, 'local')
      const seen: unknown[] = []
      const billing = hapax.consumer('billing').on(Ping, async () => {
        seen.push(request.getStore())
        await Promise.resolve()
        seen.push(request.getStore())
      })
      const worker = hapax.worker({ consume: [billing] })
      await request.run('start', () => worker.start())
      await request.run('publish', () => hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 })))
      await expect.poll(() => seen.length).toBe(2)
      await request.run('own', () =>
        hapax.transaction(async (tx) => {
          await hapax.publish(tx, Ping, { n: 2 }, { now: true })
        }),
      )
      await request.run('drain', () => worker.drain())
      expect(seen).toEqual([undefined, undefined, undefined, undefined])
      await request.run('stop', () => worker.stop())
    },
  )

  it('a handler of a subscription, whoever sent the message or freed the place', async () => {
    const { hapax } = await open()
    const broker = memoryBroker()
    const seen: unknown[] = []
    const billing = hapax.consumer('billing', { concurrency: 1 }).on(Ping, () => void seen.push(request.getStore()))
    const source = billing.from(broker.queue('orders', { topic: 'shop' }))
    const worker = hapax.worker({ consume: [source], relay: broker.topic('shop') })
    await request.run('start', () => worker.start())
    for (let n = 0; n < 20; n++) {
      await request.run(`publish ${n}`, () => hapax.transaction((tx) => hapax.publish(tx, Ping, { n })))
    }
    await expect.poll(() => seen.length).toBe(20)
    expect(new Set(seen)).toEqual(new Set([undefined]))
  })

  it('but a handler that is called directly does', async () => {
    const { hapax } = await open()
    const seen: unknown[] = []
    const billing = hapax.consumer('billing').on(Ping, () => void seen.push(request.getStore()))
    await request.run('webhook', () => billing.handle(ping('a')))
    expect(seen).toEqual(['webhook'])
  })

  it('batches and timers', async () => {
    const seen: unknown[] = []
    const batcher = new Batcher<number>({ run: async () => void seen.push(request.getStore()) })
    await request.run('put', () => batcher.put(1))
    const clock = detachedClock(systemClock, detached)
    await request.run(
      'timer',
      () =>
        new Promise<void>((resolve) => {
          clock.after(1, () => {
            seen.push(request.getStore())
            resolve()
          })
        }),
    )
    expect(seen).toEqual([undefined, undefined])
  })
})
