import { createHapax, defineMessage, silentLogger } from 'hapax'
import { describe, expect, it } from 'vitest'
import {
  type Checker,
  countEffects,
  type DurableStore,
  durableStores,
  insertEffect,
  makePlace,
  openStore,
  table,
} from '../support/databases.ts'
import { oneInTest } from '../support/runs.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

/** SQLite is a file: it is there or it is not. */
const stores = oneInTest(
  durableStores().filter((store) => store !== 'sqlite'),
  'postgres',
)
const Order = defineMessage<{ id: string }>('order')

async function openRig(checker: Checker, proxy: TcpProxy) {
  const store = await openStore(checker.place, { url: proxy.url })
  const hapax = createHapax({ store, source: '/down', logger: silentLogger })
  const consumer = hapax.consumer('billing', { receive: 'store', concurrency: 2 }).on(Order, async ({ id }, { tx }) => {
    await tx.query(insertEffect(checker.place, 'billing', id))
  })
  return { hapax, consumer, [Symbol.asyncDispose]: () => hapax.close() }
}

async function openProxy(store: DurableStore): Promise<readonly [Checker, TcpProxy]> {
  const checker = await makePlace(store)
  return [checker, await TcpProxy.open(store, checker.place.url)]
}

function order(id: string) {
  return { id, source: '/shop', type: 'order', data: { id } }
}

async function until(condition: () => unknown): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 5))
}

describe.each(stores)('%s: the database is down', (store) => {
  it('A25: everything is refused at once and by name when it is down from the start', async () => {
    const [checker, proxy] = await openProxy(store)
    await using _checker = checker
    await using _proxy = proxy
    await proxy.refuse()
    await using rig = await openRig(checker, proxy)
    const worker = rig.hapax.worker({ consume: [rig.consumer] })
    const start = performance.now()
    const calls: Record<string, () => Promise<unknown>> = {
      migrate: () => rig.hapax.migrate(),
      status: () => rig.hapax.status(),
      'worker.start': () => worker.start(),
      handle: () => rig.consumer.handle(order('down')),
      transaction: () => rig.hapax.transaction(async () => {}),
      'failed.list': () => rig.hapax.failed.list(),
    }
    for (const [name, call] of Object.entries(calls)) {
      await expect(call(), name).rejects.toMatchObject({ name: 'HapaxError', code: 'store-unavailable' })
    }
    // Each at once, and not when a deadline of its own is over, on a machine that may stand still in between.
    expect(performance.now() - start).toBeLessThan(30_000)

    await proxy.accept()
    await worker.start()
    expect(await rig.consumer.handle(order('down'))).toMatchObject({ status: 'stored' })
    await worker.drain()
    expect(await countEffects(checker)).toEqual(new Map([['billing down', 1]]))
  })

  it('E8: a database that accepts and never answers is given up in time', async () => {
    const [checker, proxy] = await openProxy(store)
    await using _checker = checker
    await using _proxy = proxy
    await using rig = await openRig(checker, proxy)
    await rig.consumer.handle(order('before'))
    void proxy.arm('hold', /./)
    const start = performance.now()
    const first = rig.consumer.handle(order('silent'))
    // Where the delivery travels with its COMMIT, an answer that does not come leaves the outcome unknown: another connection finds out.
    if (store === 'postgres') expect(await first).toMatchObject({ status: 'stored' })
    else await expect(first).rejects.toMatchObject({ code: 'store-unavailable' })
    expect(performance.now() - start).toBeLessThan(55_000)
    const again = store === 'postgres' ? 'duplicate' : 'stored'
    expect(await rig.consumer.handle(order('silent'))).toMatchObject({ status: again })
    proxy.cut()
  })

  it('A25: a worker goes on by itself when the database comes back, and nothing is lost', async () => {
    const [checker, proxy] = await openProxy(store)
    await using _checker = checker
    await using _proxy = proxy
    await using rig = await openRig(checker, proxy)
    const ids = Array.from({ length: 100 }, (_, index) => `m-${index}`)
    for (const id of ids.slice(0, 50)) await rig.consumer.handle(order(id))
    let errors = 0
    rig.hapax.events.on('worker-error', () => {
      errors += 1
    })
    const worker = rig.hapax.worker({ consume: [rig.consumer], pollMs: 20 })
    await worker.start()
    await until(async () => (await countEffects(checker)).size > 10)
    await proxy.refuse()
    await until(() => errors > 1)
    await expect(rig.consumer.handle(order('m-50'))).rejects.toMatchObject({ code: 'store-unavailable' })
    await proxy.accept()
    for (const id of ids.slice(50)) await rig.consumer.handle(order(id))
    await until(async () => (await countEffects(checker)).size === ids.length)
    await worker.stop()
    expect(await countEffects(checker)).toEqual(new Map(ids.map((id) => [`billing ${id}`, 1])))
    for (const name of ['inbox', 'failed'] as const) {
      expect(await checker.query(`select id from ${table(checker.place, name)}`)).toEqual([])
    }
  })
})
