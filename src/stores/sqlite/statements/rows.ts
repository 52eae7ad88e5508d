import type { Param } from '../../../contracts/index.ts'
import { encodeText, laneOf, markOf, numberOf, type StoredMessage } from '../../../message/index.ts'

/** The numbers and the marks of rows: two lists. */
export function named(seqs: readonly string[]): readonly [string, string] {
  return [JSON.stringify(seqs.map(numberOf)), JSON.stringify(seqs.map(markOf))]
}

/** The number and the mark of one row. */
export function one(seq: string): readonly [string, string] {
  return [numberOf(seq), markOf(seq)]
}

/** message_key, source, id, type, key, attributes, data, fingerprint: eight parameters. */
export function columns(message: StoredMessage): readonly Param[] {
  const { messageKey, source, id, type, key, attributes, data, fingerprint } = message
  const encodedKey = key === null ? null : encodeText(key)
  return [messageKey, encodeText(source), encodeText(id), encodeText(type), encodedKey, attributes, data, fingerprint]
}

/** lane and ordered: a message without a key has no order to keep. */
export function place(message: StoredMessage, ordered: boolean): readonly Param[] {
  return [laneOf(message, ordered), Number(ordered && message.key !== null)]
}

/** A text that may be absent. */
export function encoded(text: string | undefined): string | null {
  return text === undefined ? null : encodeText(text)
}
