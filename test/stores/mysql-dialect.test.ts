import { randomBytes, randomUUID } from 'node:crypto'
import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { createHapax, defineMessage, isHapaxError, silentLogger } from 'hapax'
import callbacks from 'mysql2'
import mysql2 from 'mysql2/promise'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { Audit, Finding } from '../../src/contracts/admin.ts'
import type { InboxRow, Receipt } from '../../src/contracts/rows.ts'
import type { Entry, Look, Opening, Share, Store } from '../../src/contracts/store.ts'
import { LANES, numberOf } from '../../src/message/lanes.ts'
import type { StoredMessage } from '../../src/message/message.ts'
import { fingerprint, messageKey } from '../../src/message/message.ts'
import { type MysqlOwn, type MysqlTx, mysql } from '../../src/stores/mysql/index.ts'
import { lockWaitSet } from '../../src/stores/mysql/statements/fragments.ts'
import { status } from '../../src/stores/mysql/statements/status.ts'
import { MYSQL_ONLY, mysqlReset } from '../../src/stores/sql/connection/mysql-session.ts'
import { requireServer } from '../support/servers.ts'
import { uncaughtErrors } from '../support/uncaught.ts'

type PoolStore = Store<MysqlTx<mysql2.PoolConnection>, MysqlOwn>

const options = { lockTimeoutMs: 30_000, idleTimeoutMs: 60_000 }
/** How many rows wait in the outbox. */
const outboxOf = async (store: Store<MysqlTx, MysqlOwn>): Promise<number> =>
  (await store.admin.status()).relays.reduce((sum, { waiting, held }) => sum + waiting + held, 0)
const database = `hapax_${randomBytes(6).toString('hex')}`
let admin: mysql2.Connection
let store: PoolStore
let shared: mysql2.Pool

beforeAll(async () => {
  admin = await mysql2.createConnection(requireServer('mysql'))
  admin.on('error', () => {})
  await admin.query(`create database ${database}`)
  await admin.query(`use ${database}`)
  await admin.query('create table effects (id int primary key, note varchar(100)) engine = innodb')
  shared = poolWith()
  store = storeOn(shared)
  await store.schema.migrate()
})

afterAll(async () => {
  await shared.end()
  await admin.query(`drop database ${database}`)
  await admin.end()
})

function poolWith(settings: mysql2.PoolOptions = {}): mysql2.Pool {
  return mysql2.createPool({ uri: requireServer('mysql'), database, connectionLimit: 4, ...settings })
}

function storeOn(pool: mysql2.Pool): PoolStore {
  return mysql({ pool })
}

/** A store on a pool with these settings, and with these statements run on every new connection. */
function storeWith(settings: mysql2.PoolOptions, ...statements: string[]): PoolStore {
  const pool = poolWith(settings)
  pool.on('connection', (connection) => {
    for (const statement of statements) connection.query(statement)
  })
  onTestFinished(() => pool.end())
  return storeOn(pool)
}

function message(id: string = randomUUID(), more: Partial<StoredMessage> = {}): StoredMessage {
  const source = more.source ?? '/test'
  const data = more.data ?? Buffer.from('{}')
  const key = messageKey(source, id)
  const columns = { type: 'thing.done', key: null, attributes: '{}', data, fingerprint: fingerprint(data) }
  return { messageKey: key, source, id, ...columns, ...more }
}

function taking(consumer: string, ...messages: StoredMessage[]): Opening & { kind: 'take' } {
  return { kind: 'take', consumer, token: randomUUID(), messages }
}

/** Takes messages and commits; answers the receipts that were there before. */
function take(on: PoolStore, opening: Opening): Promise<ReadonlyMap<string, Receipt>> {
  return on.transactions.run(options, opening, async ({ existing }) => ({ value: existing, writes: {} }))
}

function inboxRow(consumer: string, stored: StoredMessage, delayMs = 0) {
  return { consumer, message: stored, ordered: stored.key !== null, attempts: 0, starts: 0, delayMs, error: null }
}

const audit: Audit = { actor: 'tester', action: 'discard' }

/** What waits for a consumer. */
async function look(on: PoolStore, consumer: string, other: Partial<Share> = {}): Promise<Look> {
  const lanes = [...Array(LANES).keys()]
  const share = {
    table: 'inbox',
    scope: consumer,
    types: ['thing.done'],
    lanes,
    limit: 100,
    after: new Map(),
    all: true,
    ...other,
  } as const
  const [found] = await on.workers.look([share])
  return found as Look
}

async function waiting(on: PoolStore, consumer: string, types?: readonly string[]): Promise<readonly Entry[]> {
  return (await look(on, consumer, types && { types })).entries
}

/** What a transaction on these rows gets; it takes nothing. */
function claim(on: PoolStore, seqs: readonly string[], more = {}): Promise<readonly InboxRow[]> {
  const opening = { kind: 'claim', seqs, locked: 'skip' } as const
  return on.transactions.run({ ...options, ...more }, opening, async ({ claimed }) => ({
    value: [...claimed.values()],
    writes: undefined,
  }))
}

async function storeInInbox(on: PoolStore, consumer: string, ...messages: StoredMessage[]): Promise<string[]> {
  const inbox = messages.map((each) => inboxRow(consumer, each))
  await on.transactions.run(options, { kind: 'plain' }, async () => ({ value: undefined, writes: { inbox } }))
  const seqs = await Promise.all(messages.map((each) => on.inbox.find(consumer, each.messageKey)))
  return seqs.map((seq) => seq ?? '')
}

async function effects(): Promise<number[]> {
  const [rows] = await admin.query<mysql2.RowDataPacket[]>('select id from effects order by id')
  return rows.map((row) => row['id'])
}

/** The server keeps its answer for as long as it is asked again within 100 ms. */
async function untilWaiting(): Promise<void> {
  await expect
    .poll(
      async () => {
        const [rows] = await admin.query<mysql2.RowDataPacket[]>(
          `select count(*) as n from information_schema.innodb_trx t
             join information_schema.processlist p on p.id = t.trx_mysql_thread_id
           where t.trx_state = 'LOCK WAIT' and p.db = ?`,
          [database],
        )
        return rows[0]?.['n']
      },
      { interval: 150, timeout: 40_000 },
    )
    .toBe(1)
}

