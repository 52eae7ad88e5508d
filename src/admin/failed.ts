import type { Clock } from '../base/index.ts'
import { expected, flag, HapaxError, noOthers, object, text, word } from '../base/index.ts'
import type {
  Audit,
  EffectEnd,
  EffectRow,
  FailedFilter,
  FailedGroup,
  FailedMessage,
  FailedWhere,
  StoreAdmin,
  StoreFailed,
  StoreJournal,
} from '../contracts/index.ts'
import { SETTLED } from '../contracts/index.ts'
import { MAX_RESULT_BYTES } from '../leased/index.ts'
import { jsonOf, MAX_TEXT_BYTES, messageKey, stubOf } from '../message/index.ts'
import { refuseRetry, refuseStub, refuseUnchecked } from '../worker/index.ts'
import { auditOf, auditOfRetry, type By, MAX_NOTE_BYTES, type RetryFailedOptions } from './audit.ts'
import { type BulkOptions, type BulkSummary, bulk, checkedSeq, pageSize, type RetryAllOptions } from './bulk.ts'
import { edited } from './edit.ts'
import type { Operations } from './operations.ts'
import { type Chosen, chosenFailed, failedWhere } from './where.ts'

/** Which failed messages to list. */
export type FailedQuery = Omit<FailedFilter, 'limit'> & { readonly limit?: number }

/** Options of `failed.edit`. */
export interface EditOptions {
  /** Who edits, and why, for the audit. */
  readonly by?: By
  /** As for `retry`: the edited message would repeat effects that the original one has committed. @default false */
  readonly effectsChecked?: boolean
  /** The id of the new message. @default a fresh one */
  readonly id?: string
  /** The type of the new message, for one that was mapped to a type that nothing handles. @default the type of the failed message */
  readonly type?: string
  /**
   * Whether `data` is the payload itself, a text or bytes, which is stored as it is, under the content type of the message: no digit of a
   * number changes. Rejects with `invalid-payload` if the message has JSON and `data` is none. @default false
   */
  readonly exact?: boolean
}

/** What a person has found out about an external call. */
export interface SettleOptions {
  /** The name of the effect. */
  readonly effect: string
  /**
   * `done`: it happened, and returned `result`. `not-done`: it certainly did not happen. `retry`: it is unknown, and the call may be
   * repeated with the same key.
   */
  readonly as: 'done' | 'not-done' | 'retry'
  /** What the call returned; for `done` only. @default nothing */
  readonly result?: unknown
  /** Who settles it, and why, for the audit. */
  readonly by?: By
  /** As for `retry`, because settling retries the message. @default false */
  readonly effectsChecked?: boolean
}

/** What the tools for failed messages need. */
export interface FailedMessagesOptions {
  readonly store: { readonly failed: Omit<StoreFailed, 'edit'>; readonly journal: StoreJournal }
  readonly clock: Clock
  /** Something is due that workers of this process may want. */
  readonly wake: () => void
}

/** What the failed store needs in addition, for edits and operations. */
export interface FailedStoreOptions extends FailedMessagesOptions {
  readonly store: {
    readonly failed: StoreFailed
    readonly journal: StoreJournal
    readonly admin: Pick<StoreAdmin, 'audit'>
  }
  readonly operations: Pick<Operations, 'carryOut'>
  readonly mintId: () => string
  readonly maxBytes: number
}

/**
 * Failed messages: list, retry, settle, discard. If several people act on one message at the same time, one succeeds and the others get
 * `not-found`. Every action is written to the audit in its own transaction.
 *
 * `commit-unknown`: the connection broke during the commit, and the message is no longer there. The action was taken, by this call or
 * by another one at the same moment; `explain` shows which. It is never taken twice.
 */
export class FailedMessages {
  readonly #options: FailedMessagesOptions

  /** Made by `createHapax`. */
  constructor(options: FailedMessagesOptions) {
    this.#options = options
  }

