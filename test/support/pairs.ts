import { createHapax, isHapaxError, type Store, silentLogger } from 'hapax'
import type { Connection, ConnectionSource, SqlDatabase } from 'hapax/contracts'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import { sqlite } from 'hapax/sqlite'
import type { HarnessFeatures, StoreHarness } from 'hapax/testing'
import { describe, expect, it, onTestFinished, type RunnerTestSuite } from 'vitest'
import type { Client } from '../../src/conformance/stores/sql-business.ts'
import type { Application, Target, Way } from '../../src/conformance/stores/way.ts'
import { until } from '../../src/testing/wait.ts'
import { seenWithoutAutocommit } from './autocommit.ts'
import type { DurableStore } from './databases.ts'
import { isMariadb, mysqlHarness } from './mysql-harness.ts'
import { postgresHarness } from './postgres-harness.ts'
import { roundTripsOf } from './round-trips.ts'
import { inThisRun } from './runs.ts'
import { requireServer, testStores } from './servers.ts'
import { sqliteHarness } from './sqlite-harness.ts'
import { connectionTopics, runStoreCases } from './store-suite.ts'
import { rowOf, rows, writePair } from './support-table.ts'
import { TcpProxy } from './tcp-proxy.ts'

/** An ORM, or a driver by itself, on one of its databases. */
export interface Pair<Tx, Own = Tx> {
  /** As users call it. */
  readonly orm: string
  /** The npm package that talks to the database. */
  readonly driver: string
  readonly database: SqlDatabase
  /** What it cannot do, with the reason. */
  readonly cannot?: HarnessFeatures['cannot']
  open(target: Target): Reached<Tx, Own> | Promise<Reached<Tx, Own>>
  /** Statements in one of its transactions, in the placeholder style of the database. */
  client(tx: Tx | Own): Client
  /** See `TestDatabase`. */
  leaveOpen(tx: Tx): unknown
  /** A transaction inside of a transaction, in the ORM's own way; absent: it has none. */
  nested?<T>(tx: Tx, work: (inner: Tx) => Promise<T>): Promise<T>
}

/** A pair that is connected. */
export interface Reached<Tx, Own = Tx> extends Omit<Application<Tx, Own>, 'store' | 'connection'> {
  /** What `fromX` returned. */
  readonly from: ConnectionSource<Tx, Own> | Connection<Tx, Own>
}

/** Runs the suite of connections on a pair; `npm run test:faults` runs the other topics that depend on the way to the database. */
export async function runPair<Tx, Own = Tx>(pair: Pair<Tx, Own>): Promise<void> {
  const { orm, driver, database } = pair
  const title = orm === driver ? `${orm}, ${database}` : `${orm} on ${driver}, ${database}`
  if (!testStores().includes(database)) {
    describe.skip(title, () => it('is left out by HAPAX_TEST_STORES', () => {}))
    return
  }
  const way = wayOf(pair)
  let last: Target | undefined
  const harness = await harnessOf(database, {
    ...way,
    open: (target) => {
      last = target
      return way.open(target)
    },
  })
  describe(title, () => {
    it.runIf(database !== 'sqlite')('takes as many round trips as it says', async () => {
      const opened = await harness.open({ migrated: true, connections: 1 })
      onTestFinished(() => opened.close())
      const target = last as Target
      // MySQL has no lock timeout by transaction: setting it and setting it back is extra.
      const more = database === 'mysql' && !(await isMariadb(target.url)) ? 3 : 0
      expect(await roundTripsOf(way, target)).toBe(harness.features.roundTrips + more)
    })
    it.runIf(database === 'mysql')(
      'commits statements of its own after a handler has turned autocommit off',
      async () => {
        const opened = await harness.open({ migrated: true, connections: 1 })
        onTestFinished(() => opened.close())
        expect(await seenWithoutAutocommit(way, last as Target)).toBe(1)
      },
    )
    // The pool of `mariadb` waits for a minute, and its error names no address.
    it.runIf(database !== 'sqlite' && driver !== 'mariadb')(
      'E8: an outage is named by the error of the link, not by the statement that met it',
      async () => {
        const opened = await harness.open({ migrated: true, connections: 1 })
        onTestFinished(() => opened.close())
        const messages = await messagesOfOutage(way, last as Target, database as DurableStore)
        for (const message of messages) expect(message).not.toMatch(/select|insert|query|invocation/i)
      },
    )
    runStoreCases(harness, (cases) =>
      inThisRun(
        cases.filter(
          ({ topic, connection }) =>
            connection ||
            connectionTopics.includes(topic) ||
            (topic === 'messages taken over' && database !== 'sqlite'),
        ),
        ({ connection }) => connection,
      ),
    )
    it.skipIf(process.env['HAPAX_TEST_PEERS'])('stands in the support table as it is', ({ task }) => {
      const row = rowOf(pair, harness.features)
      // Written only where everything above has passed: `HAPAX_WRITE_TABLE=1 npm run services -- vitest run --project connections`.
      if (process.env['HAPAX_WRITE_TABLE'] && hasPassed(task.suite)) writePair(row)
      expect(rows()).toContain(row)
    })
  })
}

