import { HapaxError, isHapaxError, type Store } from 'hapax'
import type { Opening, Unit, UnitEnd, UnitOptions } from 'hapax/contracts'
import type { Delivery, Destination, Subscription } from '../../src/contracts/broker.ts'
import { numberOf } from '../../src/message/lanes.ts'
import { altered } from '../../src/testing/altered.ts'
import type { Database, DbTransaction } from './database.ts'
import { receiptKey, rowName } from './database.ts'
import { leaseBugs } from './lease-bugs.ts'
import type { Route, Scenario } from './scenario.ts'
import { type SimTx, UniqueViolation } from './sim-store.ts'
import { statements as right, type Statements } from './statements.ts'

/** A known way to do it wrong, put in on purpose: the checks have to find it. */
export interface Bug {
  /** What it does, in a few words. */
  readonly what: string
  /** Where it can show. */
  readonly routes: readonly Route[]
  readonly statements?: Partial<Statements>
  readonly store?: (store: Store<SimTx>) => Store<SimTx>
  readonly subscription?: (subscription: Subscription) => Subscription
  readonly destination?: (destination: Destination) => Destination
  readonly scenario?: (scenario: Scenario) => Scenario
  /** The key that an outside call carries, by its fence. */
  readonly key?: (key: string, fence: number) => string
}

/** Bugs by their id in FAILURES. */
export const bugs: Readonly<Record<string, Bug>> = {
  A1: {
    what: 'a commit of unknown outcome is taken for done',
    routes: ['handle', 'direct'],
    store: (store) => takingForDone(store, 'commit-unknown'),
  },
  A3: {
    what: 'a commit that answered ROLLBACK is taken for done',
    routes: ['handle', 'direct'],
    store: (store) => takingForDone(store, 'transaction-aborted'),
  },
  A16: {
    what: 'a unique violation of the application is taken for a duplicate',
    routes: ['handle', 'direct'],
    store: (store) =>
      withTransaction(store, async (opening, run) => {
        try {
          return await run()
        } catch (error) {
          if (error instanceof UniqueViolation && opening === 'take') return []
          throw error
        }
      }),
  },
  A27: {
    what: 'a receipt is looked for and then written, without a lock',
    routes: ['handle', 'direct'],
    statements: {
      take(db, tx, consumer, token, messages) {
        const ours = new Set<string>()
        for (const { messageKey, source, id, type, fingerprint } of messages) {
          const key = receiptKey(consumer, messageKey)
          if (db.get(tx, 'receipts', key) !== undefined) continue
          const row = { consumer, token, messageKey, source, id, type, fingerprint, takenAt: db.world.now }
          db.insert(tx, 'receipts', key, row)
          ours.add(messageKey)
        }
        return ours
      },
    },
  },
  B2: {
    what: 'a message that somebody else works on is acked',
    routes: ['handle', 'direct', 'leased'],
    subscription: (subscription) => withDeliveries(subscription, (delivery) => ({ ...delivery, retry: delivery.ack })),
  },
  ...leaseBugs,
  C1: {
    what: 'attempts are written in the transaction that is rolled back',
    routes: ['stored', 'local'],
    statements: {
      reschedule: (db, tx, row) => {
        const { attempts = 0 } = db.get(tx, 'inbox', row.seq) ?? {}
        return right.reschedule(db, tx, { ...row, attempts })
      },
    },
  },
  C4: {
    what: 'a message is acked when it arrives',
    routes: ['direct', 'stored'],
    subscription: (subscription) =>
      withDeliveries(subscription, (delivery) => {
        delivery.ack()
        return { ...delivery, ack: () => {}, retry: () => {} }
      }),
  },
  C13: {
    what: 'a message that waits for its next attempt lets later ones of its key pass',
    routes: ['stored', 'local'],
    statements: {
      look: (db, share) => right.look(withoutWaiting(db, 'inbox'), share),
      claim: (db, tx, seqs) => claimWithout(db, tx, seqs, () => false),
    },
  },
  D1: {
    what: 'the relay reads past the highest id it has seen',
    routes: ['relay', 'chain'],
    statements: {
      look: (db, share) => {
        const look = right.look(db, share)
        if (share.table === 'inbox') return look
        const cursor = cursors.get(db) ?? { seen: new Set(), last: 0 }
        cursors.set(db, cursor)
        const entries = look.entries.filter(({ seq }) => cursor.seen.has(seq) || Number(numberOf(seq)) > cursor.last)
        for (const { seq } of entries) {
          cursor.seen.add(seq)
          cursor.last = Math.max(cursor.last, Number(numberOf(seq)))
        }
        return { ...look, entries }
      },
    },
  },
  D6: {
    what: 'messages are deleted before the broker has confirmed them',
    routes: ['relay', 'chain', 'direct'],
    destination: (destination) => ({
      ...destination,
      publish: (messages, signal, settle) => {
        destination.publish(messages, signal, () => {})
        for (const index of messages.keys()) settle(index, { status: 'confirmed' })
      },
    }),
  },
  D13: {
    what: 'the confirm of one message counts for its batch',
    routes: ['relay', 'chain'],
    destination: (destination) => ({
      ...destination,
      publish: (messages, signal, settle) => {
        destination.publish(messages, signal, (first, sent) => {
          if (first === 0) for (const index of messages.keys()) settle(index, sent)
        })
      },
    }),
    scenario: (scenario) => ({ ...scenario, keepsOrder: true, chaos: { ...scenario.chaos, brokers: true, budget: 2 } }),
  },
  D15: {
    what: 'a message that the broker did not take lets later ones of its key pass',
    routes: ['relay', 'chain'],
    statements: { look: (db, share) => right.look(withoutWaiting(db, 'outbox'), share) },
  },
  D16: {
    what: 'the head of a key is computed without what others have in hand',
    routes: ['stored', 'local'],
    statements: {
      claim: (db, tx, seqs) => claimWithout(db, tx, seqs, (seq) => db.isLocked(tx, 'inbox', rowName(seq))),
    },
  },
  G2: {
    what: 'receipts are deleted while their message waits',
    routes: ['local'],
    statements: {
      cleanup: (db, tx, step, olderThanMs, limit) => {
        if (step.kind === 'receipts') {
          for (const row of db.rows(tx, 'receipts')) {
            if (row.takenAt < db.world.now - olderThanMs) {
              db.write(tx, 'receipts', receiptKey(row.consumer, row.messageKey), undefined)
            }
          }
        }
        return right.cleanup(db, tx, step, olderThanMs, limit)
      },
    },
  },
  undone: {
    what: 'nobody asks what became of a handler that was cut off',
    routes: ['stored', 'local'],
    store: (store) =>
      withTransaction(store, async (_opening, run) => {
        try {
          return await run()
        } catch (error) {
          if (!isHapaxError(error, 'handler-timeout')) throw error
          throw new HapaxError(error.code, error.message)
        }
      }),
  },
  'lost inbox row': {
    what: 'the receipt of a failure is written, its inbox row is not',
    routes: ['handle', 'direct'],
    statements: {
      addInbox: (db, tx, row) => {
        return row.attempts === 0 ? right.addInbox(db, tx, row) : 0
      },
    },
  },
  'lost failed row': {
    what: 'a message that failed for good leaves the inbox, and is not written to the failed store',
    routes: ['stored', 'local'],
    statements: {
      fail: (db, tx, row) => {
        const there = db.get(tx, 'inbox', row.seq) !== undefined
        if (there) db.write(tx, 'inbox', row.seq, undefined)
        return there
      },
    },
  },
  'lost receipt': {
    what: 'the receipt of the last message of a group is not written',
    routes: ['handle', 'direct'],
    statements: {
      take: (db, tx, consumer, token, messages) => {
        const ours = right.take(db, tx, consumer, token, messages)
        const last = messages.at(-1)?.messageKey ?? ''
        if (messages.length > 1 && ours.has(last)) tx.changes.delete(`receipts/${receiptKey(consumer, last)}`)
        return ours
      },
    },
    scenario: (scenario) => ({ ...scenario, group: 4 }),
  },
}

