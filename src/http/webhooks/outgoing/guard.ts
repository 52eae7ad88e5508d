import { connect as connectPlain, type LookupFunction, type Socket } from 'node:net'
import { connect as connectSecure, createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { HapaxError } from '../../../base/index.ts'
import { addressBytes } from './addresses.ts'
import { type Resolve, resolver } from './names.ts'
import { isAllowed, type Rules, type Target, targetOf } from './target.ts'

/** An address that was checked. */
export interface Address {
  readonly address: string
  readonly family: 4 | 6
}

/** How many addresses of a name are tried, one after the other. */
const TRIED = 6
/** How long one of several addresses may take before the next one is tried. */
const ATTEMPT_MS = 1_000

/**
 * Decides what is connected to. The decision is about addresses, because a name says nothing about where it leads, and the connection
 * goes to an address that was decided on: the name is not asked for again in between.
 */
export class Guard {
  readonly #rules: Rules
  readonly #resolve: Resolve
  readonly #ca: readonly string[]
  #context: SecureContext | undefined

  /** `resolve` is for tests. */
  constructor(rules: Rules, ca: readonly string[], resolve?: Resolve) {
    const { hosts, blocks } = rules.allow
    this.#rules = rules
    this.#ca = ca
    this.#resolve = resolve ?? resolver(hosts, hosts.size + blocks.length > 0)
  }

  /** What a URL means, or `forbidden-url`. */
  target(url: unknown): Target {
    return targetOf(url, this.#rules)
  }

  /** The addresses of a target. Throws `forbidden-address` if only one of them is forbidden: it could be the next one that is used. */
  async addresses({ host, literal }: Target, signal: AbortSignal): Promise<readonly Address[]> {
    const found = literal ? [host] : await unlessAborted(this.#resolve(host, signal), signal)
    return found.map((address) => this.#checked(host, address)).slice(0, TRIED)
  }

  #checked(host: string, address: string): Address {
    const bytes = addressBytes(address)
    if (bytes === undefined || !this.#permits(host, bytes)) throw forbidden()
    return { address, family: bytes.length === 4 ? 4 : 6 }
  }

  #permits(host: string, bytes: Uint8Array): boolean {
    const { allow, deny } = this.#rules
    // Only the operator's own exception by name takes an address as it comes.
    const rules = allow.hosts.has(host) ? { ...this.#rules, allow: EVERYWHERE, deny } : this.#rules
    return isAllowed(bytes, rules)
  }

  /** Connects to one of these addresses, and to nothing else. When the signal aborts, the socket is destroyed. */
  connect(target: Target, addresses: readonly Address[], signal: AbortSignal): Promise<Socket> {
    const socket = this.#open(target, lookupIn(addresses))
    return new Promise((resolve, reject) => {
      const end = (): void => {
        socket.destroy()
        reject(signal.reason)
      }
      signal.addEventListener('abort', end, { once: true })
      socket.once('error', reject)
      // A socket may fail between two listeners, and would end the process.
      socket.on('error', () => {})
      socket.once('close', () => signal.removeEventListener('abort', end))
      socket.once(target.secure ? 'secureConnect' : 'connect', () => resolve(socket))
      if (signal.aborted) end()
    })
  }

  #open({ secure, host, literal, port }: Target, lookup: LookupFunction): Socket {
    const to = { host, port, lookup, autoSelectFamily: true, autoSelectFamilyAttemptTimeout: ATTEMPT_MS, noDelay: true }
    if (!secure) return connectPlain(to)
    return connectSecure({
      ...to,
      // An address has no name to ask for. Its certificate is compared with `host` then.
      servername: literal ? '' : host,
      ALPNProtocols: ['http/1.1'],
      secureContext: this.#secureContext(),
      // Whatever NODE_TLS_REJECT_UNAUTHORIZED says.
      rejectUnauthorized: true,
    })
  }

  /** Made once: reading all authorities takes milliseconds. */
  #secureContext(): SecureContext {
    this.#context ??= createSecureContext({
      minVersion: 'TLSv1.2',
      ...(this.#ca.length > 0 && { ca: [...getCACertificates('default'), ...this.#ca] }),
    })
    return this.#context
  }
}

const EVERYWHERE = {
  hosts: new Set<string>(),
  blocks: [
    { bytes: new Uint8Array(4), bits: 0 },
    { bytes: new Uint8Array(16), bits: 0 },
  ],
}

/** The machine's own resolver cannot be interrupted: what it says later is not waited for. */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const end = (): void => reject(signal.reason)
    signal.addEventListener('abort', end, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', end))
    if (signal.aborted) end()
  })
}

/** Stands in for DNS where the socket asks for the addresses of its host. It does not ask if the host is an address. */
function lookupIn(addresses: readonly Address[]): LookupFunction {
  return (_host, _options, callback) => callback(null, [...addresses])
}

function forbidden(): HapaxError {
  // Not which one: the owner of the endpoint may read this, and would learn our addresses.
  return new HapaxError(
    'forbidden-address',
    'the name of the host leads to an address to which webhooks may not be sent',
  )
}
