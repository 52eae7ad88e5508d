/** A handler as it was registered; compared by identity. */
interface Known {
  readonly kind: string
}

/** How a transaction ran that has committed. */
interface Ran {
  /** How long its handlers took together. */
  readonly handlersMs: number
  /** Whether it had to run more than once. */
  readonly repeated: boolean
}

/**
 * How many messages of a consumer share a transaction in this process. Unless the options fix the size, it follows from what the last
 * groups came to: it doubles while their handlers are quick, shrinks when they are slow, so that locks stay short, and begins again
 * after a failure, because the messages of a group that failed run once more, one by one.
 */
export class GroupSize {
  readonly #wanted: number | undefined
  #fixed: number | undefined
  readonly #proven = new Set<Known>()
  #least = 1
  #most: number
  #size = 1
  /** How many messages have to succeed before the size may grow again, and how many after the next failure. */
  #waiting = 0
  #reluctance = MIN_RELUCTANCE
  /** Messages that succeeded since the last failure, or since the last time that one was forgiven. */
  #clean = 0

  /** `wanted`: the configured size; `most`: the maximum of the store. */
  constructor(wanted: number | undefined, most: number = Number.POSITIVE_INFINITY) {
    this.#wanted = wanted
    this.#fixed = wanted === undefined ? undefined : Math.min(wanted, most)
    this.#most = Math.min(MOST, most)
  }

  /** Whether the size follows from what happens. */
  get automatic(): boolean {
    return this.#fixed === undefined
  }

  /** The most messages that may share a transaction now. */
  get size(): number {
    return this.#fixed ?? this.#size
  }

  /** How many of the waiting messages the next group takes. What few messages there are is spread over the free places. */
  next(waiting: number, places: number): number {
    if (this.#fixed !== undefined) return this.#fixed
    return Math.max(1, Math.min(this.#size, Math.ceil(waiting / Math.max(1, places))))
  }

  /** A handler of many was registered: it is written for groups, so that they are large from the beginning. */
  forMany(): void {
    this.#fixed = this.#wanted
    this.#least = LEAST_OF_MANY
    this.#most = MOST_OF_MANY
    this.#size = LEAST_OF_MANY
  }

  /**
   * Whether messages of this handler may share a transaction with others. Not before it has succeeded by itself: a handler that ends
   * its own transaction would commit for the others as well.
   */
  mayShare(handler: Known): boolean {
    return this.#fixed !== undefined || handler.kind === 'many' || this.#proven.has(handler)
  }

  /**
   * How many conflicts a transaction of so many messages may meet. Groups that touch the same rows in different order may deadlock again
   * and again; single messages rarely do.
   */
  mostConflicts(count: number): number | undefined {
    return this.#fixed === undefined && count > 1 ? MOST_CONFLICTS : undefined
  }

  /** A group has committed. */
  committed(jobs: readonly { readonly handler: Known }[], { handlersMs, repeated }: Ran): void {
    if (this.#fixed !== undefined) return
    for (const { handler } of jobs) this.#proven.add(handler)
    if (repeated) this.failed()
    else this.#succeeded(jobs.length, handlersMs)
  }

  /** A group has failed. */
  failed(): void {
    this.#size = Math.min(this.#size, this.#least)
    this.#waiting = this.#reluctance
    this.#reluctance = Math.min(MAX_RELUCTANCE, 2 * this.#reluctance)
    this.#clean = 0
  }

  #succeeded(count: number, ms: number): void {
    this.#forgive(count)
    // Of what there was and not of the size: groups that end together must not multiply what each of them has seen.
    const fitting = Math.floor(count * Math.min(2, TARGET_MS / ms))
    if (ms > TARGET_MS) this.#size = Math.max(1, Math.min(this.#size, fitting))
    else if (this.#waiting > 0) this.#waiting -= count <= this.#size ? count : 0
    else this.#size = Math.max(this.#size, Math.min(this.#most, fitting))
  }

  #forgive(count: number): void {
    this.#clean += count
    if (this.#clean < FORGIVING * this.#reluctance) return
    this.#clean = 0
    this.#reluctance = Math.max(MIN_RELUCTANCE, this.#reluctance / 2)
  }
}

/** How long the handlers of a group may take together. */
const TARGET_MS = 50
/** The largest groups, and where groups of handlers of many begin. */
const MOST = 100
const LEAST_OF_MANY = 100
const MOST_OF_MANY = 500
/** How many messages have to succeed after a failure before groups grow again: more if failures are frequent. */
const MIN_RELUCTANCE = 16
const MAX_RELUCTANCE = 1_024
/** A failure is forgiven after so many times as many messages. */
const FORGIVING = 8
/** How many conflicts a group may meet before its messages run one by one. */
const MOST_CONFLICTS = 3

/** Parts of a group in their order: those that may share a transaction together, the others one by one. Asked as each part is taken. */
export function* sharing<T>(items: readonly T[], mayShare: (item: T) => boolean): Generator<readonly T[]> {
  for (let start = 0; start < items.length; ) {
    const stop = items.findIndex((item, index) => index >= start && !mayShare(item))
    const end = stop === -1 ? items.length : Math.max(stop, start + 1)
    yield items.slice(start, end)
    start = end
  }
}
