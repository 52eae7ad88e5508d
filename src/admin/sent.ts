import type { Clock } from '../base/index.ts'
import { callback, flag, HapaxError, noOthers, object, signalOption } from '../base/index.ts'
import type { Cleaned, SentFilter, SentMessage, SentWhere, StoreAdmin, StoreSent } from '../contracts/index.ts'
import { compareSeq } from '../message/index.ts'
import { auditOf, type By } from './audit.ts'
import { type BulkOptions, type BulkSummary, checkedSeq, pageSize } from './bulk.ts'
import { inSteps, type StepOptions } from './cleanup.ts'
import type { Operations } from './operations.ts'
import { type Chosen, chosenSent, sentWhere } from './where.ts'

/** Which published messages to list. */
export type SentQuery = Omit<SentFilter, 'limit'> & { readonly limit?: number }

/** Options of `sent.purge`. */
export interface PurgeOptions extends StepOptions {
  /** Called after each step with what was deleted, or counted, so far. */
  readonly onProgress?: (progress: { readonly purged: number }) => void
}

/** What the tools for published messages need. */
interface SentOptions {
  readonly store: { readonly sent: StoreSent; readonly admin: Pick<StoreAdmin, 'audit'> }
  readonly clock: Clock
  readonly operations: Pick<Operations, 'carryOut'>
  /** Something is due that workers of this process may want. */
  readonly wake: () => void
}

/** Messages that were published and kept (`keepSentMs` of the worker). */
export class Sent {
  readonly #store: StoreSent
  readonly #admin: Pick<StoreAdmin, 'audit'>
  readonly #clock: Clock
  readonly #operations: Pick<Operations, 'carryOut'>
  readonly #wake: () => void

  /** Made by `createHapax`. */
  constructor({ store, clock, operations, wake }: SentOptions) {
    this.#store = store.sent
    this.#admin = store.admin
    this.#clock = clock
    this.#operations = operations
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
    const there = await this.#store.republish(checkedSeq(seq), auditOf('republish', by))
    if (!there) throw new HapaxError('not-found', `there is no published message ${seq}`, { fields: { seq } })
    this.#wake()
  }

  /** Publishes all of these again, oldest first; `{ all: true }` means all there are. */
  async republishAll(where: Chosen<SentWhere>, options: BulkOptions = {}): Promise<BulkSummary> {
    return this.#operations.carryOut('republish', where, options)
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
}

/** How many rows one step of `count` reads. */
const COUNTED_AT_ONCE = 1_000
const PURGED_AT_ONCE = 500
