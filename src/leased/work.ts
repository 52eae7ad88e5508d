import {
  asError,
  boundLogger,
  type Counts,
  detachedClock,
  type ErrorCode,
  errorFields,
  expected,
  fieldOf,
  HapaxError,
  isHapaxError,
  type Logger,
  type Running,
  type TraceContext,
} from '../base/index.ts'
import type { ConsumerSettings, Keys, Recorder, Registry } from '../consumer/index.ts'
import {
  type Content,
  decodeFor,
  factsOfRows,
  MAX_CRASHES,
  type Noted,
  outcome,
  placeOf,
  type Registered,
  Reporter,
  ref,
  type StoredWorkParts,
  type WatchedAttempt,
  watched,
} from '../consumer/index.ts'
import type { InboxRow, LeasedContext, Outcome, Published, PublishInHandler, Writes } from '../contracts/index.ts'
import type { MessageType, PublishOptions, StoredMessage } from '../message/index.ts'
import type { Cause, Scope } from '../transaction/index.ts'
import {
  Attempt,
  causeOf,
  checkPublish,
  type Engine,
  persist,
  watchedPublish,
  withCause,
} from '../transaction/index.ts'
import { Effects } from './effect.ts'
import { type HeldLease, Leases, TimeLimit, underLease } from './lease.ts'
import { PutOff } from './put-off.ts'

/** Time limits of leased work. */
export interface LeaseSettings {
  readonly leaseMs: number
  readonly maxDurationMs: number
}

/** Work of the handler for the transaction that settles its message. */
type Completion<Tx> = (scope: Scope<Tx>) => unknown

/** What is written with the settling of a message, because of what its handler returned. */
export type Finish = (message: StoredMessage, returned: unknown) => Writes

/** Whether the message was settled, or the lease was lost to another process. */
type Settled = 'settled' | 'lost'

/** How the settling transaction ended. */
interface Settlement {
  readonly settled: Settled
  readonly waitMs: number
}

/** When rows were leased, and how long that took. */
interface Leasing {
  readonly readAt: number
  readonly checkMs: number
}

/** When a handler was called, and how long the settling transaction waited for a connection. */
interface Ran extends Leasing {
  readonly started: number
  readonly waitMs: number
}

/**
 * Works messages of the inbox under a lease. No transaction is open while the handler runs, so that it may make slow outside calls. In
 * the end one transaction deletes the row, if the lease still holds, together with what the handler wants to be committed.
 */
export class LeasedWork<Tx> {
  readonly #engine: Engine<Tx>
  readonly #consumer: string
  readonly #settings: ConsumerSettings & LeaseSettings
  readonly #recorder: Recorder<Tx>
  readonly #registry: Pick<Registry<Tx>, 'handlerOf'>
  readonly #leases: Leases
  readonly #limit: TimeLimit
  readonly #reporter: Reporter
  readonly #keys: Keys<Tx>
  readonly #finish: Finish | undefined
  readonly #counts: Counts

