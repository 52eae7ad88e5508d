import { NO_ATTRIBUTES, packAttributes, type StoredMessage, sha256, unpackOthers } from './message.ts'

/**
 * What is known of a message of the failed store that could not be kept whole. It stands among the attributes, where every store
 * keeps it; no sender can write it there, because of those only the ones that hapax knows are taken.
 */
export interface Stub {
  /** The size of its payload, or of what its driver did not read whole; null: unknown. */
  readonly bytes: number | null
  /** The SHA-256 of the whole payload, in hexadecimal digits; null: its driver did not read it. */
  readonly sha256: string | null
  /** Why it could not be kept, unless the error says so. */
  readonly why?: string
  /** Source, id, type or key are not as they came: the database has no such characters. */
  readonly escaped?: true
}

/** How much of its payload is kept. */
export const STUB_BYTES: number = 64 * 1024
/** How much of its attributes. */
const ATTRIBUTES_BYTES = 32 * 1024
/** How many characters of one of them. */
const TEXT_LENGTH = 1024

/** The attributes of a stub. */
export function markStub(attributes: string, stub: Stub): string {
  const separator = attributes === NO_ATTRIBUTES ? '' : ','
  return `${attributes.slice(0, -1)}${separator}"stub":${JSON.stringify(stub)}}`
}

/** What is known of a stub; undefined: the message is whole. */
export function stubOf({ attributes }: Pick<StoredMessage, 'attributes'>): Stub | undefined {
  if (!attributes.includes('"stub":{')) return undefined
  try {
    const { stub }: { readonly stub?: Partial<Stub> } = JSON.parse(attributes)
    return isStub(stub) ? stub : undefined
  } catch {
    return undefined
  }
}

function isStub(stub: Partial<Stub> | undefined): stub is Stub {
  return stub?.bytes !== undefined && stub.sha256 !== undefined
}

/** The beginning of a message. One that is short stays whole, and can be tried again. */
export function shortened(message: StoredMessage, why: string): StoredMessage {
  const { messageKey, source, id, type, key, fingerprint, data } = message
  const attributes = cutAttributes(message.attributes)
  if (data.byteLength <= STUB_BYTES && attributes === message.attributes) return message
  const stub = markStub(attributes, { bytes: data.byteLength, sha256: sha256(data), why })
  return { messageKey, source, id, type, key, fingerprint, attributes: stub, data: data.slice(0, STUB_BYTES) }
}

/** The beginning of a message in characters that every database has; its identity is still that of the message as it came. */
export function inAscii(message: StoredMessage, why: string): StoredMessage {
  const { messageKey, fingerprint, data, key } = message
  const [source, id, type] = [ascii(message.source), ascii(message.id), ascii(message.type)]
  const stub: Stub = { bytes: data.byteLength, sha256: sha256(data), why, escaped: true }
  return {
    ...{ messageKey, fingerprint, source, id, type },
    key: key === null ? null : ascii(key),
    attributes: asciiJson(markStub(cutAttributes(message.attributes), stub)),
    data: data.slice(0, STUB_BYTES),
  }
}

/** Attributes that are short enough for a stub: texts are cut, and headers left out from the one on that does not fit. */
export function cutAttributes(attributes: string): string {
  if (Buffer.byteLength(attributes) <= ATTRIBUTES_BYTES) return attributes
  const { headers = {}, ...texts } = unpackOthers(attributes)
  let room = ATTRIBUTES_BYTES
  const cut = (values: object): Record<string, string> => {
    const fitting: Record<string, string> = Object.create(null)
    for (const [name, value] of Object.entries(values)) {
      const [shortName, shortValue] = [cutText(name), cutText(value)]
      room -= Buffer.byteLength(JSON.stringify([shortName, shortValue]))
      if (room < 0) break
      fitting[shortName] = shortValue
    }
    return fitting
  }
  return packAttributes({ ...cut(texts), headers: cut(headers) })
}

function cutText(value: unknown): string {
  return String(value).slice(0, TEXT_LENGTH).toWellFormed()
}

/** For people: escaped as in JSON, and no longer than any store takes. */
function ascii(text: string): string {
  const escaped = asciiJson(JSON.stringify(text)).slice(1, -1)
  return escaped.length > ASCII_LENGTH ? `${escaped.slice(0, ASCII_LENGTH)}...` : escaped
}

const ASCII_LENGTH = 2_000

/** The same JSON in ASCII: what is not ASCII stands inside texts, where it can be escaped. */
export function asciiJson(json: string): string {
  return json.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
