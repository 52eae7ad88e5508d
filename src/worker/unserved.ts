import type { Clock, Logger } from '../base/index.ts'
import type { StoreWorkers } from '../contracts/index.ts'
import { servesOf } from './membership.ts'

/** What looking for workers needs. */
interface UnservedOptions {
  readonly workers: Pick<StoreWorkers, 'list'>
  readonly clock: Clock
  readonly logger: Logger
}

/** How long a look counts: a busy consumer must not ask the database for every message. */
const AGAIN_MS = 60_000

/** Warns, once per consumer, that messages wait in its inbox although no live worker serves it. */
export class Unserved {
  readonly #options: UnservedOptions
  readonly #warned = new Set<string>()
  readonly #lookedAt = new Map<string, number>()

  constructor(options: UnservedOptions) {
    this.#options = options
  }

  /** Called when a message of this type was left to a worker. A look that fails is ignored: it must not fail the delivery. */
  async look(consumer: string, type: string): Promise<void> {
    const { clock } = this.#options
    const lookedAt = this.#lookedAt.get(consumer) ?? Number.NEGATIVE_INFINITY
    if (this.#warned.has(consumer) || clock.monotonic() - lookedAt < AGAIN_MS) return
    this.#lookedAt.set(consumer, clock.monotonic())
    const served = await this.#isServed(consumer, type).catch(() => true)
    if (served || this.#warned.has(consumer)) return
    this.#warned.add(consumer)
    this.#warn(consumer, type)
  }

  async #isServed(consumer: string, type: string): Promise<boolean> {
    const workers = await this.#options.workers.list()
    return workers.some((row) => row.alive && (servesOf(row).consumers.get(consumer)?.includes(type) ?? false))
  }

  #warn(consumer: string, type: string): void {
    const advice =
      'Start a worker, in this process or in another one: await hapax.worker({ consume: [consumer] }).start(), or npx hapax work. ' +
      "Or leave retries to the caller: hapax.consumer(name, { onError: 'rollback' })."
    const what = `a message of ${consumer} waits in its inbox for a worker, but no live worker handles ${type} for this consumer`
    this.#options.logger.warn({ consumer, type, advice }, what)
  }
}
