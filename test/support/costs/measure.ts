import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import { sqlite } from 'hapax/sqlite'
import { LinkProxy } from '../../../src/conformance/brokers/link-proxy.ts'
import { type DurableStore, makePlace, type Place } from '../databases.ts'
import { type Counter, type Counts, mysqlCounter, postgresCounter, sqliteCounter } from './counting.ts'
import type { Ground, Opened as Prepared } from './jobs.ts'

/** A store as a user would open it, with default options, in a place of its own. */
type Opened = Ground & AsyncDisposable

/** The same, and the count of what it asks for. */
interface Counted extends Opened {
  readonly counter: Counter
}

export async function directStore(store: DurableStore): Promise<Opened> {
  const checker = await makePlace(store)
  return { ...groundOn(checker.place), [Symbol.asyncDispose]: () => checker[Symbol.asyncDispose]() }
}

export async function countedStore(store: DurableStore): Promise<Counted> {
  if (store === 'sqlite') {
    sqliteCalls ??= sqliteCounter()
    return { ...(await directStore(store)), counter: sqliteCalls }
  }
  const checker = await makePlace(store)
  const counter = store === 'postgres' ? postgresCounter() : mysqlCounter()
  const proxy = await LinkProxy.open(checker.place.url, () => counter.tap())
  return {
    ...groundOn({ ...checker.place, url: proxy.url }),
    counter,
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]()
      await checker[Symbol.asyncDispose]()
    },
  }
}

let sqliteCalls: Counter | undefined

function groundOn({ store, url, schema }: Place): Ground {
  if (store === 'sqlite') return { store: sqlite({ path: url }), write: writeTo('effects', () => '?') }
  if (store === 'mysql') return { store: mysql({ url }), write: writeTo('effects', () => '?') }
  // Without telling other processes: how often depends on the time that things take.
  return { store: postgres({ url, schema, listen: false }), write: writeTo(`${schema}.business`, (n) => `$${n}`) }
}

function writeTo(table: string, placeholder: (n: number) => string): Ground['write'] {
  return (tx, numbers) => {
    const rows = numbers.map((_, index) => `('costs', ${placeholder(index + 1)}, 1)`)
    return tx.query(`insert into ${table} (consumer, id, process) values ${rows.join(', ')}`, numbers.map(String))
  }
}

/** Warm-up runs, which open connections, check the schema and prepare statements. */
const WARM_UPS = 4

/** What one run of a job costs when everything is open and prepared. */
export async function costOf({ before, run, close }: Prepared, times: number, counter: Counter): Promise<Counts> {
  for (let time = 0; time < WARM_UPS; time++) {
    await before?.()
    await run()
  }
  let [roundTrips, statements] = [0, 0]
  for (let time = 0; time < times; time++) {
    await before?.()
    const start = counter.read()
    await run()
    const end = counter.read()
    roundTrips += end.roundTrips - start.roundTrips
    statements += end.statements - start.statements
  }
  await close()
  return { roundTrips: roundTrips / times, statements: statements / times }
}
