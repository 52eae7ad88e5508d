import { retryDelay } from './backoff.ts'
import type { Confirmation, Destination, OutgoingMessage } from './broker.ts'
import { type Engine, persist } from './engine.ts'
import { asError, HapaxError, messageOf, recordError } from './errors.ts'
import { grouping, soonest } from './grouping.ts'
import { Hand } from './hand.ts'
import { ALL_LANES } from './lanes.ts'
import { DRAIN_LIMIT, type Line } from './line.ts'
import type { Membership } from './membership.ts'
import { unpackAttributes } from './message.ts'
import { ref } from './reporter.ts'
import { Rotation } from './rotation.ts'
import type { Entry, Look, OutboxMessage, Share } from './store.ts'

/** What a relay needs of its worker. */
export interface RelayOptions<Tx> {
  readonly engine: Engine<Tx>
  readonly name: string
  readonly destination: Destination
  readonly membership: Pick<Membership, 'lanesOfRelay'>
  /** Whether published messages are kept. */
  readonly keep: boolean
  readonly signal: AbortSignal
  changed(): void
  report(error: Error): void
}

/**
 * Moves the outbox to a destination: reads what is there, sends it, and deletes exactly what the broker has confirmed. No
 * transaction is open meanwhile. Two relays that send the same rows in order only make duplicates under the same id.
 */
export class Relay<Tx> implements Line {
  readonly #options: RelayOptions<Tx>
  readonly #hand = new Hand()
  readonly #running = new Set<Promise<void>>()
  #queue: Entry[][] = []
  #confirmed: string[] = []
  #deleting = false
  readonly #rotation = new Rotation()
  #nextMs: number | undefined
  /** What the next call of the destination takes along. */
  readonly #leaving: { readonly row: OutboxMessage; readonly resolve: (sent: Confirmation) => void }[] = []
  /** Rows that did not come through while others did, and until when to leave them alone. */
  readonly #avoided = new Map<string, { times: number; until: number }>()
  #confirmedAt = Number.NEGATIVE_INFINITY
  /** Times in a row that the destination was not there, and until when to leave it alone. */
  #down = { times: 0, until: 0 }

  constructor(options: RelayOptions<Tx>) {
    this.#options = options
  }

  get idle(): boolean {
    return this.#hand.size === 0
  }

  get unfinished(): boolean {
    return this.#rotation.unfinished
  }

  get nextMs(): number | undefined {
    const pauseMs = this.#down.until - this.#options.engine.clock.monotonic()
    return pauseMs > 0 ? pauseMs : this.#nextMs
  }