/** Runs what met a conflict again, as the engine does: with snapshot isolation MariaDB refuses to lock what has changed. */
async function untilNoConflict<T>(run: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await run()
    } catch (error) {
      if (!isHapaxError(error, 'transaction-conflict')) throw error
    }
  }
}

/** A promise that is settled from outside. */
function gate(): { opened: Promise<void>; open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { opened: promise, open: resolve }
}

describe.for([{ flags: [] }, { flags: ['-FOUND_ROWS'] }])('with $flags', ({ flags }) => {
  it('takes a message once and shows the receipt to the second', async () => {
    const own = storeWith({ flags })
    const opening = taking('flags', message(), message())
    expect((await take(own, opening)).size).toBe(0)
    const again = await take(own, { ...opening, token: randomUUID() })
    expect([...again.values()].map(({ token }) => token)).toEqual([opening.token, opening.token])
  })

  it('tells new from known messages in one group', async () => {
    const own = storeWith({ flags })
    const known = message()
    await take(own, taking('flags', known))
    const existing = await take(own, taking('flags', message(), known, message()))
    expect([...existing.keys()]).toEqual([known.messageKey])
  })

  it('records a failed attempt on the row that is there', async () => {
    const own = storeWith({ flags })
    const [seq = ''] = await storeInInbox(own, 'flags', message())
    const attempt = {
      leaseToken: null,
      attempts: 1,
      lost: 0,
      delayMs: 1000,
      error: { name: 'Error', message: 'no' },
      entry: '{}',
    }
    expect(await own.inbox.reschedule({ seq, ...attempt })).toBe(true)
    expect(await own.inbox.reschedule({ seq: '999999999-1', ...attempt })).toBe(false)
  })
})

describe('identity', () => {
  const ids = ['Abc', 'abc', 'ABC ', 'Abc ', 'Abç', 'Abc\0', '\u0001Abc%00', 'Abc\\', "A'bc", '𝕏'.repeat(512)]

  it('keeps ids apart that differ in case, padding, accents or control characters', async () => {
    const existing = await take(store, taking('exact', ...ids.map((id) => message(id))))
    expect(existing.size).toBe(0)
    for (const id of ids) {
      const again = await take(store, taking('exact', message(id)))
      expect([...again.values()].map((receipt) => receipt.id)).toEqual([id])
      expect(await store.admin.trace(id)).toMatchObject([{ where: 'receipt', consumer: 'exact', source: '/test' }])
    }
  })

  it('keeps consumers apart that differ in case or padding', async () => {
    const one = message()
    for (const consumer of ['Reader', 'reader', 'Reader ']) {
      expect((await take(store, taking(consumer, one))).size).toBe(0)
      expect((await take(store, taking(consumer, one))).size).toBe(1)
    }
  })

  it('stores the same bytes whatever the connection is set to', async () => {
    const odd = storeWith(
      { charset: 'latin1', rowsAsArray: true, typeCast: () => 'cast', namedPlaceholders: true, dateStrings: true },
      `set sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'`,
    )
    const sent = message("é\\'?\0", { key: 'ключ', type: 'ты?pe', data: Buffer.from([0, 39, 92, 255]) })
    const [seq = ''] = await storeInInbox(odd, 'odd', sent)
    expect(Number(numberOf(seq))).toBeGreaterThan(0)
    for (const each of [store, odd])
      expect(await claim(each, [seq])).toMatchObject([{ consumer: 'odd', message: sent }])
    expect(await waiting(odd, 'odd')).toMatchObject([{ seq, key: 'ключ', type: 'ты?pe', bytes: 4 }])
  })
})

