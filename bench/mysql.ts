import { randomUUID } from 'node:crypto'
import { createHapax, type Hapax, silentLogger } from 'hapax'
import { type MysqlTx, mysql as mysqlStore } from 'hapax/mysql'
import mysql2 from 'mysql2/promise'
import { chunks, heading, loops, type Measured, report, type Side, sideBySide } from './measure.ts'
import { messages, OrderPlaced } from './messages.ts'
import type { Bench, Part } from './part.ts'

export const mysql: Part = {
  name: 'mysql',
  about: 'transactions on MariaDB or MySQL / the same work by hand on mysql2',
  needs: ['mysql'],
  run,
}

const CONNECTIONS = 8
const GROUP_CONNECTIONS = 4

async function run(bench: Bench): Promise<void> {
  const uri = bench.url('mysql')
  const admin = await mysql2.createConnection({ uri, multipleStatements: true })
  await assertDurable(admin)
  await admin.query('drop database if exists bench; create database bench; use bench')
  await admin.query('create table business (id varchar(64) not null, amount int not null) engine = innodb')
  const pool = mysql2.createPool({ uri, database: 'bench', connectionLimit: CONNECTIONS })
  const hapax = createHapax({ store: mysqlStore({ pool }), source: '/bench', logger: silentLogger })
  await hapax.migrate()
  // By hand: the same columns and the same key as the receipts of hapax.
  await admin.query('create table receipts like hapax_receipts')

  heading(`MariaDB, ${CONNECTIONS} connections`)
  const single = await singles(bench, hapax, pool)
  report('one transaction per message / four statements by hand', single, 0.95, prepared(single))
  const inTurn = await groups(bench, hapax, pool)
  report('group of 100, handlers in turn / the same by hand', inTurn, 1, prepared(inTurn))
  const bulk = await many(bench, hapax, pool)
  report('onMany of 500 / bulk inserts by hand', bulk, undefined, prepared(bulk))
  await hapax.close()
  await pool.end()
  await admin.query('drop database bench')
  await admin.end()
}

/** The third side does the same by hand with prepared statements. */
function prepared({ floor = Number.NaN }: Measured): { readonly note: string } {
  return { note: `prepared by hand ${floor.toFixed(2)}` }
}

async function assertDurable(admin: mysql2.Connection): Promise<void> {
  const [rows] = await admin.query<mysql2.RowDataPacket[]>('select @@innodb_flush_log_at_trx_commit as durable')
  if (rows[0]?.['durable'] !== 1) throw new Error('expected innodb_flush_log_at_trx_commit to be 1')
}

type HapaxOnMysql = Hapax<MysqlTx<mysql2.PoolConnection>, unknown>
type Group = ReturnType<typeof messages>

const INSERT_EFFECT = 'insert into bench.business (id, amount) values (?, ?)'
const INSERT_RECEIPTS = (count: number): string => `
insert ignore into bench.receipts (consumer, message_key, token, source, id, type, fingerprint, taken_at)
values ${Array(count).fill('(?, ?, ?, ?, ?, ?, ?, utc_timestamp(6))').join(', ')}`

/** How statements with values are sent by hand: as text, as most code does, or prepared. */
type Way = 'query' | 'execute'
type Send = (text: string, values: (string | number | Buffer)[]) => Promise<unknown>

function singles({ rounds, size }: Bench, hapax: HapaxOnMysql, pool: mysql2.Pool): Promise<Measured> {
  const count = size(3000, 600)
  const consumer = hapax.consumer('billing').on(OrderPlaced, async (order, ctx) => {
    await ctx.tx.query(INSERT_EFFECT, [order.orderId, order.amount])
  })
  const side = (work: (message: Group[number]) => Promise<unknown>): Side => {
    return async () => {
      await loops(CONNECTIONS, messages(count), work)
      return count
    }
  }
  const insertReceipt = INSERT_RECEIPTS(1)
  const hand = (way: Way): Side =>
    side((message) =>
      byHand(pool, way, async (send) => {
        await send(insertReceipt, receiptsOf([message]))
        await send(INSERT_EFFECT, [message.data.orderId, message.data.amount])
      }),
    )
  return sideBySide(
    rounds,
    side((message) => consumer.handle(message)),
    hand('query'),
    hand('execute'),
  )
}

function groups({ rounds, size }: Bench, hapax: HapaxOnMysql, pool: mysql2.Pool): Promise<Measured> {
  const consumer = hapax.consumer('in-turn', { group: { size: 100 } }).on(OrderPlaced, async (order, ctx) => {
    await ctx.tx.query(INSERT_EFFECT, [order.orderId, order.amount])
  })
  const insertReceipts = INSERT_RECEIPTS(100)
  return grouped(
    rounds,
    size(20_000, 4000),
    100,
    (group) => consumer.handleMany(group),
    (way) => (group) =>
      byHand(pool, way, async (send) => {
        await send(insertReceipts, receiptsOf(group))
        for (const { data } of group) await send(INSERT_EFFECT, [data.orderId, data.amount])
      }),
  )
}

function many({ rounds, size }: Bench, hapax: HapaxOnMysql, pool: mysql2.Pool): Promise<Measured> {
  const insertEffects = `insert into bench.business (id, amount) values ${Array(500).fill('(?, ?)').join(', ')}`
  const consumer = hapax.consumer('stock', { group: { size: 500 } }).onMany(OrderPlaced, async (items, ctx) => {
    await ctx.tx.query(insertEffects, effectsOf(items))
  })
  const insertReceipts = INSERT_RECEIPTS(500)
  return grouped(
    rounds,
    size(60_000, 15_000),
    500,
    (group) => consumer.handleMany(group),
    (way) => (group) =>
      byHand(pool, way, async (send) => {
        await send(insertReceipts, receiptsOf(group))
        await send(insertEffects, effectsOf(group))
      }),
  )
}

type WorkGroup = (group: Group) => Promise<unknown>

function grouped(
  rounds: number,
  count: number,
  size: number,
  hapax: WorkGroup,
  hand: (way: Way) => WorkGroup,
): Promise<Measured> {
  const side = (work: WorkGroup): Side => {
    return async () => {
      await loops(GROUP_CONNECTIONS, chunks(messages(count), size), work)
      return count
    }
  }
  return sideBySide(rounds, side(hapax), side(hand('query')), side(hand('execute')))
}

async function byHand(pool: mysql2.Pool, way: Way, work: (send: Send) => Promise<unknown>): Promise<void> {
  const client = await pool.getConnection()
  await client.query('begin')
  await work((text, values) => (way === 'query' ? client.query(text, values) : client.execute(text, values)))
  await client.query('commit')
  client.release()
}

function receiptsOf(group: Group): (string | Buffer)[] {
  const token = bytesOf(randomUUID())
  return group.flatMap(({ id }) => ['by-hand', bytesOf(id), token, '/shop', id, OrderPlaced.type, Buffer.alloc(8)])
}

function effectsOf(items: readonly { readonly data: Group[number]['data'] }[]): (string | number)[] {
  return items.flatMap(({ data }) => [data.orderId, data.amount])
}

function bytesOf(uuid: string): Buffer {
  return Buffer.from(uuid.replaceAll('-', ''), 'hex')
}
