import { createHapax, type Hapax, type LeasedContext, type Store, silentLogger } from 'hapax'
import {
  countEffects,
  type DurableStore,
  durableStores,
  insertEffect,
  makePlace,
  openStore,
  type Place,
  type RigTx,
} from '../../support/databases.ts'
import { freshPrefix } from '../../support/redis-stores.ts'
import type { Seams } from '../../support/seams.ts'
import { requireServer, withoutRedis } from '../../support/servers.ts'
import { type Sabotage, sabotaged } from './sabotage.ts'

/** The keys of one test on Redis; plain data, so that processes can be told. */
interface RedisPlace {
  readonly store: 'redis'
  readonly url: string
  readonly prefix: string
}

/** Where text messages are sent from: a corner of a database, or of Redis. */
export type SmsPlace = Place | RedisPlace

/** A place, and a look at it from beside. */
export interface Scene extends AsyncDisposable {
  readonly place: SmsPlace
  /** How often each of these messages was settled: the rows that were written with it, or, without a transaction, its receipt. */
  settled(ids: readonly string[]): Promise<ReadonlyMap<string, number>>
}

/** The stores to send text messages from. */
export function smsStores(): readonly SmsPlace['store'][] {
  return [...durableStores(), ...(withoutRedis() === undefined ? (['redis'] as const) : [])]
}

export function makeScene(store: SmsPlace['store']): Promise<Scene> {
  return store === 'redis' ? redisScene() : sqlScene(store)
}

async function sqlScene(store: DurableStore): Promise<Scene> {
  const checker = await makePlace(store)
  return {
    place: checker.place,
    settled: async () => {
      const counts = await countEffects(checker)
      return new Map([...counts].map(([name, count]) => [name.split(' ')[1] as string, count]))
    },
    [Symbol.asyncDispose]: () => checker[Symbol.asyncDispose](),
  }
}

async function redisScene(): Promise<Scene> {
  const place: RedisPlace = { store: 'redis', url: requireServer('redis'), prefix: freshPrefix() }
  const hapax = await openHapax(place)
  const isSettled = async (id: string): Promise<boolean> => {
    const found = (await hapax.explain(id, '/sms')).map(({ where }) => where)
    return found.includes('receipt') && !found.includes('claim') && !found.includes('failed')
  }
  return {
    place,
    settled: async (ids) => {
      const settled = new Map<string, number>()
      for (const id of ids) if (await isSettled(id)) settled.set(id, 1)
      return settled
    },
    [Symbol.asyncDispose]: () => hapax.close(),
  }
}

/** What is done to a store that is opened. */
export interface SmsOpenOptions {
  readonly seams?: Seams
  readonly sabotage?: Sabotage | undefined
}

/**
 * A hapax on a place. The one on Redis has the methods that the story needs as well, but no transaction: its contexts have no
 * `complete`, as `finish` knows.
 */
export async function openHapax(place: SmsPlace, { seams, sabotage }: SmsOpenOptions = {}): Promise<Hapax<RigTx>> {
  const options = seams === undefined ? {} : { seams }
  const store = await (place.store === 'redis' ? openRedis(place, seams) : openStore(place, options))
  return createHapax({ store: sabotaged(store, sabotage), source: '/sms', logger: silentLogger })
}

async function openRedis({ url, prefix }: RedisPlace, seams: Seams | undefined): Promise<Store<RigTx>> {
  const [{ Redis }, { redis }] = await Promise.all([import('ioredis'), import('hapax/redis')])
  const client = new Redis(url)
  const store = redis({ client: seams?.client(client, 'call') ?? client, prefix, timeoutMs: 20_000 })
  const close = async (): Promise<void> => {
    await store.close()
    client.disconnect()
  }
  const closing = { ...store, close } as object as Store<RigTx>
  return seams?.store(closing) ?? closing
}

/** The step that follows the call, and fails if it is told to: a row that commits with the message, where that can be had. */
export function finish(place: SmsPlace, ctx: LeasedContext<RigTx>, consumer: string, fails = false): void {
  const failed = new Error('it was sent, and the next step failed')
  if (place.store === 'redis') {
    if (fails) throw failed
    return
  }
  ctx.complete(async (tx) => {
    await tx.query(insertEffect(place, consumer, ctx.message.id))
    if (fails) throw failed
  })
}
