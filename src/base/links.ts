// Connections to other systems: client libraries that may be missing or too old, emitters whose errors must not end the process,
// sockets whose parsers may throw, and why a server was not reached.

import { readFileSync } from 'node:fs'
// Not by name: a Node.js that is too old has no findPackageJSON, and could not even be told that it is too old.
import * as modules from 'node:module'
import { asError, HapaxError, messageOf } from './errors.ts'
import { fieldOf } from './options.ts'

/** What there is of a socket. */
interface Socket {
  emit(event: string, ...args: unknown[]): boolean
  destroy(error?: Error): unknown
}

const sockets = new WeakSet<object>()

/**
 * Keeps a client library that throws at malformed bytes from ending the process: the socket is destroyed instead. Only for connections
 * that hapax opens itself, because it also catches what other code throws while data is being read.
 */
export function contained<S extends object>(socket: S): S {
  if (sockets.has(socket) || !isSocket(socket)) return socket
  sockets.add(socket)
  contain(socket)
  return socket
}

function isSocket(value: object): value is Socket {
  return typeof fieldOf(value, 'emit') === 'function' && typeof fieldOf(value, 'destroy') === 'function'
}

function contain(socket: Socket): void {
  const emit = socket.emit
  socket.emit = function contained(this: Socket, event: string, ...args: unknown[]): boolean {
    if (event !== 'data' && event !== 'readable') return emit.call(this, event, ...args)
    try {
      return emit.call(this, event, ...args)
    } catch (error) {
      this.destroy(asError(error))
      return true
    }
  }
}

/** What emits errors. */
interface ErrorEmitter {
  on(event: 'error', listener: () => void): unknown
}

const emitters = new WeakSet<object>()

/**
 * Keeps error events of an emitter from ending the process, however late they come: a destroyed connection may emit several. Errors
 * that matter also reach hapax in another way.
 */
export function heard<E extends ErrorEmitter>(emitter: E): E {
  if (emitters.has(emitter)) return emitter
  emitters.add(emitter)
  emitter.on('error', () => {})
  return emitter
}

const pools = new WeakSet<object>()

/** The same for every connection that a pool hands out, if the pool emits `acquire`; not every pool does. */
export function heardPool(pool: object): void {
  if (pools.has(pool)) return
  pools.add(pool)
  const on = fieldOf(pool, 'on')
  if (typeof on === 'function') on.call(pool, 'acquire', heard)
}

/** The oldest version of each client library that the suites pass with; `peerDependencies` says the same. */
export const OLDEST_CLIENTS = {
  '@electric-sql/pglite': '0.4.0',
  '@nats-io/jetstream': '3.0.2',
  '@nats-io/transport-node': '3.0.2',
  '@platformatic/kafka': '2.12.1',
  amqplib: '0.10.0',
  ioredis: '5.3.0',
  mysql2: '3.0.0',
  pg: '8.9.0',
} as const

type ClientName = keyof typeof OLDEST_CLIENTS

/** Loads client libraries, which the application installs. `caller` is what needs them, as in `postgres({ url })`. */
export async function loadClient<T>(
  caller: string,
  packages: readonly ClientName[],
  load: () => Promise<T>,
): Promise<T> {
  let client: T
  try {
    client = await load()
  } catch (cause) {
    throw notLoaded(caller, packages, cause)
  }
  for (const name of packages) refuseOld(caller, name)
  return client
}

/** A library that is installed may fail as well: by a dependency that is missing, a syntax that this Node.js lacks, its own error. */
function notLoaded(caller: string, packages: readonly string[], cause: unknown): HapaxError {
  const names = packages.join(' ')
  const noun = packages.length === 1 ? `the package ${names}` : `the packages ${packages.join(' and ')}`
  if (packages.some((name) => isNotFound(name, cause))) {
    return new HapaxError('client-missing', `${caller} needs ${noun}: npm install ${names}`, { cause })
  }
  const why = messageOf(asError(cause))
  return new HapaxError('client-broken', `${caller} needs ${noun}, which could not be loaded: ${why}`, { cause })
}

/** Whether Node.js did not find this package itself, rather than something that it imports. */
function isNotFound(name: string, cause: unknown): boolean {
  const { message } = asError(cause)
  const code = fieldOf(cause, 'code')
  const absent = code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND'
  return absent && message.startsWith(`Cannot find package '${name}'`)
}

const accepted = new Set<string>()

function refuseOld(caller: string, name: ClientName): void {
  if (accepted.has(name)) return
  const version = installedVersion(name)
  const oldest = OLDEST_CLIENTS[name]
  if (version !== undefined && isOlder(version, oldest)) {
    const what = `${caller} needs ${name} ${oldest} or later, found ${version}: npm install ${name}@latest`
    throw new HapaxError('client-too-old', what, { fields: { package: name, version, oldest } })
  }
  accepted.add(name)
}

/** The installed version; undefined for a library that was bundled. */
function installedVersion(name: string): string | undefined {
  try {
    const file = modules.findPackageJSON(name, import.meta.url)
    const manifest: unknown = file === undefined ? undefined : JSON.parse(readFileSync(file, 'utf8'))
    const isManifest = typeof manifest === 'object' && manifest !== null && 'version' in manifest
    return isManifest && typeof manifest.version === 'string' ? manifest.version : undefined
  } catch {
    return undefined
  }
}

function isOlder(version: string, oldest: string): boolean {
  const [left, right] = [numbers(version), numbers(oldest)]
  const at = left.findIndex((number, index) => number !== right[index])
  return at >= 0 && (left[at] ?? 0) < (right[at] ?? 0)
}

function numbers(version: string): number[] {
  return version.split(/[.-]/).slice(0, 3).map(Number)
}

/** A URL without credentials. The user name is left out as well, because it may be a token. */
export function shownUrl(url: unknown): string {
  const [, scheme, place = ''] = (typeof url === 'string' && PARTS.exec(url)) || []
  return scheme === undefined ? 'something that is not a URL' : `${scheme}${place}`
}

// The last @ counts: a password may contain others.
const PARTS = /^([a-z][a-z0-9+.-]{0,30}:\/{1,2})(?:.*@)?([^?#]*)/is

/** Why a server was not reached, with a hint at what to check. */
export function unreached(reason: string): string {
  return MEANINGS.find(([sign]) => sign.test(reason))?.[1](reason) ?? reason
}

const MEANINGS: readonly (readonly [sign: RegExp, meaning: (reason: string) => string])[] = [
  [/ECONNREFUSED|connection refused/i, (reason) => `${reason}; is the server running, and is the port right?`],
  [/ENOTFOUND|EAI_AGAIN/, (reason) => `${reason}; is the name of the host right?`],
  [/ETIMEDOUT|EHOSTUNREACH|ENETUNREACH/, (reason) => `${reason}; is the address right, and does a firewall allow it?`],
  [
    /wrong version number|packet length too long|not support 'tls'/i,
    () => 'the server does not speak TLS on this port',
  ],
  [/certificate|CERT_|self.signed/i, (reason) => `the certificate of the server is not accepted: ${reason}`],
  [
    /did not answer|^timeout$/i,
    (reason) => `${reason}; is it this kind of server that listens there, with or without TLS?`,
  ],
]
