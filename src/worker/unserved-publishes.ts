import type { Clock } from '../base/index.ts'
import type { Share, StoreSubscriptions, StoreWorkers, WorkerRow } from '../contracts/index.ts'
import { ALL_LANES } from '../message/index.ts'
import { LOCAL, type Prepared } from '../transaction/index.ts'
import { servesOf } from './membership.ts'
import type { Unserved } from './unserved.ts'

/** What looking after published messages needs of its hapax. */
interface UnservedPublishesOptions {
  readonly store: {
    readonly workers: Pick<StoreWorkers, 'list' | 'look'>
    readonly subscriptions: Pick<StoreSubscriptions, 'list'>
  }
  readonly clock: Clock
  readonly unserved: Pick<Unserved, 'relay' | 'consumer'>
  /** The consumers of a type that this process knows. */
  consumersOf(type: string): readonly { readonly name: string }[]
}

/**
 * Looks, some time after a publish, whether a live worker serves what was published, also where this process has no worker: otherwise
 * messages wait and nothing says why. A publish only notes the name of its relay, or its type, and never waits.
 */
export class UnservedPublishes {
  readonly #options: UnservedPublishesOptions
  /** Relays, and types of local delivery, that are about to be looked after, or were warned of. */
  readonly #relays = new Set<string>()
  readonly #types = new Set<string>()
  readonly #cancels = new Set<() => void>()

  constructor(options: UnservedPublishesOptions) {
    this.#options = options
  }

  /** These messages were written. */
  written(messages: readonly Pick<Prepared, 'relay' | 'message'>[]): void {
    for (const { relay, message } of messages) {
      if (relay === LOCAL) this.#note(this.#types, message.type, (type) => this.#lookAtType(type))
      else this.#note(this.#relays, relay, (name) => this.#lookAtRelay(name))
    }
  }

  /** Looks after nothing any more. */
  end(): void {
    for (const cancel of this.#cancels) cancel()
    this.#cancels.clear()
  }

  #note(noted: Set<string>, name: string, look: (name: string) => Promise<boolean>): void {
    if (noted.has(name)) return
    noted.add(name)
    const cancel = this.#options.clock.after(
      LATER_MS,
      () => {
        this.#cancels.delete(cancel)
        void this.#look(noted, name, look)
      },
      'idle',
    )
    this.#cancels.add(cancel)
  }

  /** What is served now is looked after again, after the next publish: its worker may go. A look that fails says nothing. */
  async #look(noted: Set<string>, name: string, look: (name: string) => Promise<boolean>): Promise<void> {
    const warned = await look(name).catch(() => false)
    if (!warned) noted.delete(name)
  }

  async #lookAtRelay(relay: string): Promise<boolean> {
    const { unserved } = this.#options
    const workers = await this.#alive()
    if (workers.some((row) => servesOf(row).relays.includes(relay))) return false
    if (!(await this.#waits({ table: 'outbox', scope: relay, types: [] }))) return false
    unserved.relay(relay)
    return true
  }

  async #lookAtType(type: string): Promise<boolean> {
    const { store, unserved, consumersOf } = this.#options
    const workers = await this.#alive()
    const listed = (await store.subscriptions.list()).filter((row) => row.type === type)
    const consumers = new Set([...consumersOf(type).map(({ name }) => name), ...listed.map((row) => row.consumer)])
    let warned = false
    for (const consumer of consumers) {
      if (workers.some((row) => servesOf(row).consumers.get(consumer)?.includes(type))) continue
      if (!(await this.#waits({ table: 'inbox', scope: consumer, types: [type] }))) continue
      unserved.consumer(consumer, type)
      warned = true
    }
    return warned
  }

  async #alive(): Promise<readonly WorkerRow[]> {
    return (await this.#options.store.workers.list()).filter(({ alive }) => alive)
  }

  async #waits(share: Pick<Share, 'table' | 'scope' | 'types'>): Promise<boolean> {
    const whole = { ...share, lanes: ALL_LANES, limit: ALL_LANES.length, after: new Map() }
    const [look] = await this.#options.store.workers.look([whole])
    return look?.entries.some(({ dueMs, held }) => dueMs <= 0 && !held) ?? false
  }
}

/** Long enough for a deployment to replace its workers. */
const LATER_MS = 60_000
