import { asError, detachedClock, present, Semaphore } from '../base/index.ts'
import type { ConsumerCore } from '../consumer/index.ts'
import type {
  Destination,
  EndpointDestination,
  Served,
  StopOptions,
  SubscriptionRow,
  Worker,
} from '../contracts/index.ts'
import type { Committed } from '../transaction/index.ts'
import { type Engine, unit } from '../transaction/index.ts'
import { Beginning } from './beginning.ts'
import { Chores } from './chores.ts'
import { ClockSteps } from './clock-steps.ts'
import type { Crew } from './crew.ts'
import { Handover } from './handover.ts'
import { LifeCycle, type Round, unlessStopped } from './life-cycle.ts'
import { InboxLine } from './lines/inbox.ts'
import { isDrained } from './lines/line.ts'
import { Lines } from './lines/lines.ts'
import { OutboxLine } from './lines/outbox.ts'
import { SubscriptionLine } from './lines/subscription.ts'
import { Membership } from './membership.ts'
import {
  checkRetention,
  checkSource,
  leasedShare,
  refuseMoved,
  refuseOrderless,
  servesHere,
  shareOut,
  type WorkerOptions,
  type WorkerSettings,
  warningOf,
  workerSettings,
} from './options.ts'
import { Ordering } from './ordering.ts'
import { Pauses } from './pauses.ts'
import { Progress } from './progress.ts'
import { Reports } from './reports.ts'
import { Suspects } from './suspects.ts'

export type { WorkerOptions } from './options.ts'

/**
 * Moves messages in the background: works inboxes, relays outboxes, reads subscriptions and cleans. This class only assembles these
 * parts and repeats one round: look for what is due, note it, begin. Runs until it is stopped.
 */
export class WorkerCore<Tx> implements Worker {
  readonly #engine: Engine<Tx>
  readonly #settings: WorkerSettings<Tx>
  readonly #crew: Pick<Crew<WorkerCore<Tx>>, 'listen' | 'remove'>
  readonly #beginning: Beginning<Tx>
  readonly #handover: Handover<Tx>
  readonly #life: LifeCycle
  readonly #reports: Reports
  readonly #ordering: Ordering<Tx>
  readonly #membership: Membership
  readonly #clockSteps: ClockSteps
  readonly #suspects: Suspects
  readonly #progress: Progress
  readonly #pauses: Pauses
  readonly #lines: Lines<Tx>
  #chores: Chores<Tx> | undefined
  #pauseMs = 0
  #ignoreFloor: () => void = () => {}
  #ignoreNews: () => Promise<void> = () => Promise.resolve()

