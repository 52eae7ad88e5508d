import { expected, noOthers, positiveInteger, refuseUnsetUrl } from '../../base/index.ts'
import type { ClaimStore } from '../../contracts/index.ts'
import { type RedisClient, type Way, wayThrough, wayTo } from './client.ts'
import { redisStore } from './store.ts'

export type { IoredisClient, IoredisCluster, NodeRedisClient, NodeRedisCluster, RedisClient } from './client.ts'

/** Where Redis is: a URL, or a client of your own. */
export interface RedisOptions {
  /** `redis://…` or `rediss://…`; needs the package ioredis. Undefined, as a missing environment variable is, is refused. */
  readonly url?: string | undefined
  /** A client or a cluster of `ioredis`, `iovalkey` or `redis`; hapax sends its commands through it, and leaves it open. */
  readonly client?: RedisClient
  /** What the names of all keys begin with. @default 'hapax:' */
  readonly prefix?: string
  /** How long Redis may take to answer, with new links in between if need be. @default 5_000 */
  readonly timeoutMs?: number
}

/** A lease store on Redis 7.0 or newer, or on Valkey: leased consumers only. */
export function redis(options: RedisOptions): ClaimStore {
  noOthers('options of redis', options, ['url', 'client', 'prefix', 'timeoutMs'])
  refuseUnsetUrl(options, options.client)
  const timeoutMs = positiveInteger('timeoutMs', options.timeoutMs, 5_000)
  return redisStore(wayOf(options, timeoutMs), checkedPrefix(options.prefix), timeoutMs)
}

function wayOf({ url, client }: RedisOptions, timeoutMs: number): Way {
  if ((url === undefined) === (client === undefined)) expected('options of redis', 'url or client', 'both or neither')
  if (client !== undefined) return wayThrough(client)
  // Not shown: it may hold a password.
  if (typeof url !== 'string' || !/^rediss?:\/\//.test(url) || !URL.canParse(url)) {
    expected('url', 'a redis:// or rediss:// URL', '(not shown)')
  }
  return wayTo(url, databaseOf(new URL(url)), timeoutMs)
}

function databaseOf({ pathname, searchParams }: URL): string {
  const database = pathname.slice(1) || (searchParams.get('db') ?? '0')
  if (!/^\d+$/.test(database)) expected('url', 'one whose path is the number of a database, as /0', `/${database}`)
  return String(Number(database))
}

/** Braces decide where a cluster keeps a key, and hapax sets its own. */
function checkedPrefix(prefix: string = 'hapax:'): string {
  if (typeof prefix !== 'string' || !/^[\w:.-]{0,100}$/.test(prefix)) {
    expected('prefix', 'at most 100 letters, digits, _, :, . and -', prefix)
  }
  return prefix
}
