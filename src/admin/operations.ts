import {
  expected,
  flag,
  HapaxError,
  noOthers,
  numberFrom,
  object,
  pause,
  type Random,
  uuidv7Time,
} from '../base/index.ts'
import type { Audit, BulkOperation, FailedWhere, OperationWork, SentWhere } from '../contracts/index.ts'
import { LEASE_MS, type OperationEngine, OperationKeeper, OperationRun } from '../worker/index.ts'
import { auditOf, auditOfRetry, type By } from './audit.ts'
import { type BulkOptions, type BulkSummary, checkedBulk, mostRows, pageSize } from './bulk.ts'
import { type Chosen, chosenFailed, chosenSent } from './where.ts'

/** Which rows, and what is done to them; `all` instead of `where` means all that are there. */
export type OperationOptions = (
  | { readonly kind: 'retry' | 'discard'; readonly where?: FailedWhere; readonly all?: true }
  | { readonly kind: 'republish'; readonly where?: SentWhere; readonly all?: true }
) & {
  /** The most rows per second. @default as fast as the store allows */
  readonly perSecond?: number
  /** The most rows, oldest first. @default all that are there when it begins */
  readonly limit?: number
  /** Who begins it, and why, for the audit. */
  readonly by?: By
  /** For retries: as for `failed.retry`, for every match. Without it, messages that failed as `broken-atomicity` count as errors. @default false */
  readonly effectsChecked?: boolean
  /** A UUIDv7 of your own: beginning the same one twice begins it once. @default a fresh one */
  readonly id?: string
}

/** What operations need. */
export interface OperationsOptions extends OperationEngine {
  readonly random: Random
  readonly mintId: () => string
  /** An operation was left to the workers of this process. */
  begun(): void
}

/**
 * Changes to many rows, as rows of the store: which rows were chosen, who began it, and how far it is. The rows are frozen when an
 * operation begins. Any process may work on it, one at a time, so that it survives the one that began it.
 */
export class Operations {
  readonly #options: OperationsOptions

  /** Made by `createHapax`. */
  constructor(options: OperationsOptions) {
    this.#options = options
  }

  /** Begins an operation and leaves it to the workers, of this process or another. Returns it with the exact number of its rows. */
  async begin(options: OperationOptions): Promise<BulkOperation> {
    noOthers('options', options, ['kind', 'where', 'all', 'perSecond', 'limit', 'by', 'effectsChecked', 'id'])
    const { kind, where = {}, all, perSecond, limit, by, id } = options
    const work = workOf(kind, { ...where, ...(all !== undefined && { all }) }, options.effectsChecked)
    if (id !== undefined && uuidv7Time(id) === undefined) expected('id', 'a UUIDv7', id)
    const rate = { ...(perSecond !== undefined && { perSecond }), ...(limit !== undefined && { limit }) }
    const begun = await this.#begin(work, rate, auditOfBegin(work, by), id?.toLowerCase())
    this.#options.begun()
    return begun
  }

  /** One of them, with its progress. */
  async get(id: string): Promise<BulkOperation | undefined> {
    return this.#store.get(checkedId(id))
  }

  /** A page of operations, newest first; `before` takes the `id` of the last one of the page before. */
  async list(query: { readonly before?: string; readonly limit?: number } = {}): Promise<readonly BulkOperation[]> {
    noOthers('query', query, ['before', 'limit'])
    const { before, limit } = query
    return this.#store.list(before === undefined ? undefined : checkedId(before), pageSize(limit))
  }

  /** Stops it between two rows, until it is resumed. Rejects with `not-found`, or with `conflict` if it is paused or has ended. */
  pause(id: string, by?: By): Promise<void> {
    return this.#change(id, 'paused', auditOf('pause', by))
  }

  /** Lets a paused one go on. Rejects with `not-found`, or with `conflict` if it is not paused. */
  async resume(id: string, by?: By): Promise<void> {
    await this.#change(id, 'running', auditOf('resume', by))
    this.#options.begun()
  }

  /** Ends it between two rows. What is changed stays changed. Rejects with `not-found`, or with `conflict` if it has ended. */
  cancel(id: string, by?: By): Promise<void> {
    return this.#change(id, 'cancelled', auditOf('cancel', by))
  }

  /**
   * Works on operations that no other process works on, until the signal is aborted: for a process without a worker, such as a console.
   * Workers do this by themselves.
   */
  async work({ signal, report = () => {} }: WorkOptions): Promise<void> {
    const keeper = new OperationKeeper({ engine: this.#options, isMine: () => true, report })
    keeper.start()
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve()
      else signal.addEventListener('abort', () => resolve(), { once: true })
    })
    await keeper.stop()
  }

