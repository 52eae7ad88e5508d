import { HapaxError } from '../base/index.ts'
import type { Opening } from '../contracts/index.ts'

/**
 * Where a process can end while it works on a message, or lose its database:
 * - `before-handler`: the transaction is open, the handler was not called;
 * - `in-handler`: after a call that the handler made on `ctx.tx`;
 * - `before-commit`: the handler has returned, nothing is committed;
 * - `in-commit`: the connection breaks during COMMIT, and nothing was committed; the process lives on, and cannot know that;
 * - `after-commit`: the same, but the database had committed;
 * - `before-ack`: everything is committed, and the broker was not told.
 */
export type CrashPoint = 'before-handler' | 'in-handler' | 'before-commit' | 'in-commit' | 'after-commit' | 'before-ack'

/** All of them, in the order in which a delivery passes them. */
export const CRASH_POINTS: readonly CrashPoint[] = [
  'before-handler',
  'in-handler',
  'before-commit',
  'in-commit',
  'after-commit',
  'before-ack',
]

/** A crash that is to happen in the next delivery of a message. */
export class CrashPlan {
  readonly point: CrashPoint
  /** For `in-handler`: after which call. */
  readonly #after: number
  readonly #consumer: string
  readonly #id: string | undefined
  #state: 'waiting' | 'seen' | 'crashed' = 'waiting'
  #dead = false
  #calls = 0

  constructor(point: CrashPoint, after: number, consumer: string, id: string | undefined) {
    this.point = point
    this.#after = after
    this.#consumer = consumer
    this.#id = id
  }

  /** `waiting`: no store that can crash has met the message. `seen`: one has, and the point was not reached. */
  get state(): 'waiting' | 'seen' | 'crashed' {
    return this.#state
  }

  /** The process has ended: nothing reaches the database. */
  get dead(): boolean {
    return this.#dead
  }

  isFor(opening: Opening): boolean {
    if (opening.kind !== 'take' || opening.consumer !== this.#consumer) return false
    const found = this.#id === undefined || opening.messages.some(({ id }) => id === this.#id)
    if (found && this.#state === 'waiting') this.#state = 'seen'
    return found
  }

  /** The process ends here. */
  crash(): never {
    this.#state = 'crashed'
    this.#dead = true
    throw gone()
  }

  /** The connection breaks here, in the COMMIT. */
  cut(): never {
    this.#state = 'crashed'
    throw new HapaxError('commit-unknown', `the connection was cut by crashAt('${this.point}')`)
  }

  assertAlive(): void {
    if (this.#dead) throw gone()
  }

  /** A call on the transaction: crashes after the one that was chosen. */
  counted(call: () => unknown): unknown {
    this.assertAlive()
    // What the last call returned is sent when it is awaited, as the builders of ORMs do.
    if (this.#calls >= this.#after) this.crash()
    const result = call()
    this.#calls += 1
    if (this.#calls < this.#after) return result
    if (result instanceof Promise) return result.then(() => this.crash())
    if (typeof result === 'object' && result !== null) return result
    return this.crash()
  }

  /** Whether the handler has made as many calls as were to be made. */
  get due(): boolean {
    return this.point === 'in-handler' && this.#calls >= this.#after
  }
}

function gone(): HapaxError {
  return new HapaxError('store-unavailable', 'the process was ended by crashAt')
}

const plans = new Set<CrashPlan>()

/** Runs a delivery in which this crash is to happen. */
export async function during<T>(plan: CrashPlan, delivery: () => Promise<T>): Promise<T> {
  plans.add(plan)
  try {
    return await delivery()
  } finally {
    plans.delete(plan)
  }
}

export function planFor(opening: Opening): CrashPlan | undefined {
  for (const plan of plans) if (plan.isFor(opening)) return plan
  return undefined
}
