// Tools for operators: held keys, published messages, consumers and relays.

import type { Clock } from '../base/index.ts'
import { callback, flag, HapaxError, nameText, noOthers, object, signalOption, text, word } from '../base/index.ts'
import type {
  Audit,
  Cleaned,
  HeldKey,
  Origin,
  SentFilter,
  SentMessage,
  SentWhere,
  Store,
  StoreAdmin,
  StoreKeys,
  StoreSent,
  StoreStatus,
  StoreSubscriptions,
} from '../contracts/index.ts'
import { compareSeq, MAX_TEXT_BYTES } from '../message/index.ts'
import { auditOf, type By } from './audit.ts'
import { type BulkOptions, type BulkSummary, bulk, checkedSeq, pageSize } from './bulk.ts'
import { inSteps, type StepOptions } from './cleanup.ts'
import { type Chosen, chosenSent, sentWhere } from './where.ts'

/** Keys whose messages wait behind one that failed for good. */
export class Keys {
  readonly #store: StoreKeys
  readonly #wake: () => void

  /** Made by `createHapax`. `wake`: something is due that workers of this process may want. */
  constructor(store: StoreKeys, wake: () => void) {
    this.#store = store
    this.#wake = wake
  }

  /** The keys that are held, the longest held first. */
  async list(query: { readonly limit?: number } = {}): Promise<readonly HeldKey[]> {
    noOthers('query', query, ['limit'])
    return this.#store.list(pageSize(query.limit))
  }

  /** Lets a key go on without its held message, which stays in the failed store. Rejects with `not-found`. */
  async release(held: Pick<HeldKey, 'origin' | 'scope' | 'key'>, by?: By): Promise<void> {
    object('key', held)
    const origin: Origin = word('origin', ['inbox', 'outbox'], held.origin)
    const [scope, key] = [text('scope', held.scope), text('key', held.key, MAX_TEXT_BYTES)]
    const released = await this.#store.release(origin, scope, key, auditOf('release', by))
    if (!released) throw notFound(`the key ${key} of ${scope} is not held`, { origin, scope, key })
    this.#wake()
  }
}

/** Which published messages to list. */
export type SentQuery = Omit<SentFilter, 'limit'> & { readonly limit?: number }

/** Options of `sent.purge`. */
export interface PurgeOptions extends StepOptions {
  /** Called after each step with what was deleted, or counted, so far. */
  readonly onProgress?: (progress: { readonly purged: number }) => void
}

/** Messages that were published and kept (`keepSentMs` of the worker). */
export class Sent {
  readonly #store: StoreSent
  readonly #admin: Pick<StoreAdmin, 'audit'>
  readonly #clock: Clock
  readonly #wake: () => void

  /** Made by `createHapax`. `wake`: something is due that workers of this process may want. */
  constructor(store: StoreSent, admin: Pick<StoreAdmin, 'audit'>, clock: Clock, wake: () => void) {
    this.#store = store
    this.#admin = admin
    this.#clock = clock
    this.#wake = wake
  }

  /** A page of published messages, newest first; `before` takes the `seq` of the last one of the page before. */
  async list(query: SentQuery = {}): Promise<readonly SentMessage[]> {
    object('query', query)
    const { before, limit, ...where } = query
    const filter = { ...sentWhere(where), limit: pageSize(limit) }
    return this.#store.list(before === undefined ? filter : { ...filter, before: checkedSeq(before) })
  }

  /** How many there are. Counted in pages, so that no single statement reads a large table. */
  async count(where: SentWhere = {}): Promise<number> {
    const which = sentWhere(where)
    let counted = 0
    for (let after: string | undefined; ; ) {
      const page = await this.#store.seqs(which, after, COUNTED_AT_ONCE)
      counted += page.length
      after = page.at(-1)
      if (page.length < COUNTED_AT_ONCE) return counted
    }
  }

  /** Publishes a message again under its own id, so that consumers that have taken it see a duplicate. Rejects with `not-found`. */
  async republish(seq: string, by?: By): Promise<void> {
    if (!(await this.#republish(checkedSeq(seq), auditOf('republish', by)))) {
      throw notFound(`there is no published message ${seq}`, { seq })
    }
  }

  /** Publishes all of these again, oldest first; `{ all: true }` means all there are. */
  async republishAll(where: Chosen<SentWhere>, options: BulkOptions = {}): Promise<BulkSummary> {
    const which = chosenSent(where)
    object('options', options)
    const audit = auditOf('republish', options.by)
    const work = {
      newest: async () => (await this.#store.list({ ...which, limit: 1 })).at(0)?.seq,
      page: (after: string | undefined, limit: number) => this.#store.seqs(which, after, limit),
      change: (seq: string) => this.#republish(seq, audit),
    }
    return bulk(this.#clock, work, options)
  }

  /**
   * Deletes messages that were kept, oldest first, in small steps; `{ all: true }` means all that are there when it begins. Returns how
   * many it deleted, or would delete.
   */
  async purge(where: Chosen<SentWhere>, options: PurgeOptions = {}): Promise<{ readonly purged: number }> {
    const which = chosenSent(where)
    noOthers('options', options, ['dryRun', 'signal', 'onProgress', 'by'])
    const { signal, onProgress } = options
    const dryRun = flag('dryRun', options.dryRun, false)
    signalOption('signal', signal)
    callback('onProgress', onProgress)
    const by = auditOf('purge', options.by)
    const newest = (await this.#store.list({ ...which, limit: 1 })).at(0)?.seq
    if (newest === undefined) return { purged: 0 }
    const step = (after: string | undefined): Promise<Cleaned> => this.#purge(which, after, newest, dryRun)
    const steps = { dryRun, ...(signal && { signal }) }
    const purged = await inSteps(this.#clock, steps, step, (count) => onProgress?.({ purged: count }))
    if (purged > 0 && !dryRun) await this.#admin.audit(by, { origin: 'outbox', consumer: which.relay })
    return { purged }
  }

  async #purge(which: SentWhere, after: string | undefined, newest: string, dryRun: boolean): Promise<Cleaned> {
    const page = await this.#store.seqs(which, after, PURGED_AT_ONCE)
    // What is sent while it runs stays.
    const seqs = page.filter((seq) => compareSeq(seq, newest) <= 0)
    const deleted = dryRun ? seqs.length : await this.#store.purge(seqs)
    return { deleted, after: seqs.length < PURGED_AT_ONCE ? undefined : seqs.at(-1) }
  }

  async #republish(seq: string, audit: Audit): Promise<boolean> {
    const there = await this.#store.republish(seq, audit)
    if (there) this.#wake()
    return there
  }
}

/** How many rows one step of `count` reads. */
const COUNTED_AT_ONCE = 1_000
const PURGED_AT_ONCE = 500

/** A consumer as the store knows it from its subscriptions. */
export interface KnownConsumer {
  readonly name: string
  readonly types: readonly string[]
  readonly ordered: boolean
}

/** The consumers that the store knows, of all processes. */
export class Consumers {
  readonly #store: StoreSubscriptions

  /** Made by `createHapax`. */
  constructor(store: StoreSubscriptions) {
    this.#store = store
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
    if (!there) throw notFound(`there is no consumer ${name}`, { consumer: name })
  }
}

/** The relays that the store knows. */
export class Relays {
  readonly #store: Pick<Store<never>, 'outbox' | 'admin'>

  /** Made by `createHapax`. */
  constructor(store: Pick<Store<never>, 'outbox' | 'admin'>) {
    this.#store = store
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
}

function notFound(message: string, fields: Record<string, unknown>): HapaxError {
  return new HapaxError('not-found', message, { fields })
}
