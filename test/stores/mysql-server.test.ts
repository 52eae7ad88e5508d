import { randomUUID } from 'node:crypto'
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/mysql2'
import { createHapax, defineMessage, type Hapax, silentLogger } from 'hapax'
import { fromDrizzle } from 'hapax/drizzle'
import { type MysqlOwn, type MysqlTx, mysql } from 'hapax/mysql'
import mysql2 from 'mysql2/promise'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { Lease } from '../../src/contracts/rows.ts'
import type { StoredMessage } from '../../src/message/message.ts'
import { fingerprint, messageKey } from '../../src/message/message.ts'
import { checks } from '../../src/stores/mysql/statements/checkup.ts'
import { dialect } from '../../src/stores/mysql/statements/sql.ts'
import { type Dialect, lookAt } from '../../src/stores/sql/index.ts'
import { type Checker, makePlace } from '../support/databases.ts'
import { noPrivateServer, privateServer } from '../support/private-server.ts'

type Tx = MysqlTx<mysql2.PoolConnection>

const Ping = defineMessage('ping')
const ping = () => ({ id: randomUUID(), source: '/s', type: 'ping', data: {} })

const OPTIONS = { lockTimeoutMs: 5_000, idleTimeoutMs: 60_000 }
const ROW = { ordered: false, attempts: 0, starts: 0, delayMs: 0, error: null }

function stored(id: string, data: Buffer): StoredMessage {
  const columns = { type: 'thing', key: null, attributes: '{}', data, fingerprint: fingerprint(data) }
  return { messageKey: messageKey('/s', id), source: '/s', id, ...columns }
}

let checker: Checker
const noServer = noPrivateServer('mysql')

beforeAll(async () => {
  checker = await makePlace('mysql')
})
afterAll(() => checker[Symbol.asyncDispose]())

/** A hapax on a pool of one connection, on which these statements are run first. */
function hapaxOn(...statements: readonly string[]): { hapax: Hapax<Tx, MysqlOwn>; pool: mysql2.Pool } {
  const pool = mysql2.createPool({ uri: checker.place.url, connectionLimit: 1 })
  pool.on('connection', (connection) => {
    for (const statement of statements) connection.query(statement)
  })
  onTestFinished(() => pool.end())
  const store = mysql({ pool, control: { url: checker.place.url } })
  const hapax = createHapax({ store, source: '/test', logger: silentLogger })
  onTestFinished(() => hapax.close())
  return { hapax, pool }
}

async function isMariadb(): Promise<boolean> {
  const [row] = await checker.query('select version() as version')
  return /mariadb/i.test(String(row?.['version']))
}

