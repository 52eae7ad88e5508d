import type { StoredMessage } from '../../../message/index.ts'
import { encodeText, markOf, numberOf } from '../../../message/index.ts'
import { array } from '../literal.ts'

/** message_key, source, id, type, key (empty: none), attributes, data, fingerprint: eight parameters. */
export function messageArrays(messages: readonly StoredMessage[]): readonly string[] {
  return [
    array(messages.map((message) => message.messageKey)),
    array(messages.map((message) => encodeText(message.source))),
    array(messages.map((message) => encodeText(message.id))),
    array(messages.map((message) => encodeText(message.type))),
    array(messages.map((message) => (message.key === null ? '' : encodeText(message.key)))),
    array(messages.map((message) => message.attributes)),
    array(messages.map((message) => message.data)),
    array(messages.map((message) => message.fingerprint)),
  ]
}

/** A message without a key has no order to keep. */
export function inOrder({ message, ordered }: { message: StoredMessage; ordered: boolean }): boolean {
  return ordered && message.key !== null
}

/** The numbers and the marks of rows: two parameters. */
export function named(seqs: readonly string[]): readonly [string, string] {
  return [array(seqs.map(numberOf)), array(seqs.map(markOf))]
}

/** The number and the mark of one row: two parameters. */
export function one(seq: string): readonly [string, string] {
  return [numberOf(seq), markOf(seq)]
}

/** The number of a row that may be absent. */
export function numberOrNull(seq: string | undefined): string | null {
  return seq === undefined ? null : numberOf(seq)
}

/** A text that may be absent. */
export function encoded(text: string | undefined): string | null {
  return text === undefined ? null : encodeText(text)
}
