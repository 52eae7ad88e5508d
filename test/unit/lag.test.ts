import { createHapax, defineMessage, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { expect, it, onTestFinished } from 'vitest'

const Ping = defineMessage<{ n: number }>('ping')

/** What the events say of a message that came with this time. */
async function lagOf(time: string | undefined): Promise<number | undefined> {
  const hapax = createHapax({ store: memory(), source: '/shop', logger: silentLogger })
  onTestFinished(() => hapax.close())
  const lags: (number | undefined)[] = []
  hapax.events.on('processed', ({ lagMs }) => lags.push(lagMs))
  const message = { id: 'a', source: '/sender', type: 'ping', data: { n: 1 }, ...(time !== undefined && { time }) }
  await hapax
    .consumer('billing')
    .on(Ping, () => {})
    .handle(message)
  expect(lags).toHaveLength(1)
  return lags[0]
}

it.for([undefined, '', 'garbage', '1', 'order 66', '2026', '0001-01-01T00:00:00Z', '1969-12-31T23:59:59Z'])(
  'a message of the time %s has no lag',
  async (time) => expect(await lagOf(time)).toBeUndefined(),
)

it('a message of the future has none, and never a negative one', async () => {
  expect(await lagOf('9999-12-31T23:59:59Z')).toBe(0)
})

it('the lag counts from the time of the message, as RFC 3339 writes it', async () => {
  const hour = 3_600_000
  for (const time of [
    new Date(Date.now() - hour).toISOString(),
    new Date(Date.now() + hour).toISOString().replace('Z', '+02:00'),
  ]) {
    const lagMs = await lagOf(time)
    expect(lagMs).toBeGreaterThanOrEqual(hour)
    expect(lagMs).toBeLessThan(2 * hour)
  }
})
