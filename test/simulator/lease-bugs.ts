import type { EffectEnd } from 'hapax/contracts'
import { altered } from '../../src/testing/altered.ts'
import type { Bug } from './bugs.ts'
import { CALM } from './chaos.ts'
import type { DbTransaction } from './database.ts'
import type { Route, Scenario } from './scenario.ts'
import { statements as right } from './statements.ts'

const LEASED: readonly Route[] = ['leased', 'driven', 'driven']

/** What can be done wrong with leases and outside calls; names as in `bugs`. */
export const leaseBugs: Readonly<Record<string, Bug>> = {
  B4: {
    what: 'a process that has lost its lease settles the message',
    routes: LEASED,
    statements: {
      settle: (db, tx, lease) => {
        const row = db.get(tx, 'inbox', lease.seq)
        if (row === undefined || row.heldAt !== null) return undefined
        db.write(tx, 'inbox', lease.seq, undefined)
        return row
      },
    },
    scenario: pausing,
  },
  B5: {
    what: 'a process that has lost its lease records a failure, and frees the lease of the new owner',
    routes: LEASED,
    statements: {
      reschedule: (db, tx, row) => {
        const { leaseToken = null } = db.get(tx, 'inbox', row.seq) ?? {}
        return right.reschedule(db, tx, { ...row, leaseToken })
      },
      fail: (db, tx, row) => {
        const { leaseToken = null } = db.get(tx, 'inbox', row.seq) ?? {}
        return right.fail(db, tx, { ...row, leaseToken })
      },
    },
    scenario: (scenario) => failing(pausing(scenario)),
  },
  B8: {
    what: 'a call that may have happened is written as not done',
    routes: LEASED,
    statements: {
      endEffect: (db, tx, effect, token, end) => {
        const state = end.state === 'unknown' ? 'not-done' : end.state
        right.endEffect(db, tx, effect, token, { ...end, state })
      },
    },
  },
  B15: {
    what: 'the key of an outside call is another one in each attempt',
    routes: LEASED,
    key: (key, fence) => `${key}/${fence}`,
  },
  'renewed late': {
    what: 'a lease is prolonged whoever has it',
    routes: LEASED,
    statements: {
      renew: (db, tx, leases, leaseMs) => {
        for (const { seq } of leases) {
          const row = db.get(tx, 'inbox', seq)
          if (row !== undefined) db.write(tx, 'inbox', seq, { ...row, availableAt: db.world.now + leaseMs })
        }
      },
      leased: (db, tx, leases) =>
        new Set(leases.map(({ seq }) => seq).filter((seq) => db.get(tx, 'inbox', seq) !== undefined)),
    },
    scenario: pausing,
  },
  'unwritten start': {
    what: 'an outside call is made before the journal says so',
    routes: LEASED,
    statements: { beginEffect: () => {} },
  },
  'unchecked end': {
    what: 'the journal is written without a look at the lease',
    routes: LEASED,
    statements: { lockLease: (db, tx, { seq }) => db.get(tx, 'inbox', seq) },
    scenario: pausing,
  },
  'done again': {
    what: 'a call that was made is open again for an attempt that would repeat an unknown one',
    routes: LEASED,
    store: (store) =>
      altered(store, {
        journal: {
          begin: async (lease, leaseMs, effect, again) => {
            const found = await store.journal.begin(lease, leaseMs, effect, again)
            const { state, result = null } = found?.before ?? {}
            const open = { state: 'started', result, error: null } as unknown as EffectEnd
            if (again && state === 'done') await store.journal.end(lease, effect, open)
            return found
          },
        },
      }),
    scenario: (scenario) => ({
      ...failing(scenario),
      attempts: 5,
      operator: 'none',
      slowness: 0,
      chaos: CALM,
      leased: { ...scenario.leased, onUnknown: 'retry-same-key', honoursKeys: false, timeoutMs: undefined },
    }),
  },
  'settled last': {
    what: 'the inbox row is deleted after the work of complete, not before it',
    routes: LEASED,
    statements: {
      settle: (db, tx, { seq, token, fence }) => {
        const row = db.get(tx, 'inbox', seq)
        if (row?.leaseToken !== token || row.fence !== fence || row.heldAt !== null) return undefined
        settling.set(tx, seq)
        return row
      },
      addOutbox: (db, tx, row, like) => {
        right.addOutbox(db, tx, row, like)
        const seq = settling.get(tx)
        if (seq !== undefined) db.write(tx, 'inbox', seq, undefined)
      },
    },
    scenario: (scenario) => ({
      ...scenario,
      operator: 'none',
      messages: scenario.messages.map((each) => ({ ...each, behaviour: { kind: 'commits', throws: false } })),
      chaos: { ...scenario.chaos, budget: 2, odds: 0.08, kills: true, pauses: false, brokers: false },
    }),
  },
}

const settling = new WeakMap<DbTransaction, string>()

/** One pause, and nothing else. */
function pausing(scenario: Scenario): Scenario {
  const chaos = { ...CALM, budget: 1, odds: 0.04, pauses: true }
  const messages = scenario.messages.map((each) => ({ ...each, behaviour: { kind: 'ok' } as const }))
  return { ...scenario, workers: 2, operator: 'none', slowness: 0, messages, chaos }
}

function failing(scenario: Scenario): Scenario {
  return {
    ...scenario,
    messages: scenario.messages.map((each) => ({ ...each, behaviour: { kind: 'fails', times: 9 } })),
  }
}
