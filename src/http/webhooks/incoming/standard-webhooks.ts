import { createPublicKey, createSecretKey, type KeyObject, verify } from 'node:crypto'
import type { WebhookRequest } from '../../../contracts/index.ts'
import { contentOf, textAt } from './content.ts'
import { BAD_SIGNATURE, BAD_TIMESTAMP, HOUR_MS, missing, type Scheme, type Verdict } from './scheme.ts'
import {
  anyMatches,
  base64Bytes,
  eachSecret,
  hmacs,
  isNear,
  isSecrets,
  MOST_SIGNATURES,
  onlyOptions,
  refuse,
  resendsOption,
  type Secrets,
  type TimedSchemeOptions,
  toleranceOption,
} from './signatures.ts'

/** Options of `standardWebhooks`: secrets, public keys, or both while a provider changes from one to the other. */
export interface StandardWebhooksOptions extends Omit<TimedSchemeOptions, 'secrets'> {
  /** Base64, with or without `whsec_`. @default none */
  readonly secrets?: Secrets
  /** Of providers that sign with ed25519 (`v1a`): base64, with or without `whpk_`. @default none */
  readonly publicKeys?: Secrets
}

/** The keys of a receiver. */
interface Keys {
  readonly secret: readonly KeyObject[]
  readonly public: readonly KeyObject[]
}

/**
 * Standard Webhooks, and providers that send with Svix. The id comes from the header `webhook-id`, the type from the field `type`.
 * Senders that follow the specification's example of a schedule send again for 75 hours and 35 minutes.
 */
export function standardWebhooks(given: StandardWebhooksOptions | Secrets): Scheme {
  const options: StandardWebhooksOptions = isSecrets(given) ? { secrets: given } : given
  onlyOptions('standardWebhooks', options, ['publicKeys', 'toleranceMs'])
  const { secrets, publicKeys } = options
  if (secrets === undefined && publicKeys === undefined) refuse('secrets', 'given, unless publicKeys is', undefined)
  const keys = {
    secret: secrets === undefined ? [] : eachSecret('secrets', secrets, secretKey),
    public: publicKeys === undefined ? [] : eachSecret('publicKeys', publicKeys, publicKey),
  }
  const toleranceMs = toleranceOption(options.toleranceMs)
  return {
    name: 'standard-webhooks',
    resendsForMs: resendsOption(options.resendsForMs, 76 * HOUR_MS),
    verify: (request) => verified(request, keys, toleranceMs),
  }
}

function verified(request: WebhookRequest, keys: Keys, toleranceMs: number): Verdict {
  const { headers, body, nowMs } = request
  // Svix sends both, or its own names only.
  const prefix = headers.get('webhook-id') === null && headers.get('svix-id') !== null ? 'svix' : 'webhook'
  const [id, timestamp, signature] = NAMES.map((name) => headers.get(`${prefix}-${name}`))
  if (!id) return missing(`${prefix}-id`)
  if (!timestamp) return missing(`${prefix}-timestamp`)
  if (!signature) return missing(`${prefix}-signature`)
  // The dots are all that separates the parts: with a time in the id, a part of the body could pass for the timestamp.
  if (/\.\d+(?:\.|$)/.test(id)) return BAD_SIGNATURE
  if (!isSigned(signature, `${id}.${timestamp}.`, body, keys)) return BAD_SIGNATURE
  if (!isNear(timestamp, nowMs, toleranceMs)) return BAD_TIMESTAMP
  const content = contentOf(body, headers.get('content-type'))
  const time = textAt(content.event, 'timestamp')
  return { kind: 'verified', id, type: textAt(content.event, 'type'), time, content }
}

const NAMES = ['id', 'timestamp', 'signature'] as const

/** The header holds several signatures while the sender rotates its secret. */
function isSigned(header: string, start: string, body: Uint8Array, keys: Keys): boolean {
  const signatures = header.split(' ')
  const of = (version: string): readonly string[] =>
    signatures.filter((each) => each.startsWith(version)).map((each) => each.slice(version.length))
  if (keys.secret.length > 0 && anyMatches(of('v1,'), hmacs(keys.secret, [start, body], { encoding: 'base64' }))) {
    return true
  }
  return keys.public.length > 0 && isSignedPublicly(of('v1a,'), start, body, keys.public)
}

function isSignedPublicly(
  signatures: readonly string[],
  start: string,
  body: Uint8Array,
  keys: readonly KeyObject[],
): boolean {
  const decoded = signatures.slice(0, MOST_SIGNATURES).flatMap((each) => base64Bytes(each) ?? [])
  const whole = decoded.filter(({ length }) => length === SIGNATURE_BYTES)
  const signed = whole.length === 0 ? undefined : Buffer.concat([Buffer.from(start, 'latin1'), body])
  return signed !== undefined && whole.some((each) => keys.some((key) => verify(null, signed, key, each)))
}

const SIGNATURE_BYTES = 64

function secretKey(name: string, secret: string): KeyObject {
  if (/^wh[ps]k_/.test(secret)) refuse(name, 'a shared secret: keys of ed25519 go into publicKeys', secret)
  const bytes = base64Bytes(secret.replace(/^whsec_/, ''))
  if (bytes === undefined) refuse(name, `base64, with or without 'whsec_'`, secret)
  if (bytes.length < SHORTEST_BYTES) refuse(name, `at least ${SHORTEST_BYTES} bytes in base64`, secret)
  return createSecretKey(bytes)
}

/** The specification asks senders for 24. */
const SHORTEST_BYTES = 16

function publicKey(name: string, text: string): KeyObject {
  if (text.startsWith('whsk_')) refuse(name, 'a public key: the secret key belongs to the sender alone', text)
  const bytes = base64Bytes(text.replace(/^whpk_/, ''))
  if (bytes?.length !== 32) refuse(name, `32 bytes in base64, with or without 'whpk_'`, text)
  const x = bytes.toString('base64url')
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
}
