import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { DatabaseSync } from 'node:sqlite'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Opening, Share, Store, Unit, UnitOptions, Writes } from '../../src/contracts/store.ts'
import { LANES } from '../../src/message/lanes.ts'
import { refuseNetwork } from '../../src/stores/sql/connection/sqlite/file.ts'
import { type SqliteTx, sqlite } from '../../src/stores/sqlite/index.ts'
import { until } from '../../src/testing/wait.ts'
import { message } from '../support/sqlite-process.ts'

const program = new URL('../support/sqlite-process.ts', import.meta.url).pathname
const options: UnitOptions = { lockTimeoutMs: 10_000, idleTimeoutMs: 10_000 }
const plain: Opening = { kind: 'plain' }

let directory: string
let path: string
let store: Store<SqliteTx>
const children: ChildProcess[] = []

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'hapax-sqlite-'))
  path = join(directory, 'test.db')
  store = sqlite({ path })
  await store.schema.migrate()
})

afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  await store.close()
  rmSync(directory, { recursive: true, force: true })
})

function take(...ids: string[]): Opening {
  return { kind: 'take', consumer: 'tester', token: crypto.randomUUID(), messages: ids.map(message) }
}

/** One transaction of the store that commits what `body` did. */
function run<T>(
  opening: Opening,
  body: (unit: Unit<SqliteTx>) => Promise<T>,
  writes: Writes = {},
  other = {},
): Promise<T> {
  return store.transactions.run({ ...options, ...other }, opening, async (unit) => ({
    value: await body(unit),
    writes,
  }))
}

function inboxRow(id: string, key: string | null = null) {
  const stored = { ...message(id), key }
  return { consumer: 'tester', message: stored, ordered: true, attempts: 0, starts: 0, delayMs: 0, error: null }
}

/** The whole inbox of `tester`. */
function share(other: Partial<Share> = {}): Share {
  const lanes = [...Array(LANES).keys()]
  const types = [message('1').type]
  return { table: 'inbox', scope: 'tester', types, lanes, limit: 100, after: new Map(), ...other }
}

async function seqOf(id: string): Promise<string> {
  return (await store.inbox.find('tester', message(id).messageKey)) ?? ''
}

function claimed(...seqs: string[]): Promise<string[]> {
  return run({ kind: 'claim', seqs, locked: 'skip' }, async (unit) => [...unit.claimed.keys()])
}

