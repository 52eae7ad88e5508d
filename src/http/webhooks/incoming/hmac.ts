import type { KeyObject } from 'node:crypto'
import { expected, nameText, noOthers, object, oneOf, spanMs, text, word } from '../../../base/index.ts'
import type { WebhookRequest } from '../../../contracts/index.ts'
import { bodyHash } from './body-hash.ts'
import { type Content, contentOf, textAt } from './content.ts'
import { BAD_SIGNATURE, BAD_TIMESTAMP, missing, type Scheme, type Verdict } from './scheme.ts'
import {
  type Algorithm,
  anyMatches,
  type Encoding,
  hmacs,
  isNear,
  type Secrets,
  textKeys,
  toleranceOption,
} from './signatures.ts'

/** Where a text is found: a header, or a place in the JSON of the body (`data.id`). */
export type Place = { readonly header: string } | { readonly path: string }

/** What a function for `signed` gets. */
export interface SignedParts {
  readonly body: Uint8Array
  /** The text of the timestamp header; empty where there is none. */
  readonly timestamp: string
  readonly method: string
  readonly url: string
  readonly headers: Pick<Headers, 'get'>
}

/** Where a provider puts the time of a signature. */
export interface TimestampOptions {
  readonly header: string
  /** How far it may be from the time here, in both directions. @default 300_000 */
  readonly toleranceMs?: number
  /** @default 's' */
  readonly unit?: 's' | 'ms'
}

/** Options of `hmac`. */
export interface HmacOptions {
  /** For people and metrics. It is also the default source of messages, so do not change it later. @default 'hmac' */
  readonly name?: string
  readonly secrets: Secrets
  /** The header with the signature. */
  readonly header: string
  /** @default 'sha256' */
  readonly algorithm?: Algorithm
  /** How the signature is written. @default 'hex' */
  readonly encoding?: Encoding
  /** What stands before the signature in its header, for example 'sha256='. @default nothing */
  readonly prefix?: string
  /** What is signed. @default 'body', with `timestamp` 'timestamp.body' */
  readonly signed?: 'body' | 'timestamp.body' | ((parts: SignedParts) => Uint8Array | string)
  /** Without it, whoever has a copy of a request can send it again at any time. @default none */
  readonly timestamp?: TimestampOptions
  /** The same for every copy of an event. `body-hash`: equal bytes are the same event. */
  readonly id: Place | 'body-hash'
  /** What the event is: a text, or where it is found. */
  readonly type: Place | string
  /** For how long the provider sends an event again. */
  readonly resendsForMs: number
}

/** The options with every default filled in. */
interface Settings extends Required<Pick<HmacOptions, 'header' | 'prefix' | 'signed' | 'id' | 'type'>> {
  readonly name: string
  readonly keys: readonly KeyObject[]
  readonly way: { readonly algorithm: Algorithm; readonly encoding: Encoding }
  readonly timestamp: { readonly header: string; readonly toleranceMs: number; readonly unitMs: number } | undefined
}

/** A provider that signs with an HMAC, in its own way. */
export function hmac(options: HmacOptions): Scheme {
  const settings = hmacSettings(options)
  return {
    name: settings.name,
    resendsForMs: spanMs('resendsForMs', options.resendsForMs),
    verify: (request) => verified(request, settings),
  }
}

function verified(request: WebhookRequest, settings: Settings): Verdict {
  const { headers, body, nowMs } = request
  const { header, prefix, keys, way, timestamp, id, type } = settings
  const needed = [header, timestamp?.header, headerOf(id), headerOf(type)]
  for (const name of needed) if (name !== undefined && !headers.get(name)) return missing(name)
  const signed = signedBytes(request, settings)
  if (signed === undefined) return BAD_SIGNATURE
  const wanted = hmacs(keys, signed, way).map((each) => prefix + each)
  if (!anyMatches([headers.get(header) ?? ''], wanted)) return BAD_SIGNATURE
  if (timestamp !== undefined) {
    const { toleranceMs, unitMs } = timestamp
    if (!isNear(headers.get(timestamp.header) ?? '', nowMs, toleranceMs, unitMs)) return BAD_TIMESTAMP
  }
  const content = contentOf(body, headers.get('content-type'))
  return {
    kind: 'verified',
    id: id === 'body-hash' ? bodyHash(body) : found(id, request, content),
    type: typeof type === 'string' ? type : found(type, request, content),
    content,
  }
}

