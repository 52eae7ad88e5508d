import { asError, Batcher, type Counts, collected, errorFields, retryDelay } from '../../base/index.ts'
import { aboutOf, howToSee, ref } from '../../consumer/index.ts'
import type { Confirmation, Destination, Entry, Look, OutboxMessage, Postponed, Share } from '../../contracts/index.ts'
import { ALL_LANES, recordFailure } from '../../message/index.ts'
import { type Engine, persist } from '../../transaction/index.ts'
import type { Membership } from '../membership.ts'
import { apart, BATCH, batchesOf, without } from './batches.ts'
import { distinctEntries, soonest } from './grouping.ts'
import { Avoided, Hand, Review, Rotation } from './hand.ts'
import { DRAIN_LIMIT, type Line } from './line.ts'
import { least, Reach } from './reach.ts'
import { AWAY, Pauses, Probe, Reaching, Sending } from './sending.ts'

/** What a relay uses of its hapax. */
type RelayEngine<Tx> = Pick<
  Engine<Tx>,
  'clock' | 'random' | 'tally' | 'detached' | 'events' | 'logger' | 'instrument' | 'worker' | 'redact'
> & { readonly store: Pick<Engine<Tx>['store'], 'outbox'> }

/** What a relay needs of its worker. */
export interface OutboxLineOptions<Tx> {
  readonly engine: RelayEngine<Tx>
  readonly name: string
  readonly destination: Destination
  readonly membership: Pick<Membership, 'lanesOfRelay' | 'nextLanesOfRelay' | 'reaches' | 'failing'>
  /** Whether published messages are kept. */
  readonly keep: boolean
  readonly signal: AbortSignal
  changed(): void
  report(error: Error): void
}

/**
 * Moves the outbox to a destination: reads rows, sends them, and deletes exactly those that the broker has confirmed. No transaction is
 * open meanwhile. If two workers send the same rows, the copies have the same id and the same order, so that consumers drop them.
 */
export class OutboxLine<Tx> implements Line {
  readonly #options: OutboxLineOptions<Tx>
  readonly #hand = new Hand()
  readonly #running = new Set<Promise<void>>()
  #queue: (readonly Entry[])[] = []
  /** What is in the queue. */
  #waiting = { rows: 0, bytes: 0 }
  readonly #deletions: Batcher<string>
  readonly #rotation = new Rotation()
  readonly #review: Review
  readonly #reach: Reach
  /** Rows in hand from lanes of other workers. */
  readonly #reached = new Set<string>()
  #nextMs: number | undefined
  readonly #sending: Sending
  /** Rows that did not get through while others did, or that another transaction has locked. */
  readonly #avoided: Avoided
  /** How often the queue was dropped; lets a batch that is being read notice it. */
  #drops = 0
  readonly #pauses: Pauses
  readonly #counts: Counts
  readonly #reaching: Reaching
  readonly #probe: Probe
  readonly #postponed: (row: Postponed) => Promise<unknown>
  readonly #inTurn: (work: () => Promise<void>) => Promise<unknown>

