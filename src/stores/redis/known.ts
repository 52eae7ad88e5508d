// Redis cannot list claims by consumer or source without a scan of all keys. What processes have seen is remembered, up to a limit, and
// is complete enough for people; no decision about a message depends on it.

import type { ClaimStatus, FailedWhere, StoreSubscriptions, SubscriptionRow } from '../../contracts/index.ts'
import { type Commands, listOf, numberOf, type Script, script, wordOf } from './commands.ts'
import type { Names } from './names.ts'

/** KEYS: what was seen. ARGV: how many at most, then what. Beyond that, nothing new is remembered. */
const REMEMBER: Script = script(`
for i = 2, #ARGV do
  if redis.call('SCARD', KEYS[1]) >= tonumber(ARGV[1]) then break end
  redis.call('SADD', KEYS[1], ARGV[i])
end
return {}
`)

/** What Redis remembers of consumers and senders, for people who ask. */
export class Known implements Pick<StoreSubscriptions, 'add' | 'list'> {
  readonly #commands: Commands
  readonly #names: Names
  readonly #seen = new Set<string>()

  constructor(commands: Commands, names: Names) {
    this.#commands = commands
    this.#names = names
  }

  async add(consumer: string, types: readonly string[]): Promise<void> {
    const pairs = types.map((type) => JSON.stringify([consumer, type]))
    if (pairs.length > 0) await this.#commands.call('SADD', this.#names.types, ...pairs)
    await this.#remember(this.#names.consumers, [consumer])
  }

  async list(): Promise<readonly SubscriptionRow[]> {
    return (await this.#all(this.#names.types)).map((each) => {
      const [consumer, type]: [string, string] = JSON.parse(each)
      return { consumer, type, ordered: false }
    })
  }

  /** Remembers who consumes, and whose messages: once per process. */
  async note(consumer: string, messages: readonly { readonly source: string }[]): Promise<void> {
    const sources = new Set<string>()
    for (const { source } of messages) sources.add(source)
    await this.#remember(this.#names.consumers, [consumer])
    await this.#remember(this.#names.sources, [...sources])
  }

  consumers(): Promise<readonly string[]> {
    return this.#all(this.#names.consumers)
  }

  sources(): Promise<readonly string[]> {
    return this.#all(this.#names.sources)
  }

  async status(failed: (where: FailedWhere) => Promise<number>): Promise<ClaimStatus> {
    const known = await this.list()
    const names = new Set([...(await this.consumers()), ...known.map(({ consumer }) => consumer)])
    const consumers = [...names].sort().map(async (consumer) => ({
      consumer,
      types: known
        .filter((each) => each.consumer === consumer)
        .map(({ type }) => type)
        .sort(),
      waiting: numberOf(await this.#commands.call('ZCARD', this.#names.line(consumer))),
      failed: await failed({ consumer }),
    }))
    return { consumers: await Promise.all(consumers) }
  }

  async #remember(key: string, values: readonly string[]): Promise<void> {
    const fresh = values.filter((value) => !this.#seen.has(JSON.stringify([key, value])))
    if (fresh.length === 0 || this.#seen.size > 2 * MOST) return
    await this.#commands.run(REMEMBER, key, [String(MOST), ...fresh])
    for (const value of fresh) this.#seen.add(JSON.stringify([key, value]))
  }

  async #all(key: string): Promise<readonly string[]> {
    return listOf(await this.#commands.call('SMEMBERS', key)).map(wordOf)
  }
}

/** How many senders, or consumers, are remembered. */
const MOST = 1_000
