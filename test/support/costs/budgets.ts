import type { DurableStore } from '../databases.ts'
import type { JobName, leasedJobs } from './jobs.ts'

/** What a job may cost at most, each time that it is done. */
export interface Budget {
  /** Requests that the client waits for; SQLite has none. */
  readonly roundTrips: number
  /** Statements that the database runs. On MySQL, several in one command count as one. */
  readonly statements: number
  /** Promises that are made; not counted where it depends on time. One more in a hundred is tolerated. */
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
    'one message': { roundTrips: 0, statements: 6, promises: 40, kib: 33 },
    'a group of 100': { roundTrips: 0, statements: 204, promises: 443, kib: 614 },
    'onMany of 500': { roundTrips: 0, statements: 505, promises: 1049, kib: 2304 },
    '100 deliveries to the inbox': { roundTrips: 0, statements: 204, promises: 247, kib: 663 },
    'a first request': { roundTrips: 0, statements: 8, promises: 14, kib: 18 },
    'a request that came before': { roundTrips: 0, statements: 5, promises: 11, kib: 16 },
    'a transaction that publishes': { roundTrips: 0, statements: 6, promises: 48, kib: 35 },
    'a transaction that publishes locally': { roundTrips: 0, statements: 10, promises: 68, kib: 46 },
    '1,000 local messages by a worker, in groups of 100': { roundTrips: 0, statements: 1330 },
    // Five of them are looks at what is paused, twice a second, and one is for operations.
    '1,000 messages by a relay': { roundTrips: 0, statements: 26 },
  },
  postgres: {
    'one message': { roundTrips: 3, statements: 9, promises: 61, kib: 69 },
    'a group of 100': { roundTrips: 3, statements: 108, promises: 667, kib: 1046 },
    'onMany of 500': { roundTrips: 3, statements: 9, promises: 1077, kib: 2630 },
    '100 deliveries to the inbox': { roundTrips: 1, statements: 5, promises: 254, kib: 620 },
    'a first request': { roundTrips: 3, statements: 12, promises: 33, kib: 63 },
    'a request that came before': { roundTrips: 2, statements: 8, promises: 29, kib: 45 },
    'a transaction that publishes': { roundTrips: 3, statements: 9, promises: 69, kib: 76 },
    'a transaction that publishes locally': { roundTrips: 3, statements: 9, promises: 69, kib: 86 },
    '1,000 local messages by a worker, in groups of 100': { roundTrips: 60, statements: 1390 },
    '1,000 messages by a relay': { roundTrips: 30, statements: 50 },
  },
  mysql: {
    'one message': { roundTrips: 3, statements: 3, promises: 82, kib: 80 },
    'a group of 100': { roundTrips: 102, statements: 102, promises: 881, kib: 1995 },
    'onMany of 500': { roundTrips: 3, statements: 3, promises: 1090, kib: 5558 },
    '100 deliveries to the inbox': { roundTrips: 2, statements: 2, promises: 285, kib: 1876 },
    'a first request': { roundTrips: 3, statements: 3, promises: 57, kib: 75 },
    'a request that came before': { roundTrips: 2, statements: 2, promises: 51, kib: 61 },
    'a transaction that publishes': { roundTrips: 3, statements: 3, promises: 90, kib: 73 },
    'a transaction that publishes locally': { roundTrips: 9, statements: 9, promises: 146, kib: 143 },
    '1,000 local messages by a worker, in groups of 100': { roundTrips: 1320, statements: 1320 },
    '1,000 messages by a relay': { roundTrips: 30, statements: 30 },
  },
}
