import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { Touched } from './touched.ts'

/** The files below src that ran while one message was processed, sorted. */
export interface Walks {
  /** `consumer.handle` of one message, until it resolves. No worker is running. */
  readonly direct: readonly string[]
  /** `hapax.transaction` with one publish, until the memory broker has the message. */
  readonly publish: readonly string[]
  /** `consumer.handle` with `receive: 'store'`, until a worker has committed the handler of the stored row. */
  readonly stored: readonly string[]
}

/** Processes one message; resolves with the files that ran. */
type Walk = () => Promise<ReadonlySet<string>>

const QUIET_MS = 20
const QUIET_DEADLINE_MS = 30_000
const SAME_RUNS = 3
const MOST_RUNS = 30

/** Sends messages through SQLite and the memory broker, and counts. What workers do on the way is included. */
export async function measureWalks(root: string): Promise<Walks> {
  using touched = new Touched(join(root, 'src'))
  const directory = mkdtempSync(join(tmpdir(), 'hapax-shape-'))
  try {
    return {
      direct: await direct(touched, join(directory, 'direct.db')),
      publish: await publish(touched, join(directory, 'publish.db')),
      stored: await stored(touched, join(directory, 'stored.db')),
    }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

// The modules are loaded after the counting began, and by the names of the package: folders may be moved.
async function open(path: string) {
  const { createHapax, defineMessage, silentLogger } = await import('hapax')
  const { sqlite } = await import('hapax/sqlite')
  const hapax = createHapax({ store: sqlite({ path }), source: '/shape', logger: silentLogger })
  await hapax.migrate()
  let messages = 0
  const message = () => ({ id: `message-${++messages}`, type: 'order.placed', source: '/shape', data: { amount: 1 } })
  return { hapax, message, OrderPlaced: defineMessage<{ amount: number }>('order.placed') }
}

async function direct(touched: Touched, path: string): Promise<readonly string[]> {
  const { hapax, message, OrderPlaced } = await open(path)
  const consumer = hapax.consumer('billing')
  consumer.on(OrderPlaced, async () => {})
  const files = await quietest(touched, async () => {
    await consumer.handle(message())
    return touched.take()
  })
  await hapax.close()
  return files
}

async function publish(touched: Touched, path: string): Promise<readonly string[]> {
  const { hapax, OrderPlaced } = await open(path)
  const { memoryBroker } = await import('hapax/memory-broker')
  const broker = memoryBroker()
  let arrived = (): void => {}
  const reader = await broker.queue('all', { topic: 'shop' }).open({
    types: 'all',
    prefetch: { messages: 100, bytes: 1_000_000 },
    receive(deliveries) {
      arrived()
      for (const delivery of deliveries) delivery.ack()
    },
    report() {},
  })
  const worker = hapax.worker({ relay: broker.topic('shop') })
  await worker.start()
  const files = await quietest(touched, async () => {
    const { promise, resolve } = Promise.withResolvers<ReadonlySet<string>>()
    arrived = () => resolve(touched.take())
    await hapax.transaction((tx) => hapax.publish(tx, OrderPlaced, { amount: 1 }))
    return await promise
  })
  await worker.stop()
  await reader.close()
  await hapax.close()
  return files
}

async function stored(touched: Touched, path: string): Promise<readonly string[]> {
  const { hapax, message, OrderPlaced } = await open(path)
  const consumer = hapax.consumer('billing', { receive: 'store' })
  consumer.on(OrderPlaced, async () => {})
  let processed = (): void => {}
  hapax.events.on('processed', () => processed())
  const worker = hapax.worker({ consume: [consumer] })
  await worker.start()
  const files = await quietest(touched, async () => {
    const { promise, resolve } = Promise.withResolvers<ReadonlySet<string>>()
    processed = () => resolve(touched.take())
    await consumer.handle(message())
    return await promise
  })
  await worker.stop()
  await hapax.close()
  return files
}

/**
 * Takes the same walk again and again: the first runs load modules and prepare statements, and a heartbeat may fall into any. The
 * smallest set that came several times is the walk itself.
 */
async function quietest(touched: Touched, walk: Walk): Promise<readonly string[]> {
  const runs = new Map<string, number>()
  let smallest: readonly string[] | undefined
  for (let run = 0; run < MOST_RUNS; run++) {
    await quiet(touched)
    const files = [...(await walk())].sort()
    const times = (runs.get(files.join()) ?? 0) + 1
    runs.set(files.join(), times)
    if (smallest === undefined || files.length < smallest.length) smallest = files
    if (times >= SAME_RUNS && files.join() === smallest.join()) return smallest
  }
  throw new Error(`no set of files came ${SAME_RUNS} times in ${MOST_RUNS} runs`)
}

/** Waits until all work that earlier messages left behind has ended. */
async function quiet(touched: Touched): Promise<void> {
  const deadline = performance.now() + QUIET_DEADLINE_MS
  do {
    if (performance.now() > deadline)
      throw new Error(`something was running for ${QUIET_DEADLINE_MS} ms without a pause`)
    touched.take()
    await setTimeout(QUIET_MS)
  } while (touched.take().size > 0)
}
