import { HapaxError } from './errors.ts'
import { expected, noOthers, positiveInteger } from './options.ts'
import type { FailedFilter, FailedMessage, Store } from './store.ts'

/** Which failed messages to list. */
export type FailedQuery = Omit<FailedFilter, 'limit'> & { readonly limit?: number }

/** The failed store: look, try again, or give up. */
export class FailedStore {
  readonly #store: Store<never>
  readonly #wake: () => void

  /** Made by `createHapax`. */
  constructor(
    store: Pick<Store<never>, 'failedList' | 'failedGet' | 'failedRetry' | 'failedDiscard'>,
    wake: () => void,
  ) {
    this.#store = store as Store<never>
    this.#wake = wake
  }

  /** A page of failed messages, newest first; `before` takes the `seq` of the last one of the page before. */
  list(query: FailedQuery = {}): Promise<readonly FailedMessage[]> {
    noOthers('query', query, ['consumer', 'type', 'reason', 'before', 'limit'])
    const limit = positiveInteger('limit', query.limit, 50)
    if (limit > 1000) expected('limit', 'at most 1000', limit)
    return this.#store.failedList({ ...query, limit, ...(query.before && { before: checked(query.before) }) })
  }

  /** One failed message, or undefined. */
  get(seq: string): Promise<FailedMessage | undefined> {
    return this.#store.failedGet(checked(seq))
  }

  /** Puts a message back into the inbox under its own id, due at once. Rejects with `not-found` if it is not there. */
  async retry(seq: string): Promise<void> {
    if (!(await this.#store.failedRetry(checked(seq)))) throw notFound(seq)
    this.#wake()
  }

  /** Deletes a message for good; its receipt stays, so a redelivery is a duplicate. Rejects with `not-found`. */
  async discard(seq: string): Promise<void> {
    if (!(await this.#store.failedDiscard(checked(seq)))) throw notFound(seq)
  }
}

function checked(seq: string): string {
  if (typeof seq !== 'string' || !/^[1-9]\d{0,18}$/.test(seq)) expected('seq', 'a whole number as text', seq)
  return seq
}

function notFound(seq: string): HapaxError {
  return new HapaxError('not-found', `there is no failed message ${seq}`, { fields: { seq } })
}
