import { randomBytes } from 'node:crypto'
import {
  type ConnectionBudget,
  connectionBudget,
  createHapax,
  defineMessage,
  type Hapax,
  type Store,
  silentLogger,
} from 'hapax'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import mysql2 from 'mysql2/promise'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { freePort } from '../../scripts/services/port.ts'
import { Budget } from '../../src/base/connection-budget.ts'
import { LinkProxy } from '../../src/conformance/brokers/link-proxy.ts'
import { onlyOnce } from '../../src/conformance/only-once.ts'
import { budgetedPools as onMysql2 } from '../../src/stores/mysql/budgeted.ts'
import { MysqlConnection } from '../../src/stores/mysql/connection.ts'
import { budgetedPools as onPg } from '../../src/stores/postgres/budgeted.ts'
import { PgConnection } from '../../src/stores/postgres/connection.ts'
import { LeapingClock } from '../../src/testing/clock.ts'
import { gate, until } from '../../src/testing/wait.ts'
import { pgPool } from '../support/pg-pool.ts'
import { requireServer, testStores } from '../support/servers.ts'

interface Tx {
  query(text: string): Promise<unknown>
}

/** A server with one database for each tenant, looked at from outside. */
interface Server extends AsyncDisposable {
  readonly url: string
  create(database: string): Promise<unknown>
  drop(database: string): Promise<unknown>
  /** The ids in its business table. */
  effects(database: string): Promise<string[]>
  /** The numbers of the sessions of all databases whose names begin so. */
  sessions(name: string): Promise<string[]>
  open(url: string, database: string, budget: ConnectionBudget): unknown
  /** A URL for which the server has one connection, and that is taken until it is given back. */
  full(): Promise<AsyncDisposable & { readonly url: string; giveBack(): Promise<void> }>
}

function withUser(url: string, user: string): string {
  const result = new URL(url)
  result.username = user
  return result.href
}

/** Schemas, each reached as a database would be: to create and drop databases takes seconds, and shows no more. */
function onPostgres(): Server {
  const url = requireServer('postgres')
  const admin = pgPool({ connectionString: url, max: 2 })
  const column = async (text: string): Promise<string[]> =>
    (await admin.query(text)).rows.map(({ value }) => String(value))
  return {
    url,
    create: (schema) =>
      admin.query(`create schema ${schema}; create table ${schema}.business (id varchar(50) not null)`),
    drop: (schema) => admin.query(`drop schema ${schema} cascade`),
    effects: (schema) => column(`select id as value from ${schema}.business`),
    sessions: (name) => column(`select pid as value from pg_stat_activity where application_name like '${name}%'`),
    open: (url, schema, budget) => postgres({ url: `${url}?application_name=${schema}`, schema, budget }),
    full: async () => {
      const role = `narrow_${randomBytes(4).toString('hex')}`
      await admin.query(`create role ${role} login connection limit 1`)
      const narrow = withUser(url, role)
      const taker = new pg.Client(narrow)
      await taker.connect()
      return taken(
        narrow,
        () => taker.end(),
        () => admin.query(`drop role ${role}`),
      )
    },
    [Symbol.asyncDispose]: () => admin.end(),
  }
}

/** A server all of whose connections are taken, until they are given back. */
function taken(
  url: string,
  end: () => Promise<void>,
  drop: () => Promise<unknown>,
): Awaited<ReturnType<Server['full']>> {
  const giveBack = onlyOnce(end)
  return {
    url,
    giveBack,
    [Symbol.asyncDispose]: async () => {
      await giveBack()
      await drop()
    },
  }
}

function onMariadb(): Server {
  const url = requireServer('mysql')
  const admin = mysql2.createPool({ uri: url, connectionLimit: 2, multipleStatements: true })
  const column = async (text: string): Promise<string[]> => {
    const [rows] = await admin.query<mysql2.RowDataPacket[]>(text)
    return rows.map(({ value }) => String(value))
  }
  return {
    url,
    create: (database) =>
      admin.query(`create database ${database}; create table ${database}.business (id varchar(50) not null)`),
    drop: (database) => admin.query(`drop database ${database}`),
    effects: (database) => column(`select id as value from ${database}.business`),
    // A session that has ended is listed for a moment after its socket is closed, and for longer where its thread waits for a processor.
    // One that is there is in every list.
    sessions: async (name) => {
      const text = `select id as value from information_schema.processlist where db like '${name}%'`
      let listed = await column(text)
      for (let looks = 1; looks < 5; looks++) {
        const again = new Set(await column(text))
        listed = listed.filter((id) => again.has(id))
      }
      return listed
    },
    open: (url, database, budget) => {
      const inside = new URL(url)
      inside.pathname = database
      return mysql({ url: inside.href, budget })
    },
    full: async () => {
      const user = `narrow_${randomBytes(4).toString('hex')}`
      await admin.query(`create user ${user} with max_user_connections 1; grant all on *.* to ${user}`)
      const narrow = withUser(url, user)
      const taker = await mysql2.createConnection(narrow)
      return taken(
        narrow,
        () => taker.end(),
        () => admin.query(`drop user ${user}`),
      )
    },
    [Symbol.asyncDispose]: () => admin.end(),
  }
}

