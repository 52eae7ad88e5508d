import { isJson, isTextual, type StoredMessage, unpackAttributes } from '../../message/index.ts'
import { plural } from './text.ts'

/** A payload for programs: the JSON value or the text, or the bytes as base64. */
export type Payload = { readonly data: unknown } | { readonly dataBase64: string }

/** Decodes the payload of a message for `--json`, by its content type as far as that is true. */
export function payloadOf(message: Pick<StoredMessage, 'attributes' | 'data'>): Payload {
  const { data } = message
  const kind = kindOf(message)
  try {
    if (kind === 'text') return { data: wholeText.decode(data) }
    if (kind === 'json') return { data: exactJson(utf8.decode(data)) }
  } catch {
    // It is not what it is said to be.
  }
  return { dataBase64: Buffer.from(data).toString('base64') }
}

/** What the payload of a message is said to be. */
export function kindOf({ attributes }: Pick<StoredMessage, 'attributes'>): 'json' | 'text' | 'bytes' {
  const contentType = contentTypeIn(attributes)
  return isJson(contentType) ? 'json' : isTextual(contentType) ? 'text' : 'bytes'
}

function contentTypeIn(attributes: string): string | undefined {
  try {
    return unpackAttributes({ id: '', source: '', type: '', key: null, attributes }).datacontenttype
  } catch {
    return undefined
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })
const wholeText = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

// Newer than the type definitions.
const rawJSON: (text: string) => unknown = Reflect.get(JSON, 'rawJSON')

/** Parses JSON so that it is printed back unchanged: a number that JavaScript would round keeps its digits. */
export function exactJson(text: string): unknown {
  const reviver = (_: string, value: unknown, { source = '' }: { source?: string } = {}): unknown =>
    typeof value === 'number' && isRounded(value, source) ? rawJSON(source) : value
  return JSON.parse(text, reviver)
}

/** A double represents every number of up to 15 digits exactly enough to print it back. */
function isRounded(value: number, source: string): boolean {
  const digits = source.replace(/e.*$/i, '').replaceAll(/\D/g, '').replace(/^0+/, '').length
  return !Number.isFinite(value) || (digits > 15 && JSON.stringify(value) !== source)
}

/** Text as it is, anything else as hexadecimal digits; only the beginning if it is long. */
export function printable(data: Uint8Array): string {
  const head = Buffer.from(data.subarray(0, MAX_SHOWN))
  const text = head.toString('utf8')
  const shown = text.includes('\ufffd') ? head.toString('hex').replaceAll(/(.{64})/g, '$1\n') : text
  return data.length > MAX_SHOWN ? `${shown}\n… ${plural(data.length - MAX_SHOWN, 'byte')} more; use --json` : shown
}

/** Bytes. Longer payloads would push the error out of sight. */
const MAX_SHOWN = 4096