describe('a handler’s transaction', () => {
  it('A7: does not commit after a lock timeout that the handler swallowed', async () => {
    const held = message()
    const holder = await shared.getConnection()
    onTestFinished(() => holder.rollback().finally(() => holder.release()))
    const impatient = storeWith({}, 'set session innodb_lock_wait_timeout = 1')
    await holder.query('start transaction')
    await holder.query(`insert into effects values (1, 'held')`)
    const outcome = impatient.transactions.run(options, taking('doom', held), async ({ tx }) => {
      await tx.query(`insert into effects values (2, 'partial')`)
      await tx.query('insert into effects values (1, null)').catch(() => {})
      await expect(tx.query('select 1')).rejects.toMatchObject({ code: 'transaction-conflict' })
      return { value: undefined, writes: {} }
    })
    await expect(outcome).rejects.toMatchObject({ code: 'transaction-conflict' })
    await holder.query('rollback')
    expect(await effects()).toEqual([])
    expect((await take(store, taking('doom', held))).size).toBe(0)
  })

  it('A6: takes no more statements after a deadlock that the handler swallowed', async () => {
    await admin.query(`insert into effects values (11, ''), (12, '')`)
    onTestFinished(async () => void (await admin.query('delete from effects')))
    const lost = message()
    const other = await shared.getConnection()
    onTestFinished(() => other.release())
    await other.query('start transaction')
    // The heavier transaction survives a deadlock.
    await other.query(`insert into effects values (13, ''), (14, ''), (15, ''), (16, '')`)
    await other.query(`update effects set note = 'other' where id = 12`)
    const outcome = store.transactions.run(options, taking('doom', lost), async ({ tx }) => {
      const { client } = tx
      await tx.query(`update effects set note = 'ours' where id = 11`)
      const waiting = other.query(`update effects set note = 'other' where id = 11`)
      await untilWaiting()
      await tx.query('update effects set note = ? where id = ?', ['ours', 12]).catch(() => {})
      await waiting
      await expect(tx.query(`insert into effects values (17, '')`)).rejects.toThrow('gave up this transaction')
      expect(() => client.query(`insert into effects values (18, '')`)).toThrow('gave up this transaction')
      expect(() => client.connection).toThrow('gave up this transaction')
      await expect(
        store.transactions.enter(tx).writeOutbox([{ relay: 'default', message: message(), delayMs: 0 }]),
      ).rejects.toMatchObject({ code: 'transaction-conflict' })
      return { value: undefined, writes: {} }
    })
    await expect(outcome).rejects.toMatchObject({ code: 'transaction-conflict' })
    await other.query('rollback')
    expect(await effects()).toEqual([11, 12])
    expect(await outboxOf(store)).toBe(0)
    expect((await take(store, taking('doom', lost))).size).toBe(0)
  })

  it('K23: runs again without an attempt when MariaDB refuses to lock a row that has changed since its snapshot', async (context) => {
    const [variable] = await admin.query<mysql2.RowDataPacket[]>(`show variables like 'innodb_snapshot_isolation'`)
    if (variable.length === 0) return context.skip('this server has no innodb_snapshot_isolation')
    await admin.query(`insert into effects values (21, '0')`)
    onTestFinished(async () => void (await admin.query('delete from effects')))
    const own = storeWith({}, 'set innodb_snapshot_isolation = on')
    const attempts: number[] = []
    const consumer = createHapax({ store: own, source: '/test', logger: silentLogger })
      .consumer('snapshot', { isolation: 'repeatable read' })
      .on(defineMessage('ping'), async (_, { tx, attempt }) => {
        await tx.query('select note from effects where id = 21')
        if (attempts.push(attempt) === 1) await admin.query(`update effects set note = '1' where id = 21`)
        await tx.query('update effects set note = note + 1 where id = 21')
      })
    const outcome = await consumer.handle({ id: randomUUID(), source: '/s', type: 'ping', data: {} })
    expect(outcome).toMatchObject({ status: 'processed' })
    expect(attempts).toEqual([1, 1])
    expect((await admin.query('select note from effects where id = 21'))[0]).toEqual([{ note: '2' }])
  })

  it.for([
    ['DDL', 'create table if not exists ddl (id int)'],
    ['COMMIT', 'commit'],
    ['ROLLBACK', 'rollback'],
    ['a new transaction', 'start transaction'],
  ])('A5: notices that the handler ended it by %s', async ([, statement = '']) => {
    const run = (after: () => void) =>
      store.transactions.run(options, taking('atomic', message()), async ({ tx }) => {
        await tx.query(statement)
        after()
        return { value: undefined, writes: {} }
      })
    await expect(run(() => {})).rejects.toMatchObject({ code: 'broken-atomicity' })
    const throwing = run(() => {
      throw new Error('and then it failed')
    })
    await expect(throwing).rejects.toMatchObject({ code: 'broken-atomicity' })
  })

  it('notices a query that was not awaited, and is dead when it has settled', async () => {
    let leaked: MysqlTx<mysql2.PoolConnection> | undefined
    const outcome = store.transactions.run(options, { kind: 'plain' }, async ({ tx }) => {
      leaked = tx
      void tx.query('do sleep(0.05)')
      return { value: undefined, writes: {} }
    })
    await expect(outcome).rejects.toMatchObject({ code: 'unawaited-query' })
    await expect(leaked?.query('select 1')).rejects.toMatchObject({ code: 'transaction-closed' })
    expect(() => leaked?.client.query('select 1')).toThrow('has settled')
  })

  it('is not ended, and the process neither, by a query that failed and was not awaited', async () => {
    const uncaught = uncaughtErrors()
    const value = await store.transactions.run(options, { kind: 'plain' }, async ({ tx }) => {
      void tx.query('select nothing from nowhere')
      const { rows } = await tx.query('select 1 as one')
      return { value: rows, writes: {} }
    })
    await new Promise(setImmediate)
    expect(value).toEqual([{ one: 1 }])
    expect(uncaught).toEqual([])
  })

  it('binds an object as one value', async () => {
    const value = await store.transactions.run(options, { kind: 'plain' }, async ({ tx }) => {
      const { rows, rowCount } = await tx.query('select ? as value, ? as number', [{ id: 1 }, 2])
      return { value: [rows[0], rowCount], writes: undefined }
    })
    expect(value).toEqual([{ value: '{"id":1}', number: 2 }, 1])
  })
})