describe('prepared statements', () => {
  /** How many statements the connection of a pool has prepared, and how many of them are still there. */
  async function prepared(pool: mysql2.Pool): Promise<{ made: number; left: number }> {
    const [rows] = await pool.query<mysql2.RowDataPacket[]>(`show session status like 'Com_stmt%'`)
    const counts = new Map(rows.map((row) => [row['Variable_name'], Number(row['Value'])]))
    const count = (name: string): number => counts.get(`Com_stmt_${name}`) ?? 0
    // MySQL prepares a statement anew when a value is of another type than it had guessed.
    const made = count('prepare') - count('reprepare')
    return { made, left: made - count('close') }
  }

  /** What hapax itself prepares, because it comes again and again, is there afterwards. */
  async function begunOften(hapax: Hapax<Tx, MysqlOwn>): Promise<void> {
    for (let n = 0; n < 4; n++) await hapax.transaction((tx) => tx.query('select 1'))
  }

  it('K14: of texts that differ each time do not stay on the server', async () => {
    const { hapax, pool } = hapaxOn()
    await begunOften(hapax)
    const before = await prepared(pool)
    await hapax.transaction(async (tx) => {
      for (let n = 0; n < 50; n++) await tx.query(`select ? as a, ${n} as b`, [n])
      await expect(tx.query(`select cast(? as signed) + (select 1 union select 2) as c`, [1])).rejects.toThrow(
        'more than 1 row',
      )
    })
    expect((await prepared(pool)).left - before.left).toBe(0)
  })

  it('K14: of a text that comes again and again stays', async () => {
    const { hapax, pool } = hapaxOn()
    await begunOften(hapax)
    const before = await prepared(pool)
    const text = `select ? as again, '${randomUUID()}' as mine`
    for (let n = 0; n < 20; n++) await hapax.transaction((tx) => tx.query(text, [n]))
    const { made, left } = await prepared(pool)
    expect(left - before.left).toBe(1)
    expect(made - before.made).toBeLessThan(5)
  })

  it('K14: may be run at the same time, each with its own values', async () => {
    const { hapax, pool } = hapaxOn()
    await begunOften(hapax)
    const before = await prepared(pool)
    const answers = await hapax.transaction((tx) =>
      Promise.all(Array.from({ length: 20 }, (_, n) => tx.query(`select ? as n, ${n % 3} as text`, [`${n}`]))),
    )
    expect(answers.map(({ rows }) => rows[0]?.['n'])).toEqual(Array.from({ length: 20 }, (_, n) => `${n}`))
    expect((await prepared(pool)).left - before.left).toBeLessThanOrEqual(3)
  })

  it('K14: of large messages do not stay on the server', async () => {
    const pool = mysql2.createPool({ uri: checker.place.url, connectionLimit: 1 })
    onTestFinished(() => pool.end())
    const store = mysql({ pool })
    await begunOften(createHapax({ store, source: '/test', logger: silentLogger }))
    const before = await prepared(pool)
    for (const id of ['a', 'b', 'c']) {
      const writes = {
        outbox: [{ relay: 'default', message: stored(id, Buffer.alloc(3 * 1024 * 1024)), delayMs: 0 }],
      }
      await store.transactions.run(OPTIONS, { kind: 'plain' }, async () => ({ value: undefined, writes }))
    }
    expect(await prepared(pool)).toEqual({ made: before.made + 3, left: before.left })
  })
})

describe('round trips', () => {
  const ways = [
    { pool: {}, mariadb: 2, mysql: 8 },
    { pool: { multipleStatements: true }, mariadb: 2, mysql: 2 },
  ]
  it.for(ways)(
    'of one message beyond the handler’s own, with $pool: $mariadb on MariaDB, $mysql on MySQL',
    async (way) => {
      const pool = mysql2.createPool({ uri: checker.place.url, connectionLimit: 1, ...way.pool })
      onTestFinished(() => pool.end())
      const store = mysql({ pool, control: { url: checker.place.url } })
      const hapax = createHapax({ store, source: '/test', logger: silentLogger })
      onTestFinished(() => hapax.close())
      const consumer = hapax.consumer(`counted-${way.mysql}`, { group: { size: 3 } }).on(Ping, async (_, { tx }) => {
        await tx.query('select 1')
      })
      let sent = 0
      pool.on('connection', (connection) => {
        for (const method of ['query', 'execute'] as const) {
          const original = connection[method].bind(connection) as (...args: unknown[]) => unknown
          const value = (...args: unknown[]): unknown => {
            sent += 1
            return original(...args)
          }
          Object.defineProperty(connection, method, { value })
        }
      })
      const rounds = async (work: () => Promise<unknown>): Promise<number> => {
        const before = sent
        await work()
        return sent - before
      }
      // What a connection is asked once, and what stays prepared.
      for (let n = 0; n < 4; n++) await consumer.handle(ping())
      const beyond = (await isMariadb()) ? way.mariadb : way.mysql
      expect(await rounds(() => consumer.handle(ping()))).toBe(beyond + 1)
      expect(await rounds(() => consumer.handleMany([ping(), ping(), ping()]))).toBe(beyond + 3)
    },
  )

  it('K14: are the same on a server that prepares no more statements', { skip: noServer !== undefined }, async () => {
    await using server = await privateServer('mysql', { args: ['--max-prepared-stmt-count=0'] })
    const store = mysql({ url: server.url })
    const hapax = createHapax({ store, source: '/test', logger: silentLogger })
    onTestFinished(() => hapax.close())
    await hapax.migrate()
    const consumer = hapax.consumer('unprepared').on(Ping, async (_, { tx }) => {
      await tx.query('select 1')
    })
    for (let n = 0; n < 5; n++) expect((await consumer.handle(ping())).status).toBe('processed')
  })
})

