import { createHash } from 'node:crypto'
import { connectionBudget, createHapax, defineMessage, type Hapax } from 'hapax'
import { type PgTx, postgres } from 'hapax/postgres'

// One database per shard. The last one is new: what it takes over was handled by the others so far.
const urls = (
  process.env['SHARDS'] ?? 'postgres://127.0.0.1/shop_a,postgres://127.0.0.1/shop_b,postgres://127.0.0.1/shop_c'
).split(',')
const Order = defineMessage<{ orderId: string }>('order.placed', { key: (order) => order.orderId })

// All of them together never have more than twelve connections.
const budget = connectionBudget(12)
const shards = await Promise.all(urls.map(openShard))
const shardsBefore = shards.slice(0, -1)

async function openShard(url: string) {
  const hapax: Hapax<PgTx> = createHapax({ store: postgres({ url, budget }), source: '/shop', delivery: 'local' })
  await hapax.migrate()
  await hapax.transaction((tx) => tx.query('create table if not exists public.invoices (order_id text)'))
  const billing = hapax.consumer('billing').on(Order, async ({ orderId }, { tx }) => {
    await tx.query('insert into public.invoices values ($1)', [orderId])
  })
  // Its name, not its place in the list, decides which keys it has.
  return { name: new URL(url).pathname, hapax, billing, worker: hapax.worker({ consume: [billing] }) }
}

type Shard = (typeof shards)[number]

/** The same shard for the same key in every process. A shard that is added takes its keys from all others, and none moves between those. */
function shardOf(key: string, among: readonly Shard[]): Shard {
  const weight = ({ name }: Shard): string => createHash('sha256').update(`${name}\n${key}`).digest('hex')
  return among.reduce((best, each) => (weight(each) > weight(best) ? each : best))
}

interface Delivery {
  readonly id: string
  readonly type: string
  readonly source: string
  readonly data: { readonly orderId: string }
}

/** Where a key has moved, the receipt may still be in the shard that had it before: for as long as receipts are kept, both are asked. */
async function handle(delivery: Delivery, before: readonly Shard[], now: readonly Shard[]): Promise<string> {
  const { id, source, data } = delivery
  const [old, current] = [shardOf(data.orderId, before), shardOf(data.orderId, now)]
  if (old !== current && (await old.hapax.explain(id, source)).length > 0) return 'duplicate'
  return (await current.billing.handle(delivery)).status
}

const deliveries = Array.from({ length: 30 }, (_, n) => ({
  ...{ id: `evt_${n}`, type: 'order.placed', source: '/stripe' },
  data: { orderId: `A${n}` },
}))
const statuses = async (before: readonly Shard[], now: readonly Shard[]): Promise<string> => {
  const all = await Promise.all(deliveries.map((each) => handle(each, before, now)))
  return [...Map.groupBy(all, (each) => each)].map(([status, some]) => `${some.length} ${status}`).join(', ')
}

// One worker per shard; start and stop them together.
await Promise.all(shards.map(({ worker }) => worker.start()))
console.log(await statuses(shardsBefore, shardsBefore)) // 30 processed
console.log(await statuses(shardsBefore, shards)) // 30 duplicate, although some keys have moved to the new shard
const moved = deliveries.filter(({ data }) => shardOf(data.orderId, shards) !== shardOf(data.orderId, shardsBefore))
console.log(moved.every(({ data }) => shardOf(data.orderId, shards) === shards.at(-1))) // true

await Promise.all(shards.map(({ worker }) => worker.stop()))
await Promise.all(shards.map(({ hapax }) => hapax.close()))