describe('locks', () => {
  it('finds a receipt busy after the lock timeout, and leaves the session’s own timeout alone', async () => {
    const opening = taking('locks', message())
    const [inside, finish] = [gate(), gate()]
    const first = store.transactions.run(options, opening, async () => {
      inside.open()
      await finish.opened
      return { value: undefined, writes: undefined }
    })
    await inside.opened
    const second = store.transactions.run(
      { ...options, lockTimeoutMs: 1 },
      { ...opening, token: randomUUID() },
      async () => {
        throw new Error('two at once')
      },
    )
    await expect(second).rejects.toMatchObject({ code: 'busy' })
    finish.open()
    await first
    const [rows] = await shared.query(
      'select @@session.innodb_lock_wait_timeout = @@global.innodb_lock_wait_timeout as same',
    )
    expect(rows).toEqual([{ same: 1 }])
    expect((await take(store, { ...opening, token: randomUUID() })).size).toBe(0)
  })

  it('puts the lock timeout of a MySQL session back to what it was', async () => {
    const inner = (text: string): string => text.replace(MYSQL_ONLY, '').replace('*/', '')
    const timeout = async (): Promise<unknown> => (await admin.query('select @@innodb_lock_wait_timeout as t'))[0]
    await admin.query('set session innodb_lock_wait_timeout = 33')
    await admin.query(inner(lockWaitSet(2500)))
    expect(await timeout()).toEqual([{ t: 3 }])
    await admin.query(inner(lockWaitSet(1000)))
    await admin.query(inner(mysqlReset.text))
    expect(await timeout()).toEqual([{ t: 33 }])
  })

  it.for(['read committed', 'repeatable read', 'serializable'] as const)(
    'shows a waiting duplicate the receipt of the winner under %s',
    async (isolation) => {
      const opening = taking('locks', message())
      const [inside, finish] = [gate(), gate()]
      const first = store.transactions.run({ ...options, isolation }, opening, async () => {
        inside.open()
        await finish.opened
        return { value: undefined, writes: {} }
      })
      await inside.opened
      const second = untilNoConflict(() =>
        store.transactions.run(
          { ...options, isolation },
          { ...opening, token: randomUUID() },
          async ({ existing }) => ({
            value: [...existing.values()],
            writes: undefined,
          }),
        ),
      )
      await untilWaiting()
      finish.open()
      await first
      expect(await second).toMatchObject([{ token: opening.token }])
    },
  )

  it('does not keep others from the inbox while it looks for rows that are gone', async () => {
    const seqs = ['900000000000000001', '900000000000000002']
    const value = await store.transactions.run(options, { kind: 'claim', seqs, locked: 'skip' }, async (unit) => {
      const inserted = await storeInInbox(store, 'gaps', message())
      return { value: [unit.claimed.size, inserted.length], writes: undefined }
    })
    expect(value).toEqual([0, 1])
  })

  it.for([true, false])('D5: of a row of the outbox do not keep its neighbours (copied to sent: %s)', async (keep) => {
    const relay = `locked-${keep}`
    const outbox = [1, 2, 3].map((n) => ({ relay, message: message(`${relay} ${n}`), delayMs: 0 }))
    await store.transactions.run(options, { kind: 'plain' }, async () => ({ value: undefined, writes: { outbox } }))
    const seqs = async (): Promise<string[]> =>
      (await look(store, relay, { table: 'outbox', types: [] })).entries.map(({ seq }) => seq).sort()
    const all = await seqs()
    expect(all).toHaveLength(3)
    const lock = await shared.getConnection()
    onTestFinished(() => lock.rollback().finally(() => lock.release()))
    await lock.query('begin')
    await lock.query('select seq from hapax_outbox where seq = ? for update', [all[1]])
    expect(await store.outbox.confirm(all, keep)).toEqual([all[1]])
    expect(await seqs()).toEqual([all[1]])
    await lock.query('rollback')
    expect(await store.outbox.confirm(all, keep)).toEqual([])
    expect(await seqs()).toEqual([])
    expect((await store.sent.seqs({ relay }, undefined, 10)).length).toBe(keep ? 3 : 0)
  })

  it('hands out a small inbox to many workers at once without a deadlock', async () => {
    const messages = Array.from({ length: 20 }, (_, index) =>
      message(undefined, { key: index % 2 ? `${index % 3}` : null }),
    )
    await storeInInbox(store, 'crowd', ...messages)
    const ran: string[] = []
    const work = async (): Promise<void> => {
      for (;;) {
        const seqs = (await waiting(store, 'crowd')).map((entry) => entry.seq)
        if (seqs.length === 0) return
        const opening = { kind: 'claim', seqs: [...seqs.slice(0, 7), '900000000000000001'], locked: 'skip' } as const
        const got = await store.transactions.run(options, opening, async ({ claimed }) => ({
          value: [...claimed.values()].map((row) => row.message.id),
          writes: {},
        }))
        ran.push(...got)
      }
    }
    await Promise.all([work(), work(), work(), work()])
    expect(ran.toSorted()).toEqual(messages.map((each) => each.id).sort())
  })

  it('ends the transaction on the server when it is aborted', async () => {
    const opening = taking('abort', message())
    const controller = new AbortController()
    const stuck = store.transactions.run({ ...options, signal: controller.signal }, opening, async ({ tx }) => {
      queueMicrotask(() => controller.abort(new Error('too late')))
      await tx.query('do sleep(60)')
      return { value: undefined, writes: {} }
    })
    await expect(stuck).rejects.toThrow('too late')
    expect((await take(store, { ...opening, token: randomUUID() })).size).toBe(0)
  })

  it('does not wait for a connection any longer when it is aborted', async () => {
    const pool = poolWith({ connectionLimit: 1 })
    onTestFinished(() => pool.end())
    const only = await pool.getConnection()
    const signal = AbortSignal.abort(new Error('too late'))
    const controller = new AbortController()
    const own = storeOn(pool)
    const nothing = async () => ({ value: undefined, writes: undefined })
    await expect(own.transactions.run({ ...options, signal }, { kind: 'plain' }, nothing)).rejects.toThrow('too late')
    const waiting = own.transactions.run({ ...options, signal: controller.signal }, { kind: 'plain' }, nothing)
    pool.once('enqueue', () => controller.abort(new Error('too late')))
    await expect(waiting).rejects.toThrow('too late')
    only.release()
    await own.transactions.run(options, { kind: 'plain' }, nothing)
  })
})