function start(...args: string[]): ChildProcess {
  const child = spawn(process.execPath, ['--conditions=hapax-source', program, path, ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  children.push(child)
  return child
}

async function answer(child: ChildProcess): Promise<unknown> {
  return JSON.parse(await text(child.stdout as NonNullable<ChildProcess['stdout']>))
}

describe('sqlite()', () => {
  it('refuses a prefix that is no plain name, an empty path and unknown options', () => {
    expect(() => sqlite({ path, prefix: 'hapax"; drop table x' })).toThrow('expected prefix to be a name of')
    expect(() => sqlite({ path: '' })).toThrow('expected path to be the path of a file')
    expect(() => sqlite({ path, file: 'x' } as never)).toThrow(
      'expected options of sqlite to be an object with the options',
    )
  })

  it('A30: refuses a file of another host, and a directory that does not exist', async () => {
    expect(() => refuseNetwork('/mnt/test.db', 0x6969)).toThrow('on a disk of this host, not on NFS')
    expect(() => refuseNetwork('/mnt/test.db', 0xff534d42)).toThrow('on a disk of this host, not on CIFS')
    expect(() => refuseNetwork('/mnt/test.db', 0xef53)).not.toThrow()
    const lost = sqlite({ path: join(directory, 'missing', 'test.db') })
    await expect(lost.schema.migrate()).rejects.toMatchObject({ code: 'invalid-option' })
    await expect(sqlite({ path: directory }).schema.migrate()).rejects.toThrow(
      'expected path to be a file, not a directory',
    )
  })

  it('keeps two prefixes in one file apart, and every :memory: for itself', async () => {
    const other = sqlite({ path, prefix: 'other_' })
    expect(await other.schema.migrate()).toHaveLength(1)
    await run(take('1'), async () => undefined)
    expect((await other.admin.status()).consumers).toEqual([])
    await other.close()
    const [first, second] = [sqlite({ path: ':memory:' }), sqlite({ path: ':memory:' })]
    await first.schema.migrate()
    await expect(second.schema.ready()).rejects.toMatchObject({ code: 'schema-missing' })
    await Promise.all([first.close(), second.close()])
  })

  it('A22: writes ahead and waits for the disk at every commit', async () => {
    const pragma = (tx: SqliteTx, name: string) =>
      tx.query(`pragma ${name}`).then(({ rows }) => Object.values(rows[0] ?? {})[0])
    await run(plain, async ({ tx }) => {
      expect(await pragma(tx, 'journal_mode')).toBe('wal')
      expect(await pragma(tx, 'synchronous')).toBe(2)
      expect(await pragma(tx, 'busy_timeout')).toBeLessThan(10)
    })
  })

  it('is closed once and for all', async () => {
    await store.close()
    await expect(store.admin.status()).rejects.toMatchObject({ code: 'closed' })
  })
})

describe('the tables', () => {
  it('D27: never give out the seq of a deleted row again', async () => {
    await run(take('1'), async () => undefined, { inbox: [inboxRow('1')] })
    await run({ kind: 'claim', seqs: [await seqOf('1')], locked: 'skip' }, async () => undefined, {})
    await run(take('2'), async () => undefined, { inbox: [inboxRow('2')] })
    expect(await seqOf('2')).toMatch(/^2-/)
  })

  it('give up a row of a key only with every older one that nothing holds', async () => {
    const inbox = [inboxRow('1', 'a'), inboxRow('2', 'b'), inboxRow('3', 'a'), inboxRow('4', 'a')]
    await run(plain, async () => undefined, { inbox })
    const [one, two, three, four] = (await Promise.all(['1', '2', '3', '4'].map(seqOf))) as [
      string,
      string,
      string,
      string,
    ]
    expect(await claimed(three)).toEqual([])
    expect(await claimed(four, one)).toEqual([one])
    const error = { name: 'E', message: 'm' }
    await store.inbox.fail({
      seq: three,
      attempts: 1,
      reason: 'permanent',
      error,
      entry: '{}',
      leaseToken: null,
      hold: true,
    })
    expect(await claimed(two, three, four)).toEqual([two])
    const [found] = await store.workers.look([share()])
    expect(found?.entries).toMatchObject([{ seq: three, key: 'a', held: true }])
  })

  it('are looked through key by key, page by page, whatever waits behind a key', async () => {
    const inbox = Array.from({ length: 600 }, (_, index) => inboxRow(`${index}`, index < 200 ? 'long' : `key ${index}`))
    await run(plain, async () => undefined, { inbox })
    const seen = new Set<string | null>()
    let after: Share['after'] = new Map()
    let pages = 0
    do {
      const [page] = await store.workers.look([share({ limit: 64, after })])
      expect(page?.entries.filter((entry) => entry.key === 'long').length).toBeLessThanOrEqual(100)
      for (const entry of page?.entries ?? []) seen.add(entry.key)
      after = page?.after ?? new Map()
      pages += 1
    } while (after.size > 0)
    expect(seen.size).toBe(401)
    expect(pages).toBeGreaterThan(1)
  })

  it('F1: accept no null and no value of another type', async () => {
    const insert = (values: string) =>
      run(plain, ({ tx }) =>
        tx.query(
          `insert into hapax_receipts (consumer, message_key, token, fingerprint, source, id, type) values (${values})`,
        ),
      )
    await expect(insert(`'c', null, x'00', x'00', '/s', '1', 't'`)).rejects.toThrow('NOT NULL')
    await expect(insert(`'c', 'text', x'00', x'00', '/s', '1', 't'`)).rejects.toThrow('cannot store TEXT value in BLOB')
  })
})

describe('a transaction', () => {
  it('answers rows, or how many rows were changed', async () => {
    await run(plain, async ({ tx }) => {
      expect(await tx.query('create table orders (id integer primary key, name text)')).toMatchObject({ rowCount: 0 })
      expect(await tx.query('insert into orders (name) values (?), (?)', ['a', 'b'])).toMatchObject({ rowCount: 2 })
      expect(await tx.query('create table others (id integer)')).toMatchObject({ rowCount: 0 })
      const { rows, rowCount } = await tx.query('select name from orders order by id')
      expect(rowCount).toBe(2)
      expect(rows.map((row) => row.name)).toEqual(['a', 'b'])
    })
  })

  it('binds numbered parameters by position, and leaves question marks in texts, names and comments alone', async () => {
    await run(plain, async ({ tx }) => {
      const first = async (text: string, params: unknown[]): Promise<unknown[]> =>
        Object.values((await tx.query(text, params)).rows[0] ?? {})
      expect(await first('select ?2 as a, ?1 as b, ?2 as c', ['x', 'y'])).toEqual(['y', 'x', 'y'])
      expect(await first('select ?2 as a, ? as b, ?1 as c', [1, 2, 3])).toEqual([2, 3, 1])
      const quoted = `select '?2' as a, 'it''s ?3' as "b?4", ?1 as [c?5] -- ?6\n/* ?7 */`
      expect((await tx.query(quoted, ['x'])).rows[0]).toEqual({ a: '?2', 'b?4': `it's ?3`, 'c?5': 'x' })
      expect(await first('select ?1 as a, ?3 as b', ['x'])).toEqual(['x', null])
      await expect(tx.query('select ?1', ['x', 'y'])).rejects.toThrow('out of range')
      await expect(tx.query('select ?2, ?1', [1, new Date()])).rejects.toThrow('expected params to be')
      await expect(tx.query('select ?0')).rejects.toThrow('variable number')
    })
  })

  it('refuses what the driver would quietly misread: scripts and named parameters', async () => {
    await run(plain, async ({ tx }) => {
      await expect(tx.query('select 1; select 2')).rejects.toThrow('expected one SQL statement')
      await expect(tx.query('select ?, ?', [new Date(), 1])).rejects.toThrow('expected params to be')
    })
  })

  it.for(['commit', 'rollback'])('A4: notices a handler that runs %s itself', async (statement) => {
    const ended = run(take('1'), ({ tx }) => tx.query(statement))
    await expect(ended).rejects.toMatchObject({ code: 'broken-atomicity' })
    const replaced = run(take('2'), ({ tx }) => tx.query(statement).then(() => tx.query('begin')))
    await expect(replaced).rejects.toMatchObject({ code: 'broken-atomicity' })
    const thrown = run(take('3'), async ({ tx }) => {
      await tx.query(statement)
      throw new Error('of the handler')
    })
    await expect(thrown).rejects.toMatchObject({ code: 'broken-atomicity' })
  })

  it('does not commit when a failed statement was not awaited, and does when its error was handled', async () => {
    const wrong = 'insert into nowhere values (1)'
    const careless = run(take('1'), async ({ tx }) => void tx.query(wrong))
    await expect(careless).rejects.toMatchObject({ code: 'unawaited-query' })
    await run(take('1'), ({ tx }) => tx.query(wrong).catch(() => undefined))
    expect((await store.admin.status({ exact: true })).consumers).toMatchObject([{ receipts: 1 }])
  })

  it('is lost when the disk is full, whatever the handler makes of it', async () => {
    await run(plain, ({ tx }) => tx.query('create table files (data blob)'))
    const full = run(take('1'), async ({ tx }) => {
      const { rows } = await tx.query('pragma page_count')
      await tx.query(`pragma max_page_count = ${Number(rows[0]?.page_count) + 1}`)
      await tx.query('insert into files values (zeroblob(1000000))').catch(() => undefined)
    })
    await expect(full).rejects.toMatchObject({ code: 'transaction-lost' })
  })

  it('lends a client that dies with it, and so do its statements', async () => {
    const lent = await run(plain, async ({ tx }) => {
      const statement = tx.client.prepare('select 1 as one')
      expect([...statement.iterate()]).toEqual([{ one: 1 }])
      expect(tx.client).toBeInstanceOf(DatabaseSync)
      expect(() => tx.client.close()).toThrow('belongs to hapax')
      return { tx, statement, client: tx.client }
    })
    await expect(lent.tx.query('select 1')).rejects.toMatchObject({ code: 'transaction-closed' })
    expect(() => lent.statement.get()).toThrow('has settled')
    expect(() => lent.client.exec('select 1')).toThrow('has settled')
    expect(() => store.transactions.enter(lent.tx)).toThrow(expect.objectContaining({ code: 'transaction-closed' }))
    expect(() => store.transactions.enter({} as SqliteTx)).toThrow(
      expect.objectContaining({ code: 'not-in-transaction' }),
    )
  })

  it('of another file is no transaction of this store', async () => {
    const other = sqlite({ path: join(directory, 'other.db') })
    await run(plain, async ({ tx }) => {
      expect(() => other.transactions.enter(tx)).toThrow(expect.objectContaining({ code: 'not-in-transaction' }))
    })
    await other.close()
  })
})

describe('a transaction that SQLite has rolled back by itself', () => {
  /** A full disk: SQLite undoes the whole transaction, not only the statement. */
  async function fill(tx: SqliteTx): Promise<void> {
    const { rows } = await tx.query<{ page_count: number }>('pragma page_count')
    await tx.query(`pragma max_page_count = ${rows[0]?.page_count}`)
    await expect(tx.query('insert into notes values (zeroblob(1000000))')).rejects.toThrow('full')
  }

  it.each(['query', 'client'] as const)('K3: takes no further statement (%s)', async (way) => {
    await run(plain, ({ tx }) => tx.query('create table notes (note)'))
    const swallowed = run(take('1'), async ({ tx }) => {
      await tx.query(`insert into notes values ('before')`)
      await fill(tx)
      const write = async () =>
        way === 'query'
          ? tx.query(`insert into notes values ('after')`)
          : tx.client.prepare(`insert into notes values ('after')`).run()
      await write().catch(() => {})
    })
    await expect(swallowed).rejects.toMatchObject({ code: 'transaction-lost' })
    const { rows } = await run(plain, ({ tx }) => tx.query('select * from notes'))
    expect(rows).toEqual([])
  })
})

describe('the one writer', () => {
  it('A29: refuses at once a call that would wait for itself', async () => {
    const sibling = sqlite({ path })
    const nested = { code: 'nested-transaction' }
    await run(take('1'), async () => {
      await expect(run(take('2'), async () => undefined)).rejects.toMatchObject(nested)
      await expect(store.admin.status()).rejects.toMatchObject(nested)
      await expect(store.close()).rejects.toMatchObject(nested)
    })
    await sibling.schema.ready()
    await run(take('3'), () => expect(sibling.admin.status()).rejects.toMatchObject(nested))
    await sibling.close()
  })

  it('takes calls of code that outlived its transaction', async () => {
    const later = Promise.withResolvers<void>()
    const outlived = await run(take('1'), async () => ({
      status: later.promise.then(() => store.admin.status({ exact: true })),
    }))
    later.resolve()
    expect((await outlived.status).consumers).toMatchObject([{ receipts: 1 }])
  })

  it('is busy after the lock timeout, and the wait can be aborted', async () => {
    const holding = Promise.withResolvers<void>()
    const release = Promise.withResolvers<void>()
    const holder = run(take('1'), () => {
      holding.resolve()
      return release.promise
    })
    await holding.promise
    const impatient = run(take('1'), async () => undefined, {}, { lockTimeoutMs: 1 })
    await expect(impatient).rejects.toMatchObject({ code: 'busy' })
    const controller = new AbortController()
    const aborted = run(take('1'), async () => undefined, {}, { signal: controller.signal })
    controller.abort(new Error('enough'))
    await expect(aborted).rejects.toThrow('enough')
    const patient = run(take('1'), async ({ existing }) => existing.size)
    release.resolve()
    await holder
    expect(await patient).toBe(1)
  })

  it('goes to a sibling on the same file when a store is closed', async () => {
    const sibling = sqlite({ path })
    await sibling.schema.ready()
    const release = Promise.withResolvers<void>()
    const holder = run(take('1'), () => release.promise)
    const closing = store.close()
    const refused = expect(run(take('2'), async () => undefined)).rejects.toMatchObject({ code: 'store-unavailable' })
    const status = sibling.admin.status({ exact: true })
    release.resolve()
    await Promise.all([holder, closing, refused])
    expect((await status).consumers).toMatchObject([{ receipts: 1 }])
    await sibling.close()
  })

  it('is free again once a handler is timed out, and the late handler is refused', async () => {
    await run(plain, ({ tx }) => tx.query('create table orders (id text)'))
    const controller = new AbortController()
    const later = Promise.withResolvers<void>()
    const late = Promise.withResolvers<unknown>()
    const body = async ({ tx }: Unit<SqliteTx>): Promise<void> => {
      await tx.query(`insert into orders values ('early')`)
      controller.abort(new Error('timeout'))
      await later.promise
      await tx.query(`insert into orders values ('late')`).catch(late.resolve)
    }
    await expect(run(take('1'), body, {}, { signal: controller.signal })).rejects.toThrow('timeout')
    await run(take('1'), async ({ tx, existing }) => {
      expect(existing.size).toBe(0)
      later.resolve()
      expect(await late.promise).toMatchObject({ code: 'transaction-closed' })
      expect((await tx.query('select * from orders')).rows).toEqual([])
    })
    expect((await store.admin.status({ exact: true })).consumers).toMatchObject([{ receipts: 1 }])
  })
})

describe('several processes', () => {
  it('take each message once between two that race', async () => {
    const answers = (await Promise.all([start('take', '300'), start('take', '300')].map(answer))) as { taken: number }[]
    expect(answers.reduce((sum, { taken }) => sum + taken, 0)).toBe(300)
  })

  it('open, migrate and use a new file at the same moment', async () => {
    path = join(directory, 'new.db')
    const starts = Array.from({ length: 6 }, () => start('take', '5'))
    const answers = (await Promise.all(starts.map(answer))) as { applied: number; taken: number }[]
    expect(answers.reduce((sum, { applied }) => sum + applied, 0)).toBe(1)
    expect(answers.reduce((sum, { taken }) => sum + taken, 0)).toBe(5)
  })

  it('A29: leave the event loop free while they wait for each other', async () => {
    const holder = start('hold')
    await once(holder.stdout as NonNullable<ChildProcess['stdout']>, 'data')
    const impatient = run(take('1'), async () => undefined, {}, { lockTimeoutMs: 100 })
    await expect(impatient).rejects.toMatchObject({ code: 'busy' })
    const delay = monitorEventLoopDelay({ resolution: 1 })
    delay.enable()
    const enough = new AbortController()
    const waiting = run(take('1'), async () => undefined, {}, { lockTimeoutMs: 40_000, signal: enough.signal })
    await Promise.race([waiting.catch(() => {}), until(() => delay.count > 200)])
    delay.disable()
    enough.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
    // Half of the waits; single ones may be held up by whatever else the machine does.
    expect(delay.percentile(50) / 1e6).toBeLessThan(50)
    const patient = run(take('1'), async () => 'done')
    holder.stdin?.write('go on\n')
    expect(await patient).toBe('done')
  })

  it('go on where a killed one was, without what it had not committed', async () => {
    const holder = start('hold')
    await once(holder.stdout as NonNullable<ChildProcess['stdout']>, 'data')
    const waiting = run(take('1'), async () => 'done')
    holder.kill('SIGKILL')
    expect(await waiting).toBe('done')
    expect((await store.admin.status({ exact: true })).consumers).toMatchObject([{ consumer: 'tester', receipts: 1 }])
  })
})

describe('K21: the files', () => {
  const modes = (file: string) => ['', '-wal', '-shm'].map((end) => (statSync(file + end).mode & 0o777).toString(8))

  it('are for their owner alone, because they hold payloads', async () => {
    const umask = process.umask(0)
    const file = join(directory, 'own.db')
    const own = sqlite({ path: file })
    try {
      await own.schema.migrate()
      expect(modes(file)).toEqual(['600', '600', '600'])
    } finally {
      process.umask(umask)
      await own.close()
    }
  })

  it('keep the mode that somebody gave them', async () => {
    const umask = process.umask(0)
    const file = join(directory, 'shared.db')
    writeFileSync(file, '', { mode: 0o664 })
    const own = sqlite({ path: file })
    try {
      await own.schema.migrate()
      expect(modes(file)).toEqual(['664', '664', '664'])
    } finally {
      process.umask(umask)
      await own.close()
    }
  })
})
