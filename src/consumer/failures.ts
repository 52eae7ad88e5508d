import type { RetryPolicy } from '../base/index.ts'
import { errorFields, HapaxError, isHapaxError, isRefusal } from '../base/index.ts'
import type { InboxRow, Outcome, Receipt, Rescheduled, RetryRow, Writes } from '../contracts/index.ts'
import { recordFailure, type StoredMessage } from '../message/index.ts'
import { atOnce, type Engine, GRACE_MS, insist, persist, unit } from '../transaction/index.ts'
import { type FailedHookRun, FailedHooks, type Hooks, type PreparedHook } from './on-failed.ts'
import type { ConsumerSettings } from './options.ts'
import { aboutOf, compare, conflictWith, Reporter, ref, type TakenBefore } from './reporter.ts'
import { asFarAsStorable, type Kept, keepStub } from './storable.ts'
import { isLost, judge, outcome, type Verdict } from './verdict.ts'

/** How many infrastructure errors in a row an inbox message survives. They use up no attempts, but must not go on for ever. */
const MAX_LOST = 20
const STOPPED = 'the worker stopped before the handler had finished; the message is put back'

/**
 * Records every delivery that did not end in the commit of its handler: retries, failures, conflicts, stored messages. Each is written in
 * a transaction of its own, before the outcome is reported; so an acknowledged message is never lost.
 */
export class Recorder<Tx> {
  readonly #engine: Engine<Tx>
  readonly #consumer: string
  readonly #settings: ConsumerSettings
  readonly #retryOf: (type: string) => RetryPolicy
  readonly #hooks: FailedHooks<Tx>
  readonly #reporter: Reporter

  constructor(
    engine: Engine<Tx>,
    consumer: string,
    settings: ConsumerSettings,
    registry: Hooks<Tx> & { retryOf(type: string): RetryPolicy },
  ) {
    this.#engine = engine
    this.#consumer = consumer
    this.#settings = settings
    this.#retryOf = (type) => registry.retryOf(type)
    this.#hooks = new FailedHooks(engine, consumer, settings, registry)
    this.#reporter = new Reporter(engine, consumer)
  }

