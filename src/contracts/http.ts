// Requests that take effect once: what `hapax.http` takes and gives.

import type { Isolation, Logger } from '../base/index.ts'
import type { ClaimContext, LeasedContext, PublishInHandler } from './handlers.ts'

/** A function that takes a request and returns its response: what frameworks mount. */
export type RequestHandler = (request: Request) => Promise<Response>

/** Which responses are kept, with what the handler wrote. All others roll back, and leave the key free. */
export type StorePolicy = 'no-5xx' | '2xx' | 'all' | ((response: Response) => boolean)

/** Options of `hapax.http` in every mode. */
export interface HttpOptionsBase {
  /**
   * Who sends the request: the key of one principal never finds the response of another. Undefined or '': 401. Return an id, not a
   * credential. `'none'`: everybody who knows the key is the same.
   */
  readonly principal: 'none' | ((request: Request) => string | undefined | Promise<string | undefined>)
  /** For how long a response is sent again. @default 86_400_000, a day */
  readonly keepMs?: number
  /** How long a request waits while another one with its key runs, before it gets 409. @default 0 */
  readonly waitMs?: number
  /** Whether a request without a key is refused with 400. Otherwise it runs, and nothing protects it. @default true */
  readonly require?: boolean
  /** @default 'no-5xx' */
  readonly store?: StorePolicy
  /** Response headers that are sent again, beside `content-type`, `location` and others that belong to the body. @default none */
  readonly headers?: readonly string[]
  /**
   * What tells routes apart, beside the method: two of them may have equal keys. A key that comes again with another path of the same route
   * gets 422. @default the path of the URL
   */
  readonly route?: string | ((request: Request) => string)
  /** @default 255 */
  readonly maxKeyLength?: number
  /** The largest body of a request; a larger one gets 413. @default 1 MiB */
  readonly maxBodyBytes?: number
  /** The largest body of a response. @default 1 MiB */
  readonly maxResponseBytes?: number
}

/** Options of `hapax.http` on a store with transactions. */
export interface HttpOptions extends HttpOptionsBase {
  /** `transaction`: handlers run in the transaction that commits the response. `leased`: they may call the outside world. @default 'transaction' */
  readonly mode?: 'transaction'
  /** How long a handler may take. @default 30_000 */
  readonly timeoutMs?: number
  /** @default what the database is set to */
  readonly isolation?: Isolation
}

/** Options of `hapax.http` for handlers that call the outside world. */
export interface LeasedHttpOptions extends HttpOptionsBase {
  readonly mode: 'leased'
  /** How long a lease lasts: after a crash, the key is free again after this time. @default 30_000 */
  readonly leaseMs?: number
  /** How long a handler may take. @default 300_000 */
  readonly maxDurationMs?: number
}

/** Options of `hapax.http` on a store without transactions, where every handler runs under a lease. */
export interface ClaimHttpOptions extends Omit<LeasedHttpOptions, 'mode' | 'require'> {
  /** @default 'leased', the only one */
  readonly mode?: 'leased'
  /** Outside calls are journalled by the key. @default true, and nothing else */
  readonly require?: true
}

/** What handlers receive in every mode. */
interface RequestFacts {
  /** Undefined: the request has none, and none is required. */
  readonly key: string | undefined
  /** Undefined with `principal: 'none'`. */
  readonly principal: string | undefined
}

/** What a handler receives beside the request. */
export interface HttpContext<Tx> extends RequestFacts {
  /** The transaction that commits together with the response. */
  readonly tx: Tx
  readonly publish: PublishInHandler
  /** Aborted when the handler runs out of time. */
  readonly signal: AbortSignal
  readonly logger: Logger
}

/** What a handler that calls the outside world receives beside the request. */
export type LeasedHttpContext<Tx> = RequestFacts & Omit<LeasedContext<Tx>, 'message'>
/** The same on a store without transactions. */
export type ClaimHttpContext = RequestFacts & Omit<ClaimContext, 'message'>

/** Handles a request; what it returns is sent, and kept as `store` says. */
export type HttpHandler<Context> = (request: Request, ctx: Context) => Response | Promise<Response>

/** Requests of one scope, each of which takes effect once. */
export interface Http<Context> {
  readonly scope: string
  /** A function to mount. The response commits with what the handler writes; a request that comes again gets the same response. */
  handler(handle: HttpHandler<Context>): RequestHandler
  /** The same for one request, where the handler needs something of the framework's. Not in leased mode, where a retry may run elsewhere. */
  handle(request: Request, handle: HttpHandler<Context>): Promise<Response>
}
