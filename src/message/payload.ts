import { asError, describe, HapaxError, messageOf } from '../base/index.ts'
import { isJson } from './incoming.ts'

/** Data as it is stored and sent. */
export interface Payload {
  readonly bytes: Uint8Array
  readonly contentType: string
  /** The JSON that was made of it; undefined: it is none, or came as bytes. */
  readonly json: string | undefined
}

const JSON_TYPE = 'application/json'
const BYTES_TYPE = 'application/octet-stream'

/** Bytes stay what they are, and so does a text whose content type is not JSON; all else is made JSON. `what` is whose data it is. */
export function payloadOf(what: string, data: unknown, contentType?: string): Payload {
  if (data === undefined) return { bytes: new Uint8Array(0), contentType: contentType ?? JSON_TYPE, json: undefined }
  // A copy: whoever gave them may use them again before they are written.
  if (data instanceof Uint8Array)
    return { bytes: Buffer.from(data), contentType: contentType ?? BYTES_TYPE, json: undefined }
  if (ArrayBuffer.isView(data) || data instanceof ArrayBuffer || data instanceof SharedArrayBuffer) {
    throw invalid(`expected bytes of ${what} to be a Uint8Array, got ${describe(data)}`)
  }
  if (contentType === undefined || isJson(contentType)) {
    const json = jsonOf(`data of ${what}`, data)
    return { bytes: Buffer.from(json), contentType: contentType ?? JSON_TYPE, json }
  }
  if (typeof data !== 'string' || !data.isWellFormed()) {
    throw invalid(
      `expected data of ${what} to be bytes or a well-formed text, because its content type is ${contentType}, got ${describe(data)}`,
    )
  }
  return { bytes: Buffer.from(data), contentType, json: undefined }
}

/** The JSON of a value; `what` is how it is called. Throws `invalid-payload`. */
export function jsonOf(what: string, data: unknown): string {
  try {
    const json = JSON.stringify(data)
    if (json !== undefined) return json
  } catch (cause) {
    throw invalid(`expected ${what} to be a JSON value: ${messageOf(asError(cause))}`, cause)
  }
  throw invalid(`expected ${what} to be a JSON value, got ${describe(data)}`)
}

function invalid(what: string, cause?: unknown): HapaxError {
  return new HapaxError('invalid-payload', what, { cause })
}
