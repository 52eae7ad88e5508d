import { plural } from './text.ts'

/** A payload for programs: the JSON value, or the bytes as base64. */
export type Payload = { readonly data: unknown } | { readonly dataBase64: string }

export function payloadOf(data: Uint8Array): Payload {
  try {
    return { data: JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(data)) }
  } catch {
    return { dataBase64: Buffer.from(data).toString('base64') }
  }
}

/** Text as text, anything else as hexadecimal digits; the beginning, if it is long. */
export function printable(data: Uint8Array): string {
  const head = Buffer.from(data.subarray(0, MAX_SHOWN))
  const text = head.toString('utf8')
  const shown = text.includes('\ufffd') ? head.toString('hex').replaceAll(/(.{64})/g, '$1\n') : text
  return data.length > MAX_SHOWN ? `${shown}\n… ${plural(data.length - MAX_SHOWN, 'byte')} more: use --json` : shown
}

const MAX_SHOWN = 4096
