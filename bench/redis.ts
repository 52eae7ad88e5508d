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
  about: 'leased messages on Redis / SET NX and DEL by hand, bare scripts, and AWS Powertools',
  needs: ['redis'],
  run,
}

const IN_FLIGHT = 64
/** So that hapax and Redis work at the same time. */
const GROUPS = 4
const GROUP = 100
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
  const one = inFlight(bench, (order) => sms.handle(order))
  report('handle() / SET NX and DEL', await sideBySide(bench.rounds, one, bare), 0.6)
  const many = hapax.leased('many', { retentionMs: DAY_MS, concurrency: GROUP }).on(OrderPlaced, async () => {})
  await besideScripts(bench, client, prefix, many, store)
  await beside(bench, many)
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

function storedOf({ id, source, type, data }: Orders[number]) {
  const bytes = Buffer.from(JSON.stringify(data))
  const message = { messageKey: messageKey(source, id), source, id, type, key: null, attributes: '{}', data: bytes }
  return { ...message, fingerprint: '0123456789abcdef' }
}

const claimOptions = () => ({ token: randomUUID(), leaseMs: LEASE_MS, alone: false })

async function byStore(store: ClaimStore, order: Orders[number]): Promise<void> {
  const [claimed] = await store.claims.claim('bench', [storedOf(order)], claimOptions())
  if (claimed?.kind !== 'ours') throw new Error('expected a fresh message')
  await store.claims.settle([claimed.lease], DAY_MS)
}

interface Many {
  handleMany(messages: Orders): Promise<readonly { readonly status: string }[]>
}

function inGroups(bench: Bench, work: (group: Orders) => Promise<unknown>): () => Promise<number> {
  return async () => {
    await loops(GROUPS, chunks(messages(countOf(bench)), GROUP), work)
    return countOf(bench)
  }
}

async function handled(sms: Many, group: Orders): Promise<void> {
  const outcomes = await sms.handleMany(group)
  if (outcomes.some(({ status }) => status !== 'processed')) throw new Error('expected fresh messages')
}

/** Claims that no one else has, and that end by themselves. */
const CLAIM = `
local out = {}
for i, key in ipairs(KEYS) do out[i] = redis.call('SET', key, ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0 end
return out`
/** What is still ours is done, and remembered for a day. */
const SETTLE = `
local out = {}
for i, key in ipairs(KEYS) do
  out[i] = redis.call('GET', key) == ARGV[1] and redis.call('SET', key, 'done', 'PX', ARGV[2]) and 1 or 0
end
return out`

/** The same groups by two scripts, as one would write them without a library: no payload is read, no receipt compared, nothing renewed. */
async function groupByHand(client: Redis, prefix: string, group: Orders): Promise<void> {
  const keys = group.map(({ id }) => `${prefix}by-hand:${id}`)
  const token = randomUUID()
  for (const [script, ms] of [
    [CLAIM, LEASE_MS],
    [SETTLE, DAY_MS],
  ] as const) {
    const answers = await evaluated(client, script, [String(keys.length), ...keys, token, String(ms)])
    if (answers.some((answer) => answer !== 1)) throw new Error('expected fresh keys')
  }
}

const shas = new Map<string, string>()

async function evaluated(client: Redis, script: string, words: readonly string[]): Promise<readonly unknown[]> {
  let sha = shas.get(script)
  if (sha === undefined) {
    sha = String(await client.script('LOAD', script))
    shas.set(script, sha)
  }
  const answer = await client.call('EVALSHA', sha, ...words)
  return Array.isArray(answer) ? answer : []
}

/** What hapax asks of Redis for a group, without the rest of hapax. */
async function groupByStore(store: ClaimStore, group: Orders): Promise<void> {
  const claimed = await store.claims.claim('bench-many', group.map(storedOf), claimOptions())
  const leases = claimed.flatMap((each) => (each.kind === 'ours' ? [each.lease] : []))
  if (leases.length !== group.length) throw new Error('expected fresh messages')
  await store.claims.settle(leases, DAY_MS)
}

async function besideScripts(bench: Bench, client: Redis, prefix: string, sms: Many, store: ClaimStore): Promise<void> {
  const measured = await sideBySide(
    bench.rounds,
    inGroups(bench, (group) => handled(sms, group)),
    inGroups(bench, (group) => groupByHand(client, prefix, group)),
    inGroups(bench, (group) => groupByStore(store, group)),
  )
  const note = `groups of ${GROUP}, ${GROUPS} at a time; the floor is claim and settle of the store alone`
  report('handleMany / bare Lua for the same groups', measured, 0.8, { note })
}

async function beside(bench: Bench, sms: Many): Promise<void> {
  if (!installPeers()) return
  const peer = await powertools<Orders[number]>(bench.url('redis'), async (): Promise<Order | undefined> => undefined)
  const name = '@aws-lambda-powertools/idempotency'
  const measured = await sideBySide(
    bench.rounds,
    inGroups(bench, (group) => handled(sms, group)),
    inFlight(bench, (order) => peer.handle(order)),
  )
  const note = `handleMany in groups of ${GROUP}, ${GROUPS} at a time; makeIdempotent, ${IN_FLIGHT} in flight`
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
