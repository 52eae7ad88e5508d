import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import type pg from 'pg'
import { asError, heard, loadClient, messageOf } from '../../base/index.ts'
import { postgres } from '../../stores/postgres/index.ts'
import type { HarnessFeatures, StoreHarness, TestServer } from '../../testing/index.ts'
import { Shelf } from './shelf.ts'
import { businessTables, setBack, sqlBusiness } from './sql-business.ts'
import { Applications, cannot, shown, type Way } from './way.ts'

/** No case writes into them, except by what makes a schema unfit for another case. */
const KEPT_TABLES = ['migrations', 'counters']

/** A PostgreSQL server, with schemas that have all tables, which cases use one after another, whatever way they take. */
export class PostgresGround {
  readonly admin: pg.Pool
  readonly #url: string
  /** What the names of its schemas begin with. */
  readonly #prefix: string
  readonly #shelf: Shelf
  #opened = 0

  private constructor(url: string, prefix: string, admin: pg.Pool) {
    this.#url = url
    this.#prefix = prefix
    this.admin = admin
    this.#shelf = new Shelf({
      make: async () => {
        const schema = await this.#makeSchema()
        await postgres({ pool: admin, schema }).schema.migrate()
        return schema
      },
      empty: async (schema) => {
        const tables = (await this.#tablesIn(schema)).filter((name) => !KEPT_TABLES.includes(name))
        const names = tables.map((name) => `${schema}.${name}`)
        await admin.query([`lock table ${names.join(', ')}`, ...names.map((name) => `delete from ${name}`)].join(';'))
      },
      drop: (schema) => admin.query(`drop schema ${schema} cascade`),
    })
  }

  /** Connects when it is first used. */
  static async at(url: string, prefix: string): Promise<PostgresGround> {
    const { default: client } = await loadClient('conformance of PostgreSQL', ['pg'], () => import('pg'))
    const admin = new client.Pool({ connectionString: url, max: 4 })
    // When the server dies the next query says so, and not an event that nobody hears.
    heard(admin)
    admin.on('connect', heard)
    return new PostgresGround(url, prefix, admin)
  }

  /** The conformance harness on this server: a schema for each case. */
  async harness<Tx, Own>(way: Way<Tx, Own>): Promise<StoreHarness<Tx, Own>> {
    const sample = await way.open({ url: this.#url, name: 'hapax', max: 1, control: false })
    await sample.close()
    return {
      features: {
        ...sample.store.features,
        errorsAbort: true,
        cannot: { 'statements that commit': 'data definition is a part of the transaction', ...cannot(way, sample) },
      },
      open: ({ migrated, connections }) => this.#open(way, migrated, connections),
    }
  }

  /** What the server calls itself. */
  async version(): Promise<string> {
    const { rows } = await this.admin.query<{ version: string }>('select version()')
    return (rows[0]?.version ?? 'unknown').split(/ \(| on |,/)[0] as string
  }

  /** Creates a schema and drops it. */
  async trial(): Promise<void> {
    await this.#shelf.drop(await this.#shelf.making(() => this.#makeSchema()))
  }

  /** What cannot be tried on this server, as far as that shows: sessions are ended by their numbers. */
  async lacks(): Promise<HarnessFeatures['cannot']> {
    const client = await this.admin.connect()
    try {
      const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
      const pid = rows[0]?.pid
      const { processID } = client as { processID?: number | null }
      if (pid !== processID) return { sessions: 'a pooler is in between, which shares sessions among its clients' }
      const { rowCount } = await this.admin.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where pid = $1',
        [pid],
      )
      return rowCount === 1 ? {} : { sessions: 'the server does not list them' }
    } catch (error) {
      return { sessions: `the server does not let them be ended: ${messageOf(asError(error))}` }
    } finally {
      client.release(true)
    }
  }

  /** Ends the sessions of all cases, and drops their schemas, also those of cases that did not end. */
  async sweep(): Promise<void> {
    await this.#shelf.end()
    const like = `${this.#prefix.replaceAll('_', '\\_')}\\_%`
    const ended = 'select pg_terminate_backend(pid) from pg_stat_activity where application_name like $1'
    await this.admin.query(ended, [like]).catch(() => {})
    const { rows } = await this.admin.query<{ name: string }>(
      'select nspname as name from pg_namespace where nspname like $1',
      [like],
    )
    for (const { name } of rows) await this.admin.query(`drop schema if exists ${name} cascade`)
    await this.admin.end()
  }

  /** Drops all that cases have returned. */
  async close(): Promise<void> {
    await this.#shelf.clear()
    await this.admin.end()
  }

  async #open<Tx, Own>(way: Way<Tx, Own>, migrated: boolean, connections: number) {
    const { admin } = this
    const schema = await (migrated ? this.#shelf.take() : this.#shelf.making(() => this.#makeSchema()))
    let isReusable = migrated
    const applications = new Applications((max, control) =>
      way.open({ url: named(this.#url, schema), name: schema, max, control }),
    )
    const application = await applications.add(connections)
    const column = async (text: string): Promise<string[]> =>
      (await admin.query<{ value: string }>(text)).rows.map(({ value }) => value)
    return {
      ...sqlBusiness<Tx, Own>(way.client, (name) => tableIn(schema, name), '$1'),
      ...shown(way, application, `${schema}.shapes`, (n) => `$${n}`),
      server: serverOf(admin, way, schema),
      another: async () => (await applications.add(connections)).store,
      pooled: (max: number) => applications.pooled(max),
      effects: () => column(`select label as value from ${schema}.business order by at`),
      outbox: () => column(`select id as value from ${schema}.outbox order by seq`),
      setSeq: (seq: string) => {
        isReusable = false
        const restart = (name: string): string => `alter table ${schema}.${name} alter seq restart ${seq}`
        return admin.query(`${restart('inbox')}; ${restart('failed')}`)
      },
      sameTime: () => admin.query(sameTime(schema)),
      setBack: (ms: number) =>
        admin.query(
          setBack(
            (name) => `${schema}.${name}`,
            (each) => `${each} + ${ms} * interval '1 millisecond'`,
          ).join(';'),
        ),
      drift: () => {
        isReusable = false
        return admin.query(`update ${schema}.migrations set checksum = 'other' where version = 1`)
      },
      newer: (compatibleFrom: number) => {
        isReusable = false
        return admin.query(
          `insert into ${schema}.migrations (version, name, checksum, compatible_from) values (1000, 'later', 'other', ${compatibleFrom})`,
        )
      },
      close: async () => {
        await applications.close()
        await (isReusable ? this.#shelf.giveBack(schema) : this.#shelf.drop(schema))
      },
    }
  }

  async #makeSchema(): Promise<string> {
    const schema = `${this.#prefix}_${++this.#opened}`
    const tables = businessTables((name) => tableIn(schema, name), 'text', 'bytea')
    // Without a number, rows come in the order of the heap, which reuses the space of rows that earlier cases left.
    const numbered = `alter table ${tableIn(schema, 'effects')} add column at bigint generated always as identity`
    await this.admin.query([`create schema ${schema}`, ...tables, numbered].join(';'))
    return schema
  }

  async #tablesIn(schema: string): Promise<string[]> {
    const text = 'select tablename as name from pg_tables where schemaname = $1'
    return (await this.admin.query<{ name: string }>(text, [schema])).rows.map(({ name }) => name)
  }
}

/** The name of a business table; the journal is called `effects` already. */
function tableIn(schema: string, name: string): string {
  return `${schema}.${name === 'effects' ? 'business' : name}`
}

/** The URL with the name under which the server lists the sessions of a case. */
function named(url: string, schema: string): string {
  const result = new URL(url)
  result.searchParams.set('application_name', schema)
  return result.href
}

/** The sessions of a case, by the name of their application. In a transaction, one can be told from the others by another name. */
function serverOf<Tx, Own>(admin: pg.Pool, way: Way<Tx, Own>, schema: string): TestServer<Tx> {
  const found = async (tx: Tx): Promise<{ pid: number; level: string }> => {
    const name = `one_${randomUUID().slice(0, 13)} `
    await way
      .client(tx)
      .query(`select set_config('application_name', '${name}' || current_setting('transaction_isolation'), true)`)
    const text =
      'select pid, substr(application_name, length($1) + 1) as level from pg_stat_activity where application_name like $1 || $2'
    const { rows } = await admin.query<{ pid: number; level: string }>(text, [name, '%'])
    return rows[0] as { pid: number; level: string }
  }
  return {
    isolation: async (tx) => (await found(tx)).level,
    end: async (tx) => {
      const { pid } = await found(tx)
      await admin.query('select pg_terminate_backend($1)', [pid])
      const isGone = async (): Promise<boolean> =>
        (await admin.query('select from pg_stat_activity where pid = $1', [pid])).rowCount === 0
      while (!(await isGone())) await setTimeout(2)
    },
    sessions: async () => {
      const text = `select count(*)::int as open, count(xact_start)::int as "inTransaction"
        from pg_stat_activity where application_name = $1`
      const { rows } = await admin.query<{ open: number; inTransaction: number }>(text, [schema])
      return rows[0] as { open: number; inTransaction: number }
    },
  }
}

/** Sets one timestamp on all rows of these tables. */
export function sameTime(schema: string): string {
  const one = (table: string, columns: readonly string[]): string =>
    `update ${schema}.${table} set ${columns.map((each) => `${each} = '2000-01-01'`).join(', ')}`
  return [one('failed', ['failed_at']), one('effects', ['first_at', 'last_at']), one('audit', ['at'])].join('; ')
}
