import type { Redis } from 'ioredis'
import { asError, heard, loadClient } from '../../base/index.ts'
import { postgres } from '../../stores/postgres/index.ts'
import { claimCases, type HarnessFeatures, type StoreHarness, storeCases } from '../../testing/index.ts'
import { onlyOnce } from '../only-once.ts'
import type { OpenTarget, Target } from '../target.ts'
import { MysqlGround } from './mysql.ts'
import { mysql2Way } from './mysql2-way.ts'
import { pgWay } from './pg-way.ts'
import { PostgresGround } from './postgres.ts'
import { redisHarness } from './redis.ts'

/** What both kinds of SQL servers do for their cases. */
interface SqlGround {
  version(): Promise<string>
  /** Creates and removes what a case needs. */
  trial(): Promise<void>
  lacks(): Promise<HarnessFeatures['cannot']>
  sweep(): Promise<void>
}

/** PostgreSQL, and what speaks its protocol. */
export const postgresTarget: OpenTarget = (url, id) => {
  const name = `hapax_conformance_${id}`
  // Says what is wrong with it.
  postgres({ url })
  const urls = eachHost(url)
  const open = onlyOnce(async () => PostgresGround.at(await writableOf(urls), name))
  const target = sqlTarget('schemas', name, open, async () => (await open()).harness(pgWay))
  // A list of cases connects to none of them.
  const list = async () => storeCases(await (await PostgresGround.at(urls[0] ?? url, name)).harness(pgWay))
  return { ...target, list }
}

/** A URL for each host of a URL that has several. */
function eachHost(url: string): readonly string[] {
  const [, before = '', hosts = '', after = ''] = /^(\w+:\/\/(?:[^/?#]*@)?)([^/?#]*)(.*)$/s.exec(url) ?? []
  return hosts.split(',').map((host) => `${before}${host}${after}`)
}

/** The URL of the first server that takes writes; the only one is not asked. */
async function writableOf(urls: readonly string[]): Promise<string> {
  if (urls.length === 1) return urls[0] as string
  const { default: pg } = await loadClient('conformance of PostgreSQL', ['pg'], () => import('pg'))
  const failures: Error[] = []
  for (const url of urls) {
    const client = heard(new pg.Client({ connectionString: url, connectionTimeoutMillis: CONNECT_MS }))
    try {
      await client.connect()
      const { rows } = await client.query('show transaction_read_only')
      if (rows[0]?.transaction_read_only === 'off') return url
    } catch (error) {
      failures.push(asError(error))
    } finally {
      await client.end().catch(() => {})
    }
  }
  throw failures[0] ?? new Error('none of the servers takes writes')
}

/** How long one of several hosts may take to answer. */
const CONNECT_MS = 10_000

/** MariaDB and MySQL, and what speaks their protocol. */
export const mysqlTarget: OpenTarget = (url, id) => {
  const name = `hapax_conformance_${id}`
  const open = onlyOnce(() => MysqlGround.at(url, name))
  return sqlTarget('databases', name, open, async () => (await open()).harness(mysql2Way))
}

function sqlTarget<Tx, Own>(
  creates: string,
  name: string,
  ground: () => Promise<SqlGround>,
  harness: () => Promise<StoreHarness<Tx, Own>>,
): Target {
  return {
    creates,
    name,
    list: async () => storeCases(await harness()),
    reach: async () => {
      const opened = await ground()
      const server = await opened.version()
      await opened.trial()
      const { features, open } = await harness()
      const cannot = { ...features.cannot, ...(await opened.lacks()) }
      return { server, cases: storeCases({ features: { ...features, cannot }, open }) }
    },
    sweep: async () => (await ground()).sweep(),
  }
}

/** Redis as a store for leased work, and what speaks its protocol. */
export const redisTarget: OpenTarget = (url, id) => {
  const name = `hapax-conformance-${id}`
  const open = onlyOnce(() => openRedis(url))
  return {
    creates: 'keys',
    name,
    list: async () => claimCases(redisHarness(() => assertNever(), name)),
    reach: async () => {
      const client = await open()
      await client.set(name, 'trial')
      await client.del(name)
      return { server: await redisVersion(client), cases: claimCases(redisHarness(() => client, name)) }
    },
    sweep: async () => {
      const client = await open()
      await removeKeys(client, `${name}*`)
      client.disconnect()
    },
  }
}

/** A client that is connected. One that cannot connect tries only once, and says why. */
export async function openRedis(url: string): Promise<Redis> {
  const { Redis } = await loadClient('conformance of Redis', ['ioredis'], () => import('ioredis'))
  let isConnected = false
  const retryStrategy = (times: number): number | null => (isConnected ? Math.min(50 * times, 2_000) : null)
  const client = heard(new Redis(url, { lazyConnect: true, protocol: 2, retryStrategy }))
  let reason: unknown
  client.on('error', (error) => {
    reason = error
  })
  await client.connect().catch((error: unknown) => {
    throw reason ?? error
  })
  isConnected = true
  return client
}

function assertNever(): never {
  throw new Error('a list of cases opens nothing')
}

/** What a server that speaks the protocol of Redis calls itself: several of them keep `redis_version` for compatibility. */
export async function redisVersion(client: Redis): Promise<string> {
  const text = await client.info('server')
  const field = (name: string): string | undefined => new RegExp(`^${name}:(.*)\\r?$`, 'm').exec(text)?.[1]?.trim()
  for (const product of ['dragonfly', 'valkey', 'keydb', 'kvrocks'] as const) {
    const version = field(`${product}_version`)
    if (version !== undefined) return `${product} ${version} (as Redis ${field('redis_version') ?? 'of no version'})`
  }
  return `Redis ${field('redis_version') ?? 'of no version'}`
}

/** Removes keys in small steps. */
export async function removeKeys(client: Redis, pattern: string): Promise<void> {
  let cursor = '0'
  do {
    const [next, keys] = await client.scan(cursor, 'MATCH', pattern, 'COUNT', 1000)
    if (keys.length > 0) await client.unlink(...keys)
    cursor = next
  } while (cursor !== '0')
}
