import { createHmac, createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto'
import { HapaxError } from '../../../base/index.ts'
import type { EndpointSecret } from '../../../contracts/index.ts'

/** A secret that both sides know, and the private key of a pair. */
const SHARED = 'whsec_'
const PRIVATE = 'whsk_'

/** The header `webhook-signature`: one signature for each secret that is in use, so that receivers can change to a new one in their time. */
export function signatures(
  secrets: readonly EndpointSecret[],
  id: string,
  timestamp: number,
  body: Uint8Array,
  now: number,
): string {
  const content = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body])
  const inUse = secrets.filter(({ until }) => until === null || until.getTime() > now)
  if (inUse.length === 0) throw unusable('the endpoint has no secret to sign with')
  return inUse.map(({ secret }) => signature(secret, content)).join(' ')
}

function signature(secret: string, content: Uint8Array): string {
  if (secret.startsWith(SHARED)) {
    const key = base64(secret.slice(SHARED.length))
    if (key.length < 24 || key.length > 64) throw unusable(`expected a ${SHARED} secret of 24 to 64 bytes`)
    return `v1,${createHmac('sha256', key).update(content).digest('base64')}`
  }
  if (secret.startsWith(PRIVATE)) return `v1a,${sign(null, content, privateKey(secret)).toString('base64')}`
  throw unusable(`expected a secret that begins with ${SHARED} or ${PRIVATE}`)
}

/** What precedes the 32 bytes of an ed25519 key in PKCS #8. */
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex')

/** 32 bytes of the key alone, or followed by the 32 bytes of its public half. */
function privateKey(secret: string): KeyObject {
  const bytes = base64(secret.slice(PRIVATE.length))
  if (bytes.length !== 32 && bytes.length !== 64) throw unusable(`expected a ${PRIVATE} key of 32 or 64 bytes`)
  const key = createPrivateKey({ key: Buffer.concat([PKCS8, bytes.subarray(0, 32)]), format: 'der', type: 'pkcs8' })
  const { x } = createPublicKey(key).export({ format: 'jwk' })
  if (bytes.length === 64 && bytes.subarray(32).toString('base64url') !== x) {
    throw unusable(`expected the halves of a ${PRIVATE} key to belong together`)
  }
  return key
}

/** `Buffer.from` skips what is not base64. */
function base64(text: string): Buffer {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.toString('base64').replace(/=+$/, '') !== text.replace(/={0,2}$/, '')) {
    throw unusable('expected a secret in base64 behind its prefix')
  }
  return bytes
}

function unusable(what: string): HapaxError {
  return new HapaxError('unusable-secret', what)
}
