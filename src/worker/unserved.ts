import type { Clock, Logger, State } from '../base/index.ts'
import type { StoreWorkers } from '../contracts/index.ts'
import { isScope } from '../requests/index.ts'
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
  /** What the last look found to be unserved. */
  #before: ReadonlySet<string> = new Set()

  constructor(options: UnservedOptions) {
    this.#options = options
  }

  /** Called when a message of this type was left to a worker. A look that fails is ignored: it must not fail the delivery. */
  async look(consumer: string, type: string): Promise<void> {
    // A request is left to its client, too: whether neither comes is seen by `watch`.
    if (isScope(consumer)) return
    const { clock } = this.#options
    const lookedAt = this.#lookedAt.get(consumer) ?? Number.NEGATIVE_INFINITY
    if (this.#warned.has(consumer) || clock.monotonic() - lookedAt < AGAIN_MS) return
    this.#lookedAt.set(consumer, clock.monotonic())
    const served = await this.#isServed(consumer, type).catch(() => true)
    if (!served) this.consumer(consumer, type)
  }

  /** A message of this type waits for this consumer, and no live worker handles it. */
  consumer(consumer: string, type: string): void {
    if (this.#warned.has(consumer)) return
    this.#warned.add(consumer)
    this.#warn(consumer, type)
  }

  /** Messages wait for this relay, and no live worker serves it. */
  relay(relay: string): void {
    if (this.#warned.has(`relay ${relay}`)) return
    this.#warned.add(`relay ${relay}`)
    this.#warnOfRelay(relay)
  }

  /**
   * Warns of what waits in the database and is not served, whichever process it belongs to. Two looks have to find it: while workers are
   * being replaced, there may be none for a moment.
   */
  watch({ consumers, relays }: State): void {
    const alone = [
      ...consumers.filter(isUnserved).map((each) => ({ ...each, relay: '' })),
      ...relays.filter(isUnservedRelay).map((each) => ({ ...each, consumer: '' })),
    ]
    const nameOf = ({ consumer, relay }: { readonly consumer: string; readonly relay: string }): string =>
      consumer === '' ? `relay ${relay}` : consumer
    for (const each of alone) {
      const name = nameOf(each)
      if (!this.#before.has(name) || this.#warned.has(name)) continue
      this.#warned.add(name)
      this.#warnOfWaiting(each)
    }
    this.#before = new Set(alone.map(nameOf))
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

  #warnOfRelay(relay: string, waiting?: number): void {
    const advice =
      'Start a worker with this relay: await hapax.worker({ relay: destination }).start(), or npx hapax relay. ' +
      'To see what waits: npx hapax relays list.'
    const what = `messages wait in the outbox for the relay ${relay}, but no live worker serves it`
    this.#options.logger.warn({ relay, ...(waiting !== undefined && { waiting }), advice }, what)
  }

  #warnOfWaiting({ consumer, relay, waiting }: { consumer: string; relay: string; waiting: number }): void {
    const { logger } = this.#options
    if (consumer === '') {
      this.#warnOfRelay(relay, waiting)
      return
    }
    const advice =
      'Start a worker of this consumer, or, if it is no longer used, remove it: npx hapax consumers remove.'
    logger.warn(
      { consumer, waiting, advice },
      `messages of ${consumer} wait in its inbox, but no live worker serves it`,
    )
  }
}

/**
 * Whether messages of a consumer wait for a worker, and no live one serves it. Requests that are not due are being worked on by those who
 * got them.
 */
export function isUnserved({ consumer, waiting, retrying, oldestMs, workers }: State['consumers'][number]): boolean {
  return workers === 0 && waiting + retrying > 0 && (oldestMs !== undefined || !isScope(consumer))
}

/** The same for the messages of a relay. */
export function isUnservedRelay({ waiting, workers }: State['relays'][number]): boolean {
  return workers === 0 && waiting > 0
}
