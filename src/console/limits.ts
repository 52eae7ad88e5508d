// The console must not be a burden just when the database has one: few questions at a time, none of them for long, and equal ones are
// asked once.

import { afterAwake, isHapaxError, systemClock, within } from '../base/index.ts'
import { isOutage, Refusal } from './problems.ts'

/** The answer to a question, from now or from before. */
export interface Kept {
  readonly data: unknown
  readonly ageMs: number
}

/** A question was not answered. `last` is what was answered to the same one before, if that is known. */
export class Unanswered extends Error {
  override readonly name = 'Unanswered'
  readonly last: Kept | undefined

  constructor(cause: unknown, last: Kept | undefined) {
    super('the database did not answer', { cause })
    this.last = last
  }
}

/** At most this many questions are put to the database at a time. */
const AT_ONCE = 2
/** How long one may take, together with its wait for a turn. */
const LIMIT_MS = 2_000
/** A question that is not answered at all keeps its turn for this long: its statement may still run. */
const LOST_MS = 10_000
/** How long a change may take. */
const CHANGE_MS = 10_000
/** How many answers are remembered. */
const REMEMBERED = 100

/** What is asked, and whether its answer is small enough to be remembered. */
export interface Asked {
  /** Equal for equal questions. */
  readonly key: string
  load(): Promise<unknown>
  /** @default yes */
  keeps?(data: unknown): boolean
}

/** Puts questions to the database. */
export class Questions {
  readonly #flights = new Map<string, Promise<unknown>>()
  readonly #answers = new Map<string, { readonly data: unknown; readonly at: number }>()
  readonly #waiting: (() => void)[] = []
  #running = 0

  /** The answer; throws `Unanswered` if the database gives none in time, and what hapax throws if it refuses the question. */
  async ask(asked: Asked): Promise<unknown> {
    try {
      return await inTime(LIMIT_MS, this.#flight(asked), 'The database did not answer within 2 seconds.')
    } catch (error) {
      if (!isOutage(error) && isHapaxError(error)) throw error
      throw new Unanswered(error, this.#last(asked.key))
    }
  }

  /** Makes a change. What is asked from now on sees it. */
  async change<T>(act: () => Promise<T>): Promise<T> {
    try {
      return await inTime(
        CHANGE_MS,
        act(),
        'The database did not answer within 10 seconds: it is not known whether this was done. Look before you repeat it.',
      )
    } finally {
      this.#flights.clear()
    }
  }

  #flight(asked: Asked): Promise<unknown> {
    const { key } = asked
    const under = this.#flights.get(key)
    if (under !== undefined) return under
    const flight = this.#inTurn(() => asked.load()).then((data) => this.#remembered(asked, data))
    this.#flights.set(key, flight)
    const landed = (): void => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key)
    }
    flight.then(landed, landed)
    // Whoever asks later asks anew: this one may never be answered.
    setTimeout(landed, LIMIT_MS).unref()
    return flight
  }

  async #inTurn(load: () => Promise<unknown>): Promise<unknown> {
    if (!(await this.#turn())) throw tooBusy()
    // Not called plainly: what it throws at once would keep its turn for ever.
    const answer = Promise.resolve().then(load)
    let cancel = (): void => {}
    const lost = new Promise<void>((resolve) => {
      cancel = afterAwake(systemClock, LOST_MS, resolve, 'idle')
    })
    void Promise.race([answer.catch(() => {}), lost]).then(() => {
      cancel()
      this.#running -= 1
      this.#waiting.shift()?.()
    })
    return answer
  }

  /** False: it was not its turn in time, and nobody waits for the answer any more. */
  async #turn(): Promise<boolean> {
    if (this.#running < AT_ONCE) {
      this.#running += 1
      return true
    }
    return new Promise((resolve) => {
      const begin = (): void => {
        cancel()
        this.#running += 1
        resolve(true)
      }
      const cancel = afterAwake(
        systemClock,
        LIMIT_MS,
        () => {
          this.#waiting.splice(this.#waiting.indexOf(begin), 1)
          resolve(false)
        },
        'idle',
      )
      this.#waiting.push(begin)
    })
  }

  #remembered(asked: Asked, data: unknown): unknown {
    const { key } = asked
    this.#answers.delete(key)
    if (asked.keeps?.(data) === false) return data
    this.#answers.set(key, { data, at: performance.now() })
    const [oldest] = this.#answers.keys()
    if (this.#answers.size > REMEMBERED && oldest !== undefined) this.#answers.delete(oldest)
    return data
  }

  #last(key: string): Kept | undefined {
    const found = this.#answers.get(key)
    return found && { data: found.data, ageMs: Math.round(performance.now() - found.at) }
  }
}

function tooBusy(): Refusal {
  return new Refusal(503, 'timeout', 'The database has not answered earlier questions yet.')
}

/** What the work returns; refused where that takes too long, not counting standstills of this process. */
async function inTime<T>(limitMs: number, work: Promise<T>, detail: string): Promise<T> {
  const late = (): never => {
    work.catch(() => {})
    throw new Refusal(503, 'timeout', detail)
  }
  return within(systemClock, limitMs, work, late, 'awake')
}
