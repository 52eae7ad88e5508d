import { Redis } from 'ioredis'
import { slotOf } from '../../src/brokers/redis-streams/cluster.ts'
import { until } from '../../src/testing/wait.ts'
import type { RedisClusterServers } from './redis-cluster.ts'

/** The way of a slot to another master, in the steps of a tool that reshards. */
export class SlotMove implements AsyncDisposable {
  readonly #slot: number
  readonly #clients: readonly Redis[]
  readonly #source: Redis
  readonly #target: Redis

  private constructor(slot: number, clients: readonly Redis[], source: Redis, target: Redis) {
    this.#slot = slot
    this.#clients = clients
    this.#source = source
    this.#target = target
  }

  /** Begins to move the slot of a key to the last server of the cluster, or to the first one if that has it. */
  static async begin({ nodes }: RedisClusterServers, key: string): Promise<SlotMove> {
    const slot = slotOf(key)
    const clients = nodes.map(({ host, port }) => new Redis(port, host))
    const owners = await Promise.all(clients.map((client) => isOwner(client, key)))
    const source = clients[owners.indexOf(true)]
    const target = owners.at(-1) ? clients[0] : clients.at(-1)
    if (source === undefined || target === undefined) throw new Error(`expected a master to have the slot ${slot}`)
    const move = new SlotMove(slot, clients, source, target)
    await target.cluster('SETSLOT', slot, 'IMPORTING', await idOf(source))
    await source.cluster('SETSLOT', slot, 'MIGRATING', await idOf(target))
    for (const client of [source, target]) await client.config('RESETSTAT')
    return move
  }

  /** Moves a key. */
  async carry(key: string): Promise<void> {
    const { host, port } = this.#target.options
    await this.#source.call('MIGRATE', host as string, port as number, key, 0, 10_000)
  }

  /** Moves every key of the slot. */
  async carryAll(): Promise<void> {
    for (const key of await this.left()) await this.carry(key)
  }

  /** The keys of the slot that have not been moved yet. */
  async left(): Promise<readonly string[]> {
    return (await this.#source.cluster('GETKEYSINSLOT', this.#slot, 1_000)) as string[]
  }

  /** Resolves when the old master has refused a script that needs a key which it does not have. */
  untilRefused(): Promise<void> {
    const hasRefused = async (): Promise<boolean> => (await this.#source.info('errorstats')).includes('errorstat_ERR')
    return until(hasRefused, 'the old master to refuse a script')
  }

  /** Resolves when the new master has found half of a message only. */
  untilTorn(): Promise<void> {
    const isTorn = async (): Promise<boolean> => (await this.#target.info('errorstats')).includes('errorstat_TRYAGAIN')
    return until(isTorn, 'the new master to miss half of a message')
  }

  /** When a key expires that has not been moved yet, as Redis says it. */
  expiryAtSource(key: string): Promise<number> {
    return this.#source.pexpiretime(key)
  }

  /** The slot belongs to the other master from now on. Everybody is told: word of it may take long to spread on a busy machine. */
  async end(): Promise<void> {
    const id = await idOf(this.#target)
    const others = this.#clients.filter((client) => client !== this.#target && client !== this.#source)
    for (const client of [this.#target, this.#source, ...others])
      await client.cluster('SETSLOT', this.#slot, 'NODE', id)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client.disconnect()
  }
}

async function isOwner(client: Redis, key: string): Promise<boolean> {
  return client.exists(key).then(
    () => true,
    () => false,
  )
}

async function idOf(client: Redis): Promise<string> {
  return String(await client.cluster('MYID'))
}
