import type { StoredMessage } from '../../core/message.ts'
import type { Replies } from './commands.ts'

/** What is kept of a message beside its receipt. As text, because clients read answers as texts. */
export function packMessage({ messageKey, key, attributes, data }: StoredMessage): string {
  return JSON.stringify([messageKey, key, attributes, Buffer.from(data).toString('base64')])
}

/** A message from source, id, type, fingerprint and the rest. */
export function readMessage(replies: Replies): StoredMessage {
  const [source, id, type, fingerprint] = [replies.text(), replies.text(), replies.text(), replies.text()]
  const [messageKey, key, attributes, data] = JSON.parse(replies.text()) as [string, string | null, string, string]
  return { messageKey, source, id, type, key, attributes, data: Buffer.from(data, 'base64'), fingerprint }
}

/** A text that may be missing, as the scripts have it. */
export function packOptional(value: string | null): string {
  return value === null ? '' : `=${value}`
}

export function unpackOptional(packed: string): string | null {
  return packed === '' ? null : packed.slice(1)
}
