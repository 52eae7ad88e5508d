import type { Confirmation, Destination, Store } from 'hapax'
import { endWithParent, job, say, told } from '../support/child.ts'
import { insertEffect, type Place, type RigTx } from '../support/databases.ts'

/** A process of either version: it makes the tables, publishes, or works until it is told to stop, or dies. */
export interface SideJob {
  readonly place: Place
  readonly version: 'old' | 'new'
  readonly task: 'migrate' | 'publish' | 'work'
  /** What its ids begin with. */
  readonly name: string
  /** How many messages it publishes of each kind of delivery. */
  readonly messages: number
}

/** What it says: the migrations that it made, how many messages it has published, or that it works. */
export interface SideReport {
  readonly applied?: readonly number[]
  readonly published?: number
}

/** What both versions have. */
interface Library {
  readonly hapax: typeof import('hapax')
  open(place: Place): Store<RigTx>
}

interface Order {
  readonly n: number
}

endWithParent()
const { place, version, task, name, messages } = job<SideJob>()
const library = await (version === 'old' ? oldLibrary() : newLibrary())
const { createHapax, defineMessage, Permanent, silentLogger } = library.hapax
const store = library.open(place)
const logger = silentLogger
const hapax = createHapax({ store, source: '/side', delivery: 'local', logger })
const outgoing = createHapax({ store, source: '/side', delivery: 'relay', logger })

const ordered = defineMessage<Order>('ordered', { key: ({ n }) => `key-${n % 5}` })

if (task === 'migrate') await say({ applied: (await hapax.migrate()).map((each) => each.version) })
if (task === 'publish') await publish()
if (task === 'work') await work()
await hapax.close()
process.disconnect()

async function work(): Promise<void> {
  const billed = defineMessage<Order>('billed')
  const retry = { attempts: 5, minDelayMs: 10, maxDelayMs: 50 }
  const billing = hapax.consumer('billing', { retry, concurrency: 3 }).on(ordered, async ({ n }, ctx) => {
    const { id } = ctx.message
    await ctx.tx.query(insertEffect(place, 'billing', id))
    // Its id is its own business: that it is published once is what the effect of its consumer shows.
    await ctx.publish(billed, { n }, { headers: { order: id } })
    if (n % 25 === 7) throw new Permanent('this message is never taken')
    if (n % 10 === 3 && ctx.attempt <= 1) throw new Error('this message fails once')
    if (n % 10 === 6 && ctx.attempt <= 2) throw new Error('this message fails twice')
  })
  const audit = hapax.consumer('audit', { retry, concurrency: 2 }).on(billed, async (_, { tx, message }) => {
    await tx.query(insertEffect(place, 'audit', message.headers?.['order'] as string))
  })
  const worker = hapax.worker({
    consume: [billing, audit],
    pollMs: 50,
    ...(version === 'new' ? { relay: noted(), takeoverMs: 2_000 } : {}),
  })
  await worker.start()
  await say({})
  await told()
  await worker.stop()
}

/** Publishes one by one, so that the others have time to join; what it has published is written down in the same transaction. */
async function publish(): Promise<void> {
  for (let n = 0; n < messages; n++) {
    const id = `${name}-${n}`
    await hapax.transaction(async (tx) => {
      await tx.query(insertEffect(place, 'published', id))
      await hapax.publish(tx, ordered, { n }, { id })
    })
    await outgoing.transaction(async (tx) => {
      await tx.query(insertEffect(place, 'outgoing', id))
      await outgoing.publish(tx, ordered, { n }, { id })
    })
    await say({ published: n + 1 })
    // The last quarter is for those who still work then.
    if (n + 1 === (messages * 3) / 4) await told()
  }
}

/** A destination that confirms what it has written down. */
function noted(): Destination {
  return {
    name: 'effects',
    features: { keepsOrder: false },
    prepare: async () => {},
    publish: (sent) =>
      sent.map(async ({ id }): Promise<Confirmation> => {
        await hapax.transaction((tx) => tx.query(insertEffect(place, 'relayed', id)))
        return { status: 'confirmed' }
      }),
    close: async () => {},
  }
}

async function newLibrary(): Promise<Library> {
  const { postgres } = await import('hapax/postgres')
  const { mysql } = await import('hapax/mysql')
  const { sqlite } = await import('hapax/sqlite')
  return { hapax: await import('hapax'), open: opener({ postgres, mysql, sqlite }) }
}

/** Made by scripts/freeze-previous.ts: the version that a rolling deployment comes from. */
async function oldLibrary(): Promise<Library> {
  const previous = await import(new URL('../previous/hapax-schema-2.js', import.meta.url).href)
  return { hapax: previous, open: opener(previous) }
}

type Factory = (options: object) => unknown

function opener(stores: object): Library['open'] {
  const { postgres, mysql, sqlite } = stores as Record<'postgres' | 'mysql' | 'sqlite', Factory>
  return ({ store: kind, url, schema }) => {
    if (kind === 'postgres') return postgres({ url, schema, max: 8 }) as Store<RigTx>
    return (kind === 'mysql' ? mysql({ url, max: 8 }) : sqlite({ path: url })) as Store<RigTx>
  }
}
