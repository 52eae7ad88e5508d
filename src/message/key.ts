import { asError, describe, HapaxError, messageOf } from '../base/index.ts'
import { decode, isIndexed, textRule } from './incoming.ts'
import type { StoredMessage } from './message.ts'
import type { MessageType } from './type.ts'

/**
 * The key that a type computes for a message that has none; null: the message has no key. Throws `invalid-message` if the key function
 * throws or returns an invalid key, and `invalid-payload` if the data cannot be decoded.
 */
export function computedKey(
  type: MessageType<never, unknown>,
  stored: StoredMessage,
  contentType: string | undefined,
): string | null {
  if (!type.keyed) return null
  const data = decode(stored, contentType)
  let key: unknown
  try {
    key = type.keyOf(data as never)
  } catch (cause) {
    const what = `the key of ${type.type} could not be computed: its key function threw: ${messageOf(asError(cause))}`
    throw new HapaxError('invalid-message', what, { cause, fields: { attribute: 'key' } })
  }
  if (key === undefined || key === null) return null
  if (isIndexed(key)) return key
  if (key instanceof Promise) key.catch(() => {})
  const what = `expected the key function of ${type.type} to return ${textRule('key')}, got ${describe(key)}`
  throw new HapaxError('invalid-message', what, { fields: { attribute: 'key' } })
}
