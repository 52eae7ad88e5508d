import { kafka } from 'hapax/kafka'
import { memory } from 'hapax/memory'
import { describe, expect, it } from 'vitest'
import { Shop } from '../../src/testing/broker/shop.ts'
import { until } from '../../src/testing/wait.ts'
import { fresh, kafkaPlace, PATIENT } from '../support/kafka-place.ts'
import { kafkaServer } from '../support/kafka-server.ts'

const MiB = 1024 * 1024
const json = { 'content-type': 'application/json' }
const ping = (id: string) => ({ ce_id: id, ce_source: '/plain', ce_type: 'ping', ce_specversion: '1.0', ...json })
const small = (id: string) => ({ value: Buffer.from(JSON.stringify({ id })), headers: ping(id) })
const zeros = (id: string) => ({ value: Buffer.alloc(8 * MiB), headers: ping(id) })

describe.skipIf(kafkaServer === undefined)(`batches (${kafkaServer})`, () => {
  it.for(['gzip', 'snappy', 'lz4', 'zstd'] as const)(
    'K17: one that becomes too large when it is decompressed is in the failed store; the others are read (%s)',
    async (compression) => {
      await using place = await kafkaPlace()
      const { topic, plain, proxy } = place
      const group = fresh('billing')
      await plain.sendCompressed(topic, compression, [small('a'), small('b')])
      await plain.sendCompressed(topic, compression, [small('hidden'), zeros('huge')])
      await plain.sendCompressed(topic, compression, [small('c')])
      const shop = new Shop({ rows: memory() })
      const subscription = kafka({ url: proxy.url }).group(group, { topic, ...PATIENT, maxBatchBytes: MiB })
      await shop.work({ consume: [shop.consumer().from(subscription)] })
      await shop.untilEffects(['a', 'b', 'c'])
      const [failed] = await shop.failed(1)
      expect(failed?.error.message).toMatch(/^2 messages, from offset 2 on, are in a batch/)
      await until(async () => (await plain.lag(topic, group)) === 0, 'everything is committed')
      shop.assertEffects(['a', 'b', 'c'])
      await shop.close()
    },
  )

  it.for(['gzip', 'snappy', 'lz4', 'zstd'] as const)('K17: one of ordinary data is read (%s)', async (compression) => {
    await using place = await kafkaPlace()
    const { topic, plain, proxy } = place
    const ids = Array.from({ length: 500 }, (_, n) => `m${n}`)
    const rows = (id: string) => ids.slice(0, 50).map((row) => ({ id: `${id} ${row}`, amount: Math.random() }))
    const orders = ids.map((id) => ({ value: Buffer.from(JSON.stringify({ id, rows: rows(id) })), headers: ping(id) }))
    await plain.sendCompressed(topic, compression, orders)
    const shop = new Shop({ rows: memory() })
    const subscription = kafka({ url: proxy.url }).group(fresh('billing'), { topic, ...PATIENT })
    await shop.work({ consume: [shop.consumer().from(subscription)] })
    await until(async () => shop.effects.length + (await shop.hapax.failed.count()) > 0, 'something has come')
    expect(await shop.hapax.failed.count()).toBe(0)
    await shop.untilEffects(ids)
    await shop.close()
  })

  it('K17: one of a hundred and fifty thousand messages is read', async () => {
    await using place = await kafkaPlace()
    const { topic, plain, proxy } = place
    const group = fresh('billing')
    const empty = Array.from({ length: 150_000 }, () => ({ value: Buffer.from('{}') }))
    await plain.sendCompressed(topic, 'gzip', empty)
    const subscription = kafka({ url: proxy.url }).group(group, { topic, ...PATIENT })
    let count = 0
    const reader = await subscription.open({
      types: 'all',
      prefetch: { messages: 10_000, bytes: 1e9 },
      receive: (deliveries) => {
        count += deliveries.length
        setImmediate(() => {
          for (const each of deliveries) each.ack()
        })
      },
      report: () => {},
    })
    await until(
      () => count >= 150_000,
      () => `all have come; there are ${count}`,
    )
    await reader.close()
  })
})
