import type { Semaphore } from '../../base/index.ts'
import { asError } from '../../base/index.ts'
import { type ConsumerCore, OTHERS } from '../../consumer/index.ts'
import type { Entry, Look, Outcome, Share } from '../../contracts/index.ts'
import { ALL_LANES } from '../../message/index.ts'
import type { Engine, Floor } from '../../transaction/index.ts'
import type { Membership } from '../membership.ts'
import type { Throughput } from '../progress.ts'
import { distinct, grouping, soonest, type Turn } from './grouping.ts'
import { Avoided, afterOf, Hand, Review, Rotation } from './hand.ts'
import { DRAIN_LIMIT, type Line } from './line.ts'

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
  /** There is room again, or something has ended. */
  changed(): void
  report(error: Error): void
}

/** The inbox of one consumer, as one worker works it. */
export class InboxLine<Tx> implements Line {
  readonly #options: InboxLineOptions<Tx>
  readonly #hand = new Hand()
  /** Rows that were not ours lately. */
  readonly #avoided: Avoided
  readonly #running = new Map<Promise<void>, Turn>()
  /** What was looked at, what is about to be noted, and what may begin because it is. */
  #queue: Turn[] = []
  #noting: Turn[] = []
  #noted: Turn[] = []
  /** What was in hand when a process died, and waits for one of the few places for such. */
  #apart: readonly Entry[] = []
  #suspects: readonly Entry[] = []
  readonly #rotation = new Rotation()
  readonly #review: Review
  /** How many of the shares of the look under way are a review. */
  #reviewing = 0
  #nextMs: number | undefined