const Order = defineMessage<{ readonly id: string }>('order')

/** One database of many, with a hapax and a worker. */
interface Tenant {
  readonly database: string
  readonly hapax: Hapax<Tx>
  readonly worker: ReturnType<Hapax<Tx>['worker']>
  publish(ids: readonly string[]): Promise<unknown>
  effects(): Promise<string[]>
}

/** Databases of a test, with a checker that counts their sessions all the time. */
class Tenants implements AsyncDisposable {
  readonly budget: ConnectionBudget
  readonly all: Tenant[] = []
  readonly #server: Server
  readonly #name = `budget_${randomBytes(4).toString('hex')}`
  /** The most sessions that the server had at once. */
  most = 0
  #watching = true
  #watched: Promise<void> | undefined

  constructor(server: Server, max: number) {
    this.#server = server
    this.budget = connectionBudget(max)
  }

  /** Makes a database; `url` is asked for where to reach it. */
  async add(
    handler: (id: string) => unknown = () => {},
    urlOf: (url: string) => string = (url) => url,
  ): Promise<Tenant> {
    const server = this.#server
    const database = `${this.#name}_${this.all.length}`
    await server.create(database)
    const store = server.open(urlOf(server.url), database, this.budget)
    const table = `${database}.business`
    const hapax = createHapax({ store: store as Store<Tx>, source: '/shop', delivery: 'local', logger: silentLogger })
    const consumer = hapax.consumer('billing').on(Order, async ({ id }, { tx }) => {
      await handler(id)
      await tx.query(`insert into ${table} (id) values ('${id}')`)
    })
    const worker = hapax.worker({ consume: [consumer] })
    const tenant: Tenant = {
      database,
      hapax,
      worker,
      publish: (ids) =>
        hapax.transaction((tx) =>
          hapax.publishMany(
            tx,
            ids.map((id) => Order.of({ id }, { id })),
          ),
        ),
      effects: () => server.effects(database),
    }
    this.all.push(tenant)
    return tenant
  }

  async start(tenants: readonly Tenant[] = this.all): Promise<void> {
    this.#watched ??= this.#watch()
    await Promise.all(
      tenants.map(async ({ hapax, worker }) => {
        await hapax.migrate()
        await worker.start()
      }),
    )
  }

  sessions(): Promise<string[]> {
    return this.#server.sessions(this.#name)
  }

  /** Each of these has taken effect once in each of the databases. */
  async untilDone(tenants: readonly Tenant[], ids: readonly string[]): Promise<void> {
    await until(
      async () =>
        (await Promise.all(tenants.map(async (each) => (await each.effects()).length))).every((n) => n >= ids.length),
      'all effects',
    )
    for (const each of tenants) expect((await each.effects()).sort(), each.database).toEqual([...ids].sort())
  }

  async close(): Promise<void> {
    await Promise.all(this.all.map(({ worker }) => worker.stop({ deadlineMs: 5_000 })))
    await Promise.all(this.all.map(({ hapax }) => hapax.close()))
    this.#watching = false
    await this.#watched
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
    for (const { database } of this.all) await this.#server.drop(database)
  }

  async #watch(): Promise<void> {
    while (this.#watching) this.most = Math.max(this.most, (await this.sessions()).length)
  }
}

const servers = { postgres: onPostgres, mysql: onMariadb } as const

const most = { handlers: 1, control: 1 }
const controlOf = {
  postgres: (url: string) => new PgConnection(onPg(url, new Budget(4), most)),
  mysql: (url: string) => new MysqlConnection(onMysql2(url, new Budget(4), most)),
} as const

