import { type SqliteTx, sqlite } from 'hapax/sqlite'
import type { Way } from '../../src/conformance/stores/way.ts'

const none = () => Promise.reject(new Error('ruled out by the features'))

/** The way of `node:sqlite`, on a connection that hapax opens itself. */
export const nodeSqliteWay: Way<SqliteTx, SqliteTx> = {
  cannot: { 'something left open': 'a statement is over when it returns' },
  open: ({ url: path }) => {
    const store = sqlite({ path })
    return { store, own: none, notBegun: none, close: () => store.close() }
  },
  client: (tx) => tx,
  leaveOpen: () => {},
}