describe('order', () => {
  const levels = ['read committed', 'repeatable read', 'serializable'] as const

  it.for(levels)('lets nobody pass a row that another worker has in hand: %s', async (isolation) => {
    const consumer = `order ${isolation}`
    const keyed = ['a', 'a', 'b'].map((key) => message(undefined, { key }))
    const [first = '', second = '', other = ''] = await storeInInbox(store, consumer, ...keyed)
    expect(await claim(store, [second], { isolation })).toEqual([])
    expect(await claim(store, [other, second, first], { isolation })).toMatchObject([
      { seq: first, ordered: true },
      { seq: second },
      { seq: other },
    ])
    const holder = await shared.getConnection()
    onTestFinished(() => holder.release())
    await holder.query('start transaction')
    await holder.query('delete from hapax_inbox where seq = ?', [numberOf(first)])
    expect(await claim(store, [first, second, other], { isolation })).toMatchObject([{ seq: other }])
    await holder.query('rollback')
    await store.inbox.fail({
      seq: first,
      attempts: 1,
      reason: 'permanent',
      error: { name: 'E', message: 'm' },
      entry: '{}',
      leaseToken: null,
      hold: true,
    })
    expect(await claim(store, [first, second, other], { isolation })).toMatchObject([{ seq: other }])
  })

  it.for([undefined, 'serializable'] as const)(
    'K5: is kept where sessions read what is not committed: %s',
    async (isolation) => {
      const dirty = storeWith({}, 'set session transaction isolation level read uncommitted')
      const keyed = ['a', 'a'].map((key) => message(undefined, { key }))
      const [first = '', second = ''] = await storeInInbox(store, `uncommitted ${isolation}`, ...keyed)
      const holder = await shared.getConnection()
      onTestFinished(() => holder.release())
      await holder.query('start transaction')
      await holder.query('delete from hapax_inbox where seq = ?', [numberOf(first)])
      expect(await claim(dirty, [second], { isolation })).toEqual([])
      await holder.query('rollback')
    },
  )

  it('is looked through key by key, page by page, whatever waits behind a key', async () => {
    const keys = [...Array(300).keys()].map((index) => `key ${index}`)
    const messages = [...Array(200).fill('long'), ...keys, ...keys].map((key) => message(undefined, { key }))
    await storeInInbox(store, 'pages', ...messages)
    const [first] = messages
    const seen = new Map<string | null, number>()
    let after: Share['after'] = new Map()
    let pages = 0
    do {
      const page = await look(store, 'pages', { limit: 32, after })
      for (const { key } of page.entries) seen.set(key, (seen.get(key) ?? 0) + 1)
      after = page.after
      pages += 1
    } while (after.size > 0 && pages < 100)
    expect(pages).toBeGreaterThan(1)
    expect([...seen.keys()].toSorted()).toEqual(['long', ...keys].toSorted())
    const seq = (await store.inbox.find('pages', first?.messageKey ?? '')) ?? ''
    const lanes = (await look(store, 'pages', { limit: 10_000 })).entries.filter((entry) => entry.seq === seq)
    const alone = await look(store, 'pages', { lanes: lanes.map((entry) => entry.lane), limit: 32 })
    expect(alone.entries.filter((entry) => entry.key === 'long')).toHaveLength(100)
    await store.inbox.fail({
      seq,
      attempts: 1,
      reason: 'permanent',
      error: { name: 'E', message: 'm' },
      entry: '{}',
      leaseToken: null,
      hold: true,
    })
    const held = await look(store, 'pages', { lanes: lanes.map((entry) => entry.lane), limit: 32 })
    expect(held.entries.filter((entry) => entry.key === 'long')).toMatchObject([{ seq, held: true }])
  })
})

describe('workers', () => {
  it('that are dead leave suspects, but not where somebody is at work', async () => {
    const [busy = '', free = ''] = await storeInInbox(store, 'buried', message(), message())
    await store.workers.join({ id: 'dead', name: 'host', ttlMs: 0, serves: '{}' })
    await store.workers.join({ id: 'alive', name: 'host', ttlMs: 60_000, serves: '{}' })
    expect(await store.workers.note('dead', { seqs: [busy, free], alone: false }, false)).toEqual([])
    await expect
      .poll(async () =>
        (await store.workers.note('alive', { seqs: [], alone: false }, true))?.map(({ id, alive, inHand }) => [
          id,
          alive,
          inHand,
        ]),
      )
      .toEqual([
        ['alive', true, 0],
        ['dead', false, 2],
      ])
    const buried = await store.transactions.run(options, { kind: 'claim', seqs: [busy], locked: 'skip' }, async () => ({
      value: await store.workers.bury(),
      writes: undefined,
    }))
    expect(buried).toBe(1)
    const suspects = (await waiting(store, 'buried')).map(({ seq, deaths }) => [seq, deaths])
    expect(suspects.toSorted()).toEqual([
      [busy, 0],
      [free, 1],
    ])
    expect(await store.workers.note('dead', { seqs: [], alone: false }, true)).toBeUndefined()
    await store.workers.leave('alive')
  })

  it('are known although nothing about them has changed', async () => {
    const strict = storeWith({ flags: ['-FOUND_ROWS'] })
    await strict.workers.join({ id: 'steady', name: 'host', ttlMs: 60_000, serves: '{}' })
    for (let times = 0; times < 3; times++)
      expect(await strict.workers.note('steady', { seqs: ['1'], alone: false }, false)).toEqual([])
    await strict.workers.leave('steady')
    expect(await strict.workers.note('steady', { seqs: ['1'], alone: false }, false)).toBeUndefined()
  })
})

describe('times', () => {
  it.for(['+09:00', '-03:00'])('do not depend on a session in %s', async (zone) => {
    const own = storeWith({}, `set time_zone = '${zone}'`)
    const consumer = `zone${zone}`
    const [now, later] = [message(), message()]
    const inbox = [inboxRow(consumer, now), inboxRow(consumer, later, 30 * 86_400_000)]
    await own.transactions.run(options, taking(consumer, now, later), async () => ({
      value: undefined,
      writes: { inbox },
    }))
    for (const each of [own, store]) {
      const { entries, nextMs } = await look(each, consumer)
      expect(entries).toMatchObject([{ seq: await each.inbox.find(consumer, now.messageKey) }])
      expect(Math.abs((nextMs ?? 0) - 30 * 86_400_000)).toBeLessThan(60_000)
      const [receipt, row] = await each.admin.trace(later.id)
      expect(Math.abs((receipt?.at.getTime() ?? 0) - Date.now())).toBeLessThan(60_000)
      if (row?.where !== 'inbox') throw new Error('expected the message in the inbox')
      expect(row.dueAt.getTime() - row.at.getTime()).toBeCloseTo(30 * 86_400_000, -1)
    }
  })
})

describe('large batches', () => {
  it('splits by rows, and keeps the order', async () => {
    const messages = Array.from({ length: 1_201 }, (_, index) => message(undefined, { type: `many.${index % 3}` }))
    const existing = await store.transactions.run(options, taking('many', ...messages), async (unit) => ({
      value: unit.existing,
      writes: { inbox: messages.map((each) => inboxRow('many', each)) },
    }))
    expect(existing.size).toBe(0)
    expect((await take(store, taking('many', ...messages))).size).toBe(1_201)
    const types = ['many.0', 'many.1', 'many.2']
    const rows = (await look(store, 'many', { types, limit: 20_000 })).entries
    const seqs = rows.map((row) => row.seq).sort((a, b) => Number(a) - Number(b))
    expect((await claim(store, seqs)).map((row) => row.message.id)).toEqual(messages.map((each) => each.id))
  })

  it('splits by bytes', async () => {
    const rows = Array.from({ length: 8 }, () => {
      const data = randomBytes(3 * 1024 * 1024)
      return { relay: 'default', message: message(undefined, { data }), delayMs: 0 }
    })
    await store.transactions.run(options, { kind: 'plain' }, async () => ({
      value: undefined,
      writes: { outbox: rows },
    }))
    expect(await outboxOf(store)).toBe(8)
    await admin.query('delete from hapax_outbox')
  })
})

