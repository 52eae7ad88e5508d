import { isUtf8 } from 'node:buffer'
import type { StoredResponse } from '../../contracts/index.ts'

type Head = readonly [StoredResponse['status'], StoredResponse['headers'], 'utf8' | 'base64']

/**
 * A response as Redis keeps it: a line of JSON, and the body. Clients send and read texts, so that a body which is not one takes a third
 * more than its bytes.
 */
export function packResponse({ status, headers, body }: StoredResponse): string {
  const encoding = isUtf8(body) ? 'utf8' : 'base64'
  const head: Head = [status, headers, encoding]
  return `${JSON.stringify(head)}\n${bytesOf(body).toString(encoding)}`
}

/** Reads what `packResponse` wrote. */
export function unpackResponse(packed: string): StoredResponse {
  const end = packed.indexOf('\n')
  const [status, headers, encoding]: Head = JSON.parse(packed.slice(0, end))
  return { status, headers, body: Buffer.from(packed.slice(end + 1), encoding) }
}

function bytesOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}
