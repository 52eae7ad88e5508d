import type { Semaphore } from '../../base/index.ts'
import { asError } from '../../base/index.ts'
import { type ConsumerCore, OTHERS } from '../../consumer/index.ts'
import type { Entry, Look, Outcome, Share } from '../../contracts/index.ts'
import { ALL_LANES } from '../../message/index.ts'
import type { Engine, Floor } from '../../transaction/index.ts'
import type { Membership } from '../membership.ts'
import type { Throughput } from '../progress.ts'
import {
  bytesOf,
  type Chain,
  count,
  distinctEntries,
  type Grouping,
  grouping,
  isApart,
  nextTurn,
  notBehind,
  seqsOf,
  soonest,
} from './grouping.ts'
import { Avoided, afterOf, Hand, Review, Rotation } from './hand.ts'
import { DRAIN_LIMIT, type Line } from './line.ts'
import { least, Reach } from './reach.ts'
import { Serving } from './serving.ts'

/** What an inbox line needs of its worker. */
export interface InboxLineOptions<Tx> {
  readonly engine: Engine<Tx>
  readonly consumer: ConsumerCore<Tx>
  readonly concurrency: number
  readonly places: Semaphore
  readonly membership: Pick<Membership, 'lanesOfType' | 'isNamed'>
  readonly floor: Floor
  readonly progress: Throughput
  readonly signal: AbortSignal
  /** Whether nobody has paused the consumer. */
  mayBegin(): boolean
  /** There is room again, or something has ended. */
  changed(): void
  report(error: Error): void
}

/**
 * The inbox of one consumer in one worker. A row passes through four stages: in the queue (found by a look), to be noted, noted in the
 * database as about to run, and running. Notes tell other workers which rows a crash may be blamed on.
 */
export class InboxLine<Tx> implements Line {
  readonly #options: InboxLineOptions<Tx>
  readonly #serving: Serving<Tx>
  readonly #hand = new Hand()
  /** Rows that another worker had recently. */
  readonly #avoided: Avoided
  readonly #running = new Map<Promise<void>, Chain>()
  /** Turns that were found, that are about to be noted, and that may begin because they are noted. */
  #queue: Chain[] = []
  #noting: Chain[] = []
  #noted: Chain[] = []
  /** Rows that were in hand when a process died; they wait for one of the few places for such rows. */
  #apart: readonly Entry[] = []
  #suspects: readonly Entry[] = []
  readonly #rotation = new Rotation()
  readonly #review: Review
  /** How many shares of the look under way belong to a review. */
  #reviewing = 0
  readonly #reach: Reach
  #nextMs: number | undefined
  /** Whether there may be rows that are not in hand. */
  #maybeMore = true
  /** Rows in hand that no look has found; see `handOver`. */
  readonly #handed = new Set<string>()
  /** How often what had not begun was dropped; lets a turn notice it between two groups. */
  #drops = 0

