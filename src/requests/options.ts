import {
  expected,
  fieldOf,
  flag,
  HapaxError,
  nameText,
  noOthers,
  positiveInteger,
  spanMs,
  text,
  wholeNumber,
} from '../base/index.ts'
import type { HttpOptionsBase, StorePolicy } from '../contracts/index.ts'
import { MAX_TEXT_BYTES } from '../message/index.ts'
import { keptHeaders } from './headers.ts'

/** The options of a scope with every default filled in, in every mode. */
export interface HttpSettings {
  readonly scope: string
  /** The consumer that the receipts belong to. */
  readonly consumer: string
  /** Undefined: everybody who knows the key is the same. */
  readonly principal: ((request: Request) => string | undefined | Promise<string | undefined>) | undefined
  readonly keepMs: number
  readonly waitMs: number
  readonly require: boolean
  /** Whether a response is kept. */
  readonly keeps: (response: Response) => boolean
  /** Names of the headers that are kept with it, in lower case. */
  readonly headers: ReadonlySet<string>
  /** Undefined: the path of the URL. */
  readonly route: ((request: Request) => string) | undefined
  readonly maxKeyLength: number
  readonly maxBodyBytes: number
  readonly maxResponseBytes: number
}

/** The options that every mode has. */
const NAMES = [
  'principal',
  'keepMs',
  'waitMs',
  'require',
  'store',
  'headers',
  'route',
  'maxKeyLength',
  'maxBodyBytes',
  'maxResponseBytes',
] as const satisfies readonly (keyof HttpOptionsBase)[]

/** Checks the options that every mode has, and fills in the defaults. `others` are the names that this mode adds. */
export function httpSettings(scope: string, options: HttpOptionsBase, others: readonly string[]): HttpSettings {
  const name = nameText('scope', scope, MAX_SCOPE_BYTES)
  noOthers('options of http', options, [...NAMES, ...others])
  return Object.freeze({
    scope: name,
    consumer: consumerOf(name),
    principal: principalOption(options.principal),
    keepMs: options.keepMs === undefined ? DAY_MS : spanMs('keepMs', options.keepMs),
    waitMs: wholeNumber('waitMs', options.waitMs, 0),
    require: flag('require', options.require, true),
    keeps: policy(options.store),
    headers: keptHeaders(options.headers),
    route: routeOption(options.route),
    maxKeyLength: keyLength(options.maxKeyLength),
    maxBodyBytes: positiveInteger('maxBodyBytes', options.maxBodyBytes, MIB),
    maxResponseBytes: positiveInteger('maxResponseBytes', options.maxResponseBytes, MIB),
  })
}

/** The consumer that stands for a scope. */
export function consumerOf(scope: string): string {
  return `${SCOPE}${scope}`
}

/** Whether a consumer stands for a scope: its requests are finished by whoever sends them, with or without a worker. */
export function isScope(consumer: string): boolean {
  return consumer.startsWith(SCOPE)
}

const SCOPE = 'http:'

/** A name of a consumer has 255 bytes. */
const MAX_SCOPE_BYTES = 250
const DAY_MS = 86_400_000
const MIB = 1024 * 1024
/** The longest text that tells routes apart. */
export const MAX_ROUTE_BYTES = 1024

function principalOption(given: unknown): HttpSettings['principal'] {
  if (given === 'none') return undefined
  if (isPrincipal(given)) return given
  const what = `a function that returns who sends the request, or 'none' if everybody who knows a key may have its response`
  return expected('principal', what, given)
}

function isPrincipal(given: unknown): given is NonNullable<HttpSettings['principal']> {
  return typeof given === 'function'
}

function policy(given: StorePolicy = 'no-5xx'): HttpSettings['keeps'] {
  if (typeof given === 'function') return (response) => flag('what store returned', given(response), false)
  if (given === 'all') return () => true
  if (given === '2xx') return ({ status }) => status >= 200 && status < 300
  if (given === 'no-5xx') return ({ status }) => status < 500
  return expected('store', `'no-5xx', '2xx', 'all' or a function`, given)
}

function routeOption(given: HttpOptionsBase['route']): HttpSettings['route'] {
  if (given === undefined) return undefined
  if (typeof given === 'function') return (request) => text('what route returned', given(request), MAX_ROUTE_BYTES)
  const route = text('route', given, MAX_ROUTE_BYTES)
  return () => route
}

function keyLength(given: number | undefined): number {
  const length = positiveInteger('maxKeyLength', given, 255)
  return length <= MAX_TEXT_BYTES ? length : expected('maxKeyLength', `at most ${MAX_TEXT_BYTES}`, given)
}

/** Refuses what is no handler. */
export function handlerOption(handle: unknown): void {
  if (typeof handle !== 'function')
    expected('handler', 'a function that takes a request and returns a Response', handle)
}

/** Refuses what is no request, such as that of Express: a framework has to be adapted. */
export function requestOption(request: unknown): void {
  const isRequest =
    typeof fieldOf(request, 'url') === 'string' && typeof fieldOf(fieldOf(request, 'headers'), 'get') === 'function'
  if (isRequest) return
  const what =
    'expected a Request of the Fetch standard; frameworks with others are adapted by toExpress, toFastify or toNode'
  throw new HapaxError('invalid-option', what, { fields: { option: 'request' } })
}
