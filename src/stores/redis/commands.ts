import { hash } from 'node:crypto'
import { asError, type Clock, describe, HapaxError, isHapaxError, messageOf, pause, within } from '../../base/index.ts'
import type { Way } from './client.ts'
import { Gathering, type Item } from './gathering.ts'

/**
 * A reply of Redis as the client returns it: a text, a number, bytes, null, or a list of these. Clients differ in which, so replies are
 * read by `textOf`, `numberOf` and `listOf` only.
 */
export type Reply = unknown

/** A script, and the name under which Redis keeps it. */
export interface Script {
  readonly text: string
  readonly sha: string
}

/** A script with its hash, by which Redis runs it again without its text. */
export function script(text: string): Script {
  return { text, sha: hash('sha1', text, 'hex') }
}

/**
 * Sends commands. Redis has to answer in time; a command whose answer was lost is sent again until then, which is why each of
 * them can be.
 */
export class Commands {
  readonly #way: Way
  readonly #timeoutMs: number
  readonly #clock: Clock
  readonly #gathering: Gathering

  constructor(way: Way, timeoutMs: number, clock: Clock) {
    this.#gathering = new Gathering((what, words, items) => this.#runAll(what, words, items), MOST)
    this.#way = way
    this.#timeoutMs = timeoutMs
    this.#clock = clock
  }

  /** A plain command on one key. */
  call(command: string, key: string, ...words: readonly string[]): Promise<Reply> {
    return this.#insist(() => this.#way.send([command, key, ...words], key))
  }

  /** A script on one key. */
  run(what: Script, key: string, words: readonly string[]): Promise<readonly Reply[]> {
    return this.#run(what, [key], words)
  }

  /**
   * A script that does the same to many keys, with `words` for all of them: in few calls, or in one for each key where they are not
   * on one server. `collect` reads the result for each item.
   */
  async runEach<T extends Item>(
    what: Script,
    items: readonly T[],
    words: readonly string[],
    collect: (replies: Replies, item: T, index: number) => void,
  ): Promise<void> {
    const size = this.#way.cluster ? 1 : MOST
    const calls: Promise<void>[] = []
    for (let from = 0; from < items.length; from += size) {
      const group = items.length <= size ? items : items.slice(from, from + size)
      calls.push(
        this.#ask(what, words, group, (replies) => {
          let index = from
          for (const item of group) collect(replies, item, index++)
        }),
      )
    }
    await Promise.all(calls)
  }

  /** A command that names no key, to each server that has data. */
  async onEach(...words: readonly string[]): Promise<readonly Reply[]> {
    const servers = await this.#insist(() => this.#way.servers())
    return Promise.all(servers.map((send) => this.#insist(() => send(words))))
  }

  /** Whether the client knows of several servers. */
  get cluster(): boolean {
    return this.#way.cluster
  }

  close(): void {
    this.#way.close()
  }

  async #ask(
    what: Script,
    words: readonly string[],
    items: readonly Item[],
    read: (replies: Replies) => void,
  ): Promise<void> {
    if (!this.#way.cluster && items.length < ENOUGH) return this.#gathering.ask(what, words, items, read)
    read(await this.#runAll(what, words, items))
  }

  async #runAll(what: Script, words: readonly string[], items: readonly Item[]): Promise<Replies> {
    const keys = items.map(({ key }) => key)
    const answer = await this.#run(what, keys, [...words, ...headed(items)])
    return answer.length === 0 ? new Ones([]) : new Replies(answer)
  }

  async #run({ sha, text }: Script, keys: readonly string[], words: readonly string[]): Promise<readonly Reply[]> {
    const [key] = keys
    const rest = [String(keys.length), ...keys, ...words]
    try {
      return await this.#insist(() => this.#script('EVALSHA', sha, rest, key))
    } catch (error) {
      // The server was started again, or is another one: it has not seen this script.
      if (!isHapaxError(error) || replyOf(error.cause) !== 'NOSCRIPT') throw error
      return this.#insist(() => this.#script('EVAL', text, rest, key))
    }
  }

  async #script(
    command: string,
    what: string,
    rest: readonly string[],
    key: string | undefined,
  ): Promise<readonly Reply[]> {
    return listOf(await this.#way.send([command, what, ...rest], key))
  }

  async #insist<T>(ask: () => Promise<T>): Promise<T> {
    const left = this.#countDown()
    for (let run = 1; ; run++) {
      try {
        return await this.#inTime(ask(), left())
      } catch (error) {
        const waitMs = Math.min(500, 10 * 2 ** run)
        if (!isPassing(error) || waitMs >= left()) throw unavailable(error)
        await pause(this.#clock, waitMs)
      }
    }
  }

  /** How many milliseconds are left. */
  #countDown(): () => number {
    const end = this.#clock.monotonic() + this.#timeoutMs
    return () => end - this.#clock.monotonic()
  }

  #inTime<T>(answer: Promise<T>, ms: number): Promise<T> {
    return within(this.#clock, Math.max(1, ms), answer, () => {
      this.#way.renew()
      throw new HapaxError('store-unavailable', `Redis did not answer within ${this.#timeoutMs} ms`)
    })
  }
}

