import type { Isolation, RetryOptions, RetryPolicy } from '../base/index.ts'
import {
  expected,
  flag,
  HapaxError,
  isolationOption,
  noOthers,
  numberFrom,
  oneOf,
  positiveInteger,
  spanMs,
} from '../base/index.ts'
import type { MissingId } from '../message/index.ts'

/** How messages share transactions. */
interface GroupOptions {
  /**
   * How many messages that have arrived may share one transaction. `1` gives every message its own.
   * @default as many as take about 50 ms: at most 100, or 500 with `onMany`; one at a time after failures
   */
  readonly size?: number
  /**
   * Whether handlers of a group run at the same time, on its one transaction. By default they are called one after the other, and the next
   * one already while the one before waits for the database, where the order of all statements stays the same; only PostgreSQL with `pg`
   * can tell. `false`: each is called after the one before has ended. `true`: all are called at once. Only for handlers that do not read,
   * in order to write, what another message of the group may write: locks do not part them. Not with `order`.
   * @default where the order of statements stays the same; `false` with a concurrency of 1
   */
  readonly together?: boolean
}

/** Options of a consumer. `Unknown` is the kind of handler that `unknown` takes. */
export interface ConsumerOptions<Unknown = never> {
  /**
   * Whether this process takes messages of the consumer. If not, its workers leave it out and `handle` rejects with `disabled`; handlers can
   * be registered all the same. @default true
   */
  readonly enabled?: boolean
  /**
   * `direct` calls the handler while the delivery waits; `store` writes the message to the inbox, acknowledges it, and
   * leaves it to a worker. @default 'direct', with `order` 'store'
   */
  readonly receive?: 'direct' | 'store'
  /**
   * Whether messages of one key take effect in the order in which they were stored. `wait`: a message that failed for good
   * stays in its place and holds its key until a person decides; `skip`: it moves to the failed store and the key goes on.
   * @default 'none'
   */
  readonly order?: 'none' | 'wait' | 'skip'
  /** How messages share transactions. @default as many as take about 50 ms share one */
  readonly group?: GroupOptions
  /**
   * What a failing handler leads to: `store` keeps the message in the inbox and acknowledges it, the database is then the
   * one that retries; `rollback` keeps nothing, the caller or the broker retries. @default 'store'
   */
  readonly onError?: 'store' | 'rollback'
  /** How many transactions this process runs at once. @default 10, or what the pool of connections allows */
  readonly concurrency?: number
  /**
   * How long a handler, or a group's handlers together, may take. A group that takes longer runs once more, one message at a time.
   * @default 30_000
   */
  readonly timeoutMs?: number
  /**
   * How long to wait for a message that another process is working on.
   * @default 2_000; the same as `timeoutMs` where the database has a single writer, for which every transaction waits
   */
  readonly lockTimeoutMs?: number
  /** What to do with a message that has no usable id. @default 'reject' */
  readonly missingId?: MissingId
  /** What the same id with another payload is. @default 'duplicate' */
  readonly onMismatch?: 'duplicate' | 'conflict'
  /** When a failed message is tried again, and how often. @default 10 attempts, 1 s to 10 min apart */
  readonly retry?: RetryOptions
  /**
   * What to do with a message whose type has no handler, here or in another process of this consumer. `fail` moves it to the failed
   * store. `ignore` acknowledges it and keeps nothing, not even a receipt. A function handles it, with the data as it came.
   * @default 'fail'
   */
  readonly unknown?: 'fail' | 'ignore' | Unknown
  /** Refuses messages whose `time` is longer ago than this, is in the future, or is missing. @default no limit */
  readonly maxAgeMs?: number
  /**
   * How long receipts are kept. A message that is delivered again after that is new. 'forever' never deletes them.
   * @default 30 days
   */
  readonly retentionMs?: number | 'forever'
  /** The isolation level of the transactions. @default what the database is set to */
  readonly isolation?: Isolation
}

/** The options with every default filled in. `groupSize` undefined: see `GroupSize`. */
export interface ConsumerSettings {
  readonly enabled: boolean
  readonly receive: 'direct' | 'store'
  readonly order: 'none' | 'wait' | 'skip'
  readonly groupSize: number | undefined
  /** Undefined: where the order of statements stays the same. */
  readonly together: boolean | undefined
  readonly onError: 'store' | 'rollback'
  /** Undefined: what the pool allows. */
  readonly concurrency: number | undefined
  readonly timeoutMs: number
  readonly lockTimeoutMs: number
  readonly missingId: MissingId
  readonly onMismatch: 'duplicate' | 'conflict'
  readonly retry: RetryPolicy
  /** What to do with a message that has no handler. A function in the options counts as a handler. */
  readonly unknown: 'fail' | 'ignore'
  readonly maxAgeMs: number | undefined
  readonly retentionMs: number | 'forever'
  readonly isolation: Isolation | undefined
}