  /**
   * Records the failure of a delivery: receipt and inbox row, or receipt and failed row. If a receipt is there already, its token says
   * whose it is: the handler's, which committed by itself; ours, from an unknown commit; or that of another delivery.
   */
  async firstDelivery(
    stored: StoredMessage,
    error: Error,
    attempt: number,
    handlerTokens: ReadonlySet<string> = new Set(),
    signal?: AbortSignal,
  ): Promise<Outcome> {
    const verdict = this.#judge(stored, error, attempt)
    return this.#unlessBusy(stored, () =>
      asFarAsStorable({ message: stored, verdict }, async (kept) => {
        // A message refused on arrival (attempt 0) never reached a handler, so it has no hook. The hook gets the message as it came,
        // not the shortened copy.
        const hook = attempt === 0 ? undefined : await this.#hooks.of(stored, kept.verdict, attempt, signal)
        const first = { error, attempt, handlerTokens }
        return hook === undefined ? this.#recordFirst(kept, first) : this.#recordWithHook(kept, first, hook)
      }),
    )
  }

  /** Records a delivery that the store refused, as far as it can be kept. */
  unstorable(stored: StoredMessage, error: HapaxError): Promise<Outcome> {
    const verdict: Verdict = { kind: 'fail', reason: error.code, error }
    return this.#unlessBusy(stored, () =>
      keepStub({ message: stored, verdict }, error, (kept) =>
        this.#recordFirst(kept, { error, attempt: 0, handlerTokens: new Set() }),
      ),
    )
  }

  /** Writes receipt, failed row and hook in one transaction. If the hook fails, the first two are written without it. */
  async #recordWithHook(kept: Kept, first: FirstFailure, hook: PreparedHook<Tx>): Promise<Outcome> {
    const { message, verdict } = kept
    const { attempt } = first
    const hooked = await this.#hooks.onDelivery(message, this.#writes(message, verdict, attempt), hook)
    if (hooked === 'recorded') return this.#report(message, verdict, attempt)
    return this.#recordFirst(kept, { ...first, hook: hooked })
  }

  /** Writes receipt and row. Repeated under new tokens while the database is away; `ours` tells a repetition from a duplicate. */
  async #recordFirst({ message, verdict }: Kept, first: FirstFailure): Promise<Outcome> {
    const { error, attempt, handlerTokens, hook } = first
    const writes = (as: Verdict): Writes => this.#writes(message, as, attempt, hook?.error)
    const broken: Verdict = { kind: 'fail', reason: 'broken-atomicity', error: committedItself(error) }
    const ours = new Set<string>()
    const result = await persist(this.#engine, () => {
      const token = this.#engine.random.token()
      return this.#take<Verdict | Receipt>(message, token, (receipt) => {
        const recorded = receipt !== undefined && ours.has(receipt.token)
        ours.add(token)
        if (recorded) return { value: verdict, writes: undefined }
        // A hook that committed by itself has left a receipt, but no failed row.
        if (receipt === undefined || hook?.tokens.has(receipt.token)) return { value: verdict, writes: writes(verdict) }
        if (!handlerTokens.has(receipt.token)) return { value: receipt, writes: undefined }
        return { value: broken, writes: writes(broken) }
      })
    })
    return 'kind' in result ? this.#report(message, result, attempt) : this.taken(message, result)
  }

  /** A message whose receipt is there already: a duplicate, or another message under the same identity. */
  taken(stored: StoredMessage, receipt: TakenBefore, checkMs?: number): Outcome | Promise<Outcome> {
    const found = compare(stored, receipt, this.#settings.onMismatch)
    if (found === 'conflict') return this.#conflict(stored, receipt)
    return this.#reporter.duplicate(stored, { receipt, mismatch: found === 'mismatch', checkMs })
  }

  /** Writes a message to the failed store whose handler committed by itself. Its receipt is there already. */
  broken(stored: StoredMessage, error: Error, attempts: number): Promise<Outcome> {
    return this.#keep(stored, { kind: 'fail', reason: 'broken-atomicity', error: committedItself(error) }, attempts)
  }

  /** Writes a message to the failed store whose identity belongs to another one. */
  async #conflict(stored: StoredMessage, before: TakenBefore): Promise<Outcome> {
    const error = conflictWith(before)
    await this.#keep(stored, { kind: 'fail', reason: 'conflict', error }, 0)
    return outcome('conflict', error)
  }

  /** Writes a message to the failed store and nothing else. */
  async #keep(stored: StoredMessage, verdict: Verdict, attempts: number): Promise<Outcome> {
    await asFarAsStorable({ message: stored, verdict }, ({ message }) =>
      insist(this.#engine, () =>
        unit(this.#engine, this.#options(), { kind: 'plain' }, async () => ({
          value: undefined,
          writes: this.#writes(message, verdict, attempts),
        })),
      ),
    )
    return this.#report(stored, verdict, attempts)
  }

  /** Writes deliveries to the inbox, to be worked from there. `starts` is 1 if this process begins with them at once. */
  async store(messages: readonly StoredMessage[], starts: 0 | 1): Promise<readonly Outcome[]> {
    try {
      const found = await this.#stored(messages, starts)
      const outcomes: Outcome[] = []
      for (const each of found) outcomes.push(await this.#storedOutcome(each))
      return outcomes
    } catch (error) {
      const [only, ...others] = messages
      if (only === undefined) throw error
      if (isRefusal(error)) {
        return others.length === 0 ? [await this.unstorable(only, error)] : this.#storeHalves(messages, starts)
      }
      if (!isHapaxError(error, 'busy')) throw error
      return others.length === 0 ? [this.putBack(only, 'busy', error)] : this.#storeEach(messages, starts)
    }
  }

  /** By halves: one refused row must not cost each of the others a transaction. */
  async #storeHalves(messages: readonly StoredMessage[], starts: 0 | 1): Promise<readonly Outcome[]> {
    const middle = Math.ceil(messages.length / 2)
    const first = await this.store(messages.slice(0, middle), starts)
    const rest = messages.slice(middle)
    const last = first.at(-1)
    const behind = this.#settings.order !== 'none' && last?.status === 'busy'
    return [...first, ...(behind ? rest.map(() => last) : await this.store(rest, starts))]
  }

  /** One by one. With order, nothing is stored after a message that could not be: it would overtake that message. */
  async #storeEach(messages: readonly StoredMessage[], starts: 0 | 1): Promise<readonly Outcome[]> {
    const outcomes: Outcome[] = []
    for (const message of messages) {
      const last = outcomes.at(-1)
      const behind = this.#settings.order !== 'none' && last?.status === 'busy'
      outcomes.push(...(behind ? [last] : await this.store([message], starts)))
    }
    return outcomes
  }

  #storedOutcome({ message, found, checkMs }: Stored): Outcome | Promise<Outcome> {
    if (found !== 'stored') return this.taken(message, found, checkMs)
    this.#engine.events.emit('stored', () => ({ consumer: this.#consumer, message: ref(message) }))
    return outcome('stored')
  }

  #stored(messages: readonly StoredMessage[], starts: 0 | 1): Promise<readonly Stored[]> {
    const { store, random, clock } = this.#engine
    const consumer = this.#consumer
    const ordered = this.#settings.order !== 'none'
    // The tokens of calls whose outcome was not learnt: a receipt that has one shows that the call had succeeded.
    const ours = new Set<string>()
    return persist(this.#engine, async () => {
      const token = random.token()
      ours.add(token)
      let acquiredAt: number | undefined
      const { existing } = await atOnce(this.#engine, this.#options(), (options) => {
        const acquired = (): void => {
          options.acquired?.()
          acquiredAt = clock.monotonic()
        }
        return store.inbox.store({ ...options, acquired }, { consumer, token, messages, ordered, starts })
      })
      const checkMs = acquiredAt && clock.monotonic() - acquiredAt
      return messages.map((message): Stored => {
        const receipt = existing.get(message.messageKey)
        const found = receipt === undefined || ours.has(receipt.token) ? 'stored' : receipt
        return { message, found, checkMs }
      })
    })
  }

  /** Records the failure of an inbox message on its row. */
  async fromInbox(row: InboxRow, error: Error, signal: AbortSignal | undefined): Promise<Outcome> {
    const outcome = await this.onItsRow(row, error, signal)
    return outcome ?? (await this.ifGone(row, error)) ?? this.duplicate(row.message)
  }

  /**
   * Handles a failed message whose row no longer exists or belongs to another worker. A missing row means that another worker has settled the
   * message, unless the handler committed by itself: certain if the guard found the transaction ended, possible if the handler was cut off
   * after a statement that may commit. Undefined: another worker has the message, or has settled it.
   */
  async ifGone(row: InboxRow, error: Error): Promise<Outcome | undefined> {
    if (!isFeared(error)) return undefined
    const { store } = this.#engine
    const there = await insist(this.#engine, () => store.inbox.find(this.#consumer, row.message.messageKey))
    if (there === row.seq) return undefined
    const verdict: Verdict = { kind: 'fail', reason: 'broken-atomicity', error: mayHaveCommitted(error) }
    return this.#keep(row.message, verdict, row.attempts + 1)
  }

  /** Records the failure of a message on its row. Undefined: the row is gone, or its lease was lost. */
  async onItsRow(row: InboxRow, error: Error, signal: AbortSignal | undefined): Promise<Outcome | undefined> {
    const { seq, message, leaseToken } = row
    const attempts = row.attempts + 1
    const verdict = this.#judge(message, error, attempts)
    if (verdict.kind === 'fail') return this.#giveUp(row, verdict, attempts, signal)
    const failure = recordFailure(this.#engine, error)
    const retry = { seq, attempts, lost: 0, delayMs: verdict.delayMs, ...failure, leaseToken }
    return (await this.#reschedule(retry)) ? this.#report(message, verdict, attempts) : undefined
  }

  /** Records that the database failed, not the handler. This uses up no attempt, up to `MAX_LOST` times in a row. */
  async lost(row: InboxRow, error: Error, signal: AbortSignal | undefined): Promise<Outcome> {
    if (row.lost + 1 < MAX_LOST) return this.#putOff(row, error)
    const verdict: Verdict = { kind: 'fail', reason: 'infrastructure', error }
    return (await this.#giveUp(row, verdict, row.attempts, signal)) ?? this.duplicate(row.message)
  }

  async #putOff(row: InboxRow, error: Error): Promise<Outcome> {
    const { seq, attempts, leaseToken } = row
    const lost = row.lost + 1
    const delayMs = Math.min(60_000, 100 * 2 ** lost) * this.#engine.random.number()
    const failure = recordFailure(this.#engine, error, { kind: 'lost' })
    const there = await this.#reschedule({ seq, attempts, lost, delayMs, ...failure, leaseToken })
    const broken = there ? undefined : await this.ifGone(row, error)
    if (broken !== undefined) return broken
    return this.putBack(row.message, 'lost', error)
  }

  /** Gives up a message that ends its process every time. */
  async crashed(row: InboxRow, signal: AbortSignal | undefined): Promise<Outcome> {
    const error = new HapaxError(
      'crash-loop',
      `the process ended ${row.crashes} times while it worked on this message and on nothing else`,
    )
    const verdict: Verdict = { kind: 'fail', reason: 'crash-loop', error }
    return (await this.#giveUp(row, verdict, row.attempts, signal)) ?? this.duplicate(row.message)
  }

  /** Moves a row to the failed store. Undefined: it was gone. If its hook is stopped, it stays where it is and is tried again. */
  async #giveUp(
    row: InboxRow,
    verdict: Verdict & { kind: 'fail' },
    attempts: number,
    signal: AbortSignal | undefined,
  ): Promise<Outcome | undefined> {
    try {
      const there = await this.#fail(row, verdict, attempts, signal)
      return there ? this.#report(row.message, verdict, attempts) : undefined
    } catch (error) {
      if (!isHapaxError(error, 'transaction-lost')) throw error
      return this.#putOff(row, error)
    }
  }

  /** Reports a message that was taken before. */
  duplicate(stored: StoredMessage): Outcome {
    return this.#reporter.duplicate(stored)
  }

  /** Reports a message that no handler wants. */
  ignored(stored: StoredMessage): Outcome {
    return this.#reporter.ignored(stored)
  }

  /** Nothing was recorded: the broker, or the inbox, has the message and delivers it again. */
  putBack(stored: StoredMessage, kind: 'busy' | 'lost', error: Error): Outcome {
    if (kind === 'busy') return this.#reporter.busy(stored, error)
    const { events, logger } = this.#engine
    const event = { consumer: this.#consumer, message: ref(stored) }
    if (isHapaxError(error) && error.fields['stopped'] === true) logger.info(aboutOf(event), STOPPED)
    else logger.warn({ ...aboutOf(event), ...errorFields(error) }, 'the transaction was lost; the message is put back')
    events.emit('rolled-back', () => ({ ...event, error }))
    return outcome('rolled-back', error)
  }

  #take<T>(
    stored: StoredMessage,
    token: string,
    decide: (receipt: Receipt | undefined) => { value: T; writes: Writes | undefined },
  ): Promise<T> {
    const opening = { kind: 'take', consumer: this.#consumer, token, messages: [stored] } as const
    return unit(this.#engine, this.#options(), opening, async ({ existing }) => decide(existing.get(stored.messageKey)))
  }

  /** Another process has the message, or its hook was stopped: nothing is recorded, and the broker delivers it again. */
  async #unlessBusy(stored: StoredMessage, work: () => Promise<Outcome>): Promise<Outcome> {
    try {
      return await work()
    } catch (error) {
      if (isHapaxError(error, 'busy')) return this.putBack(stored, 'busy', error)
      if (isHapaxError(error, 'transaction-lost')) return this.putBack(stored, 'lost', error)
      throw error
    }
  }

  #judge({ type }: StoredMessage, error: Error, attempt: number): Verdict {
    return judge(error, attempt, this.#retryOf(type), this.#engine.random)
  }

  #row(message: StoredMessage, attempts: number): Pick<RetryRow, 'consumer' | 'message' | 'ordered' | 'attempts'> {
    return { consumer: this.#consumer, message, ordered: this.#settings.order !== 'none', attempts }
  }

  #writes(message: StoredMessage, verdict: Verdict, attempts: number, hookError?: Error): Writes {
    const row = { ...this.#row(message, attempts), ...recordFailure(this.#engine, verdict.error, { hookError }) }
    if (verdict.kind === 'fail') return { failed: [{ ...row, reason: verdict.reason }] }
    return { inbox: [{ ...row, starts: 0, delayMs: verdict.delayMs }] }
  }

  /** Moves a row to the failed store, together with its hook if there is one. Resolves with whether the row was there. */
  async #fail(
    row: InboxRow,
    verdict: Verdict & { kind: 'fail' },
    attempts: number,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const write = isHapaxError(verdict.error, 'broken-atomicity') ? insist : persist
    const hold = row.ordered && this.#settings.order === 'wait'
    const { seq, leaseToken } = row
    const { store } = this.#engine
    const { reason } = verdict
    const kind = isLost(reason) ? 'lost' : undefined
    const failed = { seq, attempts, reason, ...recordFailure(this.#engine, verdict.error, { kind }), hold, leaseToken }
    const hook = await this.#hooks.of(row.message, verdict, attempts, signal)
    if (hook === undefined) return write(this.#engine, () => store.inbox.fail(failed))
    const hooked = await this.#hooks.onItsRow(failed, row.message, hook)
    if (hooked.kind === 'done') return hooked.value
    const both = recordFailure(this.#engine, verdict.error, { kind, hookError: hooked.error })
    const there = await write(this.#engine, () => store.inbox.fail({ ...failed, ...both }))
    // A hook that committed by itself has also committed the move of the row.
    return there || isHapaxError(hooked.error, 'broken-atomicity')
  }

  #reschedule(row: Rescheduled): Promise<boolean> {
    return persist(this.#engine, () => this.#engine.store.inbox.reschedule(row))
  }

  #report(stored: StoredMessage, verdict: Verdict, attempt: number): Outcome {
    return this.#reporter.verdict(stored, verdict, attempt)
  }

  #options(): { lockTimeoutMs: number; idleTimeoutMs: number } {
    const { lockTimeoutMs, timeoutMs } = this.#settings
    // A handler may have to be quick; recording that it was not must survive a process that stands still for a while.
    return { lockTimeoutMs, idleTimeoutMs: timeoutMs + GRACE_MS }
  }
}

/** A message that was to be stored: it was, or a receipt shows that it had been taken before. */
interface Stored {
  readonly message: StoredMessage
  readonly found: Receipt | 'stored'
  /** How long it took to find out. */
  readonly checkMs: number | undefined
}

/** The failure of a delivery, and the failure of its hook, if there was one. */
interface FirstFailure {
  readonly error: Error
  readonly attempt: number
  readonly handlerTokens: ReadonlySet<string>
  readonly hook?: FailedHookRun
}

/** Whether the handler committed by itself, or was cut off after a statement that may have committed. */
export function isFeared(error: Error): boolean {
  return isHapaxError(error) && (error.code === 'broken-atomicity' || error.fields['mayHaveCommitted'] === true)
}

/** For a handler whose token was found, or whose guard was gone. */
function committedItself(cause: Error): HapaxError {
  if (isHapaxError(cause, 'broken-atomicity')) return cause
  return new HapaxError('broken-atomicity', 'the handler committed its transaction itself and then failed', { cause })
}

/** For a handler whose message is gone, settled either by the handler's own commit or by another worker. */
function mayHaveCommitted(cause: Error): HapaxError {
  if (isHapaxError(cause, 'broken-atomicity')) return cause
  const what =
    'the handler was cut off after a statement that may have committed its transaction, and its message is gone: either some effects were committed, or another worker has settled it'
  return new HapaxError('broken-atomicity', what, { cause })
}
