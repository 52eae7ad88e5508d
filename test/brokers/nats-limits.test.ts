import type { HapaxError, Subscription } from 'hapax'
import type { Delivery } from 'hapax/contracts'
import { memory } from 'hapax/memory'
import { type NatsConsumerOptions, nats } from 'hapax/nats'
import { describe, expect, it } from 'vitest'
import { HurriedClock, outage, Shop, watchedBy } from '../../src/testing/broker/shop.ts'
import { numbered, publishAgain } from '../../src/testing/broker/world.ts'
import { until } from '../../src/testing/wait.ts'
import { type NatsPlace, natsPlace, PATIENT, waitingIn } from '../support/nats-place.ts'

const ACK_WAIT_MS = 500
const PATIENT_WAIT_MS = 60_000

function consumer({ proxy, stream }: NatsPlace, options: Partial<NatsConsumerOptions> = {}): Subscription {
  return nats({ url: proxy.url, ...PATIENT }).consumer('billing', { stream, ...options })
}

function openShop(options: Partial<ConstructorParameters<typeof Shop>[0]> = {}): Shop & AsyncDisposable {
  const shop = new Shop({ rows: memory(), ...options })
  return Object.assign(shop, { [Symbol.asyncDispose]: () => shop.close() })
}

/** A stream, and a consumer with a limit that somebody else made. */
async function limited(
  { manager, stream, prefix }: NatsPlace,
  max_deliver: number,
  ackWaitMs: number = ACK_WAIT_MS,
): Promise<void> {
  const ack_wait = ackWaitMs * 1e6
  await manager.streams.add({ name: stream, subjects: [`${prefix}.>`] })
  await manager.consumers.add(stream, { durable_name: 'billing', ack_policy: 'explicit', ack_wait, max_deliver })
}

async function send({ proxy, stream }: NatsPlace, ids: readonly string[]): Promise<void> {
  const destination = nats({ url: proxy.url, ...PATIENT }).stream(stream)
  await publishAgain(destination, ids)
  await destination.close()
}

/** Sends a message, lets readers that are not hapax die with it as often as the limit says, and makes the server notice. */
async function giveUp(place: NatsPlace, id: string, times: number): Promise<void> {
  await send(place, [id])
  const plain = await place.plain.consumers.get(place.stream, 'billing')
  for (let time = 1; time <= times; time++) {
    const taken = await plain.next({ expires: 30_000 })
    expect([taken?.info.deliveryCount, taken?.headers?.get('ce-id')]).toEqual([time, id])
  }
  // The server of 2.9 gives up when somebody asks for the next message.
  const next = plain.next({ expires: 30_000 })
  await until(async () => (await waitingIn(place, 'billing')) === 0, 'the server does not wait for it any more')
  // It tells of it on its own, and perhaps later.
  await until(async () => (await notes(place)) === 1, 'the note is kept')
  // From here on nothing is given up, however slow this machine is.
  await place.manager.consumers.update(place.stream, 'billing', { ack_wait: PATIENT_WAIT_MS * 1e6 })
  await send(place, ['next'])
  ;(await next)?.ack()
}

/** A reader of hapax that takes nothing: it makes what a limit needs. */
async function openOnce(place: NatsPlace, options: Partial<NatsConsumerOptions> = {}): Promise<readonly HapaxError[]> {
  const reports: HapaxError[] = []
  const report = (error: HapaxError): void => void reports.push(error)
  const reader = await consumer(place, options).open({
    types: 'all',
    prefetch: { messages: 1, bytes: 1 },
    receive: () => {},
    report,
  })
  await reader.close()
  return reports
}

/** How many of what was given up are not in the failed store yet. */
async function notes({ manager, stream }: NatsPlace): Promise<number> {
  return (await manager.streams.info(`HAPAX_GIVEN_UP_${stream}_billing`)).state.messages
}

const noNotes = (place: NatsPlace): Promise<void> => until(async () => (await notes(place)) === 0, 'no note is left')

