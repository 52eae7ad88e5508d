// What connections to databases share.

import { HapaxError, type Interrupt, isHapaxError, systemClock } from '../../../base/index.ts'
import type {
  Connection,
  ErrorClass,
  Result,
  Statement,
  TransactionEnd,
  TransactionOptions,
} from '../../../contracts/index.ts'

/** The error of a transaction whose own statements met a conflict or lost the link. */
export function doomed(kind: 'conflict' | 'lost', cause: unknown): HapaxError {
  return kind === 'lost'
    ? new HapaxError('transaction-lost', 'the connection was lost inside the transaction', { cause })
    : new HapaxError('transaction-conflict', 'the database gave up this transaction in favour of another', { cause })
}

/** An error that came up before COMMIT was sent: nothing can have been committed. */
export class NotSent extends Error {
  constructor(cause: unknown) {
    super('COMMIT was not sent', { cause })
  }
}

/** Runs what comes before COMMIT. */
export async function beforeCommit<T>(steps: () => Promise<T>): Promise<T> {
  try {
    return await steps()
  } catch (error) {
    throw new NotSent(error)
  }
}

/** `Connection.atOnce` for connections that send one statement at a time. */
export function byTransaction<Tx>(
  connection: Pick<Connection<Tx, never>, 'transaction'>,
  options: TransactionOptions,
  statements: readonly Statement[],
): Promise<readonly Result[]> {
  const body = async (_tx: Tx, answers: readonly Result[]): Promise<TransactionEnd<readonly Result[]>> => ({
    value: answers,
    last: [],
  })
  return connection.transaction(options, { first: statements, body })
}

/** Whether a connection on which hapax's own statement met such an error may be used again. */
export function isHarmless(kind: ErrorClass): boolean {
  return kind !== 'lost' && kind !== 'aborted' && kind !== 'gone' && kind !== 'other'
}

/** The error for something that is not an open transaction. */
export function notInTransaction(detail: string, cause?: unknown): HapaxError {
  return new HapaxError('not-in-transaction', `expected tx to be an open transaction, got ${detail}`, { cause })
}

/** The error for a handler that returned while its statements were still running. */
export function unawaited(count: number): HapaxError {
  const what = count === 1 ? 'one of its queries was' : `${count} of its queries were`
  return new HapaxError('unawaited-query', `the handler returned while ${what} still running: await every query`)
}

/** The error for a handler that returned while a transaction inside of its own was open. */
export function leftInside(): HapaxError {
  const what = 'the handler returned while a transaction inside of its own was still open: await every transaction'
  return new HapaxError('unawaited-query', what)
}

/** The error for a handler that returned while its connection was not free. */
export function leftOpen(cause?: unknown, fields: { readonly cutOff?: true } = {}): HapaxError {
  const what = 'the handler ended while a query, a cursor or a stream was open on its connection: await or close them'
  return new HapaxError('unawaited-query', what, { cause, fields })
}

/** The error of a transaction that ended by this one, and whose connection was destroyed because something was still open on it. */
export function cutOff(error: unknown): HapaxError {
  return leftOpen(isHapaxError(error, 'unawaited-query') ? undefined : error, { cutOff: true })
}

/** Whether the server may still be working on what was open on a connection that was destroyed. */
export function isCutOff(error: unknown): boolean {
  return isHapaxError(error, 'unawaited-query') && error.fields['cutOff'] === true
}

/** The error of a link that has not answered in time. It may be dead although neither side has closed it. */
export function noAnswer(limitMs: number): Error {
  return Object.assign(new Error(`no answer within ${limitMs} ms`), { code: 'ETIMEDOUT' })
}

/** A signal that is aborted when a statement has found no connection in time. */
export function patience(limitMs: number): { readonly signal: AbortSignal; over(): void } {
  const limit = new AbortController()
  const over = systemClock.after(limitMs, () => limit.abort(noAnswer(limitMs)))
  return { signal: limit.signal, over }
}

function isLate(reason: unknown): boolean {
  const { code }: { code?: unknown } = fieldsOf(reason)
  return code === 'ETIMEDOUT' || ranOutOfTime(reason)
}

/** Whether a transaction was ended because the database did not answer in time; a slow handler says nothing about the database. */
export function ranOutOfTime(reason: unknown): boolean {
  return isHapaxError(reason, 'commit-unknown') || isHapaxError(reason, 'store-unavailable')
}

/**
 * Settles with the steps, or, when the signal aborts, ends them by force and rejects without waiting: with its reason, or with
 * the `NotSent` that `end` returns.
 */
export function untilAborted<T>(
  signal: Interrupt | undefined,
  steps: () => Promise<T>,
  end: () => unknown,
): Promise<T> {
  if (signal === undefined) return steps()
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      const instead = end()
      reject(instead instanceof NotSent ? instead : signal.reason)
    }
    if (signal.aborted) return abort()
    signal.addEventListener('abort', abort, { once: true })
    // One step for both: a promise costs every message.
    steps().then(
      (value) => {
        signal.removeEventListener('abort', abort)
        resolve(value)
      },
      (error: unknown) => {
        signal.removeEventListener('abort', abort)
        reject(error)
      },
    )
  })
}

/**
 * What a pool hands out; an abort does not wait for it any longer, and then it goes back as it came. `shortage` may know why it took
 * too long.
 */
export function untilAcquired<Client>(
  acquiring: Promise<Client>,
  signal: Interrupt | undefined,
  giveBack: (client: Client) => void,
  shortage?: () => Error | undefined,
): Promise<Client> {
  if (signal === undefined) return acquiring
  return new Promise((resolve, reject) => {
    const abort = (): void => reject((isLate(signal.reason) ? shortage?.() : undefined) ?? signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    if (signal.aborted) abort()
    acquiring.then(
      (client) => {
        signal.removeEventListener('abort', abort)
        if (signal.aborted) giveBack(client)
        else resolve(client)
      },
      (error: unknown) => {
        signal.removeEventListener('abort', abort)
        reject(error)
      },
    )
  })
}

/** The class of an error or of the first of its causes that has one. */
export function classOfCauses(error: unknown, classOf: (error: object) => ErrorClass): ErrorClass {
  for (const each of causesOf(error)) {
    if (each instanceof HapaxError) return 'other'
    const found = classOf(each)
    if (found !== 'other') return found
  }
  return 'other'
}

/** An error and its causes, because ORMs and handlers wrap errors. Five at most: a chain of causes may be a circle. */
export function* causesOf(error: unknown): Generator<object> {
  let each = error
  for (let depth = 0; depth < 5 && typeof each === 'object' && each !== null; depth++) {
    yield each
    each = wrapped(each)
  }
}

/** What an error stands around: Sequelize and TypeORM have names of their own for it. */
function wrapped({
  cause,
  parent,
  driverError,
}: {
  cause?: unknown
  parent?: unknown
  driverError?: unknown
}): unknown {
  return cause ?? parent ?? driverError
}

/** What was thrown, as an object whose fields can be read: any value can be thrown. */
export function fieldsOf(thrown: unknown): object {
  return typeof thrown === 'object' && thrown !== null ? thrown : {}
}
