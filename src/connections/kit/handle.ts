import { transactionClosed } from '../../base/index.ts'

/**
 * A transaction as a handler has it: once it has settled, nothing new can be begun on it. What was taken from it before, such as a query that
 * was built but not sent, cannot be called back.
 */
export function lent<Tx extends object>(tx: Tx, isClosed: () => boolean): Tx {
  const assertOpen = (): void => {
    if (isClosed()) throw transactionClosed()
  }
  return new Proxy(tx, {
    get(target, name) {
      assertOpen()
      const value: unknown = Reflect.get(target, name, target)
      if (!isMethod(value)) return value
      return NESTING.has(name) ? nesting(target, value, isClosed) : bound(target, name, value)
    },
    // Some ORMs' transactions are functions.
    apply(target, self, args) {
      assertOpen()
      return Reflect.apply(target as (...args: unknown[]) => unknown, self, args)
    },
  })
}

/** How ORMs call what opens a transaction inside of one, and hands it to a callback. */
const NESTING: ReadonlySet<PropertyKey> = new Set(['transaction', 'transactional'])

/** The same for the inner transaction: it ends with the outer one at the latest. */
function nesting(target: object, method: Method, isClosed: () => boolean): Method {
  const lending = (work: unknown): unknown =>
    typeof work === 'function'
      ? (inner: unknown, ...more: unknown[]) => work(lentIfAny(inner, isClosed), ...more)
      : work
  return (...args) => method.apply(target, args.map(lending))
}

function lentIfAny(inner: unknown, isClosed: () => boolean): unknown {
  const isObject = (typeof inner === 'object' && inner !== null) || typeof inner === 'function'
  return isObject ? lent(inner, isClosed) : inner
}

/** The methods of an object, bound to it: a proxy has no private fields. The same function each time, as without the proxy. */
const methods = new WeakMap<object, Map<PropertyKey, { method: Method; bound: Method }>>()

type Method = (...args: unknown[]) => unknown

function bound(target: object, name: PropertyKey, method: Method): Method {
  const known = methods.get(target) ?? new Map()
  methods.set(target, known)
  const found = known.get(name)
  if (found?.method === method) return found.bound
  const made: Method = method.bind(target)
  known.set(name, { method, bound: made })
  return made
}

/** A function without fields of its own; one with fields is an object that can be called, and no method. */
function isMethod(value: unknown): value is Method {
  if (typeof value !== 'function') return false
  const isClass = /^class\b/.test(Function.prototype.toString.call(value))
  return !isClass && Object.keys(value).length === 0
}
