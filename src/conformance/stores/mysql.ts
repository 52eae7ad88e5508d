import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import type mysql2 from 'mysql2/promise'
import { asError, loadClient, messageOf } from '../../base/index.ts'
import { mysql } from '../../stores/mysql/index.ts'
import type { HarnessFeatures, StoreHarness, TestServer } from '../../testing/index.ts'
import { Shelf } from './shelf.ts'
import { businessTables, type Client, setBack, sqlBusiness } from './sql-business.ts'
import { Applications, cannot, shown, type Way } from './way.ts'

/** No case writes into them, except by what makes a database unfit for another case. */
const KEPT_TABLES = ['hapax_migrations', 'counters']

/** A server of MariaDB or MySQL, with databases that have all tables, which cases use one after another, whatever way they take. */
export class MysqlGround {
  readonly admin: mysql2.Pool
  readonly #url: string
  /** What the names of its databases begin with. */
  readonly #prefix: string
  readonly #shelf: Shelf
  #opened = 0

  private constructor(url: string, prefix: string, admin: mysql2.Pool, client: typeof mysql2) {
    this.#url = url
    this.#prefix = prefix
    this.admin = admin
    this.#shelf = new Shelf({
      make: async () => {
        const database = await this.#makeDatabase()
        // Not on the admin's: its sessions would be in the database from then on.
        const pool = client.createPool({ uri: inside(url, database), connectionLimit: 1 })
        await mysql({ pool, database }).schema.migrate()
        await pool.end()
        return database
      },
      empty: async (database) => {
        const names = (await this.#tablesIn(database)).filter((name) => !KEPT_TABLES.includes(name))
        const locked = names.map((name) => `${database}.${name} write`).join(', ')
        const emptied = names.map((name) => `delete from ${database}.${name}`)
        await admin.query([`lock tables ${locked}`, ...emptied, 'unlock tables'].join(';'))
      },
      drop: (database) => admin.query(`drop database ${database}`),
    })
  }

  /** Connects when it is first used. */
  static async at(url: string, prefix: string): Promise<MysqlGround> {
    const client = await loadClient('conformance of MySQL', ['mysql2'], () => import('mysql2/promise'))
    const admin = client.createPool({ uri: url, connectionLimit: 4, multipleStatements: true })
    return new MysqlGround(url, prefix, admin, client)
  }

  /** The conformance harness on this server: a database for each case. */
  async harness<Tx, Own>(way: Way<Tx, Own>): Promise<StoreHarness<Tx, Own>> {
    const sample = await way.open({ url: this.#url, name: 'hapax', max: 1, control: false })
    await sample.close()
    return {
      features: { ...sample.store.features, errorsAbort: false, cannot: cannot(way, sample) },
      open: ({ migrated, connections }) => this.#open(way, migrated, connections),
    }
  }

  /** What the server calls itself. */
  async version(): Promise<string> {
    const [version = 'unknown', comment] = await column(
      this.admin,
      'select version() as value union all select @@version_comment',
    )
    const [, mariadb] = /^([\d.]+)-MariaDB/i.exec(version) ?? []
    return mariadb === undefined ? `MySQL ${version} (${comment})` : `MariaDB ${mariadb}`
  }

  /** Creates a database and drops it. */
  async trial(): Promise<void> {
    await this.#shelf.drop(await this.#shelf.making(() => this.#makeDatabase()))
  }

  /** What cannot be tried on this server, as far as that shows. */
  async lacks(): Promise<HarnessFeatures['cannot']> {
    try {
      await column(this.admin, 'select trx_isolation_level as value from information_schema.innodb_trx')
      return {}
    } catch (error) {
      return { sessions: `the user cannot see transactions: ${messageOf(asError(error))}` }
    }
  }

  /** Ends the sessions of all cases, and drops their databases, also those of cases that did not end. */
  async sweep(): Promise<void> {
    await this.#shelf.end()
    const like = `'${this.#prefix.replaceAll('_', '\\_')}\\_%'`
    const sessions = await column(
      this.admin,
      `select id as value from information_schema.processlist where db like ${like}`,
    )
    for (const id of sessions) await this.admin.query(`kill ${id}`).catch(() => {})
    const names = await column(
      this.admin,
      `select schema_name as value from information_schema.schemata where schema_name like ${like}`,
    )
    for (const name of names) await this.admin.query(`drop database if exists ${name}`)
    await this.admin.end()
  }

  /** Drops all that cases have returned. */
  async close(): Promise<void> {
    await this.#shelf.clear()
    await this.admin.end()
  }

  async #open<Tx, Own>(way: Way<Tx, Own>, migrated: boolean, connections: number) {
    const { admin } = this
    const database = await (migrated ? this.#shelf.take() : this.#shelf.making(() => this.#makeDatabase()))
    let isReusable = migrated
    const applications = new Applications((max, control) =>
      way.open({ url: inside(this.#url, database), name: database, max, control }),
    )
    const application = await applications.add(connections)
    return {
      ...sqlBusiness<Tx, Own>(way.client, (name) => `${database}.${name}`, '?'),
      ...shown(way, application, `${database}.shapes`, () => '?'),
      server: serverOf(admin, way, database),
      define: (tx: Tx) => way.client(tx).query(`alter table ${database}.uniques comment = 'defined'`),
      another: async () => (await applications.add(connections)).store,
      pooled: (max: number) => applications.pooled(max),
      effects: () => column(admin, `select label as value from ${database}.effects`),
      outbox: () => column(admin, `select id as value from ${database}.hapax_outbox order by seq`),
      setSeq: (seq: string) => {
        isReusable = false
        const restart = (name: string): string => `alter table ${database}.hapax_${name} auto_increment = ${seq}`
        return admin.query(`${restart('inbox')}; ${restart('failed')}`)
      },
      sameTime: () => {
        const one = (table: string, columns: readonly string[]): string =>
          `update ${database}.hapax_${table} set ${columns.map((each) => `${each} = '2000-01-01'`).join(', ')}`
        return admin.query(
          [one('failed', ['failed_at']), one('effects', ['first_at', 'last_at']), one('audit', ['at'])].join('; '),
        )
      },
      setBack: (ms: number) =>
        admin.query(
          setBack(
            (name) => `${database}.hapax_${name}`,
            (each) => `${each} + interval ${ms * 1000} microsecond`,
          ).join(';'),
        ),
      drift: () => {
        isReusable = false
        return admin.query(`update ${database}.hapax_migrations set checksum = 'other' where version = 1`)
      },
      newer: (compatibleFrom: number) => {
        isReusable = false
        return admin.query(
          `insert into ${database}.hapax_migrations (version, name, checksum, compatible_from, applied_at) values (1000, 'later', 'other', ${compatibleFrom}, now())`,
        )
      },
      close: async () => {
        await applications.close()
        await (isReusable ? this.#shelf.giveBack(database) : this.#shelf.drop(database))
      },
    }
  }

  async #makeDatabase(): Promise<string> {
    const database = `${this.#prefix}_${++this.#opened}`
    const tables = businessTables((name) => `${database}.${name}`, 'varchar(255) character set utf8mb4', 'longblob')
    await this.admin.query([`create database ${database}`, ...tables].join(';'))
    return database
  }

  #tablesIn(database: string): Promise<string[]> {
    return column(
      this.admin,
      `select table_name as value from information_schema.tables where table_schema = '${database}'`,
    )
  }
}

async function column(admin: mysql2.Pool, text: string): Promise<string[]> {
  const [rows] = await admin.query<mysql2.RowDataPacket[]>(text)
  return rows.map(({ value }) => String(value))
}

/** The URL of a database: the server lists the sessions of a case by it. */
function inside(url: string, database: string): string {
  const result = new URL(url)
  result.pathname = database
  return result.href
}

/** The sessions of a case, by their database. In a transaction, one can be told from the others by a lock that it holds. */
function serverOf<Tx, Own>(admin: mysql2.Pool, way: Way<Tx, Own>, database: string): TestServer<Tx> {
  const found = async (tx: Tx): Promise<string> => {
    const name = `one_${randomUUID()}`
    await way.client(tx).query(`do get_lock('${name}', 0)`)
    return (await column(admin, `select is_used_lock('${name}') as value`))[0] as string
  }
  return {
    isolation: async (tx) => {
      const client = way.client(tx)
      // A transaction is listed as soon as it has read something.
      await client.query(`select n from ${database}.counters`)
      return levelOf(admin, client)
    },
    end: async (tx) => {
      const id = await found(tx)
      await admin.query(`kill ${id}`)
      while ((await count(admin, `id = ${id}`)) > 0) await setTimeout(2)
    },
    sessions: async () => ({
      open: await count(admin, `db = '${database}'`),
      inTransaction: await isLocked(admin, `${database}.effects`),
    }),
  }
}

async function count(admin: mysql2.Pool, where: string): Promise<number> {
  return Number((await column(admin, `select count(*) as value from information_schema.processlist where ${where}`))[0])
}

/** Whether a transaction has used the table, as a number. */
async function isLocked(admin: mysql2.Pool, table: string): Promise<number> {
  const client = await admin.getConnection()
  try {
    await client.query(`set lock_wait_timeout = 1; lock tables ${table} write; unlock tables`)
    return 0
  } catch {
    return 1
  } finally {
    await client.query('set lock_wait_timeout = default')
    client.release()
  }
}

const LEVELS = ['READ UNCOMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE']

let reading: Promise<unknown> = Promise.resolve()

/**
 * The server makes its list of transactions anew only when nobody has read it for a tenth of a second, and there are other processes.
 * So the transaction looks itself up by the statement that it runs at the moment, and tells by a lock what it has found.
 */
function levelOf(admin: mysql2.Pool, client: Client): Promise<string> {
  const read = async (): Promise<string> => {
    for (;;) {
      const mark = randomUUID()
      const own = `trx_mysql_thread_id = connection_id() and trx_query like '%${mark}%'`
      const level = `(select trx_isolation_level from information_schema.innodb_trx where ${own})`
      await client.query(`do get_lock(concat('${mark}', coalesce(${level}, '')), 0)`)
      const asked = LEVELS.map((name) => `when is_used_lock('${mark}${name}') is not null then '${name}'`)
      const [found] = await column(admin, `select case ${asked.join(' ')} else '' end as value`)
      if (found) return found.toLowerCase()
      await setTimeout(110 + Math.random() * 100)
    }
  }
  const level = reading.then(read)
  reading = level.catch(() => {})
  return level
}
