// What a worker does with claims. Each step that decides is one script on one key, because a cluster has no transactions across slots.
// What belongs to it elsewhere (the list of failed messages, the line of retries) follows, and is repaired if the process dies between.

import type { Clock } from '../../base/index.ts'
import { errorHash, expected } from '../../base/index.ts'
import type {
  ArrivalOptions,
  Claimed,
  ClaimOptions,
  Failure,
  FinishedLease,
  Lease,
  Receipt,
  Release,
  StoreClaims,
  StoredClaim,
  StoredResponse,
} from '../../contracts/index.ts'
import type { StoredMessage } from '../../message/index.ts'
import { type Commands, isDone, numberOf, type Replies, textOf, wordOf } from './commands.ts'
import type { FailedIndex } from './failed-index.ts'
import type { Item } from './gathering.ts'
import type { Known } from './known.ts'
import { fenceOf, holder, packMessage, packReceipt, readMessage, unpackReceipt } from './message.ts'
import { entry, type Names, ofEntry } from './names.ts'
import { packResponse, unpackResponse } from './response.ts'
import * as scripts from './scripts.ts'

/** What claims are made of. */
export interface ClaimsParts {
  readonly commands: Commands
  readonly names: Names
  readonly index: FailedIndex
  readonly known: Known
  readonly clock: Clock
}

/** Claims of messages, and how they end. */
export class Claims implements StoreClaims {
  readonly #commands: Commands
  readonly #names: Names
  readonly #index: FailedIndex
  readonly #known: Known
  readonly #clock: Clock
  #tidiedAt = Number.NEGATIVE_INFINITY
  /** The time of the last full scan of each line. */
  readonly #reviewedAt = new Map<string, number>()

  constructor({ commands, names, index, known, clock }: ClaimsParts) {
    this.#commands = commands
    this.#names = names
    this.#index = index
    this.#known = known
    this.#clock = clock
  }

  /**
   * Claims messages, those of one call in few scripts. A message that is `busy` or `waiting` has to be delivered again later.
   */
  async claim(
    consumer: string,
    messages: readonly StoredMessage[],
    { token, leaseMs, alone, strict = false, findableMs }: ArrivalOptions,
  ): Promise<readonly Claimed[]> {
    await this.#known.note(consumer, findableMs === undefined ? messages : [])
    const items = messages.map((message) => {
      const name = this.#names.claim(consumer, message.messageKey)
      return { name, key: this.#names.key(name), head: token, word: packReceipt(message) }
    })
    checkToken(token)
    const claimed: Claimed[] = []
    const failed: string[] = []
    const words = [String(leaseMs), (alone ? '1' : '0') + (strict ? 's' : '')]
    await this.#commands.runEach(scripts.CLAIM, items, words, (replies, { name }, index) => {
      claimed[index] = readClaim(replies, name, token, (seq) => failed.push(entry(name, seq)))
    })
    // The process that marked them as failed may have died before it added them to the list.
    if (failed.length > 0) await Promise.all(failed.map((each) => this.#index.add(each)))
    if (findableMs !== undefined)
      this.#known.find(
        consumer,
        messages.filter((_, at) => claimed[at]?.kind === 'ours'),
        findableMs,
      )
    return claimed
  }

  /** Those that people want to be tried again. What stands in the line and does not belong there is taken out. */
  async claimStored(
    consumer: string,
    { token, leaseMs, limit }: ClaimOptions & { readonly limit: number },
  ): Promise<{ readonly claims: readonly StoredClaim[]; readonly nextMs: number | undefined }> {
    checkToken(token)
    const line = this.#names.line(consumer)
    await this.#tidy(line)
    const [left, ...entries] = await this.#commands.run(scripts.DUE, line, [String(Math.min(limit, AT_ONCE))])
    const nextMs = textOf(left) === '' ? undefined : numberOf(left)
    if (entries.length === 0) return { claims: [], nextMs }
    const items = entries.map((each) => {
      const stored = wordOf(each)
      const { name, seq } = ofEntry(stored)
      return { name, entry: stored, key: this.#names.key(name), head: token, word: seq }
    })
    const claims: StoredClaim[] = []
    // Not before all results are in: if one call fails, these would be left without a listener.
    const after: (() => Promise<unknown>)[] = []
    await this.#commands.runEach(scripts.CLAIM_STORED, items, [String(leaseMs)], (replies, item) => {
      const kind = replies.text()
      if (kind === 'ours') claims.push(readStored(replies, item.name, token))
      after.push(this.#next(kind, replies, { ...item, line, leaseMs }))
    })
    await Promise.all(after.map((each) => each()))
    return { claims, nextMs }
  }

