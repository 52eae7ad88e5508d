import {
  able,
  asError,
  callback,
  describe,
  expected,
  fieldOf,
  HapaxError,
  messageOf,
  nameText,
  noOthers,
  positiveInteger,
  spanMs,
  text,
  word,
} from '../../../base/index.ts'
import type { Webhook, WebhookArrival, WebhookRequest } from '../../../contracts/index.ts'
import { type IncomingMessage, MAX_TEXT_BYTES, refusedMessage } from '../../../message/index.ts'
import { bodyHash } from './body-hash.ts'
import { type Content, contentOf } from './content.ts'
import type { Scheme, Verdict, Verified } from './scheme.ts'

/** Options of `webhook`. Functions get the event: the parsed JSON, or the fields of a form. */
export interface WebhookOptions {
  /**
   * `store` writes the message to the inbox, responds, and leaves it to a worker. `direct` calls the handler while the provider waits: for
   * handlers that take less than a second. @default 'store'; 'direct' on Redis, which has no inbox
   */
  readonly receive?: 'store' | 'direct'
  /** The source of the messages. Ids are unique per source, so give one to each account that a consumer serves. @default the name of the scheme */
  readonly source?: string
  /** The type of the messages. @default what the scheme finds */
  readonly type?: string | ((event: unknown) => string)
  /** The id of the messages. `body-hash`: equal bytes are the same event. @default what the scheme finds */
  readonly id?: 'body-hash' | ((event: unknown) => string)
  /** The key of the messages, for consumers with `order`. @default none */
  readonly key?: (event: unknown) => string | undefined
  /** The largest body that is read; a larger one gets a 413. @default `maxMessageBytes` of hapax */
  readonly maxBodyBytes?: number
}

const NAMES = [
  'receive',
  'source',
  'type',
  'id',
  'key',
  'maxBodyBytes',
] as const satisfies readonly (keyof WebhookOptions)[]

/**
 * A provider's webhooks as something that feeds a consumer: `billing.from(webhook(stripe({ secrets })))`. Its `handler` is a function
 * from `Request` to `Response`.
 */
export function webhook(scheme: Scheme, options?: WebhookOptions): Webhook
export function webhook(options: WebhookOptions & { readonly verify: Scheme }): Webhook
export function webhook(
  given: Scheme | (WebhookOptions & { readonly verify: Scheme }),
  more: WebhookOptions = {},
): Webhook {
  const { scheme, options } = partsOf(given, more)
  able('scheme', 'a scheme, for example stripe({ secrets })', scheme, ['verify'])
  noOthers('options of webhook', options, NAMES)
  const { receive, source, type, id, key, maxBodyBytes } = options
  if (receive !== undefined) word('receive', ['store', 'direct'], receive)
  if (source !== undefined) text('source', source, MAX_TEXT_BYTES)
  if (typeof type !== 'function' && type !== undefined) text('type', type, MAX_TEXT_BYTES)
  if (typeof id !== 'function' && id !== undefined && id !== 'body-hash') {
    expected('id', `'body-hash' or a function`, id)
  }
  callback('key', key)
  const maker = new Maker(scheme.name, options)
  return {
    name: nameText('name of the scheme', scheme.name),
    resendsForMs: spanMs('resendsForMs of the scheme', scheme.resendsForMs),
    receive,
    maxBodyBytes: maxBodyBytes === undefined ? undefined : positiveInteger('maxBodyBytes', maxBodyBytes, 1),
    accept: (request) => accepted(request, scheme, maker),
  }
}

function partsOf(
  given: Scheme | (WebhookOptions & { readonly verify: Scheme }),
  more: WebhookOptions,
): { readonly scheme: Scheme; readonly options: WebhookOptions } {
  if (isScheme(given)) return { scheme: given, options: more }
  if (typeof given !== 'object' || given === null) {
    expected('scheme', 'a scheme, for example stripe({ secrets })', given)
  }
  const { verify: scheme, ...options } = given
  return { scheme, options }
}

function isScheme(given: Scheme | (WebhookOptions & { readonly verify: Scheme })): given is Scheme {
  return typeof given?.verify === 'function'
}

/** A scheme of the application may throw, although it should not: then nothing can be said of the signature. */
function accepted(request: WebhookRequest, scheme: Scheme, maker: Maker): WebhookArrival {
  try {
    const verdict = checkedVerdict(scheme.name, scheme.verify(request))
    if (verdict.kind !== 'verified') return verdict
    const { challenge } = verdict
    if (challenge !== undefined) return { kind: 'challenge', text: challenge }
    return { kind: 'message', message: maker.message(request, verdict) }
  } catch (error) {
    return { kind: 'bad-signature', error: asError(error) }
  }
}

const KINDS: readonly unknown[] = ['verified', 'missing', 'bad-signature', 'bad-timestamp']

/** An async function returns a promise, which says nothing about the request. */
function checkedVerdict(scheme: string, verdict: Verdict): Verdict {
  const given: unknown = verdict
  if (KINDS.includes(fieldOf(given, 'kind'))) return verdict
  if (given instanceof Promise) given.catch(() => {})
  const got = given instanceof Promise ? 'a promise: it must not be async' : describe(given)
  throw new HapaxError('invalid-option', `expected verify of the scheme ${scheme} to return a verdict, got ${got}`)
}

/** Makes messages of verified requests. What cannot be read is a message as well, because it is authentic: it goes to the failed store. */
class Maker {
  readonly #scheme: string
  readonly #options: WebhookOptions

  constructor(scheme: string, options: WebhookOptions) {
    this.#scheme = scheme
    this.#options = options
  }

  message({ body, headers }: WebhookRequest, verified: Verified): IncomingMessage {
    const content = verified.content ?? contentOf(body, headers.get('content-type'))
    const message = this.#plain(content, verified)
    try {
      if (content.unreadable !== undefined) throw content.unreadable
      return this.#mapped(message, body, content)
    } catch (error) {
      return refusedMessage({ ...message, data: body }, refusalOf(error))
    }
  }

  #plain({ data, contentType }: Content, verified: Verified): IncomingMessage {
    const { id, type = '', time, headers, redelivered } = verified
    return {
      ...(id !== undefined && { id }),
      source: this.#options.source ?? verified.source ?? this.#scheme,
      type: typeof this.#options.type === 'string' ? this.#options.type : type,
      datacontenttype: contentType,
      ...(time !== undefined && { time }),
      ...(headers !== undefined && { headers }),
      ...(redelivered === true && { redelivered }),
      data,
    }
  }

  #mapped(message: IncomingMessage, body: Uint8Array, { event }: Content): IncomingMessage {
    const { id, type, key } = this.#options
    const ownId = id === 'body-hash' ? bodyHash(body) : id?.(event)
    const ownType = typeof type === 'function' ? type(event) : message.type
    const ownKey = key?.(event)
    if (ownType === '') throw new HapaxError('undecodable', `the webhook has no type: say what it is, with 'type'`)
    return {
      ...message,
      ...(id !== undefined && { id: ownId ?? '' }),
      type: ownType,
      ...(ownKey !== undefined && { key: ownKey }),
    }
  }
}

function refusalOf(error: unknown): HapaxError {
  if (error instanceof HapaxError) return error
  const what = `an option of webhook() could not be applied to the event: ${messageOf(asError(error))}`
  return new HapaxError('undecodable', what, { cause: error })
}