  get #failed(): FailedMessagesOptions['store']['failed'] {
    return this.#options.store.failed
  }

  /** A page of failed messages, newest first; `before` takes the `seq` of the last one of the page before. */
  async list(query: FailedQuery = {}): Promise<readonly FailedMessage[]> {
    object('query', query)
    const { before, limit, ...where } = query
    const filter = { ...failedWhere(where), limit: pageSize(limit) }
    return this.#failed.list(before === undefined ? filter : { ...filter, before: checkedSeq(before) })
  }

  /** How many failed messages there are. */
  async count(where: FailedWhere = {}): Promise<number> {
    return this.#failed.count(failedWhere(where))
  }

  /** Failed messages grouped by consumer, type, reason and error, the largest group first. */
  async groups(query: FailedWhere & { readonly limit?: number } = {}): Promise<readonly FailedGroup[]> {
    object('query', query)
    const { limit, ...where } = query
    return this.#failed.groups(failedWhere(where), pageSize(limit))
  }

  /** One failed message, or undefined. */
  async get(seq: string): Promise<FailedMessage | undefined> {
    return this.#failed.get(checkedSeq(seq))
  }

  /**
   * Tries a message again under its own id, due at once: from its place if it holds its key, else at the end of its key. Rejects with
   * `not-found` if it is not there, or was replaced; with `conflict` if its id belongs to another message, whose external calls would be
   * taken for its own; with `not-whole` if only a part of it could be kept; and with `effects-unchecked` if some of its effects may have been
   * committed, unless `effectsChecked` confirms that they were checked.
   */
  async retry(seq: string, options: RetryFailedOptions = {}): Promise<void> {
    object('options', options)
    const { effectsChecked, ...by } = options
    const checked = flag('effectsChecked', effectsChecked, false)
    if (!(await this.#retry(checkedSeq(seq), auditOfRetry(by, checked), checked))) throw notFound(seq)
  }

  /** Retries all of these, oldest first; `{ all: true }` means all there are. */
  async retryAll(where: Chosen<FailedWhere>, options: RetryAllOptions = {}): Promise<BulkSummary> {
    object('options', options)
    const { effectsChecked, ...others } = options
    const checked = flag('effectsChecked', effectsChecked, false)
    const audit = auditOfRetry(others.by, checked)
    return this.#all(where, others, (seq) => this.#retry(seq, audit, checked))
  }

  /** The journal of a failed message: its external calls, in the order in which they began, and its notes. */
  async effects(seq: string): Promise<readonly EffectRow[]> {
    return effectsOf(this.#options.store.journal, await this.#existing(seq))
  }

  /**
   * Records whether an unknown external call happened, and retries its message. A wrong settlement can be corrected as long as the
   * message is failed and the call has not been made since; for example if the handler failed because of a wrong result. Rejects with
   * `not-found` if there is no such message or effect, and with `conflict` if the journal knows that the call ended otherwise.
   */
  async settle(seq: string, options: SettleOptions): Promise<void> {
    noOthers('options', options, ['effect', 'as', 'result', 'by', 'effectsChecked'])
    text('effect', options.effect)
    const { actor } = auditOf('settle', options.by)
    const audit = auditOf('settle', { actor, note: settleNote(options) })
    const end = settlement(options)
    const { journal } = this.#options.store
    const failed = await this.#existing(seq)
    const checked = flag('effectsChecked', options.effectsChecked, false)
    if (!checked) refuseUnchecked(failed)
    const { consumer, message } = failed
    const ref = { consumer, messageKey: message.messageKey, name: text('effect', options.effect) }
    const known = (await effectsOf(journal, failed)).find(({ name }) => name === ref.name)
    if (known === undefined) throw noEffect(seq, ref.name)
    const settled = await journal.settle(ref, end, audit)
    if (!settled && (known.state !== end.state || known.result !== end.result)) throw settledBefore(known)
    // If the process ends here, the message is still failed and its effect is settled: the call can be repeated.
    await this.retry(seq, { ...options.by, effectsChecked: checked })
  }

  async #existing(seq: string): Promise<FailedMessage> {
    const failed = await this.#failed.get(checkedSeq(seq))
    if (failed === undefined) throw notFound(seq)
    return failed
  }

  /** Deletes a message for good; its receipt stays, so a redelivery is a duplicate. Rejects with `not-found`. */
  async discard(seq: string, by?: By): Promise<void> {
    if (!(await this.#discard(checkedSeq(seq), auditOf('discard', by)))) throw notFound(seq)
  }

  /** Discards all of these, oldest first; `{ all: true }` means all there are. */
  async discardAll(where: Chosen<FailedWhere>, options: BulkOptions = {}): Promise<BulkSummary> {
    object('options', options)
    const audit = auditOf('discard', options.by)
    return this.#all(where, options, (seq) => this.#discard(seq, audit))
  }

  async #retry(seq: string, audit: Audit, effectsChecked: boolean): Promise<boolean> {
    const failed = await this.#failed.get(seq)
    if (failed !== undefined) refuseRetry(failed, effectsChecked)
    const there = await this.#failed.retry(seq, audit)
    if (there) this.#options.wake()
    return there
  }

  /** Wakes the workers, because messages behind a discarded one may be due now. */
  async #discard(seq: string, audit: Audit): Promise<boolean> {
    const there = await this.#failed.discard(seq, audit)
    if (there) this.#options.wake()
    return there
  }

  #all(
    where: Chosen<FailedWhere>,
    options: BulkOptions,
    change: (seq: string) => Promise<boolean>,
  ): Promise<BulkSummary> {
    const which = chosenFailed(where)
    const newest = async (): Promise<string | undefined> => (await this.#failed.list({ ...which, limit: 1 })).at(0)?.seq
    const page = (after: string | undefined, limit: number): Promise<readonly string[]> =>
      this.#failed.seqs(which, after, limit)
    return bulk(this.#options.clock, { newest, page, change }, options)
  }
}

/** The failed store of a store with transactions: all of `FailedMessages`, and edits. Changes to many messages are operations. */
export class FailedStore extends FailedMessages {
  readonly #options: FailedStoreOptions

  /** Made by `createHapax`. */
  constructor(options: FailedStoreOptions) {
    super(options)
    this.#options = options
  }

  override async retryAll(where: Chosen<FailedWhere>, options: RetryAllOptions = {}): Promise<BulkSummary> {
    object('options', options)
    const { effectsChecked, ...others } = options
    return this.#options.operations.carryOut('retry', where, others, effectsChecked)
  }

  override discardAll(where: Chosen<FailedWhere>, options: BulkOptions = {}): Promise<BulkSummary> {
    return this.#options.operations.carryOut('discard', where, options)
  }

  /**
   * Replaces a failed message by one with other data. The new message has an id of its own, because an id stands for one payload;
   * its `causationId` names the old one, which stays in the failed store as replaced.
   * Rejects with `not-found` if the message is not there, or was replaced before; with `conflict` if the new id was used before, or if
   * the message has made external calls, which would be repeated under other keys; with `not-whole` if not even its type and key
   * could be kept as they were; and with `effects-unchecked` as for `retry`.
   */
  async edit(seq: string, data: unknown, options: EditOptions = {}): Promise<{ readonly id: string }> {
    noOthers('options', options, ['by', 'id', 'type', 'exact', 'effectsChecked'])
    const checked = flag('effectsChecked', options.effectsChecked, false)
    const audit = auditOfRetry(options.by, checked, 'edit')
    const exact = flag('exact', options.exact, false)
    const { store, mintId, maxBytes, wake } = this.#options
    const id = options.id === undefined ? mintId() : text('id', options.id, MAX_TEXT_BYTES)
    const given = options.type === undefined ? undefined : text('type', options.type)
    const failed = await store.failed.get(checkedSeq(seq))
    if (failed === undefined) throw notFound(seq)
    await refuseCalled(store.journal, failed)
    if (!checked) refuseUnchecked(failed)
    if (stubOf(failed.message)?.escaped) refuseStub(failed)
    const type = given ?? failed.message.type
    const message = edited(failed.message, id, data, { exact, type, maxBytes })
    if (!(await store.failed.edit(seq, message, audit))) throw notFound(seq)
    wake()
    return { id }
  }

  /**
   * Corrects what a person has settled, of a message that is retried since: until it is processed, or the call is made, the last word
   * counts. It is retried at its time; `messages.retry` has that now. Rejects with `not-found` if it has no such call, and with `conflict`
   * if that was not settled before, if the call was made since, or while a worker is handling the message.
   */
  async correct(
    { consumer, source, id }: { readonly consumer: string; readonly source: string; readonly id: string },
    options: Omit<SettleOptions, 'effectsChecked'>,
  ): Promise<void> {
    noOthers('options', options, ['effect', 'as', 'result', 'by'])
    const audit = auditOf('settle', { ...options.by, note: settleNote(options) })
    const [end, { journal }] = [settlement(options), this.#options.store]
    const key = messageKey(text('source', source, MAX_TEXT_BYTES), text('id', id, MAX_TEXT_BYTES))
    const ref = { consumer: text('consumer', consumer), messageKey: key, name: text('effect', options.effect) }
    if (await journal.settle(ref, end, audit, true)) return
    const known = (await journal.of(consumer, key)).find(({ name }) => name === ref.name)
    if (known === undefined) throw noEffect(id, ref.name)
    const isHandled = known.error?.name === SETTLED && known.state !== 'started'
    throw isHandled ? handled(known) : settledBefore(known)
  }

  /** Writes a note about a failed message to the audit, for whoever looks at it next. Rejects with `not-found`. */
  async note(seq: string, by: By & { readonly note: string }): Promise<void> {
    object('by', by)
    const audit = auditOf('note', { ...by, note: text('note', by.note, MAX_NOTE_BYTES) })
    const { store } = this.#options
    const failed = await store.failed.get(checkedSeq(seq))
    if (failed === undefined) throw notFound(seq)
    const { origin, consumer, message } = failed
    const { source, id, type } = message
    await store.admin.audit(audit, { origin, consumer, source, id, type })
  }
}

/** The journal of a failed message. One that came under the id of another message has none: that journal is not its own. */
async function effectsOf(
  journal: StoreJournal,
  { origin, reason, consumer, message }: FailedMessage,
): Promise<readonly EffectRow[]> {
  return origin === 'outbox' || reason === 'conflict' ? [] : journal.of(consumer, message.messageKey)
}

/** Refuses to edit a message that has made external calls: under a new id they would be repeated with other keys. */
async function refuseCalled(journal: StoreJournal, failed: FailedMessage): Promise<void> {
  const { seq } = failed
  const made = (await effectsOf(journal, failed)).find(({ name, state }) => name !== '' && state !== 'not-done')
  if (made === undefined) return
  const what = `the failed message ${seq} has made the external call '${made.name}': an edit would have it made again`
  throw new HapaxError('conflict', what, { fields: { seq, effect: made.name } })
}

function settlement({ effect, as, result }: SettleOptions): EffectEnd {
  word('as', ['done', 'not-done', 'retry'], as)
  if (as !== 'done') {
    if (result !== undefined) expected('result', `absent unless the effect is 'done'`, result)
    const message = as === 'retry' ? `repeated, although it is unknown whether '${effect}' happened` : 'settled by hand'
    return { state: 'not-done', result: null, error: { name: SETTLED, message } }
  }
  const json = result === undefined ? '' : jsonOf('result', result)
  if (Buffer.byteLength(json) > MAX_RESULT_BYTES) {
    expected('result', `at most ${MAX_RESULT_BYTES} bytes as JSON`, `${Buffer.byteLength(json)} bytes`)
  }
  return { state: 'done', result: json, error: { name: SETTLED, message: 'settled by hand' } }
}

function settleNote({ effect, as, by }: SettleOptions): string {
  return `'${effect}' as ${as}${by?.note === undefined ? '' : `: ${by.note}`}`
}

function noEffect(seq: string, effect: string): HapaxError {
  return new HapaxError('not-found', `the failed message ${seq} has no external call '${effect}'`, {
    fields: { seq, effect },
  })
}

function settledBefore({ name, state }: EffectRow): HapaxError {
  return new HapaxError('conflict', `'${name}' is known to be ${state}`, { fields: { effect: name, state } })
}

function handled({ name }: EffectRow): HapaxError {
  const what = `'${name}' cannot be corrected: a worker is handling its message, or it was processed`
  return new HapaxError('conflict', what, { fields: { effect: name } })
}

function notFound(seq: string): HapaxError {
  return new HapaxError('not-found', `there is no failed message ${seq}, or it was replaced`, { fields: { seq } })
}
