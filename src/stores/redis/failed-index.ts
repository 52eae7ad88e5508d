import { randomUUID } from 'node:crypto'
import type {
  Audit,
  FailedFilter,
  FailedGroup,
  FailedMessage,
  FailedWhere,
  StoreFailed,
} from '../../contracts/index.ts'
import { newMark, numberOf as rowNumber, seqOf } from '../../message/index.ts'
import { readClaim } from './claim.ts'
import { type Commands, isDone, listOf, numberOf, wordOf } from './commands.ts'
import { readPast, unpackMessage, unpackReceipt } from './message.ts'
import { type Names, ofEntry } from './names.ts'
import { HISTORY_FIELDS } from './remembering.ts'
import * as scripts from './scripts.ts'

/** What the filters look at. */
interface Summary {
  readonly entry: string
  readonly seq: string
  readonly consumer: string
  readonly type: string
  readonly reason: string
  readonly errorHash: string
  readonly failedAt: Date
  readonly id: string
}

const SUMMARY = ['q', 'c', 're', 'eh', 'fa'] as const
const WHOLE = ['q', 'c', 're', 'er', 'eh', 'fa', 'me', ...HISTORY_FIELDS] as const

/**
 * The list of failed messages. The claims decide: an entry whose claim has moved on is taken out by the process that finds it. An entry is
 * written after its claim failed, and goes after its retry stands in the line, so that a process that dies in between leaves one
 * too many, never one too few.
 */
export class FailedIndex implements Omit<StoreFailed, 'edit'> {
  readonly #commands: Commands
  readonly #names: Names

  constructor(commands: Commands, names: Names) {
    this.#commands = commands
    this.#names = names
  }