describe('the error of a statement', () => {
  it('says where the handler sent it, with and without values', async () => {
    const { hapax } = hapaxOn()
    async function sentHere(tx: Tx, values: readonly unknown[]): Promise<void> {
      await tx.query(
        'select nothing from nowhere where 1 = coalesce(?, 1)'.replace('?', values.length ? '?' : '1'),
        values,
      )
    }
    for (const values of [[], [1]]) {
      const error = await hapax.transaction((tx) => sentHere(tx, values)).catch((thrown: Error) => thrown)
      expect(error).toMatchObject({ errno: 1146 })
      expect(String(error?.stack)).toMatch(/nowhere.*\n\s+at (async )?sentHere /)
    }
  })
})

describe('a handler that outlives its time', () => {
  it('K14: is ended on the server, and nobody else who has the number of its connection there', async () => {
    const other = await mysql2.createConnection(checker.place.url)
    onTestFinished(() => other.end())
    await other.query('begin')
    await other.query(`insert into effects (consumer, id) values ('other', 'kept')`)
    // As it is after a fail-over, on another server of a cluster, or behind a proxy.
    const { hapax } = hapaxOn(`set pseudo_thread_id = ${other.threadId}`)
    const consumer = hapax.consumer('slow', { timeoutMs: 50 }).on(Ping, async (_, { tx, attempt }) => {
      await tx.query(`insert into effects (consumer, id) values ('slow', '${attempt}')`)
      await tx.query('do sleep(60)')
    })
    expect(await consumer.handle(ping())).toMatchObject({ status: 'retrying', error: { code: 'handler-timeout' } })
    await other.query('commit')
    expect(await checker.query('select consumer from effects')).toMatchObject([{}])
  })
})

