import type { Clock, Logger, Outages, Random, Redact } from '../base/index.ts'
import { asError, isHapaxError, messageOf, workerName } from '../base/index.ts'
import type { Peer, StoreWorkers, WorkerRow } from '../contracts/index.ts'
import { lanesOf, nextLanesOf, ownerOf } from '../message/index.ts'

/** What a worker serves, as its row tells the other workers. */
export interface Serves {
  /** The application of the worker: the source of what it publishes. Undefined: its row does not say. */
  readonly source: string | undefined
  /** Types by consumer. */
  readonly consumers: ReadonlyMap<string, readonly string[]>
  readonly relays: readonly string[]
  /** How long it keeps the receipts of each consumer, in milliseconds; Infinity: for ever. */
  readonly retention: ReadonlyMap<string, number>
  /** Its handlers cannot run: other workers take its messages, if there are any. */
  readonly stuck: boolean
  /** Relays whose destination it cannot reach: other workers take their messages, if there are any. */
  readonly missing: readonly string[]
  /** Why the relays that could not send the last time could not. */
  readonly failing: ReadonlyMap<string, string>
  /** Somebody listens to samples of the database there. */
  readonly samples: boolean
}

/** What a membership needs. */
export interface MembershipOptions {
  readonly store: StoreWorkers
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** What the application removes from errors before they are stored. */
  readonly redact: Redact
  /** Learns from heartbeats whether the store is there: a worker whose places are all taken does nothing else. */
  readonly outages: Pick<Outages, 'during'>
  readonly serves: Omit<Serves, 'stuck' | 'missing' | 'failing'>
  /** The time within which other workers take over when this one dies. */
  readonly takeoverMs: number
  /** What the worker has in hand, for the heartbeat. */
  inHand(): { readonly seqs: readonly string[]; readonly alone: boolean }
  /** The lanes have changed. */
  changed(): void
  /** A heartbeat that began at this monotonic time succeeded, at this database time. */
  heard(now: Date, began: number): void
  /** Other workers presumed this one dead: they may have taken what it has not begun. */
  buried(): void
  report(error: Error): void
}

/**
 * This worker among the others: keeps its row alive with a heartbeat, and computes which lanes belong to which worker. Lanes only share
 * out the work; locks on rows decide who may do it. So it is harmless if two workers disagree for a moment.
 */
export class Membership {
  readonly #options: MembershipOptions
  readonly #beatMs: number
  readonly #ttlMs: number
  #id = ''
  #others: readonly { readonly id: string; readonly serves: Serves }[] = []
  #lanes = new Map<string, readonly number[]>()
  /** Types that a process handles by name, by consumer; including those of processes that are gone. */
  readonly #named = new Map<string, Set<string>>()
  #heardAt = 0
  #state: 'new' | 'joined' | 'left' = 'new'
  #stuck = false
  readonly #missing = new Set<string>()
  readonly #failing = new Map<string, string>()
  readonly #namesakes = new Set<string>()
  /** What our row says, to notice a change. */
  #told = ''
  #cancel: () => void = () => {}
  #cancelDoubt: () => void = () => {}
  #beating: Promise<void> = Promise.resolve()

  constructor(options: MembershipOptions) {
    this.#options = options
    // A worker is presumed dead after two thirds of the time; the last third is for the others to notice, at their next heartbeat.
    this.#beatMs = options.takeoverMs / 5
    this.#ttlMs = (options.takeoverMs * 2) / 3
  }

  /** Writes a row under a new random id, and starts the heartbeat. */
  async join(): Promise<void> {
    await this.#hello()
    await this.#beat()
    this.#state = 'joined'
    this.#schedule()
  }

  /** Whether the last heartbeat is recent enough that no other worker presumes this one dead. */
  get alive(): boolean {
    return this.#state === 'joined' && this.#options.clock.monotonic() - this.#heardAt < this.#ttlMs
  }

  /** Whether a heartbeat that began after this time came through. */
  heardSince(time: number): boolean {
    return this.#heardAt > time
  }