/** What calls reject with while the database is away, until one of them has its address. */
async function messagesOfOutage<Tx, Own>(
  way: Way<Tx, Own>,
  target: Target,
  database: DurableStore,
): Promise<readonly string[]> {
  await using proxy = await TcpProxy.open(database, target.url)
  const { store, close } = await way.open({ ...target, url: proxy.url })
  const address = new URL(proxy.url).host
  const hapax = createHapax({ store, source: '/outage', logger: silentLogger })
  const messages: string[] = []
  try {
    await hapax.failed.list()
    await proxy.refuse()
    const call = async (): Promise<boolean> => {
      const failure = await hapax.failed.list().then(
        () => new Error('the database is there'),
        (error: unknown) => error,
      )
      if (!isHapaxError(failure, 'store-unavailable')) throw failure
      messages.push(failure.message)
      return failure.message.includes(address)
    }
    await until(call, () => `a message has ${address}: ${messages.slice(0, 5).join('; ')}`)
  } finally {
    await hapax.close()
    await close().catch(() => {})
  }
  return messages
}

/** Whether the cases of a pair were run, and none of them has failed. */
function hasPassed(suite: RunnerTestSuite | undefined): boolean {
  const states = (each: RunnerTestSuite): (string | undefined)[] =>
    each.tasks.flatMap((task) => (task.type === 'suite' ? states(task) : [task.result?.state]))
  const all = suite === undefined ? [] : states(suite)
  return !all.includes('fail') && all.filter((state) => state === 'pass').length > 30
}

function harnessOf<Tx, Own>(database: SqlDatabase, way: Way<Tx, Own>): Promise<StoreHarness<Tx, Own>> {
  if (database === 'postgres') return postgresHarness(requireServer(database), way)
  if (database === 'mysql') return mysqlHarness(requireServer(database), way)
  return sqliteHarness(way)
}

function wayOf<Tx, Own>(pair: Pair<Tx, Own>): Way<Tx, Own> {
  const { database, cannot = {} } = pair
  return {
    cannot,
    open: async (target) => {
      const { from, ...reached } = await pair.open(target)
      const connection = 'on' in from ? from.on(database) : from
      return { ...reached, connection, store: storeOn(database, connection, target.name) }
    },
    client: (tx) => pair.client(tx),
    leaveOpen: (tx) => pair.leaveOpen(tx),
    ...(pair.nested !== undefined && { nested: pair.nested }),
  }
}

function storeOn<Tx, Own>(database: SqlDatabase, on: Connection<Tx, Own>, name: string): Store<Tx, Own> {
  if (database === 'postgres') return postgres(on, { schema: name })
  return database === 'mysql' ? mysql(on, { database: name }) : sqlite(on)
}