  constructor(options: InboxLineOptions<Tx>) {
    this.#options = options
    this.#serving = new Serving(options.consumer, options.membership)
    this.#review = new Review(options.engine.clock)
    this.#reach = new Reach(options.engine, STALE_MS)
    this.#avoided = new Avoided(options.engine, AVOIDING, MAX_AVOIDED)
    // Only if something waits for a place: a round after every delivery of a subscription would be a waste.
    options.places.onFree(() => {
      if (this.#noted.length + this.#noting.length + this.#queue.length > 0) options.changed()
    })
  }

  /** Whether the last look found nothing, and what has come since was handed over and is done: then another look is not urgent. */
  get quiet(): boolean {
    return !this.#maybeMore && this.#queue.length + this.#noting.length + this.#noted.length === 0
  }

  get consumer(): string {
    return this.#options.consumer.name
  }

  /** The rows that run or are about to: the suspects, if the process ended now. */
  get about(): readonly string[] {
    return [...this.#running.values(), ...this.#noted, ...this.#noting].flatMap(seqsOf)
  }

  get idle(): boolean {
    return this.#hand.size === 0
  }

  get running(): readonly Promise<void>[] {
    return [...this.#running.keys()]
  }

  /**
   * Looks ahead by about three times what runs at once, and again when half of that is used up: so something waits for every place
   * while the look is under way.
   */
  shares(): readonly Share[] {
    const ahead = this.#ahead()
    if (this.#hand.size > ahead / 2) return []
    // If many keys wait and none of them can run, pages are larger, so that a turn through them does not take for ever.
    const limit = this.#rotation.unfinished && this.idle ? Math.max(MAX_PAGE, ahead) : ahead - this.#hand.size
    this.#hand.looking()
    const shares = this.#serving
      .byLanes()
      .map(({ lanes, types }) => this.#share(types, lanes, limit, this.#rotation.after))
    const review = this.#review.of(shares)
    this.#reviewing = review.length
    return [...shares, ...review, ...this.#reach.of(shares, this.#othersShares(limit))]
  }

  /** Shares of other workers' lanes; none while rows of this worker's own lanes wait for a place. */
  #othersShares(limit: number): readonly Share[] {
    const waits = this.#queue.length + this.#noting.length + this.#noted.length > 0
    if (waits || !this.#options.places.free) return []
    return this.#serving.byOthersLanes().map(({ lanes, types }) => this.#share(types, lanes, limit, new Map()))
  }

  allShares(after: ReadonlyMap<number, string>): readonly [Share] {
    return [
      this.#share(this.#options.consumer.served, after.size === 0 ? ALL_LANES : [...after.keys()], DRAIN_LIMIT, after),
    ]
  }

  isDue({ type, dueMs, held }: Entry): boolean {
    return dueMs <= 0 && !held && this.#serving.servedAs(type) !== undefined
  }

  /** With order a look shows every type, also one that a process has begun to handle since this worker heard of the others. */
  mustAsk(looks: readonly Look[]): boolean {
    if (!this.#options.consumer.ordered) return false
    return looks.some(({ entries }) => entries.some(({ type }) => this.#serving.servedAs(type) === OTHERS))
  }

  reaches(looks: readonly Look[]): boolean {
    return this.#reach.finds(looks)
  }

  offer(looks: readonly Look[], elsewhere: ReadonlySet<string>): boolean {
    const own = this.#reach.own(looks)
    const entries = distinctEntries(own.flatMap((look) => look.entries))
    const usual = own.length - this.#reviewing
    this.#rotation.seen(afterOf(own.slice(0, usual)))
    this.#review.seen(own.slice(usual))
    this.#nextMs = soonest(own, entries)
    const loose = this.#loose(entries.length, elsewhere)
    this.#maybeMore = entries.length + loose.length > 0
    const free = new Set(loose.map(({ seq }) => seq))
    const ready = (entry: Entry): boolean => free.has(entry.seq) || this.#isReady(entry)
    const { turns, apart, alone } = this.#grouped([...entries, ...loose], this.#ahead() - this.#hand.size, ready)
    this.#apart = apart
    this.#suspects = alone
    for (const turn of turns) this.#take(turn)
    this.#queue.push(...turns)
    return turns.length > 0
  }

  /** Rows of other lanes. Rows that others have recorded are left to them, or to the handling of their death, which those may have caused. */
  #loose(own: number, elsewhere: ReadonlySet<string>): readonly Entry[] {
    return this.#reach.take(own, Math.max(REACHED, this.#options.concurrency), (entry) => {
      return !elsewhere.has(entry.seq) && this.#mayRun(entry) && this.#serving.servedAs(entry.type) !== undefined
    })
  }

  /** Whether rows of these lanes may be ours. */
  owns(lanes: (lane: number) => boolean): boolean {
    return this.#serving.byLanes().some((each) => each.lanes.some(lanes))
  }

  /**
   * Takes rows that this process has just committed, as if a look had found them. Returns whether a look is needed as well, because
   * one of them was not taken.
   */
  handOver(entries: readonly Entry[]): boolean {
    const ours = entries.filter((entry) => this.#serving.isOurs(entry))
    const inHand = [...this.#running.values(), ...this.#noted, ...this.#noting, ...this.#queue]
    // Another process may have begun to handle a type by name: a look finds that out.
    const named = ours.filter(({ type }) => this.#serving.servedAs(type) !== OTHERS)
    // Behind another row of its key it could not be claimed.
    const first = notBehind(named, inHand).filter(({ dueMs }) => dueMs <= 0)
    // Half of the room is left to looks: what comes from here must not keep what has waited for longer from being found.
    const { turns } = this.#grouped(first, Math.floor(this.#ahead() / 2) - this.#hand.size)
    for (const turn of turns) this.#take(turn)
    this.#queue.push(...turns)
    const seqs = turns.flatMap(seqsOf)
    for (const seq of seqs) this.#handed.add(seq)
    if (seqs.length < ours.length) this.#maybeMore = true
    return seqs.length < ours.length
  }

  get unfinished(): boolean {
    return this.#rotation.unfinished
  }

  get nextMs(): number | undefined {
    return least(this.#nextMs, this.#reach.nextMs)
  }

  /**
   * Chooses the rows to be noted next, if the noted ones run low: enough for every free place and one more. Not many more, because
   * after a crash all noted rows run apart, which is slow. Returns whether there is something to note.
   */
  putUp(): boolean {
    this.#putUpApart()
    const up = [...this.#noted, ...this.#noting]
    const turns = this.#options.concurrency - this.#running.size + 1
    let rows = count(up)
    const low = rows <= NOTED / 2 || up.length < turns
    let waiting = low ? count(this.#queue) : 0
    while (low && (rows < NOTED || this.#noted.length + this.#noting.length < turns)) {
      const turn = this.#nextTurn(waiting, turns - this.#noted.length - this.#noting.length)
      if (turn === undefined) break
      const taken = count([turn])
      rows += taken
      waiting -= taken
      this.#noting.push(turn)
    }
    return this.#noting.length > 0
  }

  /** The next turn, in groups of the size that they have now. */
  #nextTurn(waiting: number, places: number): Chain | undefined {
    const { groups } = this.#options.consumer
    if (!groups.automatic) return this.#queue.shift()
    return nextTurn(this.#queue, groups.next(waiting, places), GROUP_BYTES)
  }

  /**
   * Chooses rows that were in hand when a process died. Most of them did not cause it, so they run beside others, each in a group of
   * its own. Only few at a time, because all of them run alone if a process dies again.
   */
  #putUpApart(): void {
    const inHand = [...this.#running.values(), ...this.#noted, ...this.#noting].filter(isApart).length
    const free = Math.max(0, Math.ceil(this.#options.concurrency / APART_PART) - inHand)
    const turns = this.#apart.slice(0, free).map((entry): Chain => [[entry]])
    this.#apart = this.#apart.slice(free)
    for (const turn of turns) this.#take(turn)
    this.#noting.unshift(...turns)
  }

  /** The chosen rows have been noted, and may begin. */
  noted(): void {
    this.#noted.push(...this.#noting.splice(0))
  }

  /** Another note has replaced ours: the rows have to be noted again before they begin. */
  unnoted(): void {
    this.#noting.unshift(...this.#noted.splice(0))
  }

  begin(): void {
    this.#begin(this.#noted, true)
  }

  /** Begins with rows that are being noted. Their handlers wait for the note. */
  beginNoting(noted: Promise<boolean>): void {
    this.#begin(this.#noted, true)
    if (this.#noted.length === 0) this.#begin(this.#noting, noted)
  }

  #begin(turns: Chain[], noted: Noted): void {
    const { floor, places, signal } = this.#options
    while (floor.open && !signal.aborted && places.free) {
      const [turn] = turns
      if (turn === undefined) return
      const bytes = bytesOf(turn)
      if (!floor.hasRoomFor(bytes)) return
      turns.shift()
      this.#start(turn, bytes, false, noted)
    }
  }

  /** Rows that have to run alone; see `Suspects`. */
  get suspects(): readonly Entry[] {
    return this.#suspects
  }

  /** Takes a suspect into hand. */
  takeSuspect(): Entry | undefined {
    const [suspect, ...others] = this.#suspects
    this.#suspects = others
    if (suspect !== undefined) this.#take([[suspect]])
    return suspect
  }

  /** Releases a suspect that could not begin. */
  giveBack(suspect: Entry): void {
    this.#letGo([[suspect]])
  }

  /** Runs a suspect; the floor is empty. */
  beginAlone(suspect: Entry): void {
    this.#start([[suspect]], suspect.bytes, true, true)
  }

  /** Releases what has not begun. Nothing has to be undone in the database: the rows were only looked at. */
  drop(): void {
    this.#drops += 1
    this.#maybeMore = true
    this.#apart = []
    this.#suspects = []
    for (const turns of [this.#queue, this.#noting, this.#noted]) for (const turn of turns.splice(0)) this.#letGo(turn)
  }

  #ahead(): number {
    const places = this.#options.concurrency * this.#options.consumer.groups.size
    return Math.min(MAX_AHEAD, Math.max(MIN_AHEAD, 3 * places))
  }

  #share(types: readonly string[], lanes: readonly number[], limit: number, after: ReadonlyMap<number, string>): Share {
    return { table: 'inbox', scope: this.consumer, types, lanes, limit, after }
  }

  #grouped(
    entries: readonly Entry[],
    room: number,
    ready: (entry: Entry) => boolean = (entry) => this.#isReady(entry),
  ): Grouping {
    return grouping(entries, {
      room,
      size: this.#options.consumer.groups.size,
      roomBytes: Number.POSITIVE_INFINITY,
      bytes: GROUP_BYTES,
      ready,
    })
  }

  /** Whether a row can run now and belongs to our lanes. */
  #isReady(entry: Entry): boolean {
    return this.#mayRun(entry) && this.#serving.isOurs(entry)
  }

  /** Whether a row is due, not in hand, and was not recently found to be locked by another worker. */
  #mayRun({ seq, held, dueMs }: Entry): boolean {
    return !held && dueMs <= 0 && this.#hand.isFree(seq) && !this.#avoided.has(seq)
  }

  #start(turn: Chain, bytes: number, alone: boolean, noted: Noted): void {
    const { engine, floor, places, changed } = this.#options
    floor.enter(bytes, alone)
    places.take()
    const run = engine.detached(this.#run, turn, noted).finally(() => {
      this.#running.delete(run)
      this.#letGo(turn)
      floor.leave(bytes)
      places.give()
      changed()
    })
    this.#running.set(run, turn)
  }

  /**
   * Runs the groups of a turn one after the other. Stops at a row that is not done, because the rest stands behind it. Detached,
   * because a turn may begin wherever a place becomes free.
   */
  readonly #run = async (turn: Chain, noted: Noted): Promise<void> => {
    const { consumer, progress, signal, mayBegin, report } = this.#options
    const drops = this.#drops
    for (const group of turn) {
      if (signal.aborted || drops !== this.#drops) return
      const seqs = group.map((entry) => entry.seq)
      let refused = false
      const begins = (): boolean => {
        refused = !mayBegin()
        return !refused
      }
      // Asked once there is a connection, for which they may have waited for long, and again when they are noted.
      const may = (): boolean | Promise<boolean> => {
        if (!begins() || noted === true) return !refused
        return noted.then((done) => done && begins())
      }
      try {
        const outcomes = await consumer.work(seqs, signal, may)
        // They have not run, and the next look finds them again.
        if (refused || !(await noted)) {
          this.#maybeMore = true
          return
        }
        progress.made()
        if (!this.#learn(seqs, outcomes)) return
      } catch (error) {
        this.#learn(seqs, new Map())
        progress.failed(asError(error))
        report(asError(error))
        return
      }
    }
  }

  /**
   * Returns whether all rows are done. Rows that another worker had are left alone for a while; but not one that was handed over: it
   * may only stand behind another one of its key, which the next look shows.
   */
  #learn(seqs: readonly string[], outcomes: ReadonlyMap<string, Outcome>): boolean {
    let done = true
    for (const seq of seqs) {
      const outcome = outcomes.get(seq)
      if (outcome?.status !== 'processed') done = false
      if (outcome?.ack) this.#avoided.forget([seq])
      else if (outcome !== undefined || !this.#handed.has(seq)) this.#avoided.add(seq)
    }
    if (!done) this.#maybeMore = true
    return done
  }

  #take(turn: Chain): void {
    for (const { seq } of turn.flat()) this.#hand.take(seq, 0)
  }

  #letGo(turn: Chain): void {
    for (const { seq } of turn.flat()) {
      this.#hand.letGo(seq)
      this.#handed.delete(seq)
    }
  }
}

/** Whether rows are noted as about to run, or a promise of it: false if they could not be. */
type Noted = true | Promise<boolean>

/** How many rows to look ahead: enough that a look is worth its cost, and not more than memory and fairness allow. */
const MIN_AHEAD = 200
const MAX_AHEAD = 15_000
/** The minimum batch of rows taken from other workers' lanes, and how long rows are left to their owner. */
const REACHED = 20
const STALE_MS = 200
/** How far a look goes through keys of which none can run. */
const MAX_PAGE = 2_000
/** How large a group may be, not counting its first message. */
const GROUP_BYTES = 4 * 1024 * 1024
/** How long a row that another worker had is left alone. */
const AVOIDING = { attempts: Number.POSITIVE_INFINITY, minDelayMs: 50, maxDelayMs: 5_000, factor: 2 }
const MAX_AVOIDED = 10_000

/** A quarter of what runs at once may have been in hand when a process died, and always at least one. */
const APART_PART = 4

/** About how many messages that have not begun are noted at a time. */
const NOTED = 40
