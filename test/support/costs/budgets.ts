import type { DurableStore } from '../databases.ts'
import type { JobName, leasedJobs } from './jobs.ts'

/** What a job may cost at most, each time that it is done. */
export interface Budget {
  /** Requests that the client waits for; SQLite has none. */
  readonly roundTrips: number
  /** Statements that the database runs. On MySQL, several in one command count as one. */
  readonly statements: number
  /** Promises that are made; not counted where it depends on time. */
  readonly promises?: number
  /** KiB that are allocated, without what the optimising compiler saves; a tenth more is tolerated. */
  readonly kib?: number
}

/** Commands on Redis. */
export const leasedBudgets: Readonly<Record<keyof typeof leasedJobs, number>> = {
  'one leased message': 2,
  '100 leased messages': 2,
}

/**
 * The budgets of `test/stores/cost.test.ts`, which fails with what it has counted. A change that costs less lowers them; one that
 * costs more says why. Then `npm run bench -- --draw` brings docs/performance.md up to date.
 */
export const budgets: Readonly<Record<DurableStore, Readonly<Record<JobName, Budget>>>> = {
  sqlite: {
    'one message': { roundTrips: 0, statements: 6, promises: 40, kib: 32 },
    'a group of 100': { roundTrips: 0, statements: 204, promises: 443, kib: 583 },
    'onMany of 500': { roundTrips: 0, statements: 505, promises: 1049, kib: 2313 },
    '100 deliveries to the inbox': { roundTrips: 0, statements: 204, promises: 247, kib: 640 },
    'a transaction that publishes': { roundTrips: 0, statements: 6, promises: 49, kib: 31 },
    'a transaction that publishes locally': { roundTrips: 0, statements: 10, promises: 68, kib: 41 },
    '1,000 local messages by a worker, in groups of 100': { roundTrips: 0, statements: 1330 },
    '1,000 messages by a relay': { roundTrips: 0, statements: 20 },
  },
  postgres: {
    'one message': { roundTrips: 3, statements: 9, promises: 61, kib: 68 },
    'a group of 100': { roundTrips: 102, statements: 108, promises: 1057, kib: 1373 },
    'onMany of 500': { roundTrips: 3, statements: 9, promises: 1069, kib: 2631 },
    '100 deliveries to the inbox': { roundTrips: 1, statements: 5, promises: 253, kib: 604 },
    'a transaction that publishes': { roundTrips: 3, statements: 9, promises: 69, kib: 72 },
    'a transaction that publishes locally': { roundTrips: 3, statements: 9, promises: 69, kib: 83 },
    '1,000 local messages by a worker, in groups of 100': { roundTrips: 1300, statements: 1400 },
    '1,000 messages by a relay': { roundTrips: 20, statements: 40 },
  },
  mysql: {
    'one message': { roundTrips: 7, statements: 7, promises: 110, kib: 111 },
    'a group of 100': { roundTrips: 106, statements: 106, promises: 809, kib: 2324 },
    'onMany of 500': { roundTrips: 7, statements: 7, promises: 1118, kib: 6676 },
    '100 deliveries to the inbox': { roundTrips: 7, statements: 7, promises: 319, kib: 2155 },
    'a transaction that publishes': { roundTrips: 6, statements: 6, promises: 108, kib: 91 },
    'a transaction that publishes locally': { roundTrips: 11, statements: 11, promises: 158, kib: 158 },
    '1,000 local messages by a worker, in groups of 100': { roundTrips: 1360, statements: 1360 },
    '1,000 messages by a relay': { roundTrips: 30, statements: 30 },
  },
}