const cursors = new WeakMap<Database, { seen: Set<string>; last: number }>()

/** The statements with those of a bug in their place. */
export function statementsOf(bug: Bug | undefined): Statements {
  return bug?.statements === undefined ? right : { ...right, ...bug.statements }
}

type Body = (unit: Unit<SimTx>) => Promise<UnitEnd<unknown>>

/** The same store with another way to run transactions. */
function withTransaction(
  store: Store<SimTx>,
  around: (opening: string, run: () => Promise<unknown>, value: () => unknown) => Promise<unknown>,
): Store<SimTx> {
  const run = (options: UnitOptions, opening: Opening, body: Body): Promise<unknown> => {
    let value: unknown
    const running = (): Promise<unknown> =>
      store.transactions.run(options, opening, async (unit) => {
        const end = await body(unit)
        value = end.value
        return end
      })
    return around(opening.kind, running, () => value)
  }
  return altered(store, { transactions: { run: run as Store<SimTx>['transactions']['run'] } })
}

function takingForDone(store: Store<SimTx>, code: string): Store<SimTx> {
  return withTransaction(store, async (_opening, run, value) => {
    try {
      return await run()
    } catch (error) {
      if ((error as { code?: unknown }).code === code) return value()
      throw error
    }
  })
}

function withDeliveries(subscription: Subscription, change: (delivery: Delivery) => Delivery): Subscription {
  return {
    ...subscription,
    open: ({ receive, ...options }) =>
      subscription.open({ ...options, receive: (deliveries) => receive(deliveries.map(change)) }),
  }
}

/** The database as a look sees it that leaves out what is not due. */
function withoutWaiting(db: Database, table: 'inbox' | 'outbox'): Database {
  const due = new Map([...db.committed(table)].filter(([, row]) => row.availableAt <= db.world.now))
  return {
    world: db.world,
    committed: (name: string) => (name === table ? due : db.committed(name as 'inbox')),
  } as never
}

/** A claim that counts only some of the older rows of a key, those for which `ignored` is false; none if it is absent. */
function claimWithout(
  db: Database,
  tx: DbTransaction,
  seqs: readonly string[],
  ignored: (seq: number) => boolean,
): ReturnType<Statements['claim']> {
  const hidden = [...db.committed('inbox').values()].filter((row) => ignored(row.seq) || row.availableAt > db.world.now)
  const seen = new Map([...db.committed('inbox')].filter(([, row]) => !hidden.includes(row)))
  const view: Database = Object.create(db, {
    committed: { value: (name: string) => (name === 'inbox' ? seen : db.committed(name as 'inbox')) },
  })
  const proxy = new Proxy(view, {
    get: (target, name) => {
      const value: unknown = name === 'committed' ? Reflect.get(target, name) : Reflect.get(db, name, db)
      return typeof value === 'function' && name !== 'committed' ? value.bind(db) : value
    },
  })
  return right.claim(proxy, tx, seqs)
}