  constructor(
    { engine, consumer, settings, recorder, registry, keys }: StoredWorkParts<Tx>,
    lease: LeaseSettings,
    finish?: Finish,
  ) {
    this.#finish = finish
    this.#counts = engine.tally.of('inbox', consumer)
    this.#engine = engine
    this.#consumer = consumer
    this.#settings = { ...settings, ...lease }
    this.#recorder = recorder
    this.#registry = registry
    this.#keys = keys
    this.#reporter = new Reporter(engine, consumer)
    // One timer for all leases: it belongs to none of the handlers.
    const clock = detachedClock(engine.clock, engine.detached)
    this.#limit = new TimeLimit(clock, lease.maxDurationMs)
    this.#leases = new Leases({
      store: engine.store.inbox,
      clock,
      leaseMs: lease.leaseMs,
      report: (error) =>
        engine.logger[engine.outages.levelOf(error)](
          { consumer, ...errorFields(error) },
          'leases could not be renewed',
        ),
    })
  }

  /** Leases these rows and runs their handlers one after the other. A row without an outcome belongs to another worker. */
  async work(
    seqs: readonly string[],
    signal?: AbortSignal,
    noted: Noted = () => true,
  ): Promise<ReadonlyMap<string, Outcome>> {
    // Not leased meanwhile: a lease that is not used has to run out.
    if (!(await noted())) return new Map()
    const { store, clock, random } = this.#engine
    const token = random.token()
    const began = clock.monotonic()
    const rows = await persist(this.#engine, () => store.inbox.lease(seqs, token, this.#settings.leaseMs))
    const readAt = clock.monotonic()
    const lease = { readAt, checkMs: readAt - began }
    const outcomes = new Map<string, Outcome>()
    const leased = rows.map((row) => ({ row, held: this.#leases.hold({ seq: row.seq, token, fence: row.fence }) }))
    try {
      for (const { row, held } of leased) outcomes.set(row.seq, await this.#run(row, held, lease, signal))
    } finally {
      for (const { held } of leased) held.end()
    }
    return outcomes
  }

  #run(row: InboxRow, held: HeldLease, lease: Leasing, signal: AbortSignal | undefined): Promise<Outcome> {
    const { instrument } = this.#engine
    if (instrument === undefined) return this.#attempt(row, held, lease, signal)
    const watching = { instrument, consumer: this.#consumer, stored: true }
    return watched(watching, factsOfRows([row]), (watch) => this.#attempt(row, held, lease, signal, watch))
  }

  async #attempt(
    row: InboxRow,
    held: HeldLease,
    lease: Leasing,
    signal: AbortSignal | undefined,
    watch?: WatchedAttempt,
  ): Promise<Outcome> {
    if (row.crashes >= MAX_CRASHES) return this.#recorder.crashed(row, signal)
    const started = this.#engine.clock.monotonic()
    const call = new Call(this.#engine, this.#consumer, this.#settings, row, held)
    try {
      const handler = this.#registry.handlerOf(row.message.type)
      const key = this.#keys.missingIn(row)
      if (key !== undefined) return await this.#addKey(row, key, held)
      await underLease(held, this.#limit, signal, () => watch?.enter(() => call.run(handler)) ?? call.run(handler))
    } catch (error) {
      call.close()
      return this.#inTurn(held, () => this.#unsettled(row, held, error, signal))
    }
    return this.#inTurn(held, async () => {
      try {
        await this.#leases.notRenewing()
        const settling = this.#watchedSettle(row, held, call, signal) ?? this.#settle(row, held, call, signal)
        const { settled, waitMs } = await settling
        if (settled === 'lost') return this.#lost(row)
        return this.#processed(row, { started, waitMs, ...lease })
      } catch (error) {
        call.close()
        return this.#unsettled(row, held, error, signal)
      }
    })
  }

  /**
   * Records how a handler ended, as soon as the pool has a connection for it. The lease is renewed until then. It ends before the
   * transaction, for whose row lock a renewal would wait.
   */
  async #inTurn(held: HeldLease, record: () => Promise<Outcome>): Promise<Outcome> {
    const { leasedShare } = this.#engine
    await leasedShare.enter()
    try {
      held.end()
      return await record()
    } finally {
      leasedShare.give()
    }
  }

  /** Records that the message is not settled. */
  #unsettled(row: InboxRow, held: HeldLease, error: unknown, signal: AbortSignal | undefined): Promise<Outcome> {
    if (error instanceof PutOff) return this.#putOff(held, error.delayMs)
    return this.#failed(row, asError(error), signal)
  }

  #watchedSettle(
    row: InboxRow,
    held: HeldLease,
    call: Call<Tx>,
    signal: AbortSignal | undefined,
  ): Promise<Settlement> | undefined {
    const { instrument } = this.#engine
    if (instrument === undefined) return undefined
    const facts = { ...placeOf(this.#consumer), messages: factsOfRows([row]) }
    return instrument.around('settle', facts, (running) => this.#settle(row, held, call, signal, running))
  }

  /** Deletes the row if the lease still holds, with the handler's own work, in one transaction. */
  async #settle(
    row: InboxRow,
    held: HeldLease,
    call: Call<Tx>,
    signal: AbortSignal | undefined,
    running?: Running,
  ): Promise<Settlement> {
    const attempt = new Attempt<Tx, Settled>(this.#engine, this.#settings, {
      consumer: this.#consumer,
      messages: () => [ref(row.message)],
      opening: () => ({ kind: 'settle', lease: held }),
      body: ({ unit, resolving }) => {
        // Gone after a commit of unknown outcome: settled by that commit, or by the process that took the message over.
        const gone = resolving && !unit.present.has(row.seq)
        if (unit.claimed.size === 0) return { value: gone ? 'settled' : 'lost', committed: gone }
        const complete = (scope: Scope<Tx>): Promise<void> => call.complete(scope)
        const work = {
          value: 'settled',
          call: (scope: Scope<Tx>) => running?.enter(() => complete(scope)) ?? complete(scope),
        } as const
        const finish = this.#finish
        return finish === undefined ? work : { ...work, writes: () => finish(row.message, call.returned) }
      },
      signal,
    })
    const attempted = await attempt.run()
    if (attempted.kind !== 'done') throw attempted.error
    return { settled: attempted.value, waitMs: attempt.timing.waitMs }
  }

  /** Makes the row ordered; only a new look tells whether it is the first of its key. */
  async #addKey({ seq }: InboxRow, key: string, held: HeldLease): Promise<Outcome> {
    held.end()
    await this.#keys.add(seq, key)
    return this.#putOff(held, 0)
  }

  /** The row is due again later, as if it had not been leased. If that cannot be written, it is due when the lease ends. */
  async #putOff(held: HeldLease, delayMs: number): Promise<Outcome> {
    await this.#leases.notRenewing()
    const { store } = this.#engine
    await persist(this.#engine, () => store.inbox.release(held, delayMs))
    return outcome('stored')
  }

  /** Records a failed attempt on its row, if the lease still holds. */
  async #failed(row: InboxRow, error: Error, signal: AbortSignal | undefined): Promise<Outcome> {
    if (isHapaxError(error, 'lease-lost')) return this.#lost(row)
    // Not the handler's failure: the database was not available, or the worker is stopping.
    const lost = isHapaxError(error) && LET_DOWN.includes(error.code)
    if (lost || signal?.aborted) return this.#recorder.lost(row, error, signal)
    const recorded = await this.#recorder.onItsRow(row, error, signal)
    if (recorded !== undefined) return recorded
    // `complete` may have committed the deletion of the row without the rest, which would go unnoticed unless the message is kept as failed.
    return (await this.#recorder.ifGone(row, error)) ?? this.#lost(row)
  }

  /** Another process has the message now, or has settled it. Either way it is safe, so that the broker may forget it. */
  #lost(row: InboxRow): Outcome {
    this.#reporter.leaseLost(row.message, row.fence)
    return outcome('stored')
  }

  #processed({ message, attempts, ageMs = null }: InboxRow, { started, waitMs, checkMs, readAt }: Ran): Outcome {
    const { events, clock, databaseClock } = this.#engine
    this.#counts.done += 1
    if (this.#counts.wantsLag) this.#counts.lag(databaseClock.lagMs(message, { ageMs, readAt }))
    events.emit('processed', () => {
      const lagMs = databaseClock.lagMs(message, { ageMs, readAt })
      const times = { durationMs: clock.monotonic() - started - waitMs, waitMs, checkMs, lagMs }
      return { consumer: this.#consumer, message: ref(message), attempt: attempts + 1, ...times }
    })
    return outcome('processed')
  }
}

/** Errors of the database that use up no attempt. */
const LET_DOWN: readonly ErrorCode[] = [
  'transaction-lost',
  'transaction-conflict',
  'busy',
  'store-unavailable',
  'commit-unknown',
]

/** A handler that runs under a lease or a claim, with the context that it takes. */
interface LeasedCall<Context> extends Pick<Registered<never>, 'type'> {
  readonly raw?: boolean
  call(data: unknown, context: Context): unknown
}

/**
 * Calls a leased handler, and waits for the effects that it left running. Rejects if the handler failed, or if it left an effect whose
 * outcome has to be decided before the message may be settled. `effects` returns those it has made. Resolves with what the handler
 * returned.
 */
export async function callLeased<Context>(
  handler: LeasedCall<Context>,
  stored: StoredMessage,
  contextOf: (content: Content) => Context,
  effects: () => Effects | undefined,
): Promise<unknown> {
  const decoding = decodeFor(handler, stored)
  const content = decoding instanceof Promise ? await decoding : decoding
  let returned: unknown
  try {
    const { call } = handler
    returned = await call(content.data, contextOf(content))
  } catch (error) {
    const made = effects()
    await made?.finish()
    // An undecided effect takes precedence over the error that the handler made of it: a retry must not repeat the call.
    throw made?.undecided ?? error
  }
  const made = effects()
  if (made === undefined) return returned
  const { unawaited } = made
  await made.finish()
  const blocked = made.undecided ?? unawaited
  if (blocked !== undefined) throw blocked
  const open = await made.leftOpen()
  if (open !== undefined) throw open
  return returned
}

/** One call of a leased handler: its context, and the work that it has left for the settling transaction. */
class Call<Tx> {
  readonly #engine: Engine<Tx>
  readonly #consumer: string
  readonly #row: InboxRow
  readonly #held: HeldLease
  readonly #effects: Effects
  readonly #completions: Completion<Tx>[] = []
  #scope: Scope<Tx> | undefined
  #cause: Cause | undefined
  /** What the handler returned. */
  returned: unknown
  #state: 'running' | 'settling' | 'completing' | 'closed' = 'running'

  constructor(engine: Engine<Tx>, consumer: string, { leaseMs }: LeaseSettings, row: InboxRow, held: HeldLease) {
    this.#engine = engine
    this.#consumer = consumer
    this.#row = row
    this.#held = held
    this.#effects = new Effects({ engine, consumer, message: row.message, held, leaseMs })
  }

  /** Whether the handler has ended. */
  get closed(): boolean {
    return this.#state !== 'running'
  }

  async run(handler: Registered<Tx>): Promise<void> {
    const contextOf = (content: Content): LeasedContext<Tx> => this.#context(content)
    const { message } = this.#row
    if (handler.kind !== 'leased') expected(`handler of ${message.type}`, 'a leased handler', handler.kind)
    this.returned = await this.#engine.publisher.without(this, () =>
      callLeased(handler, message, contextOf, () => this.#effects),
    )
    this.#state = 'settling'
  }

  /** Runs the work of the handler in the settling transaction. Called again when that transaction has to be repeated. */
  async complete(scope: Scope<Tx>): Promise<void> {
    this.#state = 'completing'
    this.#scope = scope
    // The signal of the context belongs to the lease, which has ended; from now on it follows the transaction.
    const abort = (): void => this.#held.abort(asError(scope.deadline.reason))
    scope.deadline.addEventListener('abort', abort)
    try {
      for (const each of this.#completions) await each(scope)
    } finally {
      scope.deadline.removeEventListener('abort', abort)
    }
  }

  /** The attempt has failed: the context can no longer be used, and effects that still run are given up. */
  close(): void {
    this.#state = 'closed'
    this.#effects.leave()
  }

  #context({ message }: Content): LeasedContext<Tx> {
    this.#cause = causeOf(message)
    const held = this.#held
    const attempt = this.#row.attempts + 1
    const bound = (): Logger =>
      boundLogger(this.#engine.logger.forHandlers, { consumer: this.#consumer, about: ref(message), attempt })
    return {
      message,
      get signal() {
        return held.signal
      },
      attempt,
      fence: this.#held.fence,
      get logger() {
        return bound()
      },
      // Inside `complete` an effect would wait for the row that the transaction has locked: a deadlock.
      effect: (name, call, options) =>
        this.#state === 'running' ? this.#effects.effect(name, call, options) : Promise.reject(closed()),
      complete: (work) => {
        this.#effects.refuseInCall('complete')
        if (typeof work !== 'function') expected('complete', 'called with a function', work)
        this.#onComplete(({ tx, buffer }) => buffer.around(() => this.#cause, work, tx))
      },
      publish: (type, data, options) => {
        this.#effects.refuseInCall('publish')
        return this.#publish(type, data, options)
      },
      note: (fields) => (this.#state === 'running' ? this.#effects.note(fields) : Promise.reject(closed())),
    }
  }

  #onComplete(completion: Completion<Tx>): void {
    if (this.#state !== 'running') throw closed()
    this.#completions.push(completion)
  }

  /** Inside `complete` it is written at once. Before that it is kept for later, but its id is fixed now, so that it can be returned. */
  readonly #publish: PublishInHandler = (type, data, options = {}) =>
    this.#state === 'completing' && this.#scope !== undefined
      ? this.#scope.buffer.publish(type, data, options, this.#cause)
      : this.#publishLater(type, data, options)

  readonly #publishLater: PublishInHandler = (type, data, options = {}) => {
    const { instrument } = this.#engine
    if (instrument === undefined) return this.#recordLater(type, data, options)
    return watchedPublish(instrument, fieldOf(type, 'type'), (watched) =>
      this.#recordLater(type, data, options, watched.captured),
    )
  }

  /** The context is the one of the call, not the one of the settling transaction. */
  async #recordLater<In>(
    type: MessageType<In, unknown>,
    data: In,
    options: PublishOptions,
    captured?: TraceContext,
  ): Promise<Published> {
    // Checked now: a mistake found at settling would come after the outside calls were made.
    checkPublish(type, options)
    const id = options.id ?? this.#engine.mintId()
    const carried = withCause(this.#cause, { ...options, id }, captured)
    this.#onComplete(({ buffer }) => buffer.record(type, data, carried))
    return { id }
  }
}

/** The error of a context that is used too late. */
export function closed(): HapaxError {
  return new HapaxError(
    'transaction-closed',
    'this message is being settled, or has been; its context can no longer be used for this',
  )
}