const NAMES = [
  'enabled',
  'receive',
  'order',
  'group',
  'onError',
  'concurrency',
  'timeoutMs',
  'lockTimeoutMs',
  'missingId',
  'onMismatch',
  'retry',
  'unknown',
  'maxAgeMs',
  'retentionMs',
  'isolation',
] as const satisfies readonly (keyof ConsumerOptions)[]

/** Checks the options and fills in the defaults. */
export function consumerSettings(options: ConsumerOptions<object>, parallelWriters: boolean): ConsumerSettings {
  noOthers('options of consumer', options, NAMES)
  const { group, isolation, maxAgeMs } = options
  if (group !== undefined) noOthers('group', group, ['size', 'together'])
  const timeoutMs = positiveInteger('timeoutMs', options.timeoutMs, 30_000)
  const order = oneOf('order', ['none', 'wait', 'skip'], options.order, 'none')
  if (order !== 'none' && options.receive === 'direct') {
    expected('receive', `'store' together with order, because only stored messages have an order`, options.receive)
  }
  const { concurrency } = options
  return Object.freeze({
    enabled: flag('enabled', options.enabled, true),
    receive: oneOf('receive', ['direct', 'store'], options.receive, order === 'none' ? 'direct' : 'store'),
    order,
    groupSize: group?.size === undefined ? undefined : positiveInteger('group.size', group.size, 1),
    together: together(group, order, concurrency),
    onError: oneOf('onError', ['store', 'rollback'], options.onError, 'store'),
    concurrency: concurrency === undefined ? undefined : positiveInteger('concurrency', concurrency, 1),
    timeoutMs,
    lockTimeoutMs: positiveInteger('lockTimeoutMs', options.lockTimeoutMs, parallelWriters ? 2_000 : timeoutMs),
    missingId: missingIdPolicy(options.missingId),
    onMismatch: oneOf('onMismatch', ['duplicate', 'conflict'], options.onMismatch, 'duplicate'),
    retry: retryPolicy(options.retry),
    unknown: options.unknown === 'ignore' ? 'ignore' : 'fail',
    maxAgeMs: maxAgeMs === undefined ? undefined : positiveInteger('maxAgeMs', maxAgeMs, 1),
    retentionMs: retention(options),
    isolation: isolationOption(isolation),
  })
}

function together(
  group: GroupOptions | undefined,
  order: ConsumerSettings['order'],
  concurrency: number | undefined,
): boolean | undefined {
  // Who wants one transaction at a time may want one handler at a time.
  if (group?.together === undefined) return concurrency === 1 ? false : undefined
  const value = flag('group.together', group.together, false)
  if (value && order !== 'none') expected('group.together', 'false together with order', value)
  return value
}

const DAY_MS = 86_400_000

function retention({ retentionMs = 30 * DAY_MS, maxAgeMs }: ConsumerOptions<object>): number | 'forever' {
  if (retentionMs === 'forever') return retentionMs
  const ms = spanMs('retentionMs', retentionMs)
  if (maxAgeMs !== undefined && maxAgeMs > ms) {
    expected('maxAgeMs', `at most retentionMs (${ms}), because older receipts are forgotten`, maxAgeMs)
  }
  return ms
}

function missingIdPolicy(policy: MissingId = 'reject'): MissingId {
  if (typeof policy !== 'function' && policy !== 'reject' && policy !== 'hash') {
    expected('missingId', `'reject', 'hash' or a function`, policy)
  }
  return policy
}

/** Checks a retry policy and fills in the defaults. */
export function retryPolicy(retry: RetryOptions = {}): RetryPolicy {
  noOthers('retry', retry, ['attempts', 'minDelayMs', 'maxDelayMs', 'factor'])
  const minDelayMs = numberFrom('retry.minDelayMs', 0, retry.minDelayMs, 1_000)
  return Object.freeze({
    attempts: positiveInteger('retry.attempts', retry.attempts, 10),
    minDelayMs,
    maxDelayMs: numberFrom('retry.maxDelayMs', minDelayMs, retry.maxDelayMs, Math.max(minDelayMs, 600_000)),
    factor: numberFrom('retry.factor', 1, retry.factor, 2),
  })
}

/** Refuses deliveries to a consumer that is not enabled, so that they stay with their sender. */
export function refuseDisabled(name: string, { enabled }: Pick<ConsumerSettings, 'enabled'>): void {
  if (enabled) return
  throw new HapaxError(
    'disabled',
    `the consumer ${name} takes no messages in this process, because it was made with enabled: false`,
    { fields: { consumer: name } },
  )
}
