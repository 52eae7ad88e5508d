import { asError, HapaxError, messageOf } from './errors.ts'

/**
 * The error of a client library that could not be loaded. `caller` is what needs it, as in `postgres({ url })`. A library that is
 * installed may fail as well: by a dependency of its own that is missing, a syntax that this Node.js does not have, its own error.
 */
export function clientMissing(caller: string, packages: readonly string[], cause: unknown): HapaxError {
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
