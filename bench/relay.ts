import { type Destination, defineMessage, type Hapax } from 'hapax'
import type { PgTx } from 'hapax/postgres'
import type pg from 'pg'
import type { Taken, Timed } from './measure.ts'

interface Order {
  readonly n: number
  readonly text: string
}

export const OrderPlaced = defineMessage<Order>('order.placed')

function order(n: number): Order {
  return { n, text: 'x'.repeat(150) }
}

/** The payloads of so many messages. */
export function bodies(count: number): readonly Buffer[] {
  return Array.from({ length: count }, (_, n) => Buffer.from(JSON.stringify(order(n))))
}

/** The id that a message might have, for bare clients. */
export function idOf(n: number): string {
  return `019a8c3e-5b0e-7d44-9d3b-${String(n).padStart(12, '0')}`
}

export const TIME = '2026-01-01T00:00:00.000Z'

/** What messages are relayed with. */
export interface RelayRig {
  readonly count: number
  readonly pool: pg.Pool
  readonly hapax: Hapax<PgTx<pg.PoolClient>, unknown>
}

/** Fills the outbox in a transaction that is only to be committed. */
export async function filledOutbox({ pool, hapax, count }: RelayRig): Promise<pg.PoolClient> {
  const client = await pool.connect()
  await client.query('begin')
  for (let n = 0; n < count; n += 500) {
    const drafts = Array.from({ length: 500 }, (_, index) => OrderPlaced.of(order(n + index)))
    await hapax.publishMany(client, drafts)
  }
  return client
}

/** A relay of hapax, from COMMIT until the last message is confirmed. It is connected and has sent one message before. */
export function relaying(rig: RelayRig, destination: () => Destination, after: () => Promise<void>): Timed {
  let running: RunningRelay
  return {
    async before() {
      running = await startRelay(rig, destination())
    },
    run: () => running.send(),
    async after() {
      await running.stop()
      await after()
    },
  }
}

interface RunningRelay {
  send(): Promise<Taken>
  stop(): Promise<void>
}

async function startRelay(rig: RelayRig, relay: Destination): Promise<RunningRelay> {
  const { hapax, count } = rig
  const worker = hapax.worker({ relay })
  await worker.start()
  await hapax.transaction((tx) => hapax.publish(tx, OrderPlaced, order(0)))
  await worker.drain()
  const last = Promise.withResolvers<number>()
  let left = count
  const forget = hapax.events.on('relayed', () => {
    left -= 1
    if (left === 0) last.resolve(performance.now())
  })
  const client = await filledOutbox(rig)
  return {
    async send() {
      const started = performance.now()
      await client.query('commit')
      worker.wake()
      return { messages: count, ms: (await last.promise) - started }
    },
    async stop() {
      forget()
      client.release()
      await worker.drain()
      await worker.stop()
      await relay.close()
    },
  }
}

/** Keeps so many messages under way, and sends more when half of them are confirmed, as a relay does. */
export async function windowed(
  count: number,
  window: number,
  send: (n: number, confirmed: (error?: unknown) => void) => void,
): Promise<number> {
  const done = Promise.withResolvers<void>()
  let [next, underWay] = [0, 0]
  const fill = (): void => {
    while (underWay < window && next < count) {
      underWay += 1
      send(next, confirmed)
      next += 1
    }
  }
  const confirmed = (error?: unknown): void => {
    if (error) {
      done.reject(error)
      return
    }
    underWay -= 1
    if (underWay === 0 && next === count) done.resolve()
    else if (underWay <= window / 2) fill()
  }
  fill()
  await done.promise
  return count
}
