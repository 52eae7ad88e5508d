import { globSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The tests are divided between two commands: `npm test`, which takes one of each kind of fault, and `npm run test:faults`, which takes
 * the rest and much longer. `HAPAX_TEST_RUN` names the command; without it, as for a file that is run by hand, everything runs.
 */
export type Run = 'test' | 'test:faults'

/** For other commands that take of each file what `npm test` takes. */
export const asInTest: Readonly<Record<string, string>> = { HAPAX_TEST_RUN: 'test' satisfies Run }

/** Files that `npm test` leaves to `npm run test:faults` as a whole, as patterns. */
export const onlyInFaults: readonly string[] = [
  'test/faults/clusters/*.test.ts',
  'test/faults/nestjs.test.ts',
  'test/faults/private-server.test.ts',
  'test/packed/*.test.ts',
  'test/stores/conformance.test.ts',
  'test/stores/connection-budget.test.ts',
  'test/stores/guides-symfony.test.ts',
  'test/stores/sharding-example.test.ts',
  'test/stores/sqlite-oldest-node.test.ts',
]

/** Files of neither run: `npm run test:servers -- kafka-4` has them, and the clusters of `npm run test:faults` have a real Kafka too. */
export const onlyOnServers: readonly string[] = ['test/brokers/kafka-real*.test.ts']

/** Files of which each run takes a part, through `inThisRun` or `oneInTest`. */
export const divided: readonly string[] = [
  'test/stores/example-apps.test.ts',
  'test/stores/fake-store.test.ts',
  'test/stores/growth.test.ts',
  'test/stores/init.test.ts',
  'test/stores/migration-tools.test.ts',
  'test/stores/pgbouncer.test.ts',
  'test/console/incident.test.ts',
  'test/console/pages.test.ts',
  'test/console/people.test.ts',
  'test/console/xss.test.ts',
  'test/faults/brokers/broker-soak.test.ts',
  'test/faults/clock-steps.test.ts',
  'test/faults/commit-cut.test.ts',
  'test/faults/deaths/deaths.test.ts',
  'test/faults/disk-full.test.ts',
  'test/faults/down.test.ts',
  'test/faults/fail-over.test.ts',
  'test/faults/frameworks.test.ts',
  'test/faults/http.test.ts',
  'test/faults/kill-sweep.test.ts',
  'test/faults/killer.test.ts',
  'test/faults/operations.test.ts',
  'test/faults/orms.test.ts',
  'test/faults/outgoing-webhooks.test.ts',
  'test/faults/race.test.ts',
  'test/faults/reconcile.test.ts',
  'test/faults/relays.test.ts',
  'test/faults/sms.test.ts',
  'test/faults/soak/soak.test.ts',
  // Each pair, by `runPair`.
  ...globSync('test/connections/*.test.ts', { cwd: join(import.meta.dirname, '..', '..') }),
]

/** The slowest files, the slowest first: one that starts last would prolong the whole run. */
export const longest: readonly string[] = [
  'test/faults/clusters/postgres.test.ts',
  'test/packed/init.test.ts',
  'test/stores/postgres.test.ts',
  'test/stores/mysql.test.ts',
  'test/faults/sms.test.ts',
  'test/faults/brokers/broker-soak.test.ts',
  'test/faults/soak/soak.test.ts',
  'test/faults/kill-sweep.test.ts',
  'test/brokers/rabbitmq.test.ts',
  'test/faults/handlers.test.ts',
  'test/stores/growth.test.ts',
  'test/stores/board.test.ts',
  'test/stores/cost.test.ts',
  'test/faults/disk-full.test.ts',
  'test/faults/commit-cut.test.ts',
  'test/faults/deaths/deaths.test.ts',
  'test/faults/race.test.ts',
  'test/connections/drizzle.test.ts',
  'test/connections/pglite.test.ts',
  'test/stores/pgbouncer.test.ts',
  'test/faults/private-server.test.ts',
  'test/faults/fail-over.test.ts',
  'test/brokers/kafka-large.test.ts',
  'test/brokers/kafka-errors.test.ts',
  'test/brokers/kafka.test.ts',
  'test/stores/redis.test.ts',
  'test/stores/fake-store.test.ts',
  'test/stores/sqlite.test.ts',
  'test/brokers/redis-streams-faults.test.ts',
  'test/brokers/redis-streams-groups.test.ts',
  'test/simulator/exhaustive.test.ts',
  'test/simulator/histories.test.ts',
  'test/faults/down.test.ts',
]

/** The command that runs the tests, if it is one of the two. */
export function currentRun(name: string | undefined = process.env['HAPAX_TEST_RUN']): Run | undefined {
  if (name === undefined || name === '') return undefined
  if (name === 'test' || name === 'test:faults') return name
  throw new Error(`expected HAPAX_TEST_RUN to be 'test' or 'test:faults', got '${name}'`)
}

/** What this run takes: `npm test` what the test picks, `npm run test:faults` the others, and any other command all of them. */
export function inThisRun<T>(all: readonly T[], isInTest: (each: T) => boolean): T[] {
  const run = currentRun()
  return all.filter((each) => run === undefined || isInTest(each) === (run === 'test'))
}

/** What this run takes where one is enough for `npm test`: that one, or the first where it is left out. */
export function oneInTest<T>(all: readonly T[], wanted: T): T[] {
  const one = all.includes(wanted) ? wanted : all[0]
  return inThisRun(all, (each) => each === one)
}

/** The files that this run leaves to other commands, as patterns. */
export function leftToOtherRun(root: string): readonly string[] {
  const run = currentRun()
  if (run === undefined) return []
  if (run === 'test') return [...onlyInFaults, ...onlyOnServers]
  const taken = new Set([...divided, ...globSync([...onlyInFaults], { cwd: root })])
  return globSync('test/**/*.test.ts', { cwd: root }).filter((file) => !taken.has(file))
}

/** The place of a file among those that start early; what is not listed comes after them. */
export function startOrder(file: string): number {
  const place = longest.findIndex((each) => file.endsWith(each))
  return place < 0 ? longest.length : place
}
