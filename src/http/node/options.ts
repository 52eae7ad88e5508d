import {
  asError,
  callback,
  consoleLogger,
  expected,
  faultFields,
  fieldOf,
  flag,
  type HapaxError,
  noOthers,
} from '../../base/index.ts'

/** What is mounted: a function from a request to its response, such as `prometheus(hapax).handler`. */
export type FetchHandler = (request: Request) => Response | Promise<Response>

/** Options of `toNode`, `toExpress` and `toFastify`. */
export interface MountOptions {
  /**
   * Where clients reach this server, such as `https://api.example.com`: the beginning of every `request.url`. Needed where a signature covers
   * the URL and a proxy changes it, as with Twilio. @default what the connection and the Host header say
   */
  readonly origin?: string
  /**
   * Whether to believe `X-Forwarded-Proto` and `X-Forwarded-Host`. Only behind a proxy that sets both itself: otherwise clients choose
   * them. @default false
   */
  readonly trustProxy?: boolean
  /**
   * Hears of what a handler threw and no framework hears of, and once of a body that a parser had read. @default a line on standard error
   */
  readonly onError?: (error: unknown) => void
}

/** Checked options, with what is remembered between requests. */
export interface Mount {
  readonly handler: FetchHandler
  readonly origin: string | undefined
  readonly trustProxy: boolean
  /** Never throws. */
  report(error: unknown): void
  /** Reports a mistake in how the handler is mounted: every request would repeat it. */
  reportOnce(error: HapaxError): void
}

/** Checks what was given to one of the three. */
export function mountOf(name: string, handler: FetchHandler, options: MountOptions): Mount {
  if (typeof handler !== 'function') {
    const hint = typeof fieldOf(handler, 'handler') === 'function' ? ', such as its field handler' : ''
    expected('handler', `a function from a Request to a Response${hint}`, handler)
  }
  noOthers(`options of ${name}`, options, ['origin', 'trustProxy', 'onError'])
  callback('onError', options.onError)
  const report = reporter(options.onError ?? log)
  let reported = false
  return {
    handler,
    origin: originOption(options.origin),
    trustProxy: flag('trustProxy', options.trustProxy, false),
    report,
    reportOnce: (error) => {
      if (!reported) report(error)
      reported = true
    },
  }
}

function originOption(given: unknown): string | undefined {
  if (given === undefined) return undefined
  const url = typeof given === 'string' && /^https?:\/\/[^/?#\\@\s]+\/?$/i.test(given) ? URL.parse(given) : null
  return url?.origin ?? expected('origin', 'an origin such as https://api.example.com', given)
}

/** There is nowhere left to say what the listener itself throws. */
function reporter(listener: (error: unknown) => unknown): (error: unknown) => void {
  return (error) => {
    try {
      const result = listener(error)
      if (result instanceof Promise) result.catch(() => {})
    } catch {
      // See above.
    }
  }
}

function log(given: unknown): void {
  const error = asError(given)
  consoleLogger.error(faultFields(error), 'a request was not handled')
}