/** The flat result of a script, read value by value. */
export class Replies {
  readonly #replies: readonly Reply[]
  #at = 0

  constructor(replies: readonly Reply[]) {
    this.#replies = replies
  }

  get more(): boolean {
    return this.#at < this.#replies.length
  }

  text(): string {
    return this.optional() ?? ''
  }

  optional(): string | null {
    return textOf(this.next())
  }

  number(): number {
    return numberOf(this.next())
  }

  date(): Date {
    return new Date(this.number())
  }

  protected next(): Reply {
    return this.#replies[this.#at++]
  }
}

/** The empty result of a script: 1 for each key, which is the usual case and the cheapest to send. */
class Ones extends Replies {
  override text(): string {
    return '1'
  }

  protected override next(): Reply {
    return 1
  }
}

/** A reply as a text: clients may be set to return bytes. */
export function textOf(reply: Reply): string | null {
  if (reply === null || reply === undefined) return null
  return reply instanceof Uint8Array ? Buffer.from(reply).toString() : String(reply)
}

/** A reply that is never null, as a text. */
export function wordOf(reply: Reply): string {
  return textOf(reply) ?? ''
}

/** A reply as a list: some clients return the members of a set as a Set. */
export function listOf(reply: Reply): readonly Reply[] {
  if (Array.isArray(reply)) return reply
  if (reply instanceof Set) return [...reply]
  // Not an empty list: to some scripts that means that all went well.
  throw new HapaxError('unrecognised-result', `expected a list from Redis, got ${describe(reply)}`)
}

/** A reply as a number: clients may be set to return texts. */
export function numberOf(reply: Reply): number {
  return typeof reply === 'number' ? reply : Number(textOf(reply))
}

/** Whether a command, or a script, did what it was asked to. */
export function isDone(reply: Reply): boolean {
  return numberOf(reply) === 1
}

/** How many keys one script is about: Redis does nothing else meanwhile. */
const MOST = 200
/** So many are worth a call of their own. */
const ENOUGH = 32

/** Heads, each with the number of neighbours that share it, and the words of all. */
function headed(items: readonly Item[]): readonly string[] {
  const heads: string[] = []
  let last: string | undefined
  let count = 0
  for (const { head } of items) {
    if (last !== undefined && head !== last) {
      heads.push(last, String(count))
      count = 0
    }
    last = head
    count += 1
  }
  if (last !== undefined) heads.push(last, String(count))
  const words = items.flatMap(({ word }) => word ?? [])
  return [String(heads.length / 2), ...heads, ...words]
}

/** What is wrong with the server for a moment. */
const PASSING: ReadonlySet<string> = new Set([
  'LOADING',
  'BUSY',
  'READONLY',
  'MASTERDOWN',
  'NOREPLICAS',
  'CLUSTERDOWN',
  'TRYAGAIN',
  'MOVED',
  'ASK',
])

/** Whether it is worth asking again: the link was lost, or the server is not ready. */
function isPassing(error: unknown): boolean {
  if (error instanceof HapaxError) return false
  const reply = replyOf(error)
  // A slot is being moved, and half of a message is on the other node.
  return (
    reply === undefined ||
    PASSING.has(reply) ||
    /^ERR (Script attempted|Attempted) to access a non local key/.test(messageOf(asError(error)))
  )
}

/** The first word of an error that Redis itself returned: such errors begin with a word in capitals. Undefined: the link failed. */
function replyOf(error: unknown): string | undefined {
  return error instanceof Error ? /^([A-Z][A-Z0-9]*)(?: |$)/.exec(messageOf(error))?.[1] : undefined
}

function unavailable(error: unknown): HapaxError {
  if (error instanceof HapaxError) return error
  const said = replyOf(error) === undefined ? 'Redis is not there' : 'Redis answered'
  return new HapaxError('store-unavailable', `${said}: ${messageOf(asError(error))}`, { cause: error })
}