  constructor(options: OutboxLineOptions<Tx>) {
    const { engine } = options
    this.#options = options
    this.#review = new Review(engine.clock)
    this.#reach = new Reach(engine, STALE_MS)
    const tell = (reached: boolean): void => this.#tell(() => options.membership.reaches(options.name, reached))
    const failing = (error: Error | undefined): void =>
      this.#tell(() => options.membership.failing(options.name, error))
    this.#reaching = new Reaching({ clock: engine.clock, tell, failing })
    this.#sending = new Sending({
      ...engine,
      destination: options.destination,
      signal: options.signal,
      relay: options.name,
    })
    this.#pauses = new Pauses(engine)
    this.#probe = new Probe(engine.clock)
    this.#counts = engine.tally.of('outbox', options.name)
    this.#avoided = new Avoided(engine, AWAY, WINDOW)
    // A delete costs a commit, so it waits a moment for more rows, unless no other row is about to be confirmed.
    const enough = (waiting: number): boolean => waiting >= ENOUGH || this.#underWay === 0
    this.#deletions = new Batcher({
      run: (seqs) => this.#delete(seqs).finally(() => this.#gone(seqs)),
      dropped: (seqs) => this.#gone(seqs),
      most: MOST_DELETED,
      detached: engine.detached,
      gather: { clock: engine.clock, ms: GATHER_MS, enough },
    })
    this.#postponed = collected({ most: BATCH, detached: engine.detached }, (rows) =>
      persist(engine, () => engine.store.outbox.postpone(rows)).then(() => rows),
    )
    this.#inTurn = collected({ most: 1, detached: engine.detached }, (works) =>
      Promise.all(works.map((work) => work())),
    )
  }

  get relay(): string {
    return this.#options.name
  }

  /** Whether rows of these lanes are ours. */
  owns(lanes: (lane: number) => boolean): boolean {
    return this.#options.membership.lanesOfRelay(this.relay).some(lanes)
  }

  get idle(): boolean {
    return this.#hand.size === 0
  }

  get unfinished(): boolean {
    return this.#rotation.unfinished && this.#mayLook()
  }

  get nextMs(): number | undefined {
    return this.#pauses.leftMs > 0 ? this.#pauses.leftMs : least(this.#nextMs, this.#reach.nextMs)
  }

  get running(): readonly Promise<void>[] {
    return [...this.#running]
  }

  /** Looks for the next rows while the last ones are under way. */
  shares(): readonly Share[] {
    if (!this.#mayLook()) return []
    // A destination that can be asked shows by its answer that it is back; a try with messages would make them wait here.
    if (!this.#sending.canReach || this.#probe.inVain) this.#reaching.look()
    this.#hand.looking()
    const lanes = this.#options.membership.lanesOfRelay(this.#options.name)
    if (lanes.length === 0) {
      this.#ask()
      return []
    }
    const share = this.#share(lanes, LOOK, this.#rotation.after)
    // Those of one owner each: if it is only slow, for example because the broker is, no more than two send a message.
    const next = this.idle ? this.#options.membership.nextLanesOfRelay(this.#options.name) : []
    const foreign = next.length > 0 ? [this.#share(next, LOOK, new Map())] : []
    return [share, ...this.#review.of([share]), ...this.#reach.of([share], foreign)]
  }

  allShares(after: ReadonlyMap<number, string>): readonly [Share] {
    return [this.#share(after.size === 0 ? ALL_LANES : [...after.keys()], DRAIN_LIMIT, after)]
  }

  isDue({ dueMs, held }: Entry): boolean {
    return dueMs <= 0 && !held
  }

  reaches(looks: readonly Look[]): boolean {
    return this.#reach.finds(looks)
  }

  offer(looks: readonly Look[]): boolean {
    const own = this.#reach.own(looks)
    const [usual, ...review] = own
    const entries = review.length === 0 ? (usual?.entries ?? []) : distinctEntries(own.flatMap((look) => look.entries))
    this.#rotation.seen(usual?.after ?? new Map())
    this.#review.seen(review)
    this.#nextMs = soonest(own, entries)
    const loose = this.#reach.take(entries.length, BATCH, (entry) => this.#isReady(entry))
    for (const { seq } of loose) this.#reached.add(seq)
    const taken = batchesOf([...entries, ...loose], (entry) => this.#isReady(entry))
    this.#hand.looked()
    for (const batch of taken) this.#take(batch)
    if (taken.length === 0) this.#ask()
    return taken.length > 0
  }

  #take(batch: readonly Entry[]): void {
    for (const { seq, bytes } of batch) {
      this.#hand.take(seq, bytes)
      this.#waiting.bytes += bytes
    }
    this.#waiting.rows += batch.length
    this.#queue.push(batch)
  }

  begin(): void {
    if (this.#options.signal.aborted) return
    while (this.#hasRoom()) {
      const batch = this.#ours(this.#next())
      // Detached: room comes with a confirmation, in the context of a socket.
      if (batch.length > 0) this.#track(this.#options.engine.detached(this.#send, batch))
    }
  }

  drop(): void {
    this.#drops += 1
    while (this.#queue.length > 0) this.#letGo(this.#next())
  }

  /** Messages that are being read, or are sent and not confirmed. */
  get #underWay(): number {
    return this.#hand.size - this.#waiting.rows - this.#deletions.size
  }

  #hasRoom(): boolean {
    const [batch] = this.#queue
    if (batch === undefined) return false
    const bytes = this.#hand.bytes - this.#waiting.bytes
    return this.#underWay === 0 || (this.#underWay + batch.length <= WINDOW && bytes < WINDOW_BYTES)
  }

  #next(): readonly Entry[] {
    const batch = this.#queue.shift() ?? []
    this.#waiting.rows -= batch.length
    this.#waiting.bytes -= batch.reduce((sum, entry) => sum + entry.bytes, 0)
    return batch
  }

  /** Releases rows of lanes that have passed to another worker. */
  #ours(batch: readonly Entry[]): readonly Entry[] {
    const own = this.#options.membership.lanesOfRelay(this.#options.name)
    if (own.length === ALL_LANES.length) return batch
    const lanes = new Set(own)
    const isOurs = ({ lane, seq }: Entry): boolean => lanes.has(lane) || this.#reached.has(seq)
    this.#letGo(batch.filter((entry) => !isOurs(entry)))
    return batch.filter(isOurs)
  }

  #share(lanes: readonly number[], limit: number, after: ReadonlyMap<number, string>): Share {
    return { table: 'outbox', scope: this.#options.name, types: [], lanes, limit, after }
  }

  #mayLook(): boolean {
    return this.#hand.size <= WINDOW / 2 && this.#pauses.leftMs <= 0
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

  /** Reads a batch and sends it. If the queue is dropped meanwhile, the batch is released too: other workers may have it by now. */
  readonly #send = async (batch: readonly Entry[]): Promise<void> => {
    const drops = this.#drops
    const { store, clock, events } = this.#options.engine
    let rows: readonly OutboxMessage[]
    try {
      const seqs = batch.map((entry) => entry.seq)
      rows = await store.outbox.read(seqs, events.heard('relayed') || this.#counts.wantsLag)
    } catch (error) {
      this.#letGo(batch)
      throw error
    }
    if (drops !== this.#drops) return this.#letGo(batch)
    if (rows.length < batch.length) this.#letGo(without(batch, rows))
    const { keepsOrder } = this.#options.destination.features
    const { loose, chains } = keepsOrder ? { loose: rows, chains: [] } : apart(rows)
    const readAt = clock.monotonic()
    const sent = [this.#sendAll(loose, readAt), ...chains.map((chain) => this.#sendChain(chain, readAt))]
    const failed = (await Promise.allSettled(sent)).find(isRejected)
    if (failed !== undefined) throw failed.reason
  }

  /** Sends messages that need not wait for one another. Those that are not confirmed are released. */
  async #sendAll(rows: readonly OutboxMessage[], sentAt: number): Promise<void> {
    if (rows.length === 0) return
    const troubles: Promise<PromiseSettledResult<void>[]>[] = []
    /** Keys of which the broker did not accept a message. */
    const stuck = new Set<string>()
    await this.#sending.all(rows, (row, sent) => {
      const { key } = row.message
      if (sent.status === 'confirmed') this.#confirm(row, sentAt, sent.dropped)
      // The destination held it back behind such a message: that says nothing about the broker.
      else if (sent.status === 'unavailable' && key !== null && stuck.has(key)) this.#letGo([row])
      else {
        if (sent.status !== 'unavailable' && key !== null) stuck.add(key)
        troubles.push(Promise.allSettled([this.#notConfirmed(row, sentAt, sent)]))
      }
    })
    const failed = (await Promise.all(troubles)).flat().find(isRejected)
    if (failed !== undefined) throw failed.reason
  }

  /** Sends the messages of one key, each after the one before it is confirmed. Those that are not confirmed are released. */
  async #sendChain(rows: readonly OutboxMessage[], readAt: number): Promise<void> {
    const drops = this.#drops
    for (const [index, row] of rows.entries()) {
      if (drops !== this.#drops) return this.#letGo(rows.slice(index))
      const sentAt = this.#options.engine.clock.monotonic()
      const sent = await this.#sending.one(row)
      if (sent.status !== 'confirmed') {
        this.#letGo(rows.slice(index + 1))
        return this.#notConfirmed(row, sentAt, sent)
      }
      this.#confirm(row, readAt, sent.dropped)
    }
  }

  /** The row is released after its fate is recorded, so that the next look does not find it too early. */
  async #notConfirmed(
    row: OutboxMessage,
    sentAt: number,
    sent: Exclude<Confirmation, { status: 'confirmed' }>,
  ): Promise<void> {
    try {
      if (sent.status === 'unavailable') this.#isUnavailable(row, sentAt, sent.error)
      else if (sent.status === 'refused') await this.#refused(row, sent.error)
      else await this.#postpone(row, sent.error)
    } finally {
      this.#letGo([row])
    }
  }

  /** A confirmed row is deleted later, in a batch; until then it stays in hand, so that it is not sent again. */
  #confirm(row: OutboxMessage, readAt: number, dropped: Error | undefined): void {
    const { engine, changed, name } = this.#options
    this.#probe.confirmed()
    this.#isAvailable(this.#pauses.confirmed())
    this.#reaching.reached()
    const deleting = this.#deletions.put(row.seq)
    if (deleting !== undefined) this.#track(deleting)
    this.#count(row, readAt)
    if (dropped === undefined) {
      engine.events.emit('relayed', () => {
        const lagMs = row.ageMs === undefined ? undefined : row.ageMs + engine.clock.monotonic() - readAt
        return { relay: name, message: ref(row.message), lagMs }
      })
    } else {
      const event = { relay: name, message: ref(row.message) }
      engine.logger.debug(
        { ...aboutOf(event), ...errorFields(dropped) },
        'the broker dropped a message that no queue takes',
      )
      engine.events.emit('relay-dropped', () => ({ ...event, error: dropped }))
    }
    if (this.#hasRoom()) changed()
  }

  #count({ ageMs }: OutboxMessage, readAt: number): void {
    this.#counts.done += 1
    if (ageMs !== undefined && this.#counts.wantsLag) {
      this.#counts.lag(ageMs + this.#options.engine.clock.monotonic() - readAt)
    }
  }

  /** These rows are deleted, or could not be. */
  #gone(seqs: readonly string[]): void {
    this.#letGo(seqs.map((seq) => ({ seq })))
    this.#options.changed()
  }

  async #delete(seqs: readonly string[]): Promise<void> {
    const { engine, keep } = this.#options
    try {
      const locked = await persist(engine, () => engine.store.outbox.confirm(seqs, keep))
      this.#pauses.deleted()
      this.#deleted(seqs, locked)
    } catch (error) {
      // These rows will be found and sent again. The pause keeps that from filling a queue with copies.
      if (this.#pauses.notDeleted()) this.drop()
      throw error
    }
  }

  /** Rows that another transaction has locked are left alone for a while. Only the messages of their keys wait for them. */
  #deleted(seqs: readonly string[], locked: readonly string[]): void {
    const { engine, name } = this.#options
    const still = new Set(locked)
    this.#avoided.forget(still.size === 0 ? seqs : seqs.filter((seq) => !still.has(seq)))
    for (const seq of locked) this.#avoided.add(seq)
    if (locked.length === 0) return
    const what =
      'confirmed rows of the outbox are locked by another transaction and could not be deleted; they are sent again later'
    engine.logger.warn({ relay: name, rows: locked.length }, what)
  }

  /** The broker did not accept the message: it is tried again later, and the next messages of its key wait. */
  async #postpone(row: OutboxMessage, error: Error): Promise<void> {
    const { engine } = this.#options
    const delayMs = retryDelay(POLICY, row.attempts + 1, engine.random)
    const event = { relay: this.#options.name, message: ref(row.message), attempt: row.attempts + 1, delayMs, error }
    engine.logger.warn(
      { ...aboutOf(event), ...errorFields(error) },
      'the broker did not accept a message; trying again later',
    )
    this.#counts.retried += 1
    engine.events.emit('relay-retrying', () => event)
    await this.#postponed({ seq: row.seq, delayMs, ...recordFailure(engine, error) })
  }

  /** A refusal is final: the row moves to the failed store, and one with a key holds it until a person decides. */
  async #refused(row: OutboxMessage, error: Error): Promise<void> {
    const { engine } = this.#options
    const held = row.message.key !== null
    const event = { relay: this.#options.name, message: ref(row.message), held, error }
    engine.logger.error(
      { ...aboutOf(event), ...errorFields(error), ...howToSee(row.message) },
      'the broker refused a message for good',
    )
    const record = { seq: row.seq, reason: 'refused-by-broker', ...recordFailure(engine, error), hold: held }
    await this.#inTurn(async () => {
      if (!(await persist(engine, () => engine.store.outbox.refuse(record)))) return
      this.#counts.failed += 1
      engine.events.emit('relay-failed', () => event)
    })
  }

  /**
   * The broker cannot be reached. This uses up no attempt, and nothing is sent for a while. If other messages came through meanwhile,
   * only this one is left alone.
   */
  #isUnavailable(row: OutboxMessage, sentAt: number, error: Error): void {
    if (this.#pauses.isAlive(sentAt)) this.#avoided.add(row.seq)
    else this.#isDown(error)
  }

  /** Asks the destination whether it is back, if there is nothing to send that would show it. */
  #ask(): void {
    const idle = this.#pauses.isDown && this.#pauses.leftMs <= 0 && this.idle
    if (!idle || this.#options.signal.aborted || !this.#sending.canReach || !this.#probe.begin()) return
    this.#track(this.#options.engine.detached(this.#asked))
  }

  readonly #asked = async (): Promise<void> => {
    const askedAt = this.#options.engine.clock.monotonic()
    const failure = await this.#sending.reach().then(() => undefined, asError)
    this.#probe.ended(failure === undefined)
    if (this.#options.signal.aborted) return
    if (failure !== undefined) return this.#pauses.isAlive(askedAt) ? undefined : this.#isDown(failure)
    this.#isAvailable(this.#pauses.reached())
    this.#reaching.reached()
  }

  #isDown(error: Error): void {
    const { engine, name, destination } = this.#options
    const down = this.#pauses.unavailable()
    if (down === undefined) return
    this.#probe.missed()
    this.#reaching.missed(error)
    this.drop()
    const event = { relay: name, destination: destination.name, pauseMs: down.pauseMs, error }
    // Logged once, however long it takes; each try is an event.
    const fields = { ...event, ...errorFields(error) }
    engine.logger[down.first ? 'warn' : 'debug'](fields, 'the broker is not available; trying again later')
    engine.events.emit('relay-down', () => event)
  }

  /** A warning, because the default logger writes nothing below: the log of an outage must not end with its beginning. */
  #isAvailable(downMs: number | undefined): void {
    if (downMs === undefined) return
    const { engine, name, destination } = this.#options
    const event = { relay: name, destination: destination.name, downMs }
    engine.logger.warn({ ...event, downMs: Math.round(downMs) }, 'the broker is available again')
    engine.events.emit('relay-up', () => event)
  }

  /** Writes something about this relay into the row of its worker. */
  #tell(write: () => Promise<void>): void {
    const { engine, report } = this.#options
    void engine.detached(write).catch((error: unknown) => report(asError(error)))
  }

  #isReady({ seq, dueMs, held }: Entry): boolean {
    return dueMs <= 0 && !held && this.#hand.isFree(seq) && !this.#avoided.has(seq)
  }

  #letGo(rows: readonly { readonly seq: string }[]): void {
    for (const { seq } of rows) {
      this.#hand.letGo(seq)
      this.#reached.delete(seq)
    }
  }
}

/** How many messages may be under way at once. */
const WINDOW = 2_000
/** How many confirmed messages are worth a delete, how many one delete takes, and how long they may wait for more. */
const [ENOUGH, MOST_DELETED, GATHER_MS] = [500, 2_000, 10]
/** How long an overdue row is left to the owner of its lane: longer than a broker takes to confirm. */
const STALE_MS = 1_000
/** How many rows a look asks for; it lists up to twice as many. */
const LOOK = 3_000
/** Bounds the memory for payloads of all messages under way. */
const WINDOW_BYTES = 64 * 1024 * 1024
/** When a message that the broker did not accept is tried again. Never given up: only a refusal is final. */
const POLICY = { attempts: Number.POSITIVE_INFINITY, minDelayMs: 500, maxDelayMs: 300_000, factor: 2 }

function isRejected(result: PromiseSettledResult<void>): result is PromiseRejectedResult {
  return result.status === 'rejected'
}
