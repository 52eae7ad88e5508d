import { HapaxError } from '../../base/index.ts'
import type { Lease } from '../../contracts/index.ts'
import { type Past, pastOf, type StoredMessage } from '../../message/index.ts'
import type { Replies } from './commands.ts'

/** Redis takes 512 MiB as one value, and base64 needs a third more. */
const MAX_BYTES = 2 ** 28

/** What a receipt knows of a message. */
export type ReceiptOf = Pick<StoredMessage, 'source' | 'id' | 'type' | 'fingerprint'>

/** A receipt as it stands at the end of a claim. */
export function packReceipt({ source, id, type, fingerprint }: ReceiptOf): string {
  return JSON.stringify([source, id, type, fingerprint])
}

/** Reads what `packReceipt` wrote. */
export function unpackReceipt(packed: string): ReceiptOf {
  const [source, id, type, fingerprint]: [string, string, string, string] = JSON.parse(packed)
  return { source, id, type, fingerprint }
}

/** What is kept of a message beside its receipt. As text, because clients read replies as texts. */
export function packMessage({ messageKey, key, attributes, data }: StoredMessage): string {
  if (data.byteLength > MAX_BYTES) {
    const bytes = data.byteLength
    throw new HapaxError('too-large', `expected a payload of at most ${MAX_BYTES} bytes, got ${bytes}`, {
      fields: { bytes },
    })
  }
  return JSON.stringify([messageKey, key, attributes, Buffer.from(data).toString('base64')])
}

/** A message from its receipt and the rest. */
export function readMessage(replies: Replies): StoredMessage {
  return { ...unpackReceipt(replies.text()), ...unpackMessage(replies.text()) }
}

/** Reads what `packMessage` wrote. */
export function unpackMessage(packed: string): Omit<StoredMessage, keyof ReceiptOf> {
  const [messageKey, key, attributes, data]: [string, string | null, string, string] = JSON.parse(packed)
  return { messageKey, key, attributes, data: Buffer.from(data, 'base64') }
}

/** Reads the fields of a history. */
export function readPast(replies: Replies): Past {
  const [failures, history] = [replies.optional(), replies.optional()]
  return pastOf({ failures: Number(failures ?? 0), history })
}

/** A fence as the claims have it: in digits of a fixed number. */
export function fenceOf({ fence }: Lease): string {
  return String(fence).padStart(10, '0')
}

/** Who has a claim: token and fence. */
export function holder(lease: Lease): string {
  return lease.token + fenceOf(lease)
}

/** A text that may be missing, as the scripts have it. */
export function packOptional(value: string | null): string {
  return value === null ? '' : `=${value}`
}

/** Reads what `packOptional` wrote. */
export function unpackOptional(packed: string): string | null {
  return packed === '' ? null : packed.slice(1)
}
