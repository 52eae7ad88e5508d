/** What emits errors. */
interface ErrorEmitter {
  on(event: 'error', listener: () => void): unknown
}

const emitters = new WeakSet<object>()

/**
 * An emitter whose errors do not end the process, however late they come: a connection that was destroyed may emit more than one. The
 * errors that count are also told in another way.
 */
export function heard<E extends ErrorEmitter>(emitter: E): E {
  if (emitters.has(emitter)) return emitter
  emitters.add(emitter)
  emitter.on('error', () => {})
  return emitter
}

const pools = new WeakSet<object>()

/** The connections of this pool are heard from the instant in which it hands them out, if it tells of that; not every pool does. */
export function heardPool(pool: object): void {
  if (pools.has(pool)) return
  pools.add(pool)
  const { on } = pool as { on?(event: 'acquire', listener: (connection: ErrorEmitter) => void): unknown }
  on?.call(pool, 'acquire', heard)
}
