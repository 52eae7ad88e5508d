// Redis cannot list claims by consumer or source without a scan of all keys. What processes have seen is remembered, up to a limit, and
// is complete enough for people; no decision about a message depends on it.

import type { ClaimStatus, FailedWhere, StoreSubscriptions, SubscriptionRow } from '../../contracts/index.ts'
import type { StoredMessage } from '../../message/index.ts'
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

/**
 * KEYS: requests with one id. ARGV: how long to remember them, how many at most, which. Those that come later make it longer, never
 * shorter.
 */
const FIND: Script = script(`
if redis.call('SCARD', KEYS[1]) < tonumber(ARGV[2]) then redis.call('SADD', KEYS[1], ARGV[3]) end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
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

  /**
   * Lets requests be found by their ids: each principal has a source of its own, too many to try. Nobody waits for it, because nothing
   * depends on it; what is lost is found by its source.
   */
  find(consumer: string, messages: readonly Pick<StoredMessage, 'id' | 'messageKey'>[], ms: number): void {
    for (const { id, messageKey } of messages) {
      const words = [String(ms), String(NAMESAKES), JSON.stringify([consumer, messageKey])]
      this.#commands.run(FIND, this.#names.ids(id), words).catch(() => {})
    }
  }

  /** Requests with this id. */
  async withId(id: string): Promise<readonly { readonly consumer: string; readonly key: string }[]> {
    return (await this.#all(this.#names.ids(id))).map((each) => {
      const [consumer, key]: [string, string] = JSON.parse(each)
      return { consumer, key }
    })
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
/** How many requests with one id are found by it: clients choose ids, and some choose badly. */
const NAMESAKES = 100
