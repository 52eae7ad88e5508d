import { createHapax, defineMessage, isHapaxError, type Outcome, silentLogger } from 'hapax'
import { postgres } from 'hapax/postgres'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { oneInTest } from '../support/runs.ts'
import { testStores } from '../support/servers.ts'
import { type OnDisk, openSmallDisk, type SmallDisk } from '../support/small-disk.ts'

interface Order {
  readonly id: string
  readonly note: string
}

const Order = defineMessage<Order>('order')
/** Long, so that few messages are enough to need more space. */
const note = Array.from({ length: 5_000 }, (_, index) => `${(index * 7919) % 10_007}`).join(' ')

function message(id: string) {
  return { id, source: '/shop', type: 'order', data: { id, note } }
}

async function openRig({ url }: SmallDisk) {
  const pool = new pg.Pool({ connectionString: url, max: 20, connectionTimeoutMillis: 10_000 })
  pool.on('error', () => {})
  await pool.query('create table public.effects (consumer text not null, id text not null, note text not null)')
  const hapax = createHapax({ store: postgres({ pool }), source: '/shop', logger: silentLogger })
  await hapax.migrate()
  // No message may be given up because of what is done to its database.
  const options = { concurrency: 4, retry: { attempts: 10_000, minDelayMs: 10, maxDelayMs: 200 } }
  const consumer = (name: string, receive: 'direct' | 'store') =>
    hapax.consumer(name, { ...options, receive }).on(Order, async ({ id }, { tx }) => {
      await tx.query('insert into public.effects (consumer, id, note) values ($1, $2, $3)', [name, id, note])
    })
  const consumers = [consumer('billing', 'direct'), consumer('audit', 'store')]
  const worker = hapax.worker({ consume: consumers, pollMs: 50 })
  await worker.start()
  const column = async (text: string): Promise<string[]> =>
    (await pool.query<{ v: string }>(text)).rows.map(({ v }) => v)
  return {
    consumers,
    effects: () => column(`select consumer || ' ' || id as v from public.effects order by 1`),
    /** Every message that is anywhere, and where. */
    kept: () =>
      column(`select consumer || ' ' || id as v from public.effects
        union select consumer || ' ' || id from hapax.inbox union select consumer || ' ' || id from hapax.failed`),
    left: () => column(`select id as v from hapax.inbox union all select id from hapax.failed`),
    [Symbol.asyncDispose]: async () => {
      await hapax.close()
      await pool.end()
    },
  }
}

type Rig = Awaited<ReturnType<typeof openRig>>

/** Delivers to both consumers; answers which of them must not be delivered again. */
async function deliver({ consumers }: Rig, id: string): Promise<string[]> {
  const acked: string[] = []
  for (const consumer of consumers) {
    const outcome: Pick<Outcome, 'ack'> = await consumer.handle(message(id)).catch((error: unknown) => {
      if (!isHapaxError(error)) throw error
      return { ack: false }
    })
    if (outcome.ack) acked.push(`${consumer.name} ${id}`)
  }
  return acked
}

async function until(what: string, condition: () => Promise<boolean>, deadlineMs: number): Promise<void> {
  for (const deadline = performance.now() + deadlineMs; !(await condition().catch(() => false)); ) {
    if (performance.now() > deadline) throw new Error(`expected ${what} within ${deadlineMs} ms`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** Delivers new messages and remembers what was acked. */
class Deliveries {
  readonly ids: string[] = []
  readonly acked = new Set<string>()
  refused = 0
  readonly #rig: Rig

  constructor(rig: Rig) {
    this.#rig = rig
  }

  async next(): Promise<boolean> {
    const id = `m-${this.ids.length}`
    this.ids.push(id)
    const taken = await deliver(this.#rig, id)
    for (const each of taken) this.acked.add(each)
    if (taken.length === 2) return true
    this.refused += 1
    return false
  }

  /** As a broker does: what was not acked comes again. */
  async again(): Promise<void> {
    for (const id of this.ids) {
      await until(`${id} to be taken`, async () => (await deliver(this.#rig, id)).length === 2, 90_000)
    }
  }
}

const cases = oneInTest<OnDisk>(['tables', 'log'], 'log')

describe.runIf(testStores().includes('postgres'))('postgres: the disk is full', () => {
  // Without space for tables the database answers with errors; without space for its log it crashes, and cannot start.
  it.for(cases)(
    'T11: nothing is acked that is not there, and all goes on when space returns (%s)',
    { timeout: 600_000 },
    async (what, { skip }) => {
      const opened = await openSmallDisk(what)
      if (typeof opened === 'string') return skip(opened)
      await using disk = opened
      await using rig = await openRig(disk)
      const deliveries = new Deliveries(rig)
      for (let count = 0; count < 20; count++) expect(await deliveries.next()).toBe(true)
      disk.fill()
      const deadline = performance.now() + 60_000
      while (await deliveries.next()) expect(performance.now()).toBeLessThan(deadline)
      for (let count = 0; count < 20; count++) await deliveries.next()
      expect(deliveries.refused).toBeGreaterThan(10)
      expect(disk.hasSaid('No space left on device')).toBe(true)
      expect(disk.hasSaid('PANIC')).toBe(what === 'log')

      disk.clear()
      const start = performance.now()
      await until('the database to answer', async () => (await rig.kept()).length > 0, 90_000)
      const kept = new Set(await rig.kept())
      expect([...deliveries.acked].filter((each) => !kept.has(each))).toEqual([])
      await deliveries.again()
      await until('nothing to be left', async () => (await rig.left()).length === 0, 150_000)
      const all = deliveries.ids.flatMap((id) => [`audit ${id}`, `billing ${id}`])
      expect(await rig.effects()).toEqual(all.sort())
      const { ids, refused } = deliveries
      const seconds = ((performance.now() - start) / 1000).toFixed(1)
      console.log(
        `disk full (${what}): ${ids.length} messages, ${refused} refused, all done ${seconds} s after there was space`,
      )
    },
  )
})
