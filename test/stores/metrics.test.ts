import { createHapax, defineMessage, Permanent, silentLogger } from 'hapax'
import { memoryBroker } from 'hapax/memory-broker'
import { postgres } from 'hapax/postgres'
import { prometheus } from 'hapax/prometheus'
import { describe, expect, it, onTestFinished } from 'vitest'
import { LinkProxy } from '../../src/conformance/brokers/link-proxy.ts'
import { altered } from '../../src/testing/altered.ts'
import { LeapingClock } from '../../src/testing/clock.ts'
import { until } from '../../src/testing/wait.ts'
import { Child } from '../support/child.ts'
import { type Checker, durableStores, makePlace, openStore, table } from '../support/databases.ts'
import { exporterOf, numberOf } from '../support/exporter.ts'
import type { Exported } from '../support/exporting-child.ts'
import { testStores } from '../support/servers.ts'

const Ping = defineMessage<{ readonly n: number }>('ping')
const ping = (id: string, n = 1) => ({ id, source: '/sender', type: 'ping', data: { n } })

/** How many rows a table has. */
async function rows(checker: Checker, name: 'receipts' | 'inbox' | 'outbox' | 'failed'): Promise<number> {
  const [row] = await checker.query(`select count(*) as n from ${table(checker.place, name)}`)
  return Number(row?.['n'])
}

describe.each(durableStores())('%s: metrics', (store) => {
  it('agree with the tables after a run', async () => {
    await using checker = await makePlace(store)
    const hapax = createHapax({ store: await openStore(checker.place), source: '/test', logger: silentLogger })
    const metrics = prometheus(hapax)
    const broker = memoryBroker()
    const retry = { attempts: 2, minDelayMs: 600_000 }
    const billing = hapax.consumer('billing', { retry }).on(Ping, async ({ n }, { publish }) => {
      if (n === 2) throw new Permanent('no')
      if (n === 3) throw new Error('not now')
      await publish(Ping, { n })
    })
    const outcomes = await billing.handleMany([
      ...Array.from({ length: 20 }, (_, index) => ping(`fine ${index}`)),
      ...Array.from({ length: 3 }, (_, index) => ping(`fails ${index}`, 2)),
      ...Array.from({ length: 4 }, (_, index) => ping(`later ${index}`, 3)),
    ])
    expect(outcomes).toHaveLength(27)
    for (let index = 0; index < 5; index++) await billing.handle(ping(`fine ${index}`))
    const worker = hapax.worker({ relay: broker.topic('pings') })
    await worker.start()
    await worker.drain()
    const text = metrics.text()
    const counted = (outcome: string): number | undefined =>
      numberOf(text, `hapax_messages_total{consumer="billing",outcome="${outcome}"}`)
    expect([counted('processed'), counted('duplicate'), counted('failed'), counted('retrying')]).toEqual([20, 5, 3, 4])
    const [receipts, failed, inbox] = [
      await rows(checker, 'receipts'),
      await rows(checker, 'failed'),
      await rows(checker, 'inbox'),
    ]
    expect({ receipts, failed, inbox }).toEqual({ receipts: 27, failed: 3, inbox: 4 })
    expect(numberOf(text, 'hapax_published_total')).toBe(20)
    expect(numberOf(text, 'hapax_relayed_total{relay="default"}')).toBe(20)
    expect(await rows(checker, 'outbox')).toBe(0)
    for (const histogram of ['process', 'check', 'lag'])
      expect(numberOf(text, `hapax_${histogram}_seconds_count{consumer="billing"}`) ?? 0).toBeLessThanOrEqual(25)
    expect(numberOf(text, 'hapax_process_seconds_count{consumer="billing"}')).toBe(20)
    await hapax.close()
  })

  it('of the database come from one process, and from another one when that is killed', async () => {
    await using checker = await makePlace(store)
    const program = new URL('../support/exporting-child.ts', import.meta.url)
    const children = [1, 2, 3].map(() => new Child<Exported>(program, { place: checker.place }, 110_000))
    onTestFinished(() => {
      for (const child of children) child.kill('SIGKILL')
    })
    for (const child of children) await child.next()
    /** The processes that export the state. */
    const exporting = async (among: readonly Child<Exported>[]): Promise<readonly Child<Exported>[]> => {
      const texts = await Promise.all(
        among.map((child) => {
          child.tell({})
          return child.next()
        }),
      )
      return among.filter((_, index) => texts[index]?.text.includes('hapax_workers{state="alive"}'))
    }
    const found: Child<Exported>[] = []
    await until(async () => found.splice(0, 9, ...(await exporting(children))) && found.length === 1, 'one exports it')
    const [owner] = found
    owner?.kill('SIGKILL')
    await owner?.ended
    const left = children.filter((child) => child !== owner)
    expect(left).toHaveLength(2)
    await until(async () => (await exporting(left)).length === 1, 'another process exports the state')
    for (const child of left) child.kill('SIGKILL')
    await Promise.all(left.map((child) => child.ended))
  })

  it('are exported by a process of its own', async () => {
    await using checker = await makePlace(store)
    const hapax = createHapax({ store: await openStore(checker.place), source: '/test', logger: silentLogger })
    await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }))
    await hapax
      .consumer('billing', { receive: 'store' })
      .on(Ping, () => {})
      .handle(ping('a'))
    await hapax
      .consumer('mail')
      .on(Ping, () => Promise.reject(new Permanent('no')))
      .handle(ping('b'))
    await hapax.close()
    const { url, schema } = checker.place
    const where = store === 'sqlite' ? ['--store', `sqlite:${url}`] : ['--store', url]
    await using exporter = await exporterOf([...where, ...(store === 'postgres' ? ['--schema', schema] : [])])
    const text = await exporter.scrapeUp()
    expect(numberOf(text, 'hapax_inbox_messages{consumer="billing",state="waiting"}')).toBe(1)
    expect(numberOf(text, 'hapax_consumer_workers{consumer="billing"}')).toBe(0)
    expect(numberOf(text, 'hapax_outbox_messages{relay="default",state="waiting"}')).toBe(1)
    expect(numberOf(text, 'hapax_outbox_oldest_seconds{relay="default"}')).toBeGreaterThanOrEqual(0)
    expect(numberOf(text, 'hapax_inbox_oldest_seconds{consumer="billing"}')).toBeGreaterThan(0)
    expect(numberOf(text, 'hapax_inbox_oldest_seconds{consumer="mail"}')).toBe(0)
    expect(numberOf(text, 'hapax_failed_messages{origin="inbox",scope="mail",reason="permanent"}')).toBe(1)
    expect(numberOf(text, 'hapax_effects_unknown{consumer="billing"}')).toBe(0)
    expect(numberOf(text, 'hapax_receipts_estimate')).toBeGreaterThanOrEqual(0)
    expect(numberOf(text, 'hapax_rows_estimate{table="failed"}')).toBeGreaterThanOrEqual(0)
    expect(await exporter.stop()).toBe(0)
  })
})

