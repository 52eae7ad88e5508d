// What a verified request says. Called after verification only: before that, a body is nothing but bytes.

import { asError, fieldOf, HapaxError, messageOf } from '../../../base/index.ts'
import { isJson, parseJson } from '../../../message/index.ts'

/** What a request says, once it is known who sent it. */
export interface Content {
  /** What is stored: the bytes as they came; of a form, its fields as JSON. */
  readonly data: Uint8Array
  readonly contentType: string
  /** The JSON value, or the fields of a form; bytes of another type as they are. */
  readonly event: unknown
  /** Why `event` could not be read. */
  readonly unreadable?: HapaxError
}

const JSON_TYPE = 'application/json'

/** Reads a body as its content type says; without one it is JSON. */
export function contentOf(body: Uint8Array, contentType: string | null): Content {
  if (isForm(contentType)) return formContent(body)
  if (isJson(contentType ?? undefined)) return jsonContent(body)
  return { data: body, contentType: contentType ?? JSON_TYPE, event: body }
}

export function jsonContent(body: Uint8Array): Content {
  const known = { data: body, contentType: JSON_TYPE }
  try {
    return { ...known, event: body.length === 0 ? undefined : parseJson(utf8.decode(body)) }
  } catch (cause) {
    const what = `expected the webhook to be JSON in UTF-8: ${messageOf(asError(cause))}`
    return { ...known, event: undefined, unreadable: new HapaxError('undecodable', what, { cause }) }
  }
}

/** The fields of a form as one object; a field that comes more than once is a list. Some providers send JSON in the field `payload`. */
export function formContent(body: Uint8Array): Content {
  const fields = fieldsOf(body)
  const [payload] = fields.get('payload') ?? []
  if (fields.size === 1 && payload !== undefined) return jsonContent(Buffer.from(payload))
  const event: Record<string, string | readonly string[]> = Object.create(null)
  for (const [name, values] of fields) event[name] = values.length === 1 ? (values[0] ?? '') : values
  return { data: Buffer.from(JSON.stringify(event)), contentType: JSON_TYPE, event }
}

/** The fields of a form by name, with all their values. */
export function fieldsOf(body: Uint8Array): ReadonlyMap<string, readonly string[]> {
  const fields = new Map<string, string[]>()
  for (const [name, value] of new URLSearchParams(Buffer.from(body).toString('utf8'))) {
    const values = fields.get(name)
    if (values === undefined) fields.set(name, [value])
    else values.push(value)
  }
  return fields
}

/** Whether a content type is that of a form. */
function isForm(contentType: string | null): boolean {
  return contentType?.trimStart().toLowerCase().startsWith('application/x-www-form-urlencoded') === true
}

/** The text at a place of an event: `data.id`. A whole number counts as well. */
export function textAt(event: unknown, path: string): string | undefined {
  let value: unknown = event
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = fieldOf(value, name)
  }
  return typeof value === 'string' || Number.isSafeInteger(value) ? String(value) : undefined
}

/** A time in seconds since 1970 as RFC 3339, where it is one. */
export function timeAt(event: unknown, path: string): string | undefined {
  const seconds = Number(textAt(event, path) ?? Number.NaN)
  return seconds > 0 && seconds < MAX_SECONDS ? new Date(seconds * 1_000).toISOString() : undefined
}

/** The year 9999. */
const MAX_SECONDS = 253_370_764_800

const utf8 = new TextDecoder('utf-8', { fatal: true })
