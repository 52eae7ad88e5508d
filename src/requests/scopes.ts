import type {
  Http,
  HttpContext,
  HttpHandler,
  HttpOptions,
  LeasedHttpOptions,
  RequestHandler,
} from '../contracts/index.ts'
import type { Engine } from '../transaction/index.ts'
import { Requests } from './core.ts'
import { Expiry } from './expiry.ts'
import { Gate } from './gate.ts'
import { LEASED_NAMES, LeasedHttp } from './leased.ts'
import { httpSettings } from './options.ts'
import { TRANSACTION_NAMES, TransactionalWay, unitSettings } from './transactional.ts'

/** The scopes of a hapax on a store with transactions. */
export class Scopes<Tx> {
  readonly #engine: Engine<Tx>
  readonly #expiry: Expiry
  readonly #gates = new Map<string, Gate>()

  constructor(engine: Engine<Tx>) {
    this.#engine = engine
    this.#expiry = new Expiry(engine)
  }

  /** Requests whose handlers run in a transaction. A scope may be made more than once: routes of one scope may be in several files. */
  transactional(scope: string, options: HttpOptions): Http<HttpContext<Tx>> {
    const settings = httpSettings(scope, options, TRANSACTION_NAMES)
    const unit = unitSettings(options, this.#engine.store.features.parallelWriters)
    const way = new TransactionalWay(this.#engine, settings, unit, this.#expiry)
    return new TransactionalHttp(new Requests(this.#engine, settings, way, this.#gate(settings.scope)))
  }

  /** Requests whose handlers run under a lease. */
  leased(scope: string, options: LeasedHttpOptions): LeasedHttp<Tx> {
    const settings = httpSettings(scope, options, LEASED_NAMES)
    return new LeasedHttp(this.#engine, settings, options, this.#expiry)
  }

  #gate(scope: string): Gate {
    const gate = this.#gates.get(scope) ?? new Gate(scope)
    this.#gates.set(scope, gate)
    return gate
  }
}

class TransactionalHttp<Tx> implements Http<HttpContext<Tx>> {
  readonly scope: string
  readonly #requests: Requests<HttpContext<Tx>>

  constructor(requests: Requests<HttpContext<Tx>>) {
    this.scope = requests.settings.scope
    this.#requests = requests
  }

  handler(handle: HttpHandler<HttpContext<Tx>>): RequestHandler {
    return this.#requests.handler(handle)
  }

  handle(request: Request, handle: HttpHandler<HttpContext<Tx>>): Promise<Response> {
    return this.#requests.take(request, handle)
  }
}