describe('large messages', () => {
  const MB = 1024 * 1024
  const Blob = defineMessage<string>('blob')

  it('of 10 MB that are refused are kept as their beginning', async () => {
    const hapax = createHapax({ store, source: '/test', logger: silentLogger })
    const consumer = hapax.consumer('large').on(Blob, () => {})
    const id = randomUUID()
    const data = randomBytes(5 * MB).toString('hex')
    const outcome = await consumer.handle({ id, source: '/s', type: 'blob', data })
    expect(outcome).toMatchObject({ status: 'failed', ack: true, error: { code: 'too-large' } })
    const [row] = await store.failed.list({ consumer: 'large', limit: 1 })
    onTestFinished(async () => void (await store.failed.discard(row?.seq ?? '', audit)))
    const kept = Buffer.from(row?.message.data ?? [])
    expect(kept.length).toBe(64 * 1024)
    expect(kept.equals(Buffer.from(JSON.stringify(data)).subarray(0, kept.length))).toBe(true)
  })

  it('keep every byte, also in the user’s own transaction', async () => {
    const sent = message(undefined, { data: randomBytes(10 * MB) })
    const seqs = await storeInInbox(storeWith({ charset: 'latin1', namedPlaceholders: true }), 'large', sent)
    const [kept] = await claim(store, seqs)
    expect(sent.data.every((byte, index) => byte === kept?.message.data[index])).toBe(true)
    const own = await shared.getConnection()
    onTestFinished(() => own.release())
    await own.query('start transaction')
    await store.transactions.enter(own).writeOutbox([{ relay: 'default', message: sent, delayMs: 0 }])
    const [rows] = await own.query('select data from hapax_outbox')
    expect((rows as { data: Buffer }[])[0]?.data.equals(sent.data)).toBe(true)
    await own.query('rollback')
  })

  it('that the server does not take are refused before they are sent', async () => {
    const pool = poolWith({ connectionLimit: 1 })
    onTestFinished(() => pool.end())
    const own = storeOn(pool)
    const id = async () => (await pool.query('select connection_id() as id'))[0]
    const before = await id()
    await expect(
      storeInInbox(own, 'larger', message(undefined, { data: Buffer.alloc(40 * MB) })),
    ).rejects.toMatchObject({
      code: 'too-large',
      message: expect.stringContaining('max_allowed_packet'),
    })
    expect(await id()).toEqual(before)
    expect(await storeInInbox(own, 'larger', message())).toHaveLength(1)
  })

  it('of a handler’s own statement that the server does not take are its error', async () => {
    const hapax = createHapax({ store, source: '/test', logger: silentLogger })
    const consumer = hapax.consumer('own').on(Blob, async (_, { tx }) => {
      await tx.query('select length(?) as n', [Buffer.alloc(20 * MB)])
    })
    const outcome = await consumer.handle({ id: randomUUID(), source: '/s', type: 'blob', data: '' })
    expect(outcome).toMatchObject({ status: 'failed', ack: true, error: { code: 'too-large' } })
    const [row] = await store.failed.list({ consumer: 'own', limit: 1 })
    expect(await store.failed.discard(row?.seq ?? '', audit)).toBe(true)
  })
})

describe('a session that does not commit by itself', () => {
  const Ping = defineMessage('ping')
  const openTransactions = async (): Promise<unknown> => {
    const [rows] = await admin.query(
      `select t.trx_id from information_schema.innodb_trx t
       join information_schema.processlist p on p.id = t.trx_mysql_thread_id where p.db = ?`,
      [database],
    )
    return rows
  }

  it.for([
    ['from the start', 'set autocommit = 0', 'do 0'],
    ['since a handler changed it', 'do 0', 'set autocommit = 0'],
  ])('records retries and leaves nothing open: %s', async ([, atConnect = '', inHandler = '']) => {
    const hapax = createHapax({ store: storeWith({}, atConnect), source: '/test', logger: silentLogger })
    const id = randomUUID()
    const attempts: number[] = []
    const consumer = hapax
      .consumer(`manual ${atConnect}`, { retry: { minDelayMs: 0, maxDelayMs: 0 }, isolation: 'read committed' })
      .on(Ping, async (_, { tx, attempt }) => {
        attempts.push(attempt)
        await tx.query(inHandler)
        await tx.query(`insert into effects values (100, '')`)
        if (attempt < 3) throw new Error('not yet')
      })
    onTestFinished(async () => void (await admin.query('delete from effects')))
    const worker = hapax.worker({ consume: [consumer], pollMs: 20 })
    await worker.start()
    expect(await consumer.handle({ id, source: '/s', type: 'ping', data: {} })).toMatchObject({ status: 'retrying' })
    await expect.poll(effects, { timeout: 40_000 }).toEqual([100])
    await worker.stop()
    expect(attempts).toEqual([1, 2, 3])
    expect((await store.admin.trace(id)).map(({ where }) => where)).toEqual(['receipt'])
    expect(await store.subscriptions.list()).toContainEqual(
      expect.objectContaining({ consumer: `manual ${atConnect}`, type: 'ping' }),
    )
    // The server repeats its last answer to whoever asks again within 100 ms.
    await expect.poll(openTransactions, { interval: 150, timeout: 40_000 }).toEqual([])
  })

  it('neither commits nor meets what somebody left open', async () => {
    const pool = poolWith({ connectionLimit: 1 })
    onTestFinished(() => pool.end())
    const own = storeOn(pool)
    const nothing = async () => ({ value: undefined, writes: {} })
    const isolation = 'serializable'
    for (const use of [
      () => look(own, 'left'),
      () => own.transactions.run({ ...options, isolation }, { kind: 'plain' }, nothing),
    ]) {
      await pool.query('set autocommit = 0')
      await pool.query(`insert into effects values (200, '')`)
      await use()
      expect(await effects()).toEqual([])
    }
  })
})