  /** Made by `hapax.worker`. */
  constructor(engine: Engine<Tx>, options: WorkerOptions<Tx>, crew: Pick<Crew<WorkerCore<Tx>>, 'listen' | 'remove'>) {
    this.#engine = engine
    this.#settings = workerSettings(engine, options)
    this.#crew = crew
    const { consumers, relays } = this.#settings
    this.#reports = new Reports({ engine, consumers: consumers.map(({ name }) => name), relays: [...relays.keys()] })
    this.#lines = new Lines({
      isStuck: () => this.#progress.stuck,
      isPaused: (origin, scope) => this.#pauses.has(origin, scope),
    })
    this.#ordering = new Ordering({ engine, consumers, report: (error) => this.#report(error) })
    this.#life = this.#lifeCycle()
    this.#membership = new Membership({
      ...engine,
      clock: detachedClock(engine.clock, engine.detached),
      store: engine.store.workers,
      serves: servesHere(engine, this.#settings),
      takeoverMs: this.#settings.takeoverMs,
      inHand: () => this.#inHand(),
      changed: () => {
        if (this.#life.isRunning) this.#ordering.addLater()
        this.#life.wake()
      },
      buried: () => this.#lines.drop(),
      heard: (now, began) => this.#clockSteps.heard(now, began),
      report: (error) => this.#report(error),
    })
    this.#clockSteps = new ClockSteps({
      engine,
      changed: () => this.wake(),
      report: (error) => this.#report(error),
    })
    this.#suspects = new Suspects({
      clock: engine.clock,
      floor: engine.floor,
      membership: this.#membership,
      lines: () => this.#lines.servedInboxes,
      isRunning: () => this.#life.isRunning,
      changed: () => this.#life.wake(),
    })
    const { parallelWriters, pool } = engine.store.features
    this.#beginning = new Beginning({
      clock: engine.clock,
      membership: this.#membership,
      suspects: this.#suspects,
      overlaps: parallelWriters && pool !== undefined,
      isRunning: () => this.#life.isRunning,
      inboxes: () => this.#lines.movableInboxes,
      movable: () => this.#lines.movable,
    })
    this.#handover = new Handover({
      detached: engine.detached,
      inboxes: () => this.#lines.servedInboxes,
      relays: () => this.#lines.servedRelays,
      isAble: () => this.#life.isRunning && this.#membership.alive,
      isStuck: () => this.#progress.stuck,
      begin: () => void this.#beginning.begin().catch((error: unknown) => this.#report(asError(error))),
    })
    this.#progress = new Progress({
      engine,
      signal: this.#life.signal,
      consumers: () => this.#settings.consumers.map(({ name }) => name),
      heardSince: (time) => this.#membership.heardSince(time),
      probe: () => unit(engine, PROBE, { kind: 'plain' }, async () => ({ value: undefined, writes: undefined })),
      changed: (stuck) => this.#stuck(stuck),
    })
    this.#pauses = new Pauses({
      ...engine,
      clock: detachedClock(engine.clock, engine.detached),
      store: engine.store.pauses,
      serves: (origin, scope) =>
        origin === 'outbox' ? relays.has(scope) : consumers.some(({ name }) => name === scope),
      changed: () => this.#settle(),
      report: (error) => this.#report(error),
    })
  }

  /**
   * Checks the settings, joins the other workers and begins. Rejects when the database is not available or not migrated, when a client
   * library is missing, when the broker of a subscription refuses or cannot be reached, or when the settings promise what cannot be
   * kept. The broker of a relay may become available later.
   */
  start(): Promise<void> {
    return this.#life.start()
  }

  /** The destinations of its relays. */
  get destinations(): readonly Destination[] {
    return [...this.#settings.relays.values()]
  }

  /** Its relays that deliver to registered endpoints. */
  get endpoints(): ReadonlyMap<string, EndpointDestination> {
    return this.#settings.endpoints
  }

  /** What it serves, by name. */
  get serving(): Served {
    const { consumers, disabled, relays } = this.#settings
    return {
      consumers: consumers.map(({ name }) => name),
      disabled,
      relays: [...relays].map(([name, destination]) => ({ name, destination: destination.name })),
    }
  }

  /**
   * Whether it runs, its last heartbeat is recent, and its handlers get connections: for a readiness probe. Brokers do not count,
   * because messages can be taken and published without them; the events `relay-down` and `worker-error` report their failures.
   */
  get ready(): boolean {
    return this.#life.isHealthy && this.#membership.alive && !this.#progress.stuck
  }

  /** Resolves when nothing is due and nothing is in hand, in any process. A message that waits for a later attempt is not due. */
  drain(): Promise<void> {
    this.#pauseMs = 0
    return this.#life.drain()
  }

  /** Stops taking messages and waits for the handlers that are running, at most until the deadline. */
  stop(options: StopOptions = {}): Promise<void> {
    return this.#life.stop(options)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  /** Something may be due: these rows, which were committed just now, or, undefined, anything. */
  wake(rows?: readonly Committed[]): void {
    if (rows !== undefined && !this.#handover.take(rows)) return
    this.#pauseMs = 0
    this.#life.wake()
  }

  /** Something may be due in a moment. */
  soon(): void {
    this.#pauseMs = AT_ONCE_MS / 2
    this.#life.wake()
  }

  /** An operation has begun in this process. */
  begun(): void {
    this.#chores?.begun()
  }

  /** Whether a row is for this worker. */
  serves(row: Committed): boolean {
    return this.#handover.serves(row)
  }

  /**
   * Checks of the settings come first, then brokers, then the database: a mistake is reported even if a server is down. Subscriptions are recorded last, because they make local publishes deliver to this consumer.
   */
  async #prepare(): Promise<void> {
    const { consumers, sources, relays, deliveries } = this.#settings
    for (const consumer of consumers) {
      consumer.start()
      checkRetention(consumer)
    }
    for (const source of sources) {
      checkSource(source)
      const warning = warningOf(source)
      if (warning !== undefined) this.#engine.logger.warn({ consumer: source.consumer.name }, warning)
    }
    // Optional: a destination written in JavaScript may lack the method.
    for (const destination of relays.values()) {
      await unlessStopped(this.#life.signal, () => destination.prepare?.())
    }
    const { store } = this.#engine
    const { pool } = store.features
    const places = new Map([...shareOut(consumers, pool), ...deliveries])
    this.#engine.leasedShare.atMost(leasedShare(places, pool))
    for (const { message, advice } of await store.schema.ready()) this.#engine.logger.warn({ advice }, message)
    for (const [name, { name: destination }] of relays)
      refuseMoved(name, destination, await store.outbox.recordRelay(name, destination))
    const recorded = consumers.length > 0 ? await store.subscriptions.list() : []
    refuseOrderless(consumers, recorded)
    this.#learn(recorded)
    for (const { name, types, ordered } of consumers) await store.subscriptions.add(name, types, ordered)
    await this.#ordering.add()
    await this.#pauses.look()
    this.#assemble(places)
  }

  #assemble(places: ReadonlyMap<ConsumerCore<Tx>, number>): void {
    const { consumers, sources, relays, keepSentMs } = this.#settings
    const rooms = new Map([...places].map(([consumer, count]) => [consumer, new Semaphore(count)]))
    const room = (consumer: ConsumerCore<Tx>): { concurrency: number; places: Semaphore } => ({
      concurrency: present(places.get(consumer), 'the share of a consumer'),
      places: present(rooms.get(consumer), 'the room of a consumer'),
    })
    const shared = {
      engine: this.#engine,
      membership: this.#membership,
      floor: this.#engine.floor,
      progress: this.#progress,
      signal: this.#life.signal,
      changed: () => this.#changed(),
      report: (error: Error) => this.#report(error),
    }
    const inboxes = { ...shared, changed: () => this.#changed(this.#lines.inboxes.every((line) => line.quiet)) }
    const lines = this.#lines
    lines.inboxes = consumers.map((consumer) => {
      const mayBegin = (): boolean => !this.#pauses.has('inbox', consumer.name)
      return new InboxLine({ ...inboxes, consumer, mayBegin, ...room(consumer) })
    })
    lines.relays = [...relays].map(
      ([name, destination]) => new OutboxLine({ ...shared, name, destination, keep: keepSentMs !== undefined }),
    )
    lines.readers = sources.map((source) => new SubscriptionLine({ ...shared, source, ...room(source.consumer) }))
    lines.rest()
    this.#chores = new Chores({ ...shared, settings: this.#settings, readers: lines.readers })
  }

  #lifeCycle(): LifeCycle {
    return new LifeCycle({
      ...this.#engine,
      prepare: async () => {
        await this.#prepare()
        await this.#membership.join()
        return this.#lines.readers
      },
      started: () => {
        this.#ignoreFloor = this.#engine.floor.onChange(() => this.#changed())
        this.#ignoreNews = this.#crew.listen((rows) => this.wake(rows))
        this.#pauses.start()
        this.#chores?.start()
        this.#clockSteps.start()
        this.#reports.started()
      },
      round: (asked) => this.#round(asked),
      halt: () => {
        this.#suspects.stop()
        this.#ignoreFloor()
        // What has not begun is released at once, so that other workers need not wait for this one to end.
        this.#lines.drop()
        return this.#membership.leave()
      },
      running: () => this.#lines.all.flatMap((line) => line.running),
      ended: () =>
        Promise.all([
          this.#pauses.stop(),
          this.#chores?.stop(),
          this.#ordering.ended(),
          this.#clockSteps.stop(),
          this.#ignoreNews(),
        ]),
      left: () => this.#membership.leave(),
      stopped: () => {
        this.#crew.remove(this)
        this.#reports.stopped()
      },
      report: (error) => this.#report(error),
      recovered: () => this.#reports.recovered(),
    })
  }

  /** While no handler can run here, other workers serve the consumers of this one. */
  #stuck(stuck: boolean): void {
    if (!this.#life.isRunning) return
    if (stuck) this.#suspects.stop()
    this.#membership.able(!stuck).catch((error: unknown) => this.#report(asError(error)))
    this.#settle()
  }

  #settle(): void {
    this.#lines.settle()
    this.wake()
  }

  /** The rows that a crash now would make suspects. A suspect that runs alone is the only one. */
  #inHand(): { seqs: readonly string[]; alone: boolean } {
    const suspect = this.#suspects.current
    if (suspect !== undefined) return { seqs: [suspect], alone: true }
    return { seqs: this.#lines.inboxes.flatMap((line) => line.about), alone: false }
  }

  /** Something ended: the next message in hand may begin, and there may be room for a look, unless it is known to find nothing. */
  #changed(quiet = false): void {
    if (this.#life.isRunning && this.#membership.alive) {
      for (const line of this.#lines.movable) line.begin()
    }
    if (!quiet) this.#life.wake()
  }

  /** One round: looks for what is due, takes it into hand, and begins. */
  async #round(asked: boolean): Promise<Round> {
    await this.#membership.ensureAlive()
    const began = this.#engine.clock.monotonic()
    const took = await this.#look()
    await this.#beginning.begin()
    if (took) {
      this.#pauseMs = SOON_MS
      return { drained: false, restMs: SOON_MS }
    }
    const drained = asked && (await this.#isDrained())
    return { drained, restMs: this.#rest(asked && !drained, this.#engine.clock.monotonic() - began) }
  }

  /** One statement for all lines that have room: its cost must not grow with the number of consumers. */
  async #look(): Promise<boolean> {
    const wanted = this.#lines.movable.map((line) => ({ line, shares: line.shares() }))
    const shares = wanted.flatMap((each) => each.shares)
    if (shares.length === 0) return false
    const { store, outages } = this.#engine
    const looks = await outages.during(() => store.workers.look(shares))
    let from = 0
    const offers = wanted.map(({ line, shares: own }) => {
      const found = looks.slice(from, from + own.length)
      from += own.length
      return { line, found }
    })
    if (offers.some(({ line, found }) => line.mustAsk?.(found))) this.#learn(await store.subscriptions.list())
    const reaches = offers.some(({ line, found }) => line.reaches(found))
    const elsewhere = reaches ? await this.#membership.notedElsewhere() : NOTHING
    if (!this.#life.isRunning) return false
    let took = false
    // A pause may have come during the look.
    const movable = new Set(this.#lines.movable)
    for (const { line, found } of offers)
      took = (movable.has(line) && found.length > 0 && line.offer(found, elsewhere)) || took
    return took
  }

  #learn(recorded: readonly SubscriptionRow[]): void {
    for (const { consumer, type } of recorded) this.#membership.learn(consumer, type)
  }

  /** The pause before the next round. Doubles while nothing comes, but ends in time for whatever is known to become due. */
  #rest(asked: boolean, lookMs: number): number {
    const { random } = this.#engine
    const { pollMs } = this.#settings
    this.#pauseMs = Math.min(pollMs, this.#pauseMs === 0 ? SOON_MS : 2 * this.#pauseMs)
    const waits = [this.#pauseMs * (0.75 + random.number() / 2)]
    if (asked) waits.push(ASKED_MS)
    for (const line of this.#lines.served) {
      if (line.nextMs !== undefined) waits.push(line.nextMs)
      if (line.unfinished) waits.push(PACE * lookMs)
    }
    return Math.max(1, Math.min(...waits))
  }

  /** Whether no worker has anything to do: looks at all lanes, not only at those of this worker. */
  async #isDrained(): Promise<boolean> {
    const idle = this.#lines.idle && this.#suspects.current === undefined
    return idle && isDrained(this.#engine.store.workers, this.#lines.served)
  }

  #report(error: Error): void {
    this.#reports.error(error)
  }
}

/** The pause after a round that found something. */
const SOON_MS = 20
/** The first pause when something is about to be committed. */
const AT_ONCE_MS = 5
/** Limits of an empty transaction, which shows whether handlers could get a connection. */
const PROBE = { lockTimeoutMs: 1_000, idleTimeoutMs: 10_000 }
/** A rest between two pages of keys is so many times as long as the look. */
const PACE = 4
const ASKED_MS = 50
const NOTHING: ReadonlySet<string> = new Set()
