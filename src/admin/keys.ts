import { HapaxError, noOthers, object, text, word } from '../base/index.ts'
import type { HeldKey, Origin, StoreKeys } from '../contracts/index.ts'
import { MAX_TEXT_BYTES } from '../message/index.ts'
import { auditOf, type By } from './audit.ts'
import { pageSize } from './bulk.ts'

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
    if (!released) throw notHeld({ origin, scope, key })
    this.#wake()
  }
}

function notHeld(fields: { readonly origin: Origin; readonly scope: string; readonly key: string }): HapaxError {
  return new HapaxError('not-found', `the key ${fields.key} of ${fields.scope} is not held`, { fields })
}
