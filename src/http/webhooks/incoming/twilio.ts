import { hash, type KeyObject } from 'node:crypto'
import { parse, stringify } from 'node:querystring'
import { expected } from '../../../base/index.ts'
import type { WebhookRequest } from '../../../contracts/index.ts'
import { bodyHash } from './body-hash.ts'
import { type Content, contentOf, fieldsOf, formContent, textAt } from './content.ts'
import { BAD_SIGNATURE, HOUR_MS, missing, type Scheme, type Verdict } from './scheme.ts'
import {
  anyMatches,
  hmacs,
  isEqual,
  isSecrets,
  onlyOptions,
  resendsOption,
  type SchemeOptions,
  type Secrets,
  textKeys,
} from './signatures.ts'

/** Options of `twilio`. */
export interface TwilioOptions extends SchemeOptions {
  /**
   * The URL that Twilio was told, where the server sees another one: behind a proxy that changes the scheme, the host or the path. The
   * query comes from the request. @default the URL of the request
   */
  readonly url?: string
}

/**
 * Twilio. The secret is the auth token. The id is the header `I-Twilio-Idempotency-Token`, or the bytes where it is missing; the type is
 * the field `EventType`, or `message` or `call`. What a form has becomes an object with its fields. Webhooks are sent again within
 * seconds, as the connection overrides say; Event Streams sends again for four hours.
 */
export function twilio(given: TwilioOptions | Secrets): Scheme {
  const options: TwilioOptions = isSecrets(given) ? { secrets: given } : given
  onlyOptions('twilio', options, ['url'])
  const { url } = options
  if (url !== undefined && !(typeof url === 'string' && /^https?:\/\/[^/?#]+/i.test(url) && URL.canParse(url))) {
    expected('url', `a URL, for example 'https://example.com/twilio'`, url)
  }
  const keys = textKeys(options.secrets)
  return {
    name: 'twilio',
    resendsForMs: resendsOption(options.resendsForMs, 4 * HOUR_MS),
    verify: (request) => verified({ ...request, url: publicUrl(request.url, url) }, keys),
  }
}

function verified({ headers, body, url }: WebhookRequest, keys: readonly KeyObject[]): Verdict {
  const signature = headers.get('x-twilio-signature')
  if (!signature) return missing('x-twilio-signature')
  const content = signedContent(url, body, signature, keys, headers.get('content-type'))
  if (content === undefined) return BAD_SIGNATURE
  return {
    kind: 'verified',
    id: headers.get('i-twilio-idempotency-token') || bodyHash(body),
    type: typeOf(content.event),
    content,
  }
}

/**
 * The body, if it was signed. Either its hash is in the URL, or it is a form and its fields are signed, whatever its content type says:
 * a body that is read otherwise would not be covered by the signature.
 */
function signedContent(
  url: string,
  body: Uint8Array,
  signature: string,
  keys: readonly KeyObject[],
  contentType: string | null,
): Content | undefined {
  const bodyDigest = /[?&]bodySHA256=([^&#]*)/.exec(url)?.[1]
  const fields = bodyDigest === undefined ? signedFields(body) : ''
  const wanted = candidates(url).flatMap((each) => twilioSignatures(keys, each + fields))
  const signed = anyMatches([signature], wanted)
  if (bodyDigest === undefined) return signed ? formContent(body) : undefined
  const whole = isEqual(bodyDigest, hash('sha256', body, 'hex'))
  return signed && whole ? contentOf(body, contentType) : undefined
}

/** The signatures of each key over a URL with the fields behind it. */
export function twilioSignatures(keys: readonly KeyObject[], signed: string): readonly string[] {
  return hmacs(keys, [Buffer.from(signed)], { algorithm: 'sha1', encoding: 'base64' })
}

/** Names and values in the order of the names, without anything between them; a value that comes twice counts once. */
export function signedFields(body: Uint8Array): string {
  const fields = [...fieldsOf(body)].sort(([a], [b]) => (a < b ? -1 : 1))
  return fields
    .map(([name, values]) =>
      [...new Set(values)]
        .sort()
        .map((value) => name + value)
        .join(''),
    )
    .join('')
}

/** The URL as Twilio may have signed it: with and without the port, with a quote that was or was not escaped. */
function candidates(url: string): readonly string[] {
  const [without, withPort] = [changedPort(url, ''), changedPort(url, isSecure(url) ? ':443' : ':80')]
  const bases = without === withPort ? [url] : [...new Set([url, without, withPort])]
  return [...new Set(bases.flatMap((each) => [each, legacyQuery(each), unescapedQuotes(each)]))]
}

function isSecure(url: string): boolean {
  return url.slice(0, 6).toLowerCase() === 'https:'
}

/** Only a port that is given is taken away, and only a missing one is added. */
function changedPort(url: string, port: string): string {
  const [, start, given, rest] = /^([a-z]+:\/\/(?:[^/?#@]*@)?(?:\[[^\]]*\]|[^/?#:]*))(:\d*)?(.*)$/is.exec(url) ?? []
  if (start === undefined || rest === undefined) return url
  return start + (port === '' ? '' : (given ?? port)) + rest
}

/** As Node's own `querystring` writes it: some of Twilio's services sign that. */
function legacyQuery(url: string): string {
  const at = url.indexOf('?')
  return at === -1 || at === url.length - 1 ? url : `${url.slice(0, at)}?${stringify(parse(url.slice(at + 1)))}`
}

/** `Request` escapes quotes in a query, which Twilio does not. */
function unescapedQuotes(url: string): string {
  return url.replaceAll('%27', `'`)
}

/** The URL that Twilio was told, with the query of the request. */
function publicUrl(seen: string, told: string | undefined): string {
  if (told === undefined) return withoutFragment(seen)
  const at = seen.indexOf('?')
  const base = withoutFragment(told)
  return at === -1 ? base : (base.split('?')[0] ?? base) + withoutFragment(seen.slice(at))
}

/** Connection overrides are written as a fragment, which is not sent. */
function withoutFragment(url: string): string {
  return url.split('#')[0] ?? url
}

function typeOf(event: unknown): string {
  const named = textAt(event, 'EventType')
  if (named) return named
  if (textAt(event, 'MessageSid') ?? textAt(event, 'SmsSid')) return 'message'
  return textAt(event, 'CallSid') ? 'call' : 'event'
}
