import { PGlite, type Transaction } from '@electric-sql/pglite'
import type { Store } from 'hapax'
import { fromPglite, type PgliteDatabase, type PgliteTx } from 'hapax/pglite'
import { postgres } from 'hapax/postgres'
import type { StoreHarness } from 'hapax/testing'
import { afterAll, beforeAll } from 'vitest'
import { sameTime } from '../../src/conformance/stores/postgres.ts'
import { businessTables, setBack, sqlBusiness } from '../../src/conformance/stores/sql-business.ts'

type Tx = PgliteTx<Transaction>

/** For the features, which do not depend on the database. */
const never = () => Promise.reject(new Error('never called'))
const unused: PgliteDatabase<Transaction> = { query: never, exec: never, transaction: never }

/** The name of a business table; the journal is called `effects` already. */
const tableIn = (schema: string, name: string): string => `${schema}.${name === 'effects' ? 'business' : name}`

const storeOn = (db: PGlite, schema: string): Store<Tx, Transaction> => postgres(fromPglite(db), { schema })

async function makeSchema(db: PGlite, schema: string): Promise<void> {
  const tables = businessTables((name) => tableIn(schema, name), 'text', 'bytea')
  const numbered = `alter table ${tableIn(schema, 'effects')} add column at bigint generated always as identity`
  await db.exec([`create schema ${schema}`, ...tables, numbered].join(';'))
}

/** The default of Vitest's `maxConcurrency`. */
const AT_ONCE = 5

/** Databases with all tables, which cases use one after another: at the same time they would wait for one another's handlers. */
class Databases {
  readonly #free: PGlite[] = []
  readonly #all: PGlite[] = []
  #image: Promise<Blob> | undefined

  /** Makes as many as cases run at the same time. */
  async prepare(): Promise<void> {
    for (let made = 0; made < AT_ONCE; made++) this.#free.push(await this.#make())
  }

  async take(): Promise<PGlite> {
    return this.#free.pop() ?? this.#make()
  }

  async giveBack(db: PGlite): Promise<void> {
    const kept = `('migrations', 'counters')`
    const text = `select tablename as name from pg_tables where schemaname = 'suite' and tablename not in ${kept}`
    const { rows } = await db.query<{ name: string }>(text)
    await db.exec(rows.map(({ name }) => `delete from suite.${name}`).join(';'))
    this.#free.push(db)
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((db) => db.close()))
  }

  async #make(): Promise<PGlite> {
    this.#image ??= this.#first()
    const db = await PGlite.create({ loadDataDir: await this.#image })
    this.#all.push(db)
    return db
  }

  /** A copy of its files starts three times as fast as a new database, and has the tables. */
  async #first(): Promise<Blob> {
    const db = await PGlite.create()
    this.#all.push(db)
    await makeSchema(db, 'suite')
    await storeOn(db, 'suite').schema.migrate()
    return db.dumpDataDir('none')
  }
}

/** The conformance harness of PostgreSQL on PGlite: a database that no other case uses meanwhile. */
export function pgliteHarness(): StoreHarness<Tx, Transaction> {
  const databases = new Databases()
  // Not in the first cases: together, on a busy machine, databases may take longer to start than a case has.
  beforeAll(() => databases.prepare(), 300_000)
  afterAll(() => databases.close())
  return {
    features: {
      ...postgres(fromPglite(unused)).features,
      errorsAbort: true,
      cannot: {
        'a pool': 'PGlite has one connection: there is no pool',
        sessions: 'there is no server',
        'a connection': 'the harness passes it to the store',
        'nested transactions': 'there are none',
        'statements that commit': 'data definition is a part of the transaction',
        'row locks': 'PGlite has one connection: two transactions never meet',
        'something left open': 'PGlite blocks the process while a statement runs',
      },
    },
    async open({ migrated }) {
      const db = await databases.take()
      const schema = migrated ? 'suite' : 'empty'
      if (!migrated) await makeSchema(db, schema)
      let isReusable = true
      const store = storeOn(db, schema)
      const column = async (text: string): Promise<string[]> =>
        (await db.query<{ value: string }>(text)).rows.map(({ value }) => value)
      const none = () => Promise.reject(new Error('ruled out by the features'))
      return {
        ...sqlBusiness<Tx, Transaction>(
          (tx) => tx,
          (name) => tableIn(schema, name),
          '$1',
        ),
        store,
        another: async () => storeOn(db, schema),
        pooled: none,
        leaveOpen: () => {},
        effects: () => column(`select label as value from ${schema}.business order by at`),
        own: (work) => db.transaction(work),
        notBegun: (work) => work(db as unknown as Transaction),
        outbox: () => column(`select id as value from ${schema}.outbox order by seq`),
        setSeq: (seq) => {
          isReusable = false
          const restart = (name: string): string => `alter table ${schema}.${name} alter seq restart ${seq}`
          return db.exec(`${restart('inbox')}; ${restart('failed')}`)
        },
        newer: (compatibleFrom) => {
          isReusable = false
          return db.exec(
            `insert into ${schema}.migrations (version, name, checksum, compatible_from) values (1000, 'later', 'other', ${compatibleFrom})`,
          )
        },
        sameTime: () => db.exec(sameTime(schema)),
        setBack: (ms) =>
          db.exec(
            setBack(
              (name) => `${schema}.${name}`,
              (each) => `${each} + ${ms} * interval '1 millisecond'`,
            ).join(';'),
          ),
        drift: () => {
          isReusable = false
          return db.exec(`update ${schema}.migrations set checksum = 'other' where version = 1`)
        },
        close: async () => {
          if (!migrated) await db.exec(`drop schema ${schema} cascade`)
          if (isReusable) await databases.giveBack(db)
        },
      }
    },
  }
}