describe('local delivery', () => {
  const local = (stored: StoredMessage, ...names: string[]) => {
    const consumers = names.map((name) => ({ name, ordered: true }))
    return { message: stored, consumers, delayMs: 0 }
  }
  const publish = (...rows: ReturnType<typeof local>[]) =>
    store.transactions.run(options, { kind: 'plain' }, async ({ tx }) => ({
      value: await store.transactions.enter(tx).writeLocal(rows),
      writes: {},
    }))

  it('reaches the consumers of the table and those that the process knows, once', async () => {
    await store.subscriptions.add('mail', ['local.sent'], false)
    await store.subscriptions.add('mail', ['local.sent'], false)
    await store.subscriptions.add('late', ['local.other'], false)
    const [one, two] = [
      message(undefined, { type: 'local.sent', key: 'k' }),
      message(undefined, { type: 'local.none' }),
    ]
    expect(await publish(local(one, 'audit'), local(two), local(one, 'audit'))).toEqual([
      { consumers: 2, fresh: 2 },
      { consumers: 0, fresh: 0 },
      { consumers: 2, fresh: 0 },
    ])
    expect(await publish(local(one, 'late'))).toEqual([{ consumers: 2, fresh: 1 }])
    const [rows] = await admin.query<mysql2.RowDataPacket[]>(
      `select consumer, ordered from hapax_inbox where type = 'local.sent' order by seq`,
    )
    expect(rows.map((row) => [row['consumer'].toString(), row['ordered']])).toEqual([
      ['audit', 1],
      ['mail', 0],
      ['late', 1],
    ])
  })

  it('sees a consumer that came after the snapshot of the user’s transaction', async () => {
    const own = await shared.getConnection()
    onTestFinished(() => own.release())
    let transactions = 0
    const published = await untilNoConflict(async () => {
      await own.query('set transaction isolation level repeatable read')
      await own.query('start transaction')
      await own.query('select * from effects')
      transactions += 1
      if (transactions === 1) await store.subscriptions.add('newcomer', ['local.new'], false)
      return store.transactions.enter(own).writeLocal([local(message(undefined, { type: 'local.new' }))])
    })
    expect(published).toEqual([{ consumers: 1, fresh: 1 }])
    await own.query('commit')
  })
})

describe('the user’s own', () => {
  it('transaction is told from a connection without one, in promise and callback style', async () => {
    const own = await shared.getConnection()
    onTestFinished(() => own.release())
    const core = callbacks.createConnection({ uri: requireServer('mysql'), database })
    onTestFinished(() => core.promise().end())
    for (const [client, promised] of [[own, own] as const, [core, core.promise()] as const]) {
      const rows = [{ relay: 'default', message: message(), delayMs: 0 }]
      await expect(store.transactions.enter(client).writeOutbox(rows)).rejects.toMatchObject({
        code: 'not-in-transaction',
      })
      await promised.query('start transaction')
      await store.transactions.enter(client).writeOutbox(rows)
      await promised.query('rollback')
    }
    for (const wrong of [undefined, null, {}, 'tx', shared]) {
      expect(() => store.transactions.enter(wrong as never)).toThrow(
        expect.objectContaining({ code: 'not-in-transaction' }),
      )
    }
    expect(await outboxOf(store)).toBe(0)
  })

  it('K2: a publish on a connection that was closed is refused as lost', async () => {
    const hapax = createHapax({ store, source: '/test', logger: silentLogger })
    const connection = await shared.getConnection()
    await connection.beginTransaction()
    connection.destroy()
    const publishing = hapax.publish(connection, defineMessage<object>('ping'), {})
    await expect(publishing).rejects.toMatchObject({ name: 'HapaxError', code: 'transaction-lost' })
  })

  it('K2: a publish whose savepoint was undone is refused, those beside it on the connection are not', async () => {
    const own = await shared.getConnection()
    onTestFinished(() => own.release())
    const write = (entered: ReturnType<PoolStore['transactions']['enter']>) =>
      entered.writeOutbox([{ relay: 'default', message: message(), delayMs: 0 }])
    await own.query('start transaction')
    const outside = store.transactions.enter(own)
    await own.query('savepoint theirs')
    const undone = store.transactions.enter(own)
    await own.query('rollback to savepoint theirs')
    const after = [store.transactions.enter(own), store.transactions.enter(own)]
    await expect(write(undone)).rejects.toMatchObject({ code: 'not-in-transaction' })
    await write(outside)
    for (const each of after) await write(each)
    await own.query('commit')
    await own.query('start transaction')
    const ended = store.transactions.enter(own)
    await own.query('commit')
    await own.query('start transaction')
    const next = store.transactions.enter(own)
    await expect(write(ended)).rejects.toMatchObject({ code: 'not-in-transaction' })
    await write(next)
    await own.query('commit')
    expect(await outboxOf(store)).toBe(4)
    await own.query('delete from hapax_outbox')
  })

  it('pool may be in callback style', async () => {
    const pool = callbacks.createPool({ uri: requireServer('mysql'), database })
    onTestFinished(() => pool.promise().end())
    const own = mysql({ pool })
    await own.schema.ready()
    const value = await own.transactions.run(options, { kind: 'plain' }, async ({ tx }) => {
      const { rows } = await tx.query('select 1 as one')
      const [more] = await tx.client.query('select 2 as two')
      return { value: [rows, more], writes: undefined }
    })
    expect(value).toEqual([[{ one: 1 }], [{ two: 2 }]])
  })
})