  /** A worker that missed its heartbeats, for example in a suspended machine, joins again before it continues. */
  async ensureAlive(): Promise<void> {
    if (!this.alive) await this.#inTurn()
  }

  /** Notes what the worker is about to run. Waits for a heartbeat under way, which would overwrite the note with an older one. */
  note(): Promise<void> {
    return this.#inTurn(async () => {
      const { store, inHand } = this.#options
      if ((await store.note(this.#id, inHand(), false)) === undefined) await this.#beat()
    })
  }

  /** The rows that other workers have recorded, dead or alive. Notices dead ones. */
  async notedElsewhere(): Promise<ReadonlySet<string>> {
    let workers: readonly Peer[] = []
    await this.#inTurn(async () => {
      workers = await this.#options.store.list()
      await this.#heed(workers)
    })
    return new Set(workers.filter(({ id }) => id !== this.#id).flatMap(({ seqs }) => seqs))
  }

  /** Tells the other workers whether handlers can run here. While they cannot, the others serve its consumers. */
  async able(able: boolean): Promise<void> {
    this.#stuck = !able
    await this.#inTurn()
  }

  /** Tells the others whether a relay reaches its destination from here. */
  async reaches(relay: string, reached: boolean): Promise<void> {
    if (reached) this.#missing.delete(relay)
    else this.#missing.add(relay)
    await this.#inTurn()
  }

  /** Tells the others, and people, that a relay does not reach its destination and why; or, undefined, that it does again. */
  async failing(relay: string, error: Error | undefined): Promise<void> {
    if (error === undefined) this.#failing.delete(relay)
    else this.#failing.set(relay, this.#options.redact(messageOf(error)).slice(0, MAX_REASON).toWellFormed())
    await this.#inTurn()
  }

  /** The lanes of this worker among those that handle this type of this consumer. */
  lanesOfType(consumer: string, type: string): readonly number[] {
    return this.#lanesOf(
      ['type', consumer, type],
      ({ consumers }) => consumers.get(consumer)?.includes(type) ?? false,
      (serves) => serves.stuck,
    )
  }

  /** Whether a process handles, or has handled, this type of this consumer by name; see `OTHERS`. */
  isNamed(consumer: string, type: string): boolean {
    return this.#named.get(consumer)?.has(type) ?? false
  }

  /** Records that a process handles this type of this consumer by name. */
  learn(consumer: string, type: string): void {
    const types = this.#named.get(consumer) ?? new Set()
    this.#named.set(consumer, types.add(type))
  }

