import type { Opening, Store, StoreTransactions, Unit, UnitEnd, UnitOptions, Writes } from '../contracts/index.ts'
import { type CrashPlan, planFor } from './crash-plan.ts'

/** Is told what a transaction has written when it is committed. */
export type Committed = (writes: Writes) => void

/**
 * The same store, on which `crashAt` and `safeToRepeat` can let a delivery crash: `createHapax({ store: crashable(store) })`.
 * `testHapax` does it by itself.
 */
export function crashable<Tx, Own>(store: Store<Tx, Own>): Store<Tx, Own> {
  return forwarding(
    () => store,
    () => {},
  )
}

/** A store that passes on to another one, which may change, and in which deliveries can crash. */
export function forwarding<Tx, Own>(current: () => Store<Tx, Own>, committed: Committed): Store<Tx, Own> {
  const parts = new Map<PropertyKey, object>([['transactions', transactions(current, committed)]])
  return new Proxy(current(), {
    get: (_, name) => {
      const value: unknown = Reflect.get(current(), name)
      if (typeof value === 'function') return value.bind(current())
      if (typeof value !== 'object' || value === null || name === 'features') return value
      const part = parts.get(name) ?? forwardingPart(current, name)
      parts.set(name, part)
      return part
    },
  })
}

/** A part of the store, looked up at every call. */
function forwardingPart(current: () => object, part: PropertyKey): object {
  return new Proxy(
    {},
    {
      get: (_, name) => {
        const target: unknown = Reflect.get(current(), part)
        if (typeof target !== 'object' || target === null) return undefined
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    },
  )
}

/** Transactions as handlers had them while they were counted, by what stood for them. */
const counted = new WeakMap<object, unknown>()

function transactions<Tx, Own>(current: () => Store<Tx, Own>, committed: Committed): StoreTransactions<Tx, Own> {
  return {
    run: (options, opening, body) => {
      const plan = planFor(opening)
      const { transactions: of } = current()
      if (plan === undefined || plan.state === 'crashed') {
        plan?.assertAlive()
        return watched(of, options, opening, body, committed)
      }
      return crashing(plan, (inner) => watched(of, options, opening, inner, committed), body)
    },
    enter: (tx) => {
      const real = typeof tx === 'object' && tx !== null && counted.has(tx) ? counted.get(tx) : tx
      return current().transactions.enter(real as Tx | Own)
    },
  }
}

type Body<Tx, T> = (unit: Unit<Tx>) => Promise<UnitEnd<T>>

async function watched<Tx, Own, T>(
  of: StoreTransactions<Tx, Own>,
  options: UnitOptions,
  opening: Opening,
  body: Body<Tx, T>,
  committed: Committed,
): Promise<T> {
  let written: Writes | undefined
  const value = await of.run(options, opening, async (unit) => {
    const end = await body(unit)
    written = end.writes
    return end
  })
  if (written !== undefined) committed(written)
  return value
}

async function crashing<Tx, T>(plan: CrashPlan, run: (body: Body<Tx, T>) => Promise<T>, body: Body<Tx, T>): Promise<T> {
  let wrote = false
  const value = await run(async (unit) => {
    // A duplicate has nothing to crash in.
    const fresh = unit.existing.size === 0
    if (fresh && plan.point === 'before-handler') plan.crash()
    const end = await body(fresh && plan.point === 'in-handler' ? counting(unit, plan) : unit)
    plan.assertAlive()
    wrote = end.writes !== undefined
    if (wrote && (plan.due || plan.point === 'before-commit')) plan.crash()
    return wrote && plan.point === 'in-commit' ? { ...end, writes: undefined } : end
  })
  if (!wrote) return value
  if (plan.point === 'in-commit' || plan.point === 'after-commit') plan.cut()
  if (plan.point === 'before-ack') plan.crash()
  return value
}

/** The same unit, whose transaction counts what is called on it. */
function counting<Tx>(unit: Unit<Tx>, plan: CrashPlan): Unit<Tx> {
  const { tx } = unit
  if (typeof tx !== 'object' || tx === null) return unit
  const proxy = countingCalls(tx, plan)
  counted.set(proxy, tx)
  return new Proxy(unit, {
    get: (target, name) => {
      if (name === 'tx') return proxy
      // Handlers get the transaction itself, and not a view of it.
      if (name === 'views') return undefined
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

function countingCalls<T extends object>(of: T, plan: CrashPlan): T {
  return new Proxy(of, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target)
      if (name === 'client' && typeof value === 'object' && value !== null) return countingCalls(value, plan)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => plan.counted(() => value.apply(target, args))
    },
  })
}