describe.runIf(testStores().includes('postgres'))('a look at the state', () => {
  it('is ended by the database while a table is locked, and works again afterwards', async () => {
    await using checker = await makePlace('postgres')
    const store = await openStore(checker.place, { max: 1 })
    // Opens its connection, for which the time below would have to do as well.
    await store.admin.status()
    await checker.query('begin')
    await checker.query(`lock table ${table(checker.place, 'outbox')} in access exclusive mode`)
    // 57014 is what PostgreSQL says of a statement that it has ended.
    await expect(store.admin.status({ limitMs: 500 })).rejects.toMatchObject({ code: '57014' })
    await checker.query('rollback')
    expect((await store.admin.status()).relays).toEqual([])
    await store.close()
  })
})

describe.runIf(testStores().includes('postgres'))('scrapes', () => {
  it('read memory: a hundred at once make no statement', async () => {
    await using checker = await makePlace('postgres')
    let looks = 0
    const store = await openStore(checker.place)
    const counting = altered(store, {
      admin: {
        status: (...options) => {
          looks += 1
          return store.admin.status(...options)
        },
      },
    })
    const clock = new LeapingClock()
    const hapax = createHapax({ store: counting, source: '/test', logger: silentLogger, clock })
    const { handler } = prometheus(hapax)
    const worker = hapax.worker({ consume: [hapax.consumer('billing').on(Ping, () => {})] })
    await worker.start()
    const scrape = async (): Promise<string> => handler(new Request('http://localhost/metrics')).text()
    await until(async () => {
      clock.leap(500)
      // Time must not pass faster than the database responds: the limits of the worker are on the same clock.
      await hapax.status()
      return (await scrape()).includes('hapax_state_age_seconds')
    })
    const before = looks
    const texts = await Promise.all(Array.from({ length: 100 }, scrape))
    expect(texts.filter((text) => text.includes('hapax_workers{state="alive"} 1'))).toHaveLength(100)
    expect(looks).toBe(before)
    await hapax.close()
  })

  it('are answered at once when the database is a black hole, and say that it is down', async () => {
    await using checker = await makePlace('postgres')
    const { url, schema } = checker.place
    await using proxy = await LinkProxy.open(url)
    const hapax = createHapax({ store: postgres({ url: proxy.url, schema }), source: '/test', logger: silentLogger })
    const { handler } = prometheus(hapax)
    const worker = hapax.worker({ consume: [hapax.consumer('billing').on(Ping, () => {})] })
    await worker.start()
    onTestFinished(() => proxy.refuse())
    const scrape = async (): Promise<string> => {
      const late = new Promise<string>((resolve) => setTimeout(resolve, 500, 'late'))
      const text = await Promise.race([handler(new Request('http://localhost/metrics')).text(), late])
      expect(text).not.toBe('late')
      return text
    }
    expect(numberOf(await scrape(), 'hapax_store_up')).toBe(1)
    proxy.freeze()
    await until(async () => numberOf(await scrape(), 'hapax_store_up') === 0, 'the store is down')
    proxy.thaw()
    proxy.cut()
    await until(async () => numberOf(await scrape(), 'hapax_store_up') === 1, 'the store is up again')
    await hapax.close()
  })

  it('of the exporter are answered while the database is a black hole', async () => {
    await using checker = await makePlace('postgres')
    const { url, schema } = checker.place
    await using proxy = await LinkProxy.open(url)
    proxy.freeze()
    await using exporter = await exporterOf(['--store', proxy.url, '--schema', schema])
    expect(numberOf(await exporter.scrape(), 'hapax_store_up')).toBe(0)
    proxy.thaw()
    proxy.cut()
    await until(async () => numberOf(await exporter.scrape(), 'hapax_store_up') === 1, 'the store is up')
    proxy.freeze()
    await until(async () => numberOf(await exporter.scrape(), 'hapax_store_up') === 0, 'the store is down again')
    expect(numberOf(await exporter.scrape(), 'hapax_workers{state="alive"}')).toBe(0)
    expect(await exporter.stop()).toBe(0)
  })
})
