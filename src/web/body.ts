import { isUint8Array } from 'node:util/types'

/** A body that was read to its end, or what kept that from happening. */
export type ReadBody =
  | { readonly kind: 'whole'; readonly bytes: Uint8Array }
  | { readonly kind: 'too-large' }
  /** Something else has read it: a body parser, for example. */
  | { readonly kind: 'used' }
  /** The sender went away before its end. */
  | { readonly kind: 'broken'; readonly error: unknown }

/** Reads a body of at most `maxBytes`. Never throws. A longer one is cancelled as soon as that is known. */
export async function readBody(
  message: Pick<Request, 'body' | 'bodyUsed' | 'headers'>,
  maxBytes: number,
): Promise<ReadBody> {
  const { body, headers } = message
  if (message.bodyUsed || body?.locked) return { kind: 'used' }
  if (body === null) return { kind: 'whole', bytes: new Uint8Array() }
  if (Number(headers.get('content-length') ?? 0) > maxBytes) {
    body.cancel().catch(() => {})
    return { kind: 'too-large' }
  }
  const chunks: Uint8Array[] = []
  let length = 0
  try {
    for await (const chunk of body) {
      // A stream may yield anything, whatever its type says.
      if (!isUint8Array(chunk)) return { kind: 'broken', error: notBytes(chunk) }
      length += chunk.byteLength
      if (length > maxBytes) return { kind: 'too-large' }
      chunks.push(chunk)
    }
  } catch (error) {
    return { kind: 'broken', error }
  }
  return { kind: 'whole', bytes: concatenated(chunks, length) }
}

/** The same as `Response.text()` does with it. */
function notBytes(chunk: unknown): TypeError {
  return new TypeError(`expected the stream of a body to yield Uint8Arrays, got a value of type ${typeof chunk}`)
}

function concatenated(chunks: readonly Uint8Array[], length: number): Uint8Array {
  const [first] = chunks
  if (chunks.length === 1 && first !== undefined) return first
  const whole = new Uint8Array(length)
  let at = 0
  for (const chunk of chunks) {
    whole.set(chunk, at)
    at += chunk.byteLength
  }
  return whole
}
