import { randomUUID } from 'node:crypto'
import { createHapax, messageKey, silentLogger } from 'hapax'
import type { ClaimStore } from 'hapax/contracts'
import { redis } from 'hapax/redis'
import { Redis } from 'ioredis'
import { chunks, heading, loops, report, sideBySide } from './measure.ts'
import { messages, type Order, OrderPlaced } from './messages.ts'
import { installPeers, versionOf } from './sides/peers.ts'
import { powertools } from './sides/powertools.ts'

const ROUNDS = 7
const COUNT = 20_000
const IN_FLIGHT = 64
/** So that hapax and Redis work at the same time. */
const GROUPS = 4
const LEASE_MS = 30_000
const DAY_MS = 86_400_000

type Orders = ReturnType<typeof messages>

/** The Redis store beside what one would write by hand, and beside another library. */
export async function benchRedis(url: string): Promise<void> {
  const client = new Redis(url)
  const prefix = 'bench:'
  const store = redis({ client, prefix })
  const hapax = createHapax({ store, source: '/bench', logger: silentLogger })
  heading(`Redis, ${IN_FLIGHT} in flight`)
  const bare = (): Promise<number> => inFlight((order) => byHand(client, prefix, order))
  await measure('claim and settle / SET NX and DEL', () => inFlight((order) => byStore(store, order)), bare, 0.6)
  const sms = hapax.leased('one', { retentionMs: DAY_MS, concurrency: IN_FLIGHT }).on(OrderPlaced, async () => {})
  await measure('handle() / SET NX and DEL', () => inFlight((order) => sms.handle(order)), bare, 0.6)
  await beside(
    url,
    hapax.leased('many', { retentionMs: DAY_MS, concurrency: 100 }).on(OrderPlaced, async () => {}),
  )
  await remove(client, prefix)
  client.disconnect()
}

function measure(name: string, ours: () => Promise<number>, other: () => Promise<number>, aim: number): Promise<void> {
  return sideBySide(ROUNDS, ours, other).then((measured) => report(name, measured, aim))
}

async function inFlight(work: (order: Orders[number]) => Promise<unknown>): Promise<number> {
  await loops(IN_FLIGHT, messages(COUNT), work)
  return COUNT
}

/** What one would write without a library: nobody else gets the key meanwhile. */
async function byHand(client: Redis, prefix: string, { id }: Orders[number]): Promise<void> {
  const key = `${prefix}by-hand:${id}`
  if ((await client.set(key, 'claimed', 'PX', LEASE_MS, 'NX')) !== 'OK') throw new Error('expected a fresh key')
  await client.del(key)
}

async function byStore(store: ClaimStore, { id, source, type, data }: Orders[number]): Promise<void> {
  const bytes = Buffer.from(JSON.stringify(data))
  const message = { messageKey: messageKey(source, id), source, id, type, key: null, attributes: '{}', data: bytes }
  const claim = { token: randomUUID(), leaseMs: LEASE_MS, alone: false }
  const [claimed] = await store.claims.claim('bench', [{ ...message, fingerprint: '0123456789abcdef' }], claim)
  if (claimed?.kind !== 'ours') throw new Error('expected a fresh message')
  await store.claims.settle([claimed.lease], DAY_MS)
}

async function beside(
  url: string,
  sms: { handleMany(messages: Orders): Promise<readonly { readonly status: string }[]> },
): Promise<void> {
  if (!installPeers()) return
  const peer = await powertools<Orders[number]>(url, async (): Promise<Order | undefined> => undefined)
  const name = '@aws-lambda-powertools/idempotency'
  await measure(
    `${name} ${versionOf(name)}`,
    async () => {
      await loops(GROUPS, chunks(messages(COUNT), 100), async (group) => {
        const outcomes = await sms.handleMany(group)
        if (outcomes.some(({ status }) => status !== 'processed')) throw new Error('expected fresh messages')
      })
      return COUNT
    },
    () => inFlight((order) => peer.handle(order)),
    5,
  )
  console.log(
    `  hapax: handleMany in groups of 100, ${GROUPS} at a time\n  ${name}: makeIdempotent, ${IN_FLIGHT} in flight`,
  )
  peer.close()
}

/** The receipts would stay for a day. */
async function remove(client: Redis, prefix: string): Promise<void> {
  let cursor = '0'
  do {
    const [next, keys] = await client.scan(cursor, 'MATCH', `${prefix}*`, 'COUNT', 1000)
    if (keys.length > 0) await client.unlink(...keys)
    cursor = next
  } while (cursor !== '0')
}
