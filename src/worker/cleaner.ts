import { asError, type HapaxEvents, Signal } from '../base/index.ts'
import type { ConsumerCore } from '../consumer/index.ts'
import type { Cleaned, CleanupStep } from '../contracts/index.ts'
import { type Engine, persist } from '../transaction/index.ts'
import type { Membership } from './membership.ts'
import type { WorkerCleanup } from './options.ts'

/** What the cleaner needs of its worker. */
export interface CleanerOptions<Tx> {
  readonly engine: Engine<Tx>
  readonly consumers: readonly ConsumerCore<Tx>[]
  readonly relays: readonly string[]
  readonly keepSentMs: number | undefined
  readonly cleanup: Required<WorkerCleanup>
  readonly membership: Pick<Membership, 'owns' | 'alive'>
  report(error: Error): void
}

/** One kind of rows to delete, and whether this worker is the one to do it. */
interface Task {
  readonly what: HapaxEvents['cleaned']['what']
  readonly of: string
  /** Deletes some of them. */
  clean(after: string | undefined): Promise<Cleaned>
  mine(): boolean
}

/**
 * Deletes rows that are old and finished, in small steps with rests, so that handlers hardly notice. One worker does each task; if two
 * do it for a moment, they delete the same rows, which is harmless.
 */
export class Cleaner<Tx> {
  readonly #options: CleanerOptions<Tx>
  readonly #signal = new Signal()
  #stopping = false
  #loop: Promise<void> = Promise.resolve()

  constructor(options: CleanerOptions<Tx>) {
    this.#options = options
  }

  start(): void {
    this.#loop = this.#work()
  }

  /** Resolves when the step under way has ended. */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#signal.notify()
    await this.#loop
  }

  async #work(): Promise<void> {
    const { random } = this.#options.engine
    const { everyMs } = this.#options.cleanup
    // Instances that start together do not clean together.
    await this.#rest(Math.min(FIRST_MS, everyMs) * (0.5 + random.number()))
    while (!this.#stopping) {
      let busyMs = 0
      for (const task of this.#tasks()) busyMs += await this.#clean(task)
      // A pass over many receipts takes long. Resting 20 times as long as it worked keeps cleaning below 5 % of the time.
      await this.#rest(Math.max(everyMs, 20 * busyMs) * (0.9 + random.number() / 5))
    }
  }

  #tasks(): readonly Task[] {
    const { consumers, relays, keepSentMs, membership } = this.#options
    const tasks: Task[] = []
    for (const { name, settings } of consumers) {
      const { retentionMs } = settings
      if (retentionMs === 'forever') continue
      tasks.push({
        what: 'receipts',
        of: name,
        clean: (after) => this.#step({ kind: 'receipts', consumer: name, after }, retentionMs),
        mine: () => membership.owns(`clean ${name}`, ({ consumers: others }) => others.has(name)),
      })
    }
    for (const relay of relays) {
      if (keepSentMs === undefined) break
      tasks.push({
        what: 'sent',
        of: relay,
        clean: () => this.#step({ kind: 'sent', relay }, keepSentMs),
        mine: () => membership.owns(`clean sent ${relay}`, ({ relays: others }) => others.includes(relay)),
      })
    }
    const { auditRetentionMs } = this.#options.cleanup
    if (auditRetentionMs !== 'forever') {
      const mine = (): boolean => membership.owns('clean audit', () => true)
      tasks.push({ what: 'audit', of: '', clean: () => this.#step({ kind: 'audit' }, auditRetentionMs), mine })
    }
    const mine = (): boolean => membership.owns('clean responses', () => true)
    tasks.push({ what: 'responses', of: '', clean: () => this.#expire(), mine })
    return tasks
  }

  #step(step: CleanupStep, olderThanMs: number): Promise<Cleaned> {
    return this.#options.engine.store.admin.clean(step, olderThanMs, STEP)
  }

  /** Responses say themselves when they expire. */
  async #expire(): Promise<Cleaned> {
    const deleted = await this.#options.engine.store.responses.expire(STEP)
    return { deleted, after: deleted === STEP ? '' : undefined, oldestMs: undefined }
  }

  /**
   * Checks before every step whether the task is still ours: workers come and go during a long pass. Resolves to how long the steps took,
   * without the rests between them.
   */
  async #clean({ what, of, clean, mine }: Task): Promise<number> {
    const { engine, membership, report } = this.#options
    const { clock, events, logger } = engine
    const started = clock.monotonic()
    let endedAt = started
    let busyMs = 0
    let began = started
    let deleted = 0
    let oldestMs: number | undefined
    let after: string | undefined
    let whole = false
    try {
      do {
        if (this.#stopping || !membership.alive || !mine()) break
        began = clock.monotonic()
        const done = await persist(engine, () => clean(after))
        deleted += done.deleted
        oldestMs = oldest(oldestMs, done.oldestMs)
        after = done.after
        whole = after === undefined
        endedAt = clock.monotonic()
        busyMs += endedAt - began
        await this.#rest(Math.min(MAX_REST_MS, Math.max(MIN_REST_MS, REST * (endedAt - began))))
      } while (!whole)
    } catch (error) {
      busyMs += clock.monotonic() - began
      report(asError(error))
    }
    if (!whole && deleted === 0) return busyMs
    const durationMs = endedAt - started
    if (deleted > 0) logger.info({ what, of, deleted, durationMs: Math.round(durationMs) }, 'old rows were deleted')
    const left = whole && oldestMs !== undefined ? { oldestMs } : {}
    events.emit('cleaned', () => ({ what, of, deleted, durationMs, ...left }))
    return busyMs
  }

  async #rest(ms: number): Promise<void> {
    if (!this.#stopping) await this.#signal.wait(this.#options.engine.clock, ms)
  }
}

/** The age of the oldest row that is left, of two pages. */
function oldest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.max(a, b)
}

/** The first pass begins about this long after the start: a worker that starts has more urgent work. */
const FIRST_MS = 60_000
/** How many rows one step looks at. */
const STEP = 1_000
/** A rest is this many times as long as the step before it. */
const REST = 8
/** Bounds of a rest: even quick steps leave room for others, and a step that waited for a lock does not stop the pass. */
const MIN_REST_MS = 20
const MAX_REST_MS = 2_000
