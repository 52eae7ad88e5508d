import assert from 'node:assert/strict'
import { type MemoryTx, memory } from 'hapax/memory'
import type { StoreHarness } from 'hapax/testing'
import { systemClock } from '../../src/base/index.ts'
import { runStoreCases } from '../support/store-suite.ts'

const none = () => Promise.reject(new Error('ruled out by the features'))

const harness: StoreHarness<MemoryTx> = {
  features: {
    ...memory().features,
    errorsAbort: false,
    cannot: {
      'ending the transaction': 'a transaction in memory has no COMMIT',
      savepoints: 'a transaction in memory has none',
      'row locks': 'one writer at a time',
      'something left open': 'there is no connection',
      migrations: 'there is no schema',
      'setting seq': 'it counts from 1',
      'setting times': 'its rows are written by the store alone',
      'a pool': 'there are no connections',
      sessions: 'there is no server',
      'a connection': 'there is none',
      'nested transactions': 'there are none',
      'statements that commit': 'there are no statements',
    },
  },

  async open() {
    let backMs = 0
    const store = memory({ clock: { ...systemClock, now: () => systemClock.now() - backMs } })
    return {
      store,
      // The database is the store itself; two hapaxes on it are as strange to each other as two processes.
      another: async () => store,
      pooled: none,
      effect: async (tx, label) => tx.insert('effects', { label }),
      effects: async () => store.rows('effects').map((row) => (row as { label: string }).label),
      unique: async (tx, label) => {
        assert.ok(!tx.rows('uniques').some((row) => (row as { label: string }).label === label), 'unique')
        tx.insert('uniques', { label })
      },
      breakStatement: async (tx) => tx.insert('hapax_receipts', {}),
      lockRow: none,
      leaveOpen: none,
      commitInside: none,
      rollbackInside: none,
      undone: none,
      savepoint: none,
      own: none,
      notBegun: none,
      outbox: async () => store.rows('hapax_outbox').map((row) => (row as { message: { id: string } }).message.id),
      setSeq: none,
      sameTime: none,
      setBack: async (ms) => {
        backMs += ms
      },
      drift: none,
      newer: none,
      close: () => store.close(),
    }
  },
}

runStoreCases(harness)