/** Undefined: the function failed, so that nothing can be said of the signature. */
function signedBytes(request: WebhookRequest, settings: Settings): readonly (Uint8Array | string)[] | undefined {
  const { signed } = settings
  const { body, headers, method, url } = request
  const timestamp = settings.timestamp === undefined ? '' : (headers.get(settings.timestamp.header) ?? '')
  if (signed === 'body') return [body]
  if (signed === 'timestamp.body') return [`${timestamp}.`, body]
  try {
    const bytes: unknown = signed({ body, timestamp, method, url, headers })
    if (typeof bytes === 'string') return [Buffer.from(bytes)]
    return bytes instanceof Uint8Array ? [bytes] : undefined
  } catch {
    return undefined
  }
}

function headerOf(place: Place | string): string | undefined {
  return typeof place === 'object' && 'header' in place ? place.header : undefined
}

function found(place: Place, { headers }: WebhookRequest, { event }: Content): string | undefined {
  return 'header' in place ? (headers.get(place.header) ?? undefined) : textAt(event, place.path)
}

const NAMES = [
  'name',
  'secrets',
  'header',
  'algorithm',
  'encoding',
  'prefix',
  'signed',
  'timestamp',
  'id',
  'type',
  'resendsForMs',
] as const satisfies readonly (keyof HmacOptions)[]

function hmacSettings(options: HmacOptions): Settings {
  noOthers('options of hmac', options, NAMES)
  const { timestamp, id, type, prefix = '' } = options
  const usual = timestamp === undefined ? 'body' : 'timestamp.body'
  if (timestamp !== undefined) noOthers('timestamp', timestamp, ['header', 'toleranceMs', 'unit'])
  if (typeof prefix !== 'string') expected('prefix', 'a text', prefix)
  const { signed = usual } = options
  if (typeof signed !== 'function') word('signed', ['body', 'timestamp.body'], signed)
  if (signed === 'timestamp.body' && timestamp === undefined) {
    expected('timestamp', `given, because signed is 'timestamp.body'`, timestamp)
  }
  if (signed === 'body' && timestamp !== undefined) {
    expected('signed', `'timestamp.body' or a function, because a timestamp that is not signed proves nothing`, signed)
  }
  return {
    name: options.name === undefined ? 'hmac' : nameText('name', options.name),
    keys: textKeys(options.secrets),
    header: headerName('header', options.header),
    way: {
      algorithm: oneOf('algorithm', ['sha1', 'sha256', 'sha384', 'sha512'], options.algorithm, 'sha256'),
      encoding: oneOf('encoding', ['hex', 'base64'], options.encoding, 'hex'),
    },
    prefix,
    signed,
    timestamp: timestamp && {
      header: headerName('timestamp.header', timestamp.header),
      toleranceMs: toleranceOption(timestamp.toleranceMs),
      unitMs: oneOf('timestamp.unit', ['s', 'ms'], timestamp.unit, 's') === 's' ? 1_000 : 1,
    },
    id: id === 'body-hash' ? id : placeOption('id', id),
    type: typeof type === 'string' ? text('type', type) : placeOption('type', type),
  }
}

function placeOption(name: string, place: Place): Place {
  object(name, place, `{ header }, { path } or a text`)
  noOthers(name, place, ['header', 'path'])
  if ('header' in place) return { header: headerName(`${name}.header`, place.header) }
  return { path: text(`${name}.path`, place.path) }
}

/** A name that `Headers` takes: asking for another one would throw at every request. */
function headerName(name: string, value: unknown): string {
  if (typeof value !== 'string' || !/^[!#$%&'*+.^_`|~\w-]+$/.test(value)) expected(name, 'the name of a header', value)
  return value.toLowerCase()
}
