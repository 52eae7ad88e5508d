import { HapaxError, text } from '../base/index.ts'
import type { Origin, Store } from '../contracts/index.ts'
import { servesOf } from '../worker/index.ts'
import { auditOf, type By } from './audit.ts'

/** Pauses consumers, or relays. */
export class Pausing {
  readonly #store: Pick<Store<never, never>, 'subscriptions' | 'pauses' | 'admin'>
  readonly #origin: Origin

  constructor(store: Pick<Store<never, never>, 'subscriptions' | 'pauses' | 'admin'>, origin: Origin) {
    this.#store = store
    this.#origin = origin
  }

  /** A name that nobody knows is refused: a typing error must not look like a pause. */
  async pause(name: string, by?: By): Promise<void> {
    const scope = text('name', name)
    const audit = auditOf('pause', by)
    if (!(await this.#isKnown(scope))) throw this.#error('not-found', `there is no ${this.#kind} ${scope}`, scope)
    if (await this.#store.pauses.pause(this.#origin, scope, audit)) return
    throw this.#error('conflict', `the ${this.#kind} ${scope} is paused already`, scope)
  }

  async resume(name: string, by?: By): Promise<void> {
    const scope = text('name', name)
    if (await this.#store.pauses.resume(this.#origin, scope, auditOf('resume', by))) return
    throw this.#error('not-found', `the ${this.#kind} ${scope} is not paused`, scope)
  }

  get #kind(): 'consumer' | 'relay' {
    return this.#origin === 'inbox' ? 'consumer' : 'relay'
  }

  /** Known by its rows, by a worker, or, of a consumer, by its subscriptions. */
  async #isKnown(scope: string): Promise<boolean> {
    const { admin, subscriptions } = this.#store
    const { consumers, relays, workers } = await admin.status()
    const served = workers.map(servesOf)
    if (this.#origin === 'outbox') {
      return relays.some(({ relay }) => relay === scope) || served.some((each) => each.relays.includes(scope))
    }
    if (consumers.some(({ consumer }) => consumer === scope)) return true
    if (served.some((each) => each.consumers.has(scope))) return true
    return (await subscriptions.list()).some(({ consumer }) => consumer === scope)
  }

  #error(code: 'not-found' | 'conflict', message: string, scope: string): HapaxError {
    return new HapaxError(code, message, { fields: { origin: this.#origin, scope } })
  }
}
