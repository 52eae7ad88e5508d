import { asError, boundLogger, type ErrorCode, faultFields } from '../base/index.ts'
import type { FailedContext, FinalFailure, Writes } from '../contracts/index.ts'
import type { StoredMessage } from '../message/index.ts'
import { Attempt, causeOf, type Engine, type Plan, type Scope } from '../transaction/index.ts'
import { publishFor } from './calling.ts'
import { decodeFor, type Registered } from './handlers.ts'
import type { ConsumerSettings } from './options.ts'
import { ref } from './reporter.ts'
import type { Verdict } from './verdict.ts'

/** An `onFailed` hook as it was registered. A method, so that a hook of any data fits; see `Registered`. */
export interface RegisteredHook<Tx> {
  call(data: unknown, error: Error, context: FailedContext<Tx>): unknown
}

/** The hooks of a consumer, and the handlers they belong to. */
export interface Hooks<Tx> {
  readonly handlers: ReadonlyMap<string, Registered<Tx>>
  hookOf(type: string): RegisteredHook<Tx> | undefined
}

/** A hook with all its arguments except the transaction. */
export interface PreparedHook<Tx> {
  readonly call: (scope: Scope<Tx>) => Promise<unknown>
  /** Tells it to stop. */
  readonly signal: AbortSignal | undefined
}

/** How a transaction with a hook ended. */
export type Hooked<T> =
  | { readonly kind: 'done'; readonly value: T }
  /** The hook failed, and its writes were rolled back, unless it committed by itself. */
  | { readonly kind: 'failed'; readonly error: Error }

/** A hook that failed, so that the delivery is recorded without it. */
export interface FailedHookRun {
  /** Undefined: the hook was not called, because a receipt was there already. */
  readonly error: Error | undefined
  /** Receipts under these tokens were committed by the hook itself. */
  readonly tokens: ReadonlySet<string>
}

/**
 * Reasons after which no hook runs, because the message has not finally failed: the handler's work may have been committed, a person has
 * to decide, or the message came under the identity of another one.
 */
const UNDECIDED: readonly ErrorCode[] = ['broken-atomicity', 'unknown-effect', 'conflict']

/** Runs `onFailed` hooks, each in the transaction that records the failure: both are committed, or neither is. */
export class FailedHooks<Tx> {
  readonly #engine: Engine<Tx>
  readonly #consumer: string
  readonly #settings: ConsumerSettings
  readonly #hooks: Hooks<Tx>

  constructor(engine: Engine<Tx>, consumer: string, settings: ConsumerSettings, hooks: Hooks<Tx>) {
    this.#engine = engine
    this.#consumer = consumer
    this.#settings = settings
    this.#hooks = hooks
  }

  /** The hook to call for this failure, if any. A message that cannot be decoded has no data to call it with. */
  async of(
    stored: StoredMessage,
    verdict: Verdict,
    attempt: number,
    signal: AbortSignal | undefined,
  ): Promise<PreparedHook<Tx> | undefined> {
    if (verdict.kind !== 'fail' || UNDECIDED.includes(verdict.reason)) return undefined
    const hook = this.#hooks.hookOf(stored.type)
    const handler = this.#hooks.handlers.get(stored.type)
    if (hook === undefined || handler === undefined) return undefined
    try {
      await decodeFor(handler, stored)
    } catch {
      return undefined
    }
    const { call } = hook
    const { reason, error } = verdict
    const prepared = async (scope: Scope<Tx>): Promise<void> => {
      const { tx, deadline } = scope
      // Decoded for every run, because a run that was rolled back may have changed the data.
      const { message, data } = await decodeFor(handler, stored)
      const publish = publishFor(message, scope)
      const logger = boundLogger(scope.logger, { consumer: this.#consumer, about: ref(stored), attempt })
      const context = { tx, message, publish, signal: deadline.signal, attempt, reason, logger }
      await scope.buffer.around(() => causeOf(message), call, data, error, context)
    }
    return { call: prepared, signal }
  }

  /** Writes receipt and failed row of a delivery together with its hook. */
  async onDelivery(
    message: StoredMessage,
    failed: Writes,
    hook: PreparedHook<Tx>,
  ): Promise<'recorded' | FailedHookRun> {
    const tokens = new Set<string>()
    const hooked = await this.#run<'recorded' | 'taken'>(message, {
      signal: hook.signal,
      opening: (token) => {
        tokens.add(token)
        return { kind: 'take', consumer: this.#consumer, token, messages: [message] }
      },
      body: ({ unit: { existing }, earlier }) => {
        const receipt = existing.get(message.messageKey)
        if (receipt === undefined) return { value: 'recorded', call: hook.call, writes: failed }
        const committed = earlier.has(receipt.token)
        return { value: committed ? 'recorded' : 'taken', committed }
      },
    })
    if (hooked.kind === 'failed') return { error: hooked.error, tokens }
    return hooked.value === 'recorded' ? hooked.value : { error: undefined, tokens }
  }

  /** Moves an inbox row to the failed store together with its hook; the value says whether the row was there. */
  onItsRow(row: FinalFailure, message: StoredMessage, hook: PreparedHook<Tx>): Promise<Hooked<boolean>> {
    return this.#run(message, {
      signal: hook.signal,
      opening: () => ({ kind: 'fail', row }),
      body: ({ unit, resolving }) => {
        // After a commit of unknown outcome the row is gone, or held: then that commit did happen.
        if (!unit.present.has(row.seq)) return { value: resolving, committed: resolving }
        return { value: true, call: hook.call }
      },
    })
  }

  /**
   * Runs a transaction with a hook, and once more if the database aborted it. Rejects when the database is not available, and when the
   * hook was told to stop.
   */
  async #run<T>(stored: StoredMessage, steps: Pick<Plan<Tx, T>, 'opening' | 'body' | 'signal'>): Promise<Hooked<T>> {
    const plan: Plan<Tx, T> = { consumer: this.#consumer, messages: () => [ref(stored)], ...steps }
    for (let again = true; ; again = false) {
      const attempted = await new Attempt<Tx, T>(this.#engine, this.#settings, plan).run()
      if (attempted.kind === 'done') return attempted
      if (attempted.kind === 'busy' || attempted.kind === 'refused') throw attempted.error
      if (attempted.kind === 'lost' && steps.signal?.aborted) throw attempted.error
      if (attempted.kind === 'lost' && again) continue
      return { kind: 'failed', error: this.#reported(stored, asError(attempted.error)) }
    }
  }

  #reported(stored: StoredMessage, error: Error): Error {
    const fields = { consumer: this.#consumer, about: ref(stored), ...faultFields(error) }
    this.#engine.logger.error(fields, 'the onFailed hook failed; the failure is recorded without it')
    return error
  }
}