  get running(): readonly Promise<void>[] {
    return [...this.#running]
  }

  /** The next batch is read while confirms of the last one are outstanding. */
  shares(): readonly Share[] {
    const full = this.#hand.size > WINDOW / 2 || this.#hand.bytes > WINDOW_BYTES / 2
    if (full || this.#isDown()) return []
    this.#hand.looking()
    const lanes = this.#options.membership.lanesOfRelay(this.#options.name)
    return lanes.length === 0 ? [] : [this.#share(lanes, WINDOW - this.#hand.size, this.#rotation.after)]
  }

  allShares(after: ReadonlyMap<number, string>): readonly [Share] {
    return [this.#share(after.size === 0 ? ALL_LANES : [...after.keys()], DRAIN_LIMIT, after)]
  }

  isDue({ dueMs, held }: Entry): boolean {
    return dueMs <= 0 && !held
  }

  offer(looks: readonly Look[]): boolean {
    const entries = looks.flatMap((look) => look.entries)
    this.#rotation.seen(new Map(looks.flatMap((look) => [...look.after])))
    this.#nextMs = soonest(looks, entries)
    const { turns } = grouping(entries, {
      room: WINDOW - this.#hand.size,
      size: WINDOW,
      roomBytes: WINDOW_BYTES - this.#hand.bytes,
      bytes: BATCH_BYTES,
      ready: (entry) => this.#isReady(entry),
    })
    // Of a key that is too much for one batch only the first part: two at once could overtake one another.
    const taken = turns.map(([first = []]) => [...first])
    for (const { seq, bytes } of taken.flat()) this.#hand.take(seq, bytes)
    this.#queue.push(...taken)
    return taken.length > 0
  }

  begin(): void {
    if (this.#options.signal.aborted) return
    for (const batch of this.#queue.splice(0)) this.#track(this.#send(batch))
  }

  drop(): void {
    for (const batch of this.#queue.splice(0)) this.#letGo(batch)
  }

  #share(lanes: readonly number[], limit: number, after: ReadonlyMap<number, string>): Share {
    return { table: 'outbox', scope: this.#options.name, types: [], lanes, limit, after }
  }

  #isDown(): boolean {
    return this.#down.until > this.#options.engine.clock.monotonic()
  }

  #track(work: Promise<void>): void {
    const run = work
      .catch((error: unknown) => this.#options.report(asError(error)))
      .finally(() => {
        this.#running.delete(run)
        this.#options.changed()
      })
    this.#running.add(run)
  }

  /** Reads a batch and sends it, key by key: the next message of a key goes when the one before it is confirmed. */
  async #send(batch: readonly Entry[]): Promise<void> {
    let rows: readonly OutboxMessage[]
    try {
      rows = await this.#options.engine.store.outboxRows(batch.map((entry) => entry.seq))
    } catch (error) {
      this.#letGo(batch)
      throw error
    }
    const there = new Map(rows.map((row) => [row.seq, row]))
    const chains = new Map<string, OutboxMessage[]>()
    for (const entry of batch) {
      const row = there.get(entry.seq)
      // Somebody else has sent it.
      if (row === undefined) this.#letGo([entry])
      else chain(chains, entry.key ?? `\0${entry.seq}`, row)
    }
    const sending = [...chains.values()].map((rows) => this.#sendChain(rows))
    const failed = (await Promise.allSettled(sending)).find((each) => each.status === 'rejected')
    if (failed !== undefined) throw failed.reason
  }

  /** The messages of one key, or one without. What is not confirmed in the end is let go. */
  async #sendChain(rows: readonly OutboxMessage[]): Promise<void> {
    const left = new Set(rows)
    const send = async (row: OutboxMessage): Promise<boolean> => {
      const confirmed = await this.#settle(row, this.#options.engine.clock.monotonic(), await this.#enqueue(row))
      if (confirmed) left.delete(row)
      return confirmed
    }
    try {
      if (this.#options.destination.features.keepsOrder) await Promise.all(rows.map(send))
      else for (const row of rows) if (!(await send(row))) return
    } finally {
      this.#letGo([...left])
    }
  }

  /** What is to be sent in the same moment goes to the destination in one call. */
  #enqueue(row: OutboxMessage): Promise<Confirmation> {
    return new Promise((resolve) => {
      this.#leaving.push({ row, resolve })
      if (this.#leaving.length === 1) queueMicrotask(() => this.#flush())
    })
  }

  #flush(): void {
    const leaving = this.#leaving.splice(0)
    const answers = this.#publish(leaving.map(({ row }) => row))
    for (const [index, { resolve }] of leaving.entries()) void answers[index]?.then(resolve)
  }

  /** One answer each, in time, whatever the destination does. */
  #publish(rows: readonly OutboxMessage[]): readonly Promise<Confirmation>[] {
    const { destination, signal, engine } = this.#options
    const limit = new AbortController()
    const late = new Promise<Confirmation>((resolve) => {
      const end = (): void => {
        limit.abort()
        resolve(unavailable(new HapaxError('broker-timeout', `the broker did not answer within ${CONFIRM_MS} ms`)))
      }
      const cancel = engine.clock.after(CONFIRM_MS, end)
      signal.addEventListener('abort', end, { once: true })
      limit.signal.addEventListener('abort', () => {
        cancel()
        signal.removeEventListener('abort', end)
      })
    })
    let sent: readonly Promise<Confirmation>[]
    try {
      sent = destination.publish(rows.map(outgoing), limit.signal)
    } catch (error) {
      sent = rows.map(() => Promise.resolve(unavailable(error)))
    }
    const answers = rows.map((_, index) => Promise.race([answerOf(sent[index]), late]))
    void Promise.all(answers).then(() => limit.abort())
    return answers
  }

  /** Whether the next message of its key may go. */
  async #settle(row: OutboxMessage, sentAt: number, sent: Confirmation): Promise<boolean> {
    if (sent.status === 'confirmed') this.#confirm(row)
    else if (sent.status === 'unavailable') this.#isUnavailable(row, sentAt, sent.error)
    else if (sent.status === 'refused') await this.#refused(row, sent.error)
    else await this.#postpone(row, sent.error)
    return sent.status === 'confirmed'
  }

  #confirm(row: OutboxMessage): void {
    const { events } = this.#options.engine
    this.#down = { times: 0, until: 0 }
    this.#confirmedAt = this.#options.engine.clock.monotonic()
    this.#avoided.delete(row.seq)
    this.#confirmed.push(row.seq)
    events.emit('relayed', () => ({ relay: row.relay, message: ref(row.message) }))
    if (this.#deleting) return
    this.#deleting = true
    this.#track(this.#deleteConfirmed())
  }

  /** Deletes what has been confirmed until now, and again what was meanwhile. */
  async #deleteConfirmed(): Promise<void> {
    const { engine, keep } = this.#options
    // What is confirmed in the same moment goes with it.
    await null
    try {
      while (this.#confirmed.length > 0) {
        const seqs = this.#confirmed.splice(0, WINDOW)
        try {
          await persist(engine, () => engine.store.confirm(seqs, keep))
        } finally {
          // What could not be deleted is sent again.
          for (const seq of seqs) this.#hand.letGo(seq)
        }
        this.#options.changed()
      }
    } finally {
      this.#deleting = false
      // What was confirmed while that failed is sent again as well.
      for (const seq of this.#confirmed.splice(0)) this.#hand.letGo(seq)
    }
  }

  async #postpone(row: OutboxMessage, error: Error): Promise<void> {
    const { engine } = this.#options
    const delayMs = retryDelay(POLICY, row.attempts + 1, engine.random)
    const event = { relay: row.relay, message: ref(row.message), attempt: row.attempts + 1, delayMs, error }
    engine.logger.warn({ ...event, error: messageOf(error) }, 'the broker did not take a message; trying again later')
    engine.events.emit('relay-retrying', () => event)
    await persist(engine, () => engine.store.postpone([{ seq: row.seq, delayMs, error: recordError(error) }]))
  }

  async #refused(row: OutboxMessage, error: Error): Promise<void> {
    const { engine } = this.#options
    const held = row.message.key !== null
    const event = { relay: row.relay, message: ref(row.message), held, error }
    engine.logger.error({ ...event, error: messageOf(error) }, 'the broker refused a message for good')
    const record = { seq: row.seq, reason: 'refused-by-broker', error: recordError(error), hold: held }
    if (await persist(engine, () => engine.store.refuse(record))) engine.events.emit('relay-failed', () => event)
  }

  /**
   * Nobody's fault: no attempt is used up, and nothing is sent for a while; only not this message, if others came through
   * meanwhile.
   */
  #isUnavailable(row: OutboxMessage, sentAt: number, error: Error): void {
    const { engine, name, destination } = this.#options
    const now = engine.clock.monotonic()
    if (this.#confirmedAt >= sentAt - ALIVE_MS) {
      const times = (this.#avoided.get(row.seq)?.times ?? 0) + 1
      if (this.#avoided.size >= WINDOW) this.#avoided.clear()
      this.#avoided.set(row.seq, { times, until: now + retryDelay(DOWN, times, engine.random) })
      return
    }
    if (this.#isDown()) return
    const times = this.#down.times + 1
    const pauseMs = retryDelay(DOWN, times, engine.random)
    this.#down = { times, until: now + pauseMs }
    const event = { relay: name, destination: destination.name, pauseMs, error }
    engine.logger.warn({ ...event, error: messageOf(error) }, 'the broker is not available; trying again later')
    engine.events.emit('relay-down', () => event)
  }

  #isReady({ seq, dueMs, held }: Entry): boolean {
    if (dueMs > 0 || held || !this.#hand.isFree(seq)) return false
    return (this.#avoided.get(seq)?.until ?? 0) <= this.#options.engine.clock.monotonic()
  }

  #letGo(rows: readonly { readonly seq: string }[]): void {
    for (const { seq } of rows) this.#hand.letGo(seq)
  }
}

/** Messages that are read or under way at once. */
const WINDOW = 2_000
/** How long to wait for the broker's answer; then the message is sent again, later. */
const CONFIRM_MS = 30_000
/** A destination that has confirmed something so lately is there. */
const ALIVE_MS = 1_000
const WINDOW_BYTES = 64 * 1024 * 1024
const BATCH_BYTES = 16 * 1024 * 1024
const POLICY = { attempts: Number.POSITIVE_INFINITY, minDelayMs: 500, maxDelayMs: 300_000, factor: 2 }
const DOWN = { attempts: Number.POSITIVE_INFINITY, minDelayMs: 100, maxDelayMs: 30_000, factor: 2 }

function chain(chains: Map<string, OutboxMessage[]>, key: string, row: OutboxMessage): void {
  const rows = chains.get(key)
  if (rows === undefined) chains.set(key, [row])
  else rows.push(row)
}

function outgoing({ message }: OutboxMessage): OutgoingMessage {
  return { ...unpackAttributes(message), data: message.data }
}

function answerOf(sent: Promise<Confirmation> | undefined): Promise<Confirmation> {
  return sent === undefined
    ? Promise.resolve(unavailable(new Error('the destination gave no answer for this message')))
    : sent.catch(unavailable)
}

/** What a destination throws, against its contract, says nothing about the message. */
function unavailable(error: unknown): Confirmation {
  return { status: 'unavailable', error: asError(error) }
}