  constructor(options: InboxLineOptions<Tx>) {
    this.#options = options
    this.#review = new Review(options.engine.clock)
    this.#avoided = new Avoided(options.engine, AVOIDING, MAX_AVOIDED)
    // Only if something waits for it: a look at every delivery of a subscription would be a waste.
    options.places.onFree(() => {
      if (this.#noted.length + this.#noting.length + this.#queue.length > 0) options.changed()
    })
  }

  get consumer(): string {
    return this.#options.consumer.name
  }

  /** What runs or is about to: what would have ended the process, if it ended now. */
  get about(): readonly string[] {
    return [...this.#running.values(), ...this.#noted, ...this.#noting].flatMap(seqsOf)
  }

  get idle(): boolean {
    return this.#hand.size === 0
  }

  get running(): readonly Promise<void>[] {
    return [...this.#running.keys()]
  }

  /** Looks ahead by about twice what runs at once, and again when half of that is used up. */
  shares(): readonly Share[] {
    const ahead = this.#ahead()
    if (this.#hand.size > ahead / 2) return []
    // Where many keys wait and none of them can run, pages are larger, to come around.
    const limit = this.#rotation.unfinished && this.idle ? MAX_AHEAD : ahead - this.#hand.size
    this.#hand.looking()
    const shares = this.#byLanes().map(({ lanes, types }) => this.#share(types, lanes, limit, this.#rotation.after))
    const review = this.#review.of(shares)
    this.#reviewing = review.length
    return [...shares, ...review]
  }

  allShares(after: ReadonlyMap<number, string>): readonly [Share] {
    return [
      this.#share(this.#options.consumer.served, after.size === 0 ? ALL_LANES : [...after.keys()], DRAIN_LIMIT, after),
    ]
  }

  isDue({ type, dueMs, held }: Entry): boolean {
    return dueMs <= 0 && !held && this.#servedAs(type) !== undefined
  }

  offer(looks: readonly Look[]): boolean {
    const entries = distinct(looks.flatMap((look) => look.entries))
    const usual = looks.length - this.#reviewing
    this.#rotation.seen(afterOf(looks.slice(0, usual)))
    this.#review.seen(looks.slice(usual))
    this.#nextMs = soonest(looks, entries)
    const { turns, apart, alone } = grouping(entries, {
      room: this.#ahead() - this.#hand.size,
      size: this.#options.consumer.groupSize,
      roomBytes: Number.POSITIVE_INFINITY,
      bytes: GROUP_BYTES,
      ready: (entry) => this.#isReady(entry),
    })
    this.#apart = apart
    this.#suspects = alone
    for (const turn of turns) this.#take(turn)
    this.#queue.push(...turns)
    return turns.length > 0
  }

  get unfinished(): boolean {
    return this.#rotation.unfinished
  }

  get nextMs(): number | undefined {
    return this.#nextMs
  }

  /**
   * Puts up what is to be noted next, if what is noted runs low: enough for every free place and one more. Not much more,
   * because after a crash they run alone.
   */
  putUp(): boolean {
    this.#putUpApart()
    const up = [...this.#noted, ...this.#noting]
    const turns = this.#options.concurrency - this.#running.size + 1
    let rows = up.reduce((sum, turn) => sum + seqsOf(turn).length, 0)
    const low = rows <= NOTED / 2 || up.length < turns
    while (low && (rows < NOTED || this.#noted.length + this.#noting.length < turns)) {
      const turn = this.#queue.shift()
      if (turn === undefined) break
      rows += seqsOf(turn).length
      this.#noting.push(turn)
    }
    return this.#noting.length > 0
  }

  /**
   * Most of those that were in hand when a process died had nothing to do with it: they run beside others, each by itself. Only few at
   * a time, because those that are in hand when a process dies once more have to run alone.
   */
  #putUpApart(): void {
    const inHand = [...this.#running.values(), ...this.#noted, ...this.#noting].filter(isApart).length
    const free = Math.max(0, Math.ceil(this.#options.concurrency / APART_PART) - inHand)
    const turns = this.#apart.slice(0, free).map((entry): Turn => [[entry]])
    this.#apart = this.#apart.slice(free)
    for (const turn of turns) this.#take(turn)
    this.#noting.unshift(...turns)
  }

  /** What was put up has been noted, and may begin. */
  noted(): void {
    this.#noted.push(...this.#noting.splice(0))
  }

  /** The note is another one now. */
  unnoted(): void {
    this.#noting.unshift(...this.#noted.splice(0))
  }

  begin(): void {
    const { floor, places, signal } = this.#options
    while (floor.open && !signal.aborted && places.free) {
      const [turn] = this.#noted
      if (turn === undefined) return
      const bytes = sum(turn)
      if (!floor.hasRoomFor(bytes)) return
      this.#noted.shift()
      this.#start(turn, bytes, false)
    }
  }

  /** Rows that have to run alone. */
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

  giveBack(suspect: Entry): void {
    this.#letGo([[suspect]])
  }

  beginAlone(suspect: Entry): void {
    this.#start([[suspect]], suspect.bytes, true)
  }

  /** Gives back what has not begun; it was only looked at. */
  drop(): void {
    this.#apart = []
    this.#suspects = []
    for (const turns of [this.#queue, this.#noting, this.#noted]) for (const turn of turns.splice(0)) this.#letGo(turn)
  }

  #ahead(): number {
    const places = this.#options.concurrency * this.#options.consumer.groupSize
    return Math.min(MAX_AHEAD, Math.max(MIN_AHEAD, 2 * places))
  }

  #share(types: readonly string[], lanes: readonly number[], limit: number, after: ReadonlyMap<number, string>): Share {
    return { table: 'inbox', scope: this.consumer, types, lanes, limit, after }
  }

  /** While an old version of a process does not know a type, others have its lanes for this type. */
  #byLanes(): readonly { lanes: readonly number[]; types: readonly string[] }[] {
    const { consumer, membership } = this.#options
    const found = new Map<string, { lanes: readonly number[]; types: string[] }>()
    for (const type of consumer.served) {
      const lanes = membership.lanesOfType(consumer.name, type)
      const name = lanes.join()
      const same = found.get(name)
      if (same === undefined) found.set(name, { lanes, types: [type] })
      else same.types.push(type)
    }
    return [...found.values()].filter(({ lanes }) => lanes.length > 0)
  }

  /** By which of the served types: its own, or as one of those that no process handles by name. */
  #servedAs(type: string): string | undefined {
    const { consumer, membership } = this.#options
    if (consumer.types.includes(type)) return type
    return consumer.served.includes(OTHERS) && !membership.isNamed(consumer.name, type) ? OTHERS : undefined
  }

  /** Due, not in hand, mine, and not somebody else's lately. */
  #isReady({ seq, type, lane, held, dueMs }: Entry): boolean {
    if (held || dueMs > 0 || !this.#hand.isFree(seq)) return false
    const { consumer, membership } = this.#options
    const served = this.#servedAs(type)
    if (served === undefined || !membership.lanesOfType(consumer.name, served).includes(lane)) return false
    return !this.#avoided.has(seq)
  }

  #start(turn: Turn, bytes: number, alone: boolean): void {
    const { floor, places, changed } = this.#options
    floor.enter(bytes, alone)
    places.take()
    const run = this.#run(turn).finally(() => {
      this.#running.delete(run)
      this.#letGo(turn)
      floor.leave(bytes)
      places.give()
      changed()
    })
    this.#running.set(run, turn)
  }

  /** One group after the other; what stands behind a row that is not done would not be given to us anyway. */
  async #run(turn: Turn): Promise<void> {
    const { consumer, progress, signal, report } = this.#options
    for (const group of turn) {
      if (signal.aborted) return
      const seqs = group.map((entry) => entry.seq)
      try {
        const outcomes = await consumer.work(seqs, signal)
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

  /** Whether all of them are done. Those that were not ours are left alone for a while. */
  #learn(seqs: readonly string[], outcomes: ReadonlyMap<string, Outcome>): boolean {
    let done = true
    for (const seq of seqs) {
      const outcome = outcomes.get(seq)
      if (outcome?.status !== 'processed') done = false
      if (outcome?.ack) this.#avoided.forget([seq])
      else this.#avoided.add(seq)
    }
    return done
  }

  #take(turn: Turn): void {
    for (const { seq } of turn.flat()) this.#hand.take(seq, 0)
  }

  #letGo(turn: Turn): void {
    for (const { seq } of turn.flat()) this.#hand.letGo(seq)
  }
}

const MIN_AHEAD = 200
const MAX_AHEAD = 2_000
/** How large a group may be, apart from its first message. */
const GROUP_BYTES = 4 * 1024 * 1024
/** For how long a row that was not ours is left alone. */
const AVOIDING = { attempts: Number.POSITIVE_INFINITY, minDelayMs: 50, maxDelayMs: 5_000, factor: 2 }
const MAX_AVOIDED = 10_000

/** So much of what runs at once may have been in hand when a process died: a quarter, and always one. */
const APART_PART = 4

/** How many messages that have not begun are noted at once, about. */
const NOTED = 40

function isApart(turn: Turn): boolean {
  return (turn[0]?.[0]?.deaths ?? 0) > 0
}

function seqsOf(turn: Turn): readonly string[] {
  return turn.flatMap((group) => group.map((entry) => entry.seq))
}

function sum(turn: Turn): number {
  let bytes = 0
  for (const group of turn) for (const entry of group) bytes += entry.bytes
  return bytes
}
