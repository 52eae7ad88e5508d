import { readFileSync } from 'node:fs'
import { findPackageJSON } from 'node:module'
import { asError, HapaxError, messageOf } from './errors.ts'

/** The oldest version of each client library that the suites pass with; `peerDependencies` says the same. */
export const OLDEST_CLIENTS = {
  '@nats-io/jetstream': '3.0.2',
  '@nats-io/transport-node': '3.0.2',
  '@platformatic/kafka': '2.12.1',
  amqplib: '0.10.0',
  ioredis: '5.3.0',
  mysql2: '3.0.0',
  pg: '8.9.0',
} as const

type ClientName = keyof typeof OLDEST_CLIENTS

/** Loads client libraries, which are the user's. `caller` is what needs them, as in `postgres({ url })`. */
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
  const { code, message } = asError(cause) as Error & { readonly code?: unknown }
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

/** The version that is installed. Nobody knows that of one that was bundled. */
function installedVersion(name: string): string | undefined {
  try {
    const file = findPackageJSON(name, import.meta.url)
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