  /** Now and then, while a worker looks for work anyway. */
  async #tidy(line: string): Promise<void> {
    const now = this.#clock.monotonic()
    if (now - (this.#reviewedAt.get(line) ?? Number.NEGATIVE_INFINITY) >= TIDY_MS) {
      this.#reviewedAt.set(line, now)
      await this.#commands.run(scripts.REVIEW, line, [])
    }
    if (now - this.#tidiedAt < TIDY_MS) return
    this.#tidiedAt = now
    await this.#index.tidy()
  }

  /** Prolongs leases; a lease whose time has passed is prolonged too, unless the message has been claimed since. */
  async renew(leases: readonly Lease[], leaseMs: number): Promise<ReadonlySet<string>> {
    const held = new Set<string>()
    await this.#commands.runEach(scripts.RENEW, this.#items(leases), [String(leaseMs)], (replies, { seq }) => {
      if (replies.number() === 1) held.add(seq)
    })
    return held
  }

  /** Ends messages as done. The receipt stays for the retention; an entry in the line of retries is removed after that. */
  async settle(leases: readonly FinishedLease[], retentionMs: number | 'forever'): Promise<ReadonlySet<string>> {
    const settled = new Set<string>()
    const over: (() => Promise<unknown>)[] = []
    const words = [retentionOf(retentionMs)]
    const collect = (answer: string, name: string): void => {
      if (answer === '0') return
      settled.add(name)
      if (answer !== '1') over.push(() => this.#leaveLine(name, answer.slice(1)))
    }
    const responses = leases.flatMap((lease) =>
      lease.response === undefined ? [] : [{ lease, response: lease.response }],
    )
    const plain = responses.length === 0 ? leases : leases.filter(({ response }) => response === undefined)
    await Promise.all([
      this.#commands.runEach(scripts.SETTLE, this.#items(plain), words, (replies, { seq }) =>
        collect(replies.text(), seq),
      ),
      ...responses.map(async ({ lease, response }) => collect(await this.#respond(lease, response, words), lease.seq)),
    ])
    if (over.length > 0) await Promise.all(over.map((each) => each()))
    return settled
  }

  /** One script for each: responses may be large, and Redis does nothing else while a script runs. */
  async #respond(lease: Lease, response: StoredResponse, words: readonly string[]): Promise<string> {
    const said = [...words, holder(lease), packResponse(response)]
    const [answer] = await this.#commands.run(scripts.RESPOND, this.#names.key(lease.seq), said)
    return wordOf(answer)
  }

  /** Gives messages back for another attempt. What a person has put up for a retry waits in the line, not for the broker. */
  async release(
    lease: Lease,
    { attempts, crashes = 0, delayMs, error, entry: line = '', forgetMs }: Release,
  ): Promise<boolean> {
    const { seq: name, token } = lease
    const delay = String(Math.round(delayMs))
    const end = [String(attempts), String(crashes), delay, JSON.stringify(error), line]
    const words = [token, fenceOf(lease), ...end, ...(forgetMs === undefined ? [] : [String(forgetMs)])]
    const [there, retried] = await this.#commands.run(scripts.RELEASE, this.#names.key(name), words)
    const again = textOf(retried)
    if (isDone(there) && again) await this.#postpone(this.#names.lineOf(name), entry(name, again), delayMs)
    return isDone(there)
  }

  /** Ends a message as failed. The claim decides; the list of failed messages follows, and is repaired if the process dies between. */
  async fail(consumer: string, lease: Lease, failure: Failure): Promise<boolean> {
    const { seq: name } = lease
    const attempts = String(failure.attempts)
    const words = [
      holder(lease),
      await this.#index.next(),
      attempts,
      failure.entry,
      ...failureFields(consumer, failure),
    ]
    const [there, seq, retried] = await this.#commands.run(scripts.FAIL, this.#names.key(name), words)
    if (!isDone(there)) return false
    await this.#index.add(entry(name, wordOf(seq)))
    const over = textOf(retried)
    if (over) await this.#leaveLine(name, over)
    return true
  }

  /** Keeps a message whose id another message has taken: under a name of its own, so that both are there. */
  async keep(consumer: string, failure: Failure): Promise<void> {
    const { message, attempts, entry: line } = failure
    const name = this.#names.conflict(consumer, message)
    const start = [await this.#index.next(), packReceipt(message), String(attempts), line]
    const words = [...start, ...failureFields(consumer, failure)]
    const [seq] = await this.#commands.run(scripts.KEEP, this.#names.key(name), words)
    const kept = textOf(seq)
    if (kept) await this.#index.add(entry(name, kept))
  }

  /** What was claimed together has one holder, which is sent once. */
  #items(leases: readonly Lease[]): readonly (Item & { readonly seq: string })[] {
    let [last] = leases
    let head = last === undefined ? '' : holder(last)
    return leases.map((lease) => {
      if (lease.token !== last?.token || lease.fence !== last.fence) head = holder(lease)
      last = lease
      return { seq: lease.seq, key: this.#names.key(lease.seq), head, word: undefined }
    })
  }

  /** What has to be done about an entry of a line, depending on the state of its claim. */
  #next(
    kind: string,
    replies: Replies,
    { name, entry: waiting, line, leaseMs }: { name: string; entry: string; line: string; leaseMs: number },
  ): () => Promise<unknown> {
    if (kind === 'gone') return () => this.#commands.call('ZREM', line, waiting)
    if (kind === 'failed') {
      const failed = entry(name, replies.text())
      return () => this.#failedAgain(line, waiting, failed)
    }
    const delayMs = kind === 'busy' ? replies.number() : leaseMs
    return () => this.#postpone(line, waiting, delayMs)
  }

  /** It failed again, and the process died before it moved the entry: into the list of failed messages, then out of the line. */
  async #failedAgain(line: string, waiting: string, failed: string): Promise<void> {
    await this.#index.add(failed)
    await this.#commands.call('ZREM', line, waiting)
  }

  #leaveLine(name: string, seq: string): Promise<unknown> {
    return this.#commands.call('ZREM', this.#names.lineOf(name), entry(name, seq))
  }

  #postpone(line: string, waiting: string, delayMs: number): Promise<unknown> {
    return this.#commands.run(scripts.POSTPONE, line, [String(Math.round(delayMs)), waiting])
  }
}