describe('a link of the user’s pool', () => {
  type Link = EventEmitter & { stream: Socket }

  /** What MySQL says before it closes a link that was idle for too long; then the good-bye of TLS meets nobody. */
  const breakTwice = async (link: Link): Promise<void> => {
    const broken = new Promise((resolve) => link.stream.once('close', resolve))
    link.once('error', () => link.stream.destroy(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' })))
    link.stream.push(Buffer.from('\x11\0\0\0\xff\xbf\x0f#HY000too late', 'latin1'))
    await broken
  }

  it('E8: ends no process by a second error while nobody uses it', async () => {
    const pool = poolWith({ connectionLimit: 1 })
    onTestFinished(() => pool.end())
    await storeOn(pool).schema.ready()
    const client = await pool.getConnection()
    client.release()
    const uncaught = uncaughtErrors()
    await breakTwice(client.connection as unknown as Link)
    expect(uncaught).toEqual([])
  })

  it('E8: ends no process by a second error in the instant in which it is handed out', async () => {
    const pool = poolWith({ connectionLimit: 1 })
    onTestFinished(() => pool.end())
    const client = await pool.getConnection()
    client.release()
    const uncaught = uncaughtErrors()
    const broken = new Promise((resolve) =>
      pool.once('acquire', (link) => resolve(breakTwice(link as unknown as Link))),
    )
    await storeOn(pool).schema.ready()
    await broken
    expect(uncaught).toEqual([])
  })
})

describe('migrations', () => {
  it('name a database that does not exist', async () => {
    const url = new URL(requireServer('mysql'))
    url.pathname = '/no_such_database'
    const store = mysql({ url: url.href })
    onTestFinished(() => store.close())
    await expect(store.schema.migrate()).rejects.toMatchObject({
      code: 'store-unavailable',
      message: "mysql could not be reached: Unknown database 'no_such_database'",
    })
  })

  it('run once when several instances start together', async () => {
    const prefix = 'race_'
    const pools = [poolWith(), poolWith(), poolWith()]
    onTestFinished(async () => void (await Promise.all(pools.map((pool) => pool.end()))))
    const stores = pools.map((pool) => mysql({ pool, prefix }))
    await expect(stores[0]?.schema.ready()).rejects.toMatchObject({ code: 'schema-missing' })
    const applied = await Promise.all(stores.map((each) => each.schema.migrate()))
    expect(applied.map((each) => each.length).toSorted()).toEqual([0, 0, 1])
    for (const each of stores) await each.schema.ready()
  })

  it('continue after a crash between two tables', async () => {
    const own = mysql({ pool: shared, prefix: 'crash_' })
    await own.schema.migrate()
    await admin.query('drop table crash_failed, crash_subscriptions')
    await admin.query('delete from crash_migrations')
    expect(await own.schema.migrate()).toHaveLength(1)
    expect(await own.failed.list({ limit: 1 })).toEqual([])
  })

  it('give the lock back when they fail', async () => {
    const own = mysql({ pool: shared, prefix: 'drift_' })
    await own.schema.migrate()
    await admin.query(`update drift_migrations set checksum = 'other'`)
    await expect(own.schema.migrate()).rejects.toMatchObject({ code: 'schema-drift' })
    const name = `concat('hapax_', left(sha2(concat(database(), '.', 'drift_'), 256), 40))`
    expect((await admin.query(`select is_free_lock(${name}) as free`))[0]).toEqual([{ free: 1 }])
  })
})

describe('mysql({ url })', () => {
  const url = () => {
    const server = new URL(requireServer('mysql'))
    server.pathname = `/${database}`
    return server.href
  }

  it('opens a pool of its own and closes it', async () => {
    const own = mysql({ url: url(), max: 1 })
    await own.schema.ready()
    expect(await own.failed.list({ consumer: 'nobody', limit: 1 })).toEqual([])
    await own.close()
    await expect(own.admin.status()).rejects.toMatchObject({ code: 'closed' })
  })

  it('says that the server cannot be reached', async () => {
    const own = mysql({ url: 'mysql://nobody:secret@127.0.0.1:1/none' })
    await expect(own.schema.ready()).rejects.toMatchObject({ code: 'store-unavailable' })
    await own.close()
  })

  it('refuses options that make no sense', () => {
    expect(() => mysql({ url: 'postgres://x' })).toThrow('expected url to be a mysql:// URL')
    expect(() => mysql({ url: url(), prefix: 'a`b' })).toThrow('expected prefix')
    expect(() => mysql({ pool: {} } as never)).toThrow('expected pool to be a pool of mysql2')
    expect(() => mysql({ url: url(), max: 0 })).toThrow('expected max to be a positive integer')
  })
})

describe('doctor', () => {
  it.each(['+10:00', '-10:00'])(
    'does not take a young transaction for a long one where the session is at %s',
    async (zone) => {
      await admin.query('start transaction with consistent snapshot')
      await admin.query('select * from effects for update')
      try {
        const findings = await storeWith({}, `set time_zone = '${zone}'`).admin.checkup()
        const { message: found } = findings.find(({ check }) => check === 'long transactions') as Finding
        expect(found).not.toMatch(new RegExp(`connection .*\\b${admin.threadId}\\b`))
      } finally {
        await admin.query('rollback')
      }
    },
  )
})

describe('status', () => {
  it('takes what leaves between its statements for nothing', async () => {
    const hapax = createHapax({ store, source: '/shop', logger: silentLogger })
    const Placed = defineMessage<number>('placed')
    const leaving = hapax.consumer('leaving', { receive: 'store' }).on(Placed, () => {})
    await leaving.handle({ id: randomUUID(), source: '/shop', type: 'placed', data: 1 })
    const { look } = status(`\`${database}\`.hapax_`, database, 'hapax_')
    const rows = await look(async ({ text, params = [] }) => {
      const [found] = await shared.query<mysql2.RowDataPacket[]>(text, [...params])
      await admin.query(`delete from hapax_inbox where consumer = 'leaving'`)
      return { rows: found, affected: 0 }
    })
    const counts = rows.filter(({ what, scope }) => String(what) === 'queue' && String(scope) === 'leaving')
    expect(counts.map(({ name, n }) => `${name} ${n}`)).toEqual(
      expect.arrayContaining(['loose 0', 'retrying 0', 'held 0']),
    )
  })
})