  /** The name of the next failure. */
  async next(): Promise<string> {
    return seqOf(wordOf(await this.#commands.call('INCR', this.#names.seq)), newMark())
  }

  async add(failed: string): Promise<void> {
    await this.#commands.call('ZADD', this.#names.failed, 'NX', rowNumber(ofEntry(failed).seq), failed)
  }

  async list({ before, limit, ...where }: FailedFilter): Promise<readonly FailedMessage[]> {
    const found: string[] = []
    for await (const summary of this.#matching(where, 'newest', before)) {
      found.push(summary.entry)
      if (found.length === limit) break
    }
    const rows = await Promise.all(found.map((each) => this.#whole(each)))
    return rows.filter((row) => row !== undefined)
  }

  async count(where: FailedWhere): Promise<number> {
    const filtered = Object.values(where).some((value) => value !== undefined)
    if (!filtered) return numberOf(await this.#commands.call('ZCARD', this.#names.failed))
    let count = 0
    for await (const _ of this.#matching(where, 'newest')) count += 1
    return count
  }

  async groups(where: FailedWhere, limit: number): Promise<readonly FailedGroup[]> {
    const groups = new Map<string, { newest: Summary; firstAt: Date; count: number }>()
    for await (const summary of this.#matching(where, 'newest')) {
      const { consumer, type, reason, errorHash, failedAt } = summary
      const key = JSON.stringify([consumer, type, reason, errorHash])
      const group = groups.get(key) ?? { newest: summary, firstAt: failedAt, count: 0 }
      groups.set(key, { ...group, firstAt: failedAt, count: group.count + 1 })
    }
    const largest = [...groups.values()].sort((a, b) => b.count - a.count).slice(0, limit)
    const rows = await Promise.all(largest.map(({ newest }) => this.#whole(newest.entry)))
    return largest.flatMap(({ newest, firstAt, count }, index) => {
      const error = rows[index]?.error
      const { consumer, type, reason, errorHash, failedAt, seq } = newest
      if (error === undefined) return []
      return [
        { origin: 'inbox' as const, consumer, type, reason, errorHash, count, firstAt, lastAt: failedAt, error, seq },
      ]
    })
  }

  async seqs(where: FailedWhere, after: string | undefined, limit: number): Promise<readonly string[]> {
    const seqs: string[] = []
    for await (const { seq } of this.#matching(where, 'oldest', after)) {
      seqs.push(seq)
      if (seqs.length === limit) break
    }
    return seqs
  }

  async get(seq: string): Promise<FailedMessage | undefined> {
    const found = await this.#entryOf(seq)
    return found === undefined ? undefined : this.#whole(found)
  }

  /** Failed messages with this id. */
  async withId(id: string): Promise<readonly FailedMessage[]> {
    const found: FailedMessage[] = []
    for await (const summary of this.#matching({}, 'newest')) {
      if (summary.id !== id) continue
      const row = await this.#whole(summary.entry)
      if (row !== undefined) found.push(row)
    }
    return found
  }

  /** First the claim, then the line, then out of the list. What is on its way is noted before, so that `tidy` finds it after a crash. */
  async retry(seq: string, audit: Audit): Promise<boolean> {
    const found = await this.#entryOf(seq)
    if (found === undefined) return false
    await this.#commands.run(scripts.ENQUEUE, this.#names.moving, ['0', found])
    const key = this.#names.key(ofEntry(found).name)
    const [done] = await this.#commands.run(scripts.RETRY, key, [randomUUID(), JSON.stringify(audit), seq])
    if (isDone(done)) await this.#intoLine(found)
    await this.#commands.call('ZREM', this.#names.moving, found)
    return isDone(done)
  }

  async discard(seq: string, audit: Audit): Promise<boolean> {
    const found = await this.#entryOf(seq)
    if (found === undefined) return false
    const key = this.#names.key(ofEntry(found).name)
    const [done] = await this.#commands.run(scripts.DISCARD, key, [randomUUID(), JSON.stringify(audit), seq])
    if (isDone(done)) await this.#commands.call('ZREM', this.#names.failed, found)
    return isDone(done)
  }

  /** Ends retries whose process died in the middle. */
  async tidy(): Promise<void> {
    const stranded = await this.#commands.run(scripts.STRANDED, this.#names.moving, [String(STRANDED_MS)])
    for (const each of stranded) {
      const found = wordOf(each)
      // Later, behind the others: nothing else would find it again.
      if ((await this.#summary(found)) === 'torn')
        await this.#commands.run(scripts.POSTPONE, this.#names.moving, ['0', found])
      else await this.#commands.call('ZREM', this.#names.moving, found)
    }
  }

  async #entryOf(seq: string): Promise<string | undefined> {
    const number = rowNumber(seq)
    const found = await this.#commands.call('ZRANGE', this.#names.failed, number, number, 'BYSCORE')
    return listOf(found)
      .map(wordOf)
      .find((each) => ofEntry(each).seq === seq)
  }

  async #intoLine(waiting: string): Promise<void> {
    await this.#commands.run(scripts.ENQUEUE, this.#names.lineOf(ofEntry(waiting).name), ['0', waiting])
    await this.#commands.call('ZREM', this.#names.failed, waiting)
  }

  async *#matching(where: FailedWhere, from: 'newest' | 'oldest', beyond?: string): AsyncGenerator<Summary> {
    // Nothing is ever edited or sent here.
    if (where.origin === 'outbox' || where.replaced) return
    const now = await this.#now(where)
    let last = beyond
    for (;;) {
      const entries = await this.#page(from, last)
      const summaries = await Promise.all(entries.map((each) => this.#summary(each)))
      for (const summary of summaries) if (typeof summary === 'object' && matches(summary, where, now)) yield summary
      const end = entries.at(-1)
      if (end === undefined) return
      last = ofEntry(end).seq
    }
  }

  async #page(from: 'newest' | 'oldest', beyond: string | undefined): Promise<readonly string[]> {
    const [first, end] = from === 'newest' ? ['+inf', '-inf'] : ['-inf', '+inf']
    const start = beyond === undefined ? first : `(${rowNumber(beyond)}`
    const words = [start, end, 'BYSCORE', ...(from === 'newest' ? ['REV'] : []), 'LIMIT', '0', PAGE]
    const page = await this.#commands.call('ZRANGE', this.#names.failed, ...words)
    return listOf(page).map(wordOf)
  }

  /** The time of Redis, if the filter needs it. */
  async #now({ olderThanMs, newerThanMs }: FailedWhere): Promise<number> {
    if (olderThanMs === undefined && newerThanMs === undefined) return 0
    const [time] = await this.#commands.onEach('TIME')
    return numberOf(listOf(time)[0]) * 1000
  }

  /** What an entry stands for; if its claim has moved on, it is brought where it belongs, unless half of the claim is missing. */
  async #summary(found: string): Promise<Summary | 'torn' | undefined> {
    const { name, seq } = ofEntry(found)
    const { state, receipt, torn, more } = await readClaim(this.#commands, this.#names.key(name), SUMMARY)
    // What is done belongs nowhere, whatever is missing.
    if (torn && state !== 'd') return 'torn'
    const same = more.text() === seq
    if (state === 'f' && same) {
      const { type, id } = unpackReceipt(receipt)
      const [consumer, reason, errorHash] = [more.text(), more.text(), more.text()]
      return { entry: found, seq, consumer, type, id, reason, errorHash, failedAt: more.date() }
    }
    if (state === 'o' && same) await this.#intoLine(found)
    else await this.#commands.call('ZREM', this.#names.failed, found)
    return undefined
  }

  async #whole(found: string): Promise<FailedMessage | undefined> {
    const { name, seq } = ofEntry(found)
    const { state, attempts, receipt, more } = await readClaim(this.#commands, this.#names.key(name), WHOLE)
    if (state !== 'f' || more.text() !== seq) return undefined
    const [consumer, reason] = [more.text(), more.text()]
    const error = JSON.parse(more.text())
    const [errorHash, failedAt] = [more.text(), more.date()]
    const message = { ...unpackReceipt(receipt), ...unpackMessage(more.text()) }
    const rest = { origin: 'inbox', held: false, replacedBy: null } as const
    const past = readPast(more)
    return { seq, consumer, message, attempts, reason, error, errorHash, failedAt, ...past, ...rest }
  }
}

/** How many entries are read at once. */
const PAGE = '200'
/** A retry takes moments; what is on its way for longer has been left there. */
const STRANDED_MS = 60_000

function matches(summary: Summary, where: FailedWhere, now: number): boolean {
  const { olderThanMs, newerThanMs } = where
  const age = now - summary.failedAt.getTime()
  if (olderThanMs !== undefined && age < olderThanMs) return false
  if (newerThanMs !== undefined && age > newerThanMs) return false
  return (['consumer', 'type', 'reason', 'errorHash'] as const).every(
    (name) => where[name] === undefined || where[name] === summary[name],
  )
}