  /** The lanes of this worker among those that serve this relay. */
  lanesOfRelay(relay: string): readonly number[] {
    return this.#lanesOf(
      ['relay', relay],
      (serves) => serves.relays.includes(relay),
      (serves) => serves.missing.includes(relay),
    )
  }

  /** The lanes of others in which this worker is the one that may relay what their owner leaves. */
  nextLanesOfRelay(relay: string): readonly number[] {
    return this.#lanesOf(
      ['next', relay],
      (serves) => serves.relays.includes(relay),
      (serves) => serves.missing.includes(relay),
      nextLanesOf,
    )
  }

  /** Whether this worker is the one, among those that qualify, that does a task for all. */
  owns(thing: string, who: (serves: Serves) => boolean): boolean {
    return ownerOf(thing, this.#who(who)) === this.#id
  }

  /** Deletes the row, so that others take over at once instead of after a timeout. */
  async leave(): Promise<void> {
    // A start that failed before has no row to delete.
    if (this.#id === '') return
    this.#state = 'left'
    this.#cancel()
    this.#cancelDoubt()
    await this.#beating
    if (this.#id === '') return
    try {
      await this.#options.store.leave(this.#id)
    } catch (error) {
      // Not fatal: the worker will be presumed dead in time.
      this.#options.report(asError(error))
    }
  }

  /** `unable`: workers that get lanes only if there is no other worker. */
  #lanesOf(
    what: readonly string[],
    who: (serves: Serves) => boolean,
    unable: (serves: Serves) => boolean = () => false,
    share: typeof lanesOf = lanesOf,
  ): readonly number[] {
    // As JSON, because a separator could be part of a name.
    const name = JSON.stringify(what)
    let lanes = this.#lanes.get(name)
    if (lanes === undefined) {
      lanes = share(this.#id, this.#who(who, unable))
      this.#lanes.set(name, lanes)
    }
    return lanes
  }

  #who(who: (serves: Serves) => boolean, unable: (serves: Serves) => boolean = () => false): readonly string[] {
    const others = this.#others.filter(({ serves }) => who(serves))
    const all = [{ id: this.#id, serves: this.#serves() }, ...others]
    const able = all.filter(({ serves }) => !unable(serves))
    return (able.length > 0 ? able : all).map(({ id }) => id)
  }

  #serves(): Serves {
    const { source, consumers, relays, retention, samples } = this.#options.serves
    const unable = { stuck: this.#stuck, missing: [...this.#missing], failing: new Map(this.#failing) }
    return { source, consumers, relays, retention, samples, ...unable }
  }

  async #hello(): Promise<void> {
    const { store, random } = this.#options
    const id = random.token()
    const name = workerName()
    const serves = servesText(this.#serves())
    await store.join({ id, name, ttlMs: Math.ceil(this.#ttlMs), serves })
    this.#id = id
    this.#told = serves
    this.#lanes.clear()
  }

  #schedule(): void {
    if (this.#state !== 'joined') return
    const { clock, random } = this.#options
    this.#cancel = clock.after(this.#beatMs * (0.9 + random.number() / 10), () => {
      void this.#inTurn().then(
        () => this.#schedule(),
        (error: unknown) => {
          this.#options.report(asError(error))
          this.#schedule()
        },
      )
    })
  }

  /** One beat or note at a time. */
  #inTurn(work: () => Promise<void> = () => this.#beat()): Promise<void> {
    // A late note must not bring back a worker that has left.
    const turn = this.#beating.then(() => (this.#state === 'left' ? undefined : this.#options.outages.during(work)))
    this.#beating = turn.catch(() => {})
    return turn
  }

  async #beat(): Promise<void> {
    const { store, clock, inHand } = this.#options
    const began = clock.monotonic()
    if (this.#state === 'joined' && this.#told !== servesText(this.#serves())) await this.#helloAgain()
    let workers = await store.note(this.#id, inHand(), true)
    if (workers === undefined) {
      this.#options.buried()
      await this.#hello()
      workers = (await store.note(this.#id, inHand(), true)) ?? []
    }
    this.#heardAt = began
    const [first] = workers
    if (first !== undefined) this.#options.heard(first.listedAt, began)
    await this.#heed(workers)
  }

  /** Marks the rows that dead workers had in hand before their lanes move, so that their next worker treats them as crash suspects. */
  async #heed(workers: readonly Peer[]): Promise<void> {
    try {
      if (workers.some((worker) => !worker.alive && worker.id !== this.#id)) await this.#bury()
    } finally {
      this.#update(workers)
    }
    this.#cancelDoubt()
    if (workers.some((worker) => worker.doubtful)) this.#lookAgain()
  }

  /** A session has ended; whether its process has ended too is known shortly. */
  #lookAgain(): void {
    if (this.#state !== 'joined') return
    this.#cancelDoubt = this.#options.clock.after(DOUBT_MS, () => {
      this.notedElsewhere().catch((error: unknown) => this.#options.report(asError(error)))
    })
  }

  /** Joins again under a new id, which makes the others read the row again. Messages in hand are noted under both ids meanwhile. */
  async #helloAgain(): Promise<void> {
    const { store, inHand, changed } = this.#options
    const before = this.#id
    await this.#hello()
    await store.note(this.#id, inHand(), false)
    await store.leave(before)
    changed()
  }

  #update(workers: readonly WorkerRow[]): void {
    const others = workers.filter((worker) => worker.alive && worker.id !== this.#id)
    const same =
      others.length === this.#others.length && others.every(({ id }, index) => id === this.#others[index]?.id)
    if (same) return
    this.#others = others.map((other) => ({ id: other.id, serves: servesOf(other) }))
    for (const { serves } of this.#others) {
      for (const [consumer, types] of serves.consumers) for (const type of types) this.learn(consumer, type)
    }
    this.#lanes.clear()
    this.#options.changed()
    for (const other of others) this.#compare(other.name, servesOf(other))
  }

  /** Warns once about another application with a consumer of the same name. Types prove nothing: a new version may handle more. */
  #compare(worker: string, { source, consumers }: Serves): void {
    const { serves, logger } = this.#options
    if (source === undefined || source === serves.source) return
    for (const consumer of serves.consumers.keys()) {
      const name = JSON.stringify([consumer, source])
      if (!consumers.has(consumer) || this.#namesakes.has(name)) continue
      this.#namesakes.add(name)
      logger.warn({ consumer, worker, source }, namesakeText(consumer, [String(serves.source), source]))
    }
  }

  async #bury(): Promise<void> {
    try {
      if ((await this.#options.store.bury()) > 0) this.#options.changed()
    } catch (error) {
      // Two workers may bury the same row at once; the next heartbeat looks again.
      if (!isHapaxError(error, 'transaction-conflict')) throw error
    }
  }
}

/** Slightly longer than a store takes to be sure. */
const DOUBT_MS = 600
/** How much of an error the row of a worker has. */
const MAX_REASON = 300

/** Says that applications of these sources serve a consumer of one name. */
export function namesakeText(consumer: string, sources: readonly string[]): string {
  return (
    `the consumer ${consumer} is served by different applications (${sources.join(', ')}): ` +
    'they share its receipts and its inbox, so that each takes messages from the other'
  )
}

/** What a worker serves, as its row says it. */
function servesText({ source, consumers, relays, retention, stuck, missing, failing, samples }: Serves): string {
  // JSON has no Infinity.
  const kept = Object.fromEntries([...retention].map(([name, ms]) => [name, Number.isFinite(ms) ? ms : 'forever']))
  const unable = { ...(stuck && { stuck }), ...(missing.length > 0 && { missing }), ...(samples && { samples }) }
  const why = failing.size > 0 && { failing: Object.fromEntries(failing) }
  return JSON.stringify({
    source,
    consumers: Object.fromEntries(consumers),
    relays,
    retention: kept,
    ...unable,
    ...why,
  })
}

/** Reads what a worker serves from its row. Another version may have written something else, so that nothing is assumed. */
export function servesOf({ serves }: Pick<WorkerRow, 'serves'>): Serves {
  try {
    const said: { [Name in keyof Serves]?: unknown } = JSON.parse(serves)
    const { source, consumers, relays, retention, stuck, missing, failing, samples } = said
    return {
      source: typeof source === 'string' ? source : undefined,
      consumers: typesOf(consumers),
      relays: namesOf(relays),
      retention: retentionOf(retention),
      stuck: stuck === true,
      missing: namesOf(missing),
      failing: textsOf(failing),
      samples: samples === true,
    }
  } catch {
    const nothing = { source: undefined, consumers: new Map(), relays: [], retention: new Map() }
    return { ...nothing, stuck: false, missing: [], failing: new Map(), samples: false }
  }
}

function textsOf(value: unknown): ReadonlyMap<string, string> {
  const texts = Object.entries(typeof value === 'object' && value !== null ? value : {})
  return new Map(texts.filter((each): each is [string, string] => typeof each[1] === 'string'))
}

function namesOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value : []
}

function retentionOf(value: unknown): Serves['retention'] {
  if (typeof value !== 'object' || value === null) return new Map()
  const spans = Object.entries(value).map(
    ([name, ms]) => [name, ms === 'forever' ? Number.POSITIVE_INFINITY : ms] as const,
  )
  return new Map(spans.filter((span): span is readonly [string, number] => typeof span[1] === 'number'))
}

function typesOf(value: unknown): Serves['consumers'] {
  if (typeof value !== 'object' || value === null) return new Map()
  const entries = Object.entries(value)
  return new Map(entries.every(([, types]) => Array.isArray(types)) ? entries : [])
}
