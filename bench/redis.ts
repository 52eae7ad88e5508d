import { randomUUID } from 'node:crypto'
import { createHapax, messageKey, silentLogger } from 'hapax'
import type { ClaimStore } from 'hapax/contracts'
import { redis as redisStore } from 'hapax/redis'
import { Redis } from 'ioredis'
import { chunks, heading, loops, report, sideBySide } from './measure.ts'
import { messages, type Order, OrderPlaced } from './messages.ts'
import type { Bench, Part } from './part.ts'
import { installPeers, versionOf } from './sides/peers.ts'
import { powertools } from './sides/powertools.ts'

export const redis: Part = {
  name: 'redis',
  about: 'leased messages on Redis / SET NX and DEL by hand, and AWS Powertools',
  needs: ['redis'],
  run,
}

const IN_FLIGHT = 64
/** So that hapax and Redis work at the same time. */
const GROUPS = 4
const LEASE_MS = 30_000
const DAY_MS = 86_400_000

type Orders = ReturnType<typeof messages>

async function run(bench: Bench): Promise<void> {
  const client = new Redis(bench.url('redis'))
  const prefix = 'bench:'
  const store = redisStore({ client, prefix })
  const hapax = createHapax({ store, source: '/bench', logger: silentLogger })
  heading(`Redis, ${IN_FLIGHT} in flight`)
  const bare = inFlight(bench, (order) => byHand(client, prefix, order))
  const byStoreAlone = inFlight(bench, (order) => byStore(store, order))
  report('claim and settle / SET NX and DEL', await sideBySide(bench.rounds, byStoreAlone, bare), 0.6)
  const sms = hapax.leased('one', { retentionMs: DAY_MS, concurrency: IN_FLIGHT }).on(OrderPlaced, async () => {})
  const handled = inFlight(bench, (order) => sms.handle(order))
  report('handle() / SET NX and DEL', await sideBySide(bench.rounds, handled, bare), 0.6)
  await beside(
    bench,
    hapax.leased('many', { retentionMs: DAY_MS, concurrency: 100 }).on(OrderPlaced, async () => {}),
  )
  await remove(client, prefix)
  client.disconnect()
}

const countOf = (bench: Bench): number => bench.size(20_000, 4_000)

function inFlight(bench: Bench, work: (order: Orders[number]) => Promise<unknown>): () => Promise<number> {
  const count = countOf(bench)
  return async () => {
    await loops(IN_FLIGHT, messages(count), work)
    return count
  }
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
  bench: Bench,
  sms: { handleMany(messages: Orders): Promise<readonly { readonly status: string }[]> },
): Promise<void> {
  if (!installPeers()) return
  const peer = await powertools<Orders[number]>(bench.url('redis'), async (): Promise<Order | undefined> => undefined)
  const name = '@aws-lambda-powertools/idempotency'
  const measured = await sideBySide(
    bench.rounds,
    async () => {
      await loops(GROUPS, chunks(messages(countOf(bench)), 100), async (group) => {
        const outcomes = await sms.handleMany(group)
        if (outcomes.some(({ status }) => status !== 'processed')) throw new Error('expected fresh messages')
      })
      return countOf(bench)
    },
    inFlight(bench, (order) => peer.handle(order)),
  )
  const note = `handleMany in groups of 100, ${GROUPS} at a time; makeIdempotent, ${IN_FLIGHT} in flight`
  report(`handleMany / ${name} ${versionOf(name)}`, measured, undefined, { note })
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