/** How many entries one look at a line returns: Lua can unpack some thousands. */
const AT_ONCE = 1_000

/** Claims have room for the text of a UUID. */
function checkToken(token: string): void {
  if (token.length !== 36) expected('token', 'the text of a UUID', token)
}

function readClaim(replies: Replies, name: string, token: string, failed: (seq: string) => void): Claimed {
  const kind = replies.text()
  switch (kind) {
    case '1':
      return { kind: 'ours', lease: { seq: name, token, fence: 1 }, attempts: 0, crashes: 0 }
    case 'ours':
      return { kind, ...readHistory(replies, name, token) }
    case 'taken': {
      const [state, more] = [replies.text(), replies.text()]
      if (state === 'f') failed(more)
      const receipt = readReceipt(replies)
      return { kind, receipt: state === 'r' ? { ...receipt, response: unpackResponse(more) } : receipt }
    }
    case 'waiting':
      return { kind, leftMs: replies.number() }
    case 'suspect':
      return { kind, crashes: replies.number() }
    default:
      return { kind: kind === 'torn' ? kind : 'busy' }
  }
}

function readHistory(
  replies: Replies,
  seq: string,
  token: string,
): Pick<StoredClaim, 'lease' | 'attempts' | 'crashes'> {
  const fence = replies.number()
  return { lease: { seq, token, fence }, attempts: replies.number(), crashes: replies.number() }
}

function readStored(replies: Replies, name: string, token: string): StoredClaim {
  return { ...readHistory(replies, name, token), message: readMessage(replies) }
}

function readReceipt(replies: Replies): Receipt {
  const token = replies.text()
  const takenAt = replies.date()
  return { token, takenAt, ...unpackReceipt(replies.text()) }
}

function retentionOf(retentionMs: number | 'forever'): string {
  return retentionMs === 'forever' ? '' : String(retentionMs)
}

function failureFields(consumer: string, { message, reason, error, retentionMs }: Failure): readonly string[] {
  const fields = {
    c: consumer,
    me: packMessage(message),
    re: reason,
    er: JSON.stringify(error),
    eh: errorHash(error),
    rt: retentionOf(retentionMs),
  }
  return Object.entries(fields).flat()
}

/** How often, in milliseconds, a worker looks for retries that a dead process has left half done. */
const TIDY_MS = 30_000
