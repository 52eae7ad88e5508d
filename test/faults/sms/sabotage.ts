import type { Store } from 'hapax'
import type { StoreJournal } from 'hapax/contracts'
import { altered } from '../../../src/testing/altered.ts'
import type { RigTx } from '../../support/databases.ts'

/** Ways to break leased work on purpose, to see that the rig notices. */
export type Sabotage =
  /** Nothing is journalled. */
  | 'no-journal'
  /** A call that had begun is taken for one that was not made. */
  | 'begun-is-not-done'

type AnyStore = Store<RigTx>

const bugs: Record<Sabotage, (journal: StoreJournal) => Partial<StoreJournal>> = {
  'no-journal': () => ({
    begin: async () => ({ before: undefined }),
    end: async () => true,
  }),
  'begun-is-not-done': (journal) => ({
    begin: async (lease, leaseMs, effect) => {
      const begun = await journal.begin(lease, leaseMs, effect, true)
      return begun?.before?.state === 'done' ? begun : begun && { before: undefined }
    },
  }),
}

/** The same store, with a bug. */
export function sabotaged(store: AnyStore, sabotage: Sabotage | undefined): AnyStore {
  return sabotage === undefined ? store : altered(store, { journal: bugs[sabotage](store.journal) })
}
