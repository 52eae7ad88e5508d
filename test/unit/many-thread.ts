import { parentPort, workerData } from 'node:worker_threads'
import { createHapax, defineMessage, type Store, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { sqlite } from 'hapax/sqlite'

/** What the thread says when it has published. */
export interface Published {
  /** Whether so many arguments of one call are too many for the stack of this thread. */
  readonly tooManyArguments: boolean
  readonly answered: number
  readonly outbox: number
}

const { store, count } = workerData as { store: 'memory' | 'sqlite'; count: number }
const Ping = defineMessage<number>('ping')

function tooManyArguments(): boolean {
  try {
    Math.max(...Array<number>(count))
    return false
  } catch {
    return true
  }
}

const on = store === 'memory' ? memory() : sqlite({ path: ':memory:' })
const hapax = createHapax({ store: on as Store<unknown>, source: '/test', logger: silentLogger })
await hapax.migrate()
const drafts = Array.from({ length: count }, (_, n) => Ping.of(n))
const published = await hapax.transaction((tx) => hapax.publishMany(tx, drafts))
const [relay] = (await hapax.status({ exact: true })).relays
await hapax.close()
const said: Published = {
  tooManyArguments: tooManyArguments(),
  answered: published.length,
  outbox: relay?.waiting ?? 0,
}
parentPort?.postMessage(said)