describe('statements that lock', () => {
  const uuid = '00000000-0000-7000-8000-000000000001'

  const all = (sql: Dialect, seqs: readonly string[], leases: readonly Lease[]) => ({
    claim: [sql.inbox.claim(seqs), sql.inbox.claim(seqs, 'serializable'), sql.inbox.lockAll(seqs, 1_000)],
    settle: sql.inbox.delete(seqs),
    confirm: [
      sql.outbox.lockFree(seqs),
      sql.sent.copy(seqs),
      sql.outbox.delete(seqs),
      sql.outbox.deleteConfirmed(seqs),
    ],
    bury: [sql.workers.suspect(seqs), sql.workers.crashed(seqs), sql.workers.leave(['w1', 'w2'])],
    lease: [sql.leases.lockDue(seqs, uuid), sql.leases.lease(seqs, uuid, 1_000)],
    renew: [sql.leases.renewable?.(leases), sql.leases.renew(leases, 1_000)],
    aside: [sql.aside.inbox.heads(seqs), sql.aside.inbox.free(seqs), sql.aside.outbox.putHeads(seqs, true)],
    forward: [sql.aside.inbox.putBehind(seqs), sql.aside.inbox.forward(seqs)],
  })

  it('K23: find their rows by key, however few there are', async () => {
    const sql = dialect(new URL(checker.place.url).pathname.slice(1), 'hapax_')
    const client = await mysql2.createConnection(checker.place.url)
    onTestFinished(() => client.end())
    // Without rows there is nothing to plan.
    const store = mysql({ url: checker.place.url, max: 1 })
    onTestFinished(() => store.close())
    const messages = ['a', 'b', 'c'].map((id) => stored(id, Buffer.from('{}')))
    await store.transactions.run(OPTIONS, { kind: 'plain' }, async () => ({
      value: undefined,
      writes: {
        inbox: messages.map((message) => ({ ...ROW, consumer: 'locks', message })),
        outbox: messages.map((message) => ({ relay: 'locks', message, delayMs: 0 })),
      },
    }))
    for (const id of ['w1', 'w2', 'w3']) await store.workers.join({ id, name: id, ttlMs: 1_000, serves: '{}' })
    const names = await checker.query(
      `select concat(seq, '-', mark) as seq from hapax_inbox where consumer = 'locks' limit 2`,
    )
    const seqs = names.map(({ seq }) => String(seq))
    const held = seqs.map((seq) => ({ seq, token: uuid, fence: 1 }))
    const searches: string[] = []
    for (const [name, statements] of Object.entries(all(sql, seqs, held))) {
      for (const { text, params } of statements.filter((each) => each !== undefined)) {
        const [plan] = await client.query<mysql2.RowDataPacket[]>(
          `explain format = traditional ${text.replace(/\/\*M!.*?\*\//, '')}`,
          [...params],
        )
        const tables = plan.filter(({ table }) => ['m', 'f', 'p'].includes(table))
        expect(tables, text).not.toEqual([])
        for (const { table, type } of tables) {
          if (!['eq_ref', 'ref', 'const'].includes(type)) searches.push(`${name}: ${table} by ${type} in ${text}`)
        }
      }
    }
    expect(searches).toEqual([])
  })
})

describe('doctor', () => {
  /** What it finds wrong with these settings of a server. */
  async function complaints(settings: Record<string, string>): Promise<readonly string[]> {
    const check = checks('hapax', 'hapax_').filter(({ statement }) => statement.text.includes('binlog_format'))
    const rows = Object.entries(settings).map(([Variable_name, Value]) => ({ Variable_name, Value }))
    const findings = await lookAt(async () => ({ rows, affected: 0 }), check)
    return findings.filter(({ level }) => level !== 'ok').map(({ message }) => message)
  }

  it('K14: refuses logs of statements where there are replicas', async () => {
    const fine = { innodb_flush_log_at_trx_commit: '1', sync_binlog: '1', log_bin: 'ON' }
    expect(await complaints({ ...fine, binlog_format: 'STATEMENT' })).toEqual([
      expect.stringMatching(/^binlog_format is STATEMENT/),
    ])
    for (const binlog_format of ['ROW', 'MIXED']) expect(await complaints({ ...fine, binlog_format })).toEqual([])
    expect(await complaints({ ...fine, log_bin: 'OFF', binlog_format: 'STATEMENT' })).toEqual([])
    expect(await complaints(fine)).toEqual([])
  })
})

describe.skipIf(noServer !== undefined)('a server that calls itself TiDB', () => {
  it('is refused in a sentence before anything is written, through a URL and through an ORM', async () => {
    await using server = await privateServer('mysql', { args: ['--version=8.0.11-TiDB-v8.5.1'] })
    const pool = mysql2.createPool(server.url)
    onTestFinished(() => pool.end())
    const stores = [
      mysql({ url: server.url }),
      mysql(fromDrizzle(drizzle({ client: pool }), sql), { database: 'hapax' }),
    ]
    for (const store of stores) {
      onTestFinished(() => store.close())
      const refused = {
        code: 'unsupported-server',
        message: expect.stringContaining('accepts SKIP LOCKED and locks nothing'),
      }
      await expect(store.schema.migrate()).rejects.toMatchObject(refused)
    }
    const [tables] = await pool.query("show tables like 'hapax%'")
    expect(tables).toEqual([])
  })
})
