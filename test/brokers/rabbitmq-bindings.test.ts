import { type Consumer, createHapax, defineMessage, type Hapax, silentLogger } from 'hapax'
import { type MemoryTx, memory } from 'hapax/memory'
import type { Binding, ExchangeOptions } from 'hapax/rabbitmq'
import { describe, expect, it } from 'vitest'
import { message, publish } from '../../src/testing/broker/world.ts'
import { until } from '../../src/testing/wait.ts'
import { RabbitmqPlace } from '../support/rabbitmq-place.ts'

const Ping = defineMessage<object>('ping')
const Pong = defineMessage<object>('pong')

interface Service extends AsyncDisposable {
  readonly hapax: Hapax<MemoryTx>
  readonly handled: string[]
}

type Register = (consumer: Consumer<MemoryTx>) => void

/** A service that reads a queue of its own; `bind` says how it is bound to the exchange of the place. */
async function service(
  place: RabbitmqPlace,
  register: Register,
  { bind = {}, all = false }: { readonly bind?: Partial<Binding>; readonly all?: boolean } = {},
): Promise<Service> {
  const hapax = createHapax({ store: memory(), source: '/shop', logger: silentLogger })
  const handled: string[] = []
  const note = (_: unknown, ctx: { readonly message: { readonly type: string } }) => void handled.push(ctx.message.type)
  const consumer = hapax.consumer('billing', all ? { unknown: note } : {})
  register(consumer)
  const queue = place.rabbit.queue(place.queue('billing'), { bind: { exchange: place.exchange, ...bind } })
  const worker = hapax.worker({ consume: [consumer.from(queue)] })
  const close = async (): Promise<void> => {
    await hapax.close()
    await place.channel.deleteQueue(place.queue('billing'))
  }
  await worker.start().catch(async (error: unknown) => {
    await close()
    throw error
  })
  return { hapax, handled, [Symbol.asyncDispose]: close }
}

const none = (): void => {}

/** What the server says to one message of each type. */
async function routed(place: RabbitmqPlace, types: readonly string[], options?: ExchangeOptions): Promise<unknown> {
  const destination = place.rabbit.exchange(place.exchange, options)
  const sent = await publish(
    destination,
    types.map((type) => message(type, { type })),
  )
  await destination.close()
  return sent.map((each) => (each.status === 'confirmed' ? type(each.dropped) : type(each.error)))
}

const type = (error: Error | undefined): string =>
  error === undefined ? 'taken' : (error as { code: string } & Error).code

describe.concurrent('bindings', () => {
  it('a queue is bound to the types that its consumer handles, and to no others', async () => {
    await using place = await RabbitmqPlace.open()
    await using billing = await service(place, (consumer) => consumer.on(Ping, none))
    expect(await routed(place, ['ping', 'pong', 'ping.pong'])).toEqual(['taken', 'unroutable', 'unroutable'])
    expect(billing.handled).toEqual([])
  })

  it('a new version adds the types that it adds, and leaves the bindings of the old one', async () => {
    await using place = await RabbitmqPlace.open()
    await using old = await service(place, (consumer) => consumer.on(Ping, none))
    await using next = await service(place, (consumer) => consumer.on(Pong, none))
    expect(await routed(place, ['ping', 'pong', 'other'])).toEqual(['taken', 'taken', 'unroutable'])
    expect([...old.handled, ...next.handled]).toEqual([])
  })

  it('a consumer that handles unknown types gets every message', async () => {
    await using place = await RabbitmqPlace.open()
    await using billing = await service(place, (consumer) => consumer.on(Ping, none), { all: true })
    expect(await routed(place, ['pong', 'other'])).toEqual(['taken', 'taken'])
    await until(() => billing.handled.length === 2, 'both are handled')
    expect(billing.handled.sort()).toEqual(['other', 'pong'])
  })

  it('routing keys that are given are taken instead', async () => {
    await using place = await RabbitmqPlace.open()
    const bind = { routingKey: ['p.*', 'q'] }
    await using billing = await service(place, (consumer) => consumer.on(Ping, none), { bind })
    expect(await routed(place, ['p.a', 'q', 'ping'])).toEqual(['taken', 'taken', 'unroutable'])
    expect(billing.handled).toEqual([])
  })

  it('a direct exchange routes by types as well, if they are known', async () => {
    await using place = await RabbitmqPlace.open()
    await place.channel.deleteExchange(place.exchange)
    const bind = { type: 'direct' }
    await using billing = await service(place, (consumer) => consumer.on(Ping, none), { bind })
    expect(await routed(place, ['ping', 'pong'], { type: 'direct' })).toEqual(['taken', 'unroutable'])
    expect(billing.handled).toEqual([])
    await expect(service(place, none, { bind, all: true })).rejects.toThrow(
      /^expected bind.routingKey to be given for direct exchange .*, because its consumer handles every type, got undefined$/,
    )
  })

  it('a type that a topic exchange would take for a pattern wants the keys of a binding', async () => {
    await using place = await RabbitmqPlace.open()
    const Any = defineMessage<object>('stock.*')
    await expect(service(place, (consumer) => consumer.on(Any, none))).rejects.toThrow(
      /^expected bind.routingKey to be given, because the type stock\.\* is a pattern on topic exchange .*, got undefined$/,
    )
  })

  it('an exchange that this process routes by other keys wants the keys of a binding', async () => {
    await using place = await RabbitmqPlace.open()
    const shop = place.rabbit.exchange(place.exchange, { routingKey: () => 'all' })
    await expect(service(place, (consumer) => consumer.on(Ping, none))).rejects.toThrow(
      /^expected bind.routingKey to be given, because exchange .* has a routingKey of its own, got undefined$/,
    )
    await shop.close()
  })
})

describe.concurrent('messages that no queue is bound for', () => {
  it('are dropped where the exchange is told to, which is not the same as taken', async () => {
    await using place = await RabbitmqPlace.open()
    await using billing = await service(place, (consumer) => consumer.on(Ping, none))
    expect(await routed(place, ['ping', 'pong'], { unroutable: 'drop' })).toEqual(['taken', 'unroutable'])
    expect(billing.handled).toEqual([])
  })

  it('leave the outbox then, with an event of their own', async () => {
    await using place = await RabbitmqPlace.open()
    const hapax = createHapax({ store: memory(), source: '/shop', logger: silentLogger })
    const told: string[] = []
    hapax.events.on('relayed', ({ message }) => told.push(`relayed ${message.id}`))
    hapax.events.on('relay-dropped', ({ relay, message, error }) =>
      told.push(`${relay} ${message.id} ${error.message}`),
    )
    const relay = place.rabbit.exchange(place.exchange, { unroutable: 'drop' })
    const worker = hapax.worker({ relay, keepSentMs: 60_000 })
    await worker.start()
    await hapax.transaction((tx) => hapax.publish(tx, Ping, {}, { id: 'a' }))
    await worker.drain()
    expect(told).toEqual([`default a no queue is bound to exchange ${place.exchange} for the routing key 'ping'`])
    expect((await hapax.explain('a')).map(({ where }) => where)).toEqual(['sent'])
    await hapax.close()
  })
})
