import type { Store } from 'hapax'
import type { RigTx } from '../../support/databases.ts'

/** Ways to break leased work on purpose, to see that the rig notices. */
export type Sabotage =
  /** Nothing is journalled. */
  | 'no-journal'
  /** A call that had begun is taken for one that was not made. */
  | 'begun-is-not-done'

type AnyStore = Store<RigTx>

const bugs: Record<Sabotage, (store: AnyStore) => Partial<AnyStore>> = {
  'no-journal': () => ({
    beginEffect: async () => ({ before: undefined }),
    endEffect: async () => true,
  }),
  'begun-is-not-done': (store) => ({
    beginEffect: async (lease, leaseMs, effect) => {
      const begun = await store.beginEffect(lease, leaseMs, effect, true)
      return begun?.before?.state === 'done' ? begun : begun && { before: undefined }
    },
  }),
}

/** The same store, with a bug. */
export function sabotaged(store: AnyStore, sabotage: Sabotage | undefined): AnyStore {
  if (sabotage === undefined) return store
  const methods = bugs[sabotage](store)
  return new Proxy(store, {
    get: (target, name) => {
      const value: unknown = Reflect.get(name in methods ? methods : target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
