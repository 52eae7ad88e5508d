// Consumers and relays, as the store knows them.

import { HapaxError, nameText, noOthers, text } from '../base/index.ts'
import type { Store, StoreStatus, StoreSubscriptions } from '../contracts/index.ts'
import { MAX_TEXT_BYTES } from '../message/index.ts'
import { auditOf, type By } from './audit.ts'
import { Pausing } from './pausing.ts'

/** A consumer as the store knows it from its subscriptions. */
export interface KnownConsumer {
  readonly name: string
  readonly types: readonly string[]
  readonly ordered: boolean
}

/** The consumers that the store knows, of all processes. */
export class Consumers {
  readonly #store: StoreSubscriptions
  readonly #pauses: Pausing

  /** Made by `createHapax`. */
  constructor(store: Pick<Store<never, never>, 'subscriptions' | 'pauses' | 'admin'>) {
    this.#store = store.subscriptions
    this.#pauses = new Pausing(store, 'inbox')
  }

  /** All that have subscriptions, by name. */
  async list(): Promise<readonly KnownConsumer[]> {
    const known = new Map<string, { types: string[]; ordered: boolean }>()
    for (const { consumer, type, ordered } of await this.#store.list()) {
      const each = known.get(consumer) ?? { types: [], ordered: false }
      each.types.push(type)
      each.ordered ||= ordered
      known.set(consumer, each)
    }
    return [...known]
      .map(([name, { types, ordered }]) => ({ name, types: types.sort(), ordered }))
      .sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /**
   * Deletes the subscriptions of a consumer that is no longer deployed: nothing is delivered to it locally from now on.
   * Its receipts, inbox and failed messages stay. A worker that starts with it subscribes it again. Rejects with `not-found`.
   */
  async remove(name: string, by?: By): Promise<void> {
    const there = await this.#store.remove(text('name', name), auditOf('remove', by))
    if (!there) throw new HapaxError('not-found', `there is no consumer ${name}`, { fields: { consumer: name } })
  }

  /**
   * Has workers leave a consumer alone, within a second: they take nothing more for it from its inbox or its subscriptions, and what runs
   * ends. What the application hands to it directly, also by webhooks, is still taken. Rejects with `not-found` if there is no such
   * consumer, and with `conflict` if it is paused already.
   */
  pause(name: string, by?: By): Promise<void> {
    return this.#pauses.pause(name, by)
  }

  /** Has workers serve it again. Rejects with `not-found` if it is not paused. */
  resume(name: string, by?: By): Promise<void> {
    return this.#pauses.resume(name, by)
  }
}

/** The relays that the store knows. */
export class Relays {
  readonly #store: Pick<Store<never>, 'outbox' | 'admin'>
  readonly #pauses: Pausing

  /** Made by `createHapax`. */
  constructor(store: Pick<Store<never, never>, 'outbox' | 'admin' | 'subscriptions' | 'pauses'>) {
    this.#store = store
    this.#pauses = new Pausing(store, 'outbox')
  }

  /** Every relay with its destination and the messages that wait. Numbers above 10,000 are estimates, unless `exact` is asked for. */
  async list(options: { readonly exact?: boolean } = {}): Promise<StoreStatus['relays']> {
    noOthers('options', options, ['exact'])
    return (await this.#store.admin.status(options)).relays
  }

  /** Records a new destination for a relay. Workers with the old one refuse to start from now on. */
  async move(name: string, destination: string, by?: By): Promise<void> {
    const where = nameText('destination', destination, MAX_TEXT_BYTES)
    await this.#store.outbox.recordRelay(nameText('name', name), where, auditOf('move', by))
  }

  /**
   * Has workers send nothing more for a relay, within a second: messages wait in the outbox. Rejects with `not-found` if there is no such
   * relay, and with `conflict` if it is paused already.
   */
  pause(name: string, by?: By): Promise<void> {
    return this.#pauses.pause(name, by)
  }

  /** Has workers send again. Rejects with `not-found` if it is not paused. */
  resume(name: string, by?: By): Promise<void> {
    return this.#pauses.resume(name, by)
  }
}
