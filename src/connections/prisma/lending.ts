import { transactionClosed } from '../../base/index.ts'

/**
 * The Prisma transaction as handlers get it. Once it has settled, every call on it or on its models rejects: an error thrown on access to a
 * model would bypass `.catch()`. Prisma itself refuses queries that were built earlier and not sent.
 */
export function lentByPrisma<Tx extends object>(tx: Tx, isClosed: () => boolean): Tx {
  return lending(tx, isClosed, (value) => lending(value, isClosed, (inner) => inner))
}

/** A proxy whose methods reject once the transaction is closed; `inside` wraps nested objects. */
function lending<T extends object>(of: T, isClosed: () => boolean, inside: (value: object) => object): T {
  // Cached, so that a property keeps its identity, as without the proxy.
  const known = new Map<PropertyKey, { readonly value: unknown; readonly lent: unknown }>()
  const lentOf = (value: unknown): unknown => {
    if (typeof value === 'function') return guarded(of, value as Method, isClosed)
    return typeof value === 'object' && value !== null ? inside(value) : value
  }
  return new Proxy(of, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      const found = known.get(name)
      if (found !== undefined && found.value === value) return found.lent
      const made = lentOf(value)
      known.set(name, { value, lent: made })
      return made
    },
  })
}

type Method = (...args: unknown[]) => unknown

function guarded(of: object, method: Method, isClosed: () => boolean): Method {
  return (...args) => (isClosed() ? Promise.reject(transactionClosed()) : method.apply(of, args))
}