for (const name of ['postgres', 'mysql'] as const) {
  describe.skipIf(!testStores().includes(name))(`a connection budget on ${name}`, () => {
    const ids = Array.from({ length: 25 }, (_, at) => `order-${at}`)

    it('is kept by workers on 20 databases: every message once, none waits for ever, all closed at the end', async ({
      annotate,
    }) => {
      await using server = servers[name]()
      await using tenants = new Tenants(server, 8)
      for (let n = 0; n < 20; n++) await tenants.add()
      await tenants.start()
      await Promise.all(tenants.all.map((each) => each.publish(ids)))
      await tenants.untilDone(tenants.all, ids)
      await until(() => tenants.all.every(({ worker }) => worker.ready), 'all of them are ready')
      await tenants.close()
      await annotate(`${tenants.most} sessions at most`)
      expect(tenants.most).toBeLessThanOrEqual(8)
      expect(tenants.most).toBeGreaterThan(4)
      await until(async () => (await tenants.sessions()).length === 0, 'the end of all sessions')
      expect(tenants.budget).toMatchObject({ open: 0, busy: 0, waiting: 0 })
    })

    it('leaves room for others while handlers of one database do not end', async () => {
      await using server = servers[name]()
      await using tenants = new Tenants(server, 6)
      const { passed, open } = gate()
      let running = 0
      const slow = await tenants.add(() => {
        running += 1
        return passed
      })
      const others = [await tenants.add(), await tenants.add(), await tenants.add()]
      await tenants.start()
      await slow.publish(ids)
      await until(() => running >= 2, 'slow handlers')
      await Promise.all(others.map((each) => each.publish(ids)))
      await tenants.untilDone(others, ids)
      expect(await slow.effects()).toEqual([])
      open()
      await tenants.untilDone([slow], ids)
      expect(tenants.most).toBeLessThanOrEqual(6)
    })

    it('waits while the server has no connections left, and says so at the end', async () => {
      await using server = servers[name]()
      await using full = await server.full()
      const budget = connectionBudget(4)
      const clock = new LeapingClock()
      const store = server.open(full.url, 'information_schema', budget) as Store<Tx>
      const hapax = createHapax({ store, source: '/shop', logger: silentLogger, clock, acquireMs: 30_000 })
      const one = (): Promise<unknown> => hapax.transaction((tx) => tx.query('select 1 as one'))
      const message = expect.stringMatching(/the server has no connections left .*raise its limit, or lower the/)
      const reason = { code: 'store-unavailable', message }
      const refused = Promise.allSettled([one(), one()])
      await until(() => budget.waiting >= 2 && budget.open === 0, 'a refusal')
      clock.leap(30_000)
      expect(await refused).toMatchObject([{ reason }, { reason }])
      const waiting = [one(), one()]
      await until(() => budget.waiting >= 2 && budget.open === 0, 'both to wait')
      await full.giveBack()
      expect(await Promise.all(waiting)).toMatchObject([{ rows: [{ one: 1 }] }, { rows: [{ one: 1 }] }])
      await hapax.close()
    })

    it('says so at the end of the patience of a control statement', async () => {
      await using server = servers[name]()
      await using full = await server.full()
      const connection = controlOf[name](full.url)
      const query = connection.query({ text: 'select 1', params: [] }, 5_000)
      await expect(query).rejects.toThrow(/the server has no connections left/)
      await connection.close()
    })

    it.each(['does not answer', 'refuses connections'])('goes on in the others while one database %s', async (how) => {
      await using server = servers[name]()
      await using proxy = await LinkProxy.open(server.url)
      await using tenants = new Tenants(server, 6)
      const away = await tenants.add(
        () => {},
        () => proxy.url,
      )
      const others = [await tenants.add(), await tenants.add(), await tenants.add(), await tenants.add()]
      await tenants.start()
      // The server learns a little later that links were cut, and still counts their sessions meanwhile.
      let cut = proxy.size
      if (how === 'refuses connections') await proxy.refuse()
      else proxy.freeze()
      await Promise.all(others.map((each) => each.publish(ids)))
      await tenants.untilDone(others, ids)
      if (how === 'refuses connections') await proxy.accept()
      else {
        proxy.thaw()
        cut = proxy.size
        proxy.cut()
      }
      await until(
        () =>
          away.publish(ids).then(
            () => true,
            () => false,
          ),
        'the database to be back',
      )
      await until(async () => (await away.effects()).length >= ids.length, 'its effects')
      expect(tenants.most).toBeLessThanOrEqual(6 + cut)
    })
  })
}

describe.skipIf(!testStores().includes('postgres'))('a budget, and a URL with several hosts', () => {
  it('leads to the one that is there', async () => {
    const { host, username, pathname } = new URL(requireServer('postgres'))
    const nobody = `127.0.0.1:${await freePort()}`
    const budget = connectionBudget(4)
    const store = postgres({ url: `postgres://${username}@${nobody},${host}${pathname}`, budget })
    const hapax = createHapax({ store, source: '/shop', logger: silentLogger })
    const { rows } = await hapax.transaction((tx) => tx.query('select 1 as one'))
    expect(rows).toEqual([{ one: 1 }])
    await hapax.close()
    expect(budget).toMatchObject({ open: 0, busy: 0 })
  })
})
