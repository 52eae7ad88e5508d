import { randomUUID } from 'node:crypto'
import { createHapax, defineMessage, type Hapax, silentLogger } from 'hapax'
import { type MysqlOwn, type MysqlTx, mysql } from 'hapax/mysql'
import mysql2 from 'mysql2/promise'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { lookAt } from '../../src/core/sql/index.ts'
import { checks } from '../../src/stores/mysql/checkup.ts'
import { type Checker, makePlace } from '../support/databases.ts'

type Tx = MysqlTx<mysql2.PoolConnection>

const Ping = defineMessage('ping')
const ping = () => ({ id: randomUUID(), source: '/s', type: 'ping', data: {} })

let checker: Checker

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

  it('K14: of texts that differ each time do not stay on the server', async () => {
    const { hapax, pool } = hapaxOn()
    await hapax.transaction(async (tx) => {
      for (let n = 0; n < 50; n++) await tx.query(`select ? as a, ${n} as b`, [n])
      await expect(tx.query(`select cast(? as signed) + (select 1 union select 2) as c`, [1])).rejects.toThrow(
        'more than 1 row',
      )
    })
    expect(await prepared(pool)).toMatchObject({ left: 0 })
  })

  it('K14: of a text that comes again and again stays', async () => {
    const { hapax, pool } = hapaxOn()
    const text = `select ? as again, '${randomUUID()}' as mine`
    for (let n = 0; n < 20; n++) await hapax.transaction((tx) => tx.query(text, [n]))
    const { made, left } = await prepared(pool)
    expect(left).toBe(1)
    expect(made).toBeLessThan(5)
  })

  it('K14: may be run at the same time, each with its own values', async () => {
    const { hapax, pool } = hapaxOn()
    const answers = await hapax.transaction((tx) =>
      Promise.all(Array.from({ length: 20 }, (_, n) => tx.query(`select ? as n, ${n % 3} as text`, [`${n}`]))),
    )
    expect(answers.map(({ rows }) => rows[0]?.['n'])).toEqual(Array.from({ length: 20 }, (_, n) => `${n}`))
    expect((await prepared(pool)).left).toBeLessThanOrEqual(3)
  })

  it('K14: of large messages do not stay on the server', async () => {
    const { hapax, pool } = hapaxOn()
    const consumer = hapax.consumer('large').on(defineMessage<string>('large'), () => {})
    const data = 'x'.repeat(3 * 1024 * 1024)
    for (let n = 0; n < 3; n++) await consumer.handle({ ...ping(), type: 'large', data })
    expect(await prepared(pool)).toMatchObject({ made: 3, left: 0 })
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
