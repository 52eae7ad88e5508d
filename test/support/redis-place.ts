import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { LinkProxy } from './link-proxy.ts'
import { requireServer } from './servers.ts'

/** A stream of a test's own, reached by a plain client, and the server through a proxy. */
export interface RedisPlace extends AsyncDisposable {
  readonly stream: string
  readonly plain: Redis
  readonly proxy: LinkProxy
}

/** A fresh stream. */
export async function redisPlace(server: string = requireServer('redis')): Promise<RedisPlace> {
  const stream = `orders-${randomUUID()}`
  const plain = new Redis(server, { protocol: 2 })
  const proxy = await LinkProxy.open(server)
  return {
    stream,
    plain,
    proxy,
    [Symbol.asyncDispose]: async () => {
      await proxy[Symbol.asyncDispose]()
      await plain.del(stream).catch(() => {})
      plain.disconnect()
    },
  }
}

/** What Redis tells about a group. */
export interface GroupInfo {
  readonly name: string
  readonly consumers: number
  readonly pending: number
  readonly 'last-delivered-id': string
  readonly lag: number | null
}

export async function groupInfo(plain: Redis, stream: string, group: string): Promise<GroupInfo> {
  const groups = (await plain.xinfo('GROUPS', stream)) as unknown[][]
  const found = groups.map((each) => table(each) as unknown as GroupInfo).find(({ name }) => name === group)
  if (found === undefined) throw new Error(`expected a group ${group}`)
  return found
}

/** The names under which a group is read. */
export async function consumersOf(
  plain: Redis,
  stream: string,
  group: string,
): Promise<readonly { readonly name: string; readonly pending: number }[]> {
  const consumers = (await plain.xinfo('CONSUMERS', stream, group)) as unknown[][]
  return consumers.map((each) => table(each) as unknown as { name: string; pending: number })
}

function table(list: readonly unknown[]): Record<string, unknown> {
  return Object.fromEntries(Array.from({ length: list.length / 2 }, (_, at) => [list[2 * at], list[2 * at + 1]]))
}
