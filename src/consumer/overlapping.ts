import type { View, Views } from '../contracts/index.ts'
import { OUT_OF_TURN, type Scope } from '../transaction/index.ts'
import { Borders } from './borders.ts'
import { Pace } from './pace.ts'

/** A handler to be called. */
export interface Step<Tx> {
  readonly handler: object
  /** Whether it never overlaps. */
  readonly apart: boolean
  /** Messages of one key do not overlap, because their order counts. */
  readonly key: string | null
  /** Makes everything ready for the call. */
  prepare(): Promise<void> | undefined
  call(view: View<Tx>): unknown
}

const paces = new WeakMap<object, Pace>()

/**
 * Calls handlers in their order, on views of one transaction. The next one is called while the one before waits for the database, if
 * that is all it waits for: so their statements travel together, and in the order in which they would travel one by one. A handler that
 * breaks this order makes the transaction run again without overlaps (`OUT_OF_TURN`).
 */
export async function callOverlapping<Tx>(steps: Iterable<Step<Tx>>, views: Views<Tx>, scope: Between): Promise<void> {
  const calls = new Calls(views, scope)
  for (const step of steps) {
    const pace = paceOf(step.handler)
    const overlaps = pace.mayOverlap && !step.apart
    if (!overlaps || calls.hasKey(step.key)) await calls.ended()
    if (calls.over) break
    try {
      const preparing = step.prepare()
      if (preparing !== undefined) await preparing
      const parting = calls.part(step.handler)
      if (parting !== undefined) await parting
      if (calls.over) break
      const call = calls.start(step, pace)
      if (!overlaps || call.view.sent === 0 || call.view.reach !== 'none') await calls.ended()
    } catch (error) {
      calls.fail(error)
    }
  }
  // None may still use the transaction while it is rolled back.
  await calls.ended()
  calls.finish()
}

function paceOf(handler: object): Pace {
  let pace = paces.get(handler)
  if (pace === undefined) {
    pace = new Pace()
    paces.set(handler, pace)
  }
  return pace
}

/** The step between two handlers of a transaction. */
export type Between = Pick<Scope<never>, 'border'>

/** One call of a handler. */
interface Call<Tx> {
  readonly handler: object
  readonly view: View<Tx>
  readonly pace: Pace
  /** How many statements it had sent when the call returned. */
  atOnce: number
  settled: boolean
  lingered: boolean
}

/** The calls of one transaction. */
class Calls<Tx> {
  readonly #views: Views<Tx>
  readonly #all: Call<Tx>[] = []
  readonly #keys = new Set<string>()
  #running = 0
  #wake: (() => void) | undefined
  /** The error of the first message that failed, as if the others had not been called. */
  #failed: { readonly place: number; readonly error: unknown } | undefined
  /** Calls that wait for the database, as far as is known. */
  #waiting: Call<Tx>[] = []

  readonly #borders: Borders
  /** Number of calls reported to the borders. */
  #told = 0

  constructor(views: Views<Tx>, between: Between) {
    this.#views = views
    this.#borders = new Borders(between)
  }

  /** Whether no further handler may be called. */
  get over(): boolean {
    return this.#failed !== undefined || this.#views.disordered !== undefined
  }

  /** Resolves when every call has ended; undefined if that is now. */
  ended(): Promise<void> | undefined {
    if (this.#running === 0) return undefined
    return new Promise((resolve) => {
      this.#wake = resolve
    })
  }

  /** Whether a call of this key may still run. */
  hasKey(key: string | null): boolean {
    return key !== null && this.#keys.has(key)
  }

  /** Isolates a handler from the effects of earlier ones. Undefined: it is isolated, and can be called now. */
  part(handler: object): Promise<void> | undefined {
    const untold = this.#all.slice(this.#told)
    if (this.#borders.mayBeDue(handler) || untold.some(({ view }) => view.reach !== 'none')) return this.#part(handler)
    this.#tell()
    return undefined
  }

  async #part(handler: object): Promise<void> {
    await this.ended()
    if (this.over) return
    this.#tell()
    if (!this.#borders.isDue(handler)) return
    await this.#borders.set()
  }

  /** Reports running calls as well: one that has named no savepoint yet cannot do so once a later one has begun. */
  #tell(): void {
    for (; this.#told < this.#all.length; this.#told++) {
      const call = this.#all[this.#told]
      if (call !== undefined) this.#borders.ended(call.handler, call.view.reach)
    }
  }

  start(step: Step<Tx>, pace: Pace): Call<Tx> {
    const { key } = step
    if (this.#running === 0) this.#keys.clear()
    if (key !== null) this.#keys.add(key)
    const view = this.#views.next()
    const call: Call<Tx> = { handler: step.handler, view, pace, atOnce: 0, settled: false, lingered: false }
    const place = this.#all.push(call)
    try {
      const result = step.call(view)
      call.atOnce = view.sent
      if (isThenable(result)) {
        this.#running += 1
        if (view.sent > 0) this.#awaitAnswers(call)
        const ending = result instanceof Promise ? result : Promise.resolve(result)
        ending.then(
          () => {
            this.#succeeded(call, place)
            this.#settled(call)
          },
          (error: unknown) => {
            this.fail(error, place)
            this.#settled(call)
          },
        )
      } else this.#succeeded(call, place)
    } catch (error) {
      this.fail(error, place)
    }
    return call
  }

  fail(error: unknown, place: number = this.#all.length + 1): void {
    if (this.#failed === undefined || place < this.#failed.place) this.#failed = { place, error }
  }

  /** Throws what follows from all calls. */
  finish(): void {
    const { disordered } = this.#views
    if (disordered !== undefined) {
      const call = this.#all.find(({ view }) => view === disordered)
      call?.pace.stumble()
      if (call?.view.reach === 'unseen') this.#borders.hides(call.handler)
      throw OUT_OF_TURN
    }
    if (this.#failed !== undefined) throw this.#failed.error
    if (this.#all.length > 1) this.#tell()
  }

  #succeeded({ pace, view, atOnce, lingered }: Call<Tx>, place: number): void {
    try {
      view.assertAwaited()
      pace.observe({ atOnce, sent: view.sent, untracked: view.reach !== 'none', lingered })
    } catch (error) {
      this.fail(error, place)
    }
  }

  #settled(call: Call<Tx>): void {
    call.settled = true
    this.#running -= 1
    if (this.#running > 0) return
    this.#wake?.()
    this.#wake = undefined
  }

  /** A handler that only waits for the database ends within the moment in which the answers come. */
  #awaitAnswers(call: Call<Tx>): void {
    if (this.#waiting.push(call) > 1) return
    const answered = this.#views.answered() ?? Promise.resolve()
    void answered.then(() => {
      const waiting = this.#waiting
      this.#waiting = []
      setImmediate(() => {
        for (const each of waiting) if (!each.settled) each.lingered = true
      })
    })
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}