describe.concurrent('a consumer of NATS with a delivery limit', () => {
  it('C7: what the server gave up while nobody listened ends in the failed store; others are handled', async () => {
    await using place = await natsPlace()
    await limited(place, 3)
    expect(await openOnce(place)).toEqual([])
    await giveUp(place, 'deadly', 3)
    expect(await notes(place)).toBe(1)
    await send(place, ['fine'])
    await using shop = openShop()
    await shop.work({ consume: [shop.consumer().from(consumer(place))] })
    const [failed] = await shop.failed(1)
    expect(failed).toMatchObject({ reason: 'given-up-by-broker', message: { id: 'deadly', source: '/sender' } })
    expect(failed?.error.message).toBe('the broker gave up after 3 deliveries')
    expect(Buffer.from(failed?.message.data ?? []).toString()).toBe('{"id":"deadly"}')
    await shop.untilEffects(['fine'])
    await noNotes(place)
    shop.assertEffects(['fine'])
  })

  it('C7: what the server gives up when the first reader of hapax comes ends in the failed store', async () => {
    await using place = await natsPlace()
    await limited(place, 2)
    await send(place, ['deadly'])
    const plain = await place.plain.consumers.get(place.stream, 'billing')
    for (let time = 0; time < 2; time++) await plain.next({ expires: 30_000 })
    await using shop = openShop()
    await shop.work({ consume: [shop.consumer().from(consumer(place))] })
    expect((await shop.failed(1))[0]?.message.id).toBe('deadly')
    expect(shop.calls).toEqual([])
  })

  it('C7: a message that its handler rejects too often ends in the failed store', async () => {
    await using place = await natsPlace()
    await place.manager.streams.add({ name: place.stream, subjects: [`${place.prefix}.>`] })
    await using shop = openShop()
    const failing = shop.consumer({ onError: 'rollback' }, ({ message }) => {
      if (message.id === 'bad') throw new Error('never')
    })
    const subscription = consumer(place, { maxDeliver: 3 })
    expect(subscription.features.limitsRejects).toBe(true)
    await shop.work({ consume: [failing.from(subscription)] })
    await send(place, ['bad', 'good'])
    const [failed] = await shop.failed(1)
    expect(failed).toMatchObject({ reason: 'given-up-by-broker', message: { id: 'bad' } })
    await shop.untilEffects(['good'])
    expect(shop.calls.filter((id) => id === 'bad').length).toBe(3)
    await noNotes(place)
  })

  it('what was given up and has been handled meanwhile is a duplicate', async () => {
    await using place = await natsPlace()
    await limited(place, 1)
    await openOnce(place)
    await giveUp(place, 'late', 1)
    await using shop = openShop()
    const billing = shop.consumer()
    const { status } = await billing.handle({ id: 'late', source: '/sender', type: 'ping', data: { id: 'late' } })
    expect(status).toBe('processed')
    await shop.work({ consume: [billing.from(consumer(place))] })
    await noNotes(place)
    shop.assertEffects(['late'])
    expect(await shop.hapax.failed.count()).toBe(0)
  })

  it('C8: what was given up and is not in the stream any more is reported, once', async () => {
    await using place = await natsPlace()
    await limited(place, 1)
    await openOnce(place)
    await giveUp(place, 'gone', 1)
    await place.manager.streams.purge(place.stream)
    const reports: HapaxError[] = []
    const report = (error: HapaxError): void => void reports.push(error)
    const prefetch = { messages: 10, bytes: 1e6 }
    const reader = await consumer(place).open({ types: 'all', prefetch, receive: () => expect.unreachable(), report })
    await noNotes(place)
    await reader.close()
    expect(reports.map(({ code }) => code)).toEqual(['given-up-by-broker'])
  })

  it('F13: a note from before the stream was made anew does not fail the message that has the same number now', async () => {
    await using place = await natsPlace()
    await limited(place, 1)
    await openOnce(place)
    await giveUp(place, 'old', 1)
    await place.manager.streams.delete(place.stream)
    await limited(place, 1, PATIENT_WAIT_MS)
    await send(place, ['new'])
    const seen: Delivery[] = []
    const reports: HapaxError[] = []
    const reader = await consumer(place).open({
      types: 'all',
      prefetch: { messages: 10, bytes: 1e6 },
      receive: (deliveries) => void seen.push(...deliveries),
      report: (error) => void reports.push(error),
    })
    await noNotes(place)
    await until(() => seen.length > 0, 'the new message comes')
    await reader.close()
    expect(seen.map(({ arrival }) => [arrival.attributes['id'], arrival.refused])).toEqual([['new', undefined]])
    expect(reports.map(({ code }) => code)).toEqual(['given-up-by-broker'])
  })

  it('the last delivery that is allowed counts as a repetition, so that it is stored before it is run', async () => {
    await using place = await natsPlace()
    await limited(place, 2, PATIENT_WAIT_MS)
    await send(place, ['a'])
    const seen: Delivery[] = []
    const prefetch = { messages: 1, bytes: 1e6 }
    const receive = (deliveries: readonly Delivery[]): void => void seen.push(...deliveries)
    const reader = await consumer(place).open({ types: 'all', prefetch, receive, report: () => {} })
    await until(() => seen.length === 1, 'the first delivery')
    expect(seen[0]?.arrival.redelivered).toBe(false)
    seen[0]?.reject(0)
    await until(() => seen.length === 2, 'the last delivery')
    expect(seen[1]?.arrival.redelivered).toBe(true)
    seen[1]?.ack()
    await reader.close()
    await place.manager.consumers.delete(place.stream, 'billing')
    await using once = await opened(place, { maxDeliver: 1 })
    expect((await once.first()).arrival.redelivered).toBe(true)
  })

  it('with declare check it says that it only listens, and hears what is given up meanwhile', async () => {
    await using place = await natsPlace()
    await limited(place, 2, PATIENT_WAIT_MS)
    const [told] = await openOnce(place, { declare: 'check' })
    expect(told?.code).toBe('topology-mismatch')
    expect(told?.message).toContain(`HAPAX_GIVEN_UP_${place.stream}_billing`)
    await using shop = openShop()
    const failing = shop.consumer({ onError: 'rollback' }, () => {
      throw new Error('never')
    })
    await shop.work({ consume: [failing.from(consumer(place, { declare: 'check' }))] })
    await send(place, ['bad'])
    expect((await shop.failed(1))[0]).toMatchObject({ reason: 'given-up-by-broker', message: { id: 'bad' } })
    await expect(notes(place)).rejects.toThrow('stream not found')
  })

  it('with declare check it uses what keeps what is given up, if somebody has made it', async () => {
    await using place = await natsPlace()
    await limited(place, 1)
    await openOnce(place)
    await giveUp(place, 'deadly', 1)
    expect(await openOnce(place, { declare: 'check' })).toEqual([])
    await using shop = openShop()
    await shop.work({ consume: [shop.consumer().from(consumer(place, { declare: 'check' }))] })
    expect((await shop.failed(1))[0]?.message.id).toBe('deadly')
    await noNotes(place)
  })

  it('A25: thirty outages of the database in a row cost no delivery: nothing is lost, everything takes effect once', async () => {
    await using place = await natsPlace()
    await limited(place, 5, PATIENT_WAIT_MS)
    const clock = new HurriedClock()
    const rows = memory()
    const down = outage(rows, 60)
    await using shop = openShop({ rows, store: down.store, clock })
    let retries = 0
    const hurried = watchedBy(consumer(place), (delivery) => ({
      ...{ arrival: delivery.arrival, bytes: delivery.bytes },
      ack: () => delivery.ack(),
      retry: () => {
        retries += 1
        delivery.retry(1)
      },
      reject: () => expect.unreachable('nobody is to count this'),
    }))
    const billing = shop.consumer({ timeoutMs: 1e9, lockTimeoutMs: 1e9 })
    await shop.work({ takeoverMs: 1e9, consume: [billing.from(hurried)] })
    clock.speed = 10_000
    await send(place, numbered(5))
    await until(() => down.left === 0, 'the database is back')
    clock.speed = 1
    await shop.untilEffects(numbered(5))
    await until(async () => (await waitingIn(place, 'billing')) === 0, 'everything is acked')
    shop.assertEffects(numbered(5))
    expect(retries).toBeGreaterThanOrEqual(30)
    const { delivered } = await place.manager.consumers.info(place.stream, 'billing')
    expect(delivered.consumer_seq).toBe(5)
    expect(await notes(place)).toBe(0)
  })
})

/** A reader, and what comes to it first. */
async function opened(place: NatsPlace, options: Partial<NatsConsumerOptions>) {
  const { promise, resolve } = Promise.withResolvers<Delivery>()
  const receive = ([delivery]: readonly Delivery[]): void => resolve(delivery as Delivery)
  const prefetch = { messages: 1, bytes: 1e6 }
  const reader = await consumer(place, options).open({ types: 'all', prefetch, receive, report: () => {} })
  return { first: () => promise, [Symbol.asyncDispose]: () => reader.close() }
}