  /**
   * Begins an operation and works on it here until it has ended. If the store is not available meanwhile, it rejects, and the operation
   * is left to the workers. An aborted signal cancels it.
   */
  async carryOut(
    kind: OperationWork['kind'],
    where: Chosen<FailedWhere | SentWhere>,
    options: BulkOptions,
    effectsChecked?: boolean,
  ): Promise<BulkSummary> {
    object('options', options)
    const work = workOf(kind, where, effectsChecked)
    checkedBulk(options)
    const { id } = await this.#begin(work, options, auditOfBegin(work, options.by))
    const { onResult } = options
    const telling = onResult === undefined ? options : { ...options, onResult: apart(onResult) }
    try {
      for (;;) {
        const now = await this.#workOn(id, telling)
        if (now.endedAt !== null) return summaryOf(now)
        await pause(this.#options.clock, AGAIN_MS, options.signal)
      }
    } catch (error) {
      // An error of the caller's own ends it. An error of the store leaves it to the workers.
      if (!(error instanceof HapaxError)) await this.#store.change(id, 'cancelled', auditOf('cancel', options.by))
      throw error instanceof CallersError ? error.cause : error
    }
  }

  /** Works on it, unless another process does or it is paused, and returns how far it is. */
  async #workOn(id: string, options: BulkOptions): Promise<BulkOperation> {
    const { random } = this.#options
    const { signal, onResult, by } = options
    if (!signal?.aborted) {
      const token = random.token()
      const leased = await this.#store.lease(token, LEASE_MS, id)
      if (leased !== undefined) await new OperationRun(this.#options, leased, token, { onResult, signal }).run()
    }
    if (signal?.aborted) await this.#store.change(id, 'cancelled', auditOf('cancel', by))
    return present(await this.#store.get(id), id)
  }

  #begin(
    work: OperationWork,
    { perSecond, limit }: Pick<BulkOptions, 'perSecond' | 'limit'>,
    audit: Audit,
    id: string = this.#options.mintId(),
  ): Promise<BulkOperation> {
    const most = mostRows(limit)
    if (perSecond !== undefined) numberFrom('perSecond', 0.001, perSecond, 1)
    const draft = { id, perSecond: perSecond ?? null, limit: Number.isFinite(most) ? most : null }
    return this.#store.begin({ ...work, ...draft }, audit)
  }

  get #store(): OperationsOptions['store']['operations'] {
    return this.#options.store.operations
  }

  async #change(given: string, to: 'running' | 'paused' | 'cancelled', audit: Audit): Promise<void> {
    const id = checkedId(given)
    if (await this.#store.change(id, to, audit)) return
    const { state } = present(await this.#store.get(id), id)
    throw new HapaxError('conflict', `the operation ${id} is ${state}`, { fields: { id, state } })
  }
}

/** What a callback has thrown, whatever it was: it must not be taken for an error of the store. */
class CallersError extends Error {}

function apart(onResult: NonNullable<BulkOptions['onResult']>): NonNullable<BulkOptions['onResult']> {
  return (result) => {
    try {
      onResult(result)
    } catch (cause) {
      throw new CallersError('thrown by onResult', { cause })
    }
  }
}

/** Options of `operations.work`. */
interface WorkOptions {
  readonly signal: AbortSignal
  /** Is told of an error, once while it lasts. */
  readonly report?: (error: Error) => void
}

/** How long to wait before looking again at an operation that another process works on. */
const AGAIN_MS = 250

function workOf(
  kind: OperationWork['kind'],
  where: Chosen<FailedWhere | SentWhere>,
  effectsChecked: boolean | undefined,
): OperationWork {
  const checked = flag('effectsChecked', effectsChecked, false)
  if (kind === 'retry') return { kind, where: chosenFailed(where), ...(checked && { effectsChecked: true }) }
  if (checked) expected('effectsChecked', 'absent unless messages are retried', checked)
  if (kind === 'discard') return { kind, where: chosenFailed(where) }
  if (kind !== 'republish') expected('kind', `'retry', 'discard' or 'republish'`, kind)
  return { kind, where: chosenSent(where) }
}

/** The audit entry of the start of an operation and of each of its rows. */
function auditOfBegin(work: OperationWork, by: By | undefined): Audit {
  return auditOfRetry(by, work.kind === 'retry' && work.effectsChecked === true, 'begin')
}

function checkedId(id: string): string {
  if (typeof id !== 'string' || uuidv7Time(id) === undefined) expected('id', 'the id of an operation', id)
  return id.toLowerCase()
}

function present(operation: BulkOperation | undefined, id: string): BulkOperation {
  if (operation !== undefined) return operation
  throw new HapaxError('not-found', `there is no operation ${id}`, { fields: { id } })
}

function summaryOf({ done, gone, errors, state }: BulkOperation): BulkSummary {
  return { done, gone, errors, stopped: state === 'cancelled' }
}
