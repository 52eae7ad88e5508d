import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { createHapax, defineMessage, type Hapax, HapaxError, Permanent, silentLogger } from 'hapax'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Connection, Statement } from '../../src/contracts/connection.ts'
import { lookAt, ok, sqlStore } from '../../src/stores/sql/index.ts'
import { SqliteConnection } from '../../src/stores/sqlite/connection.ts'
import { dialect } from '../../src/stores/sqlite/statements/sql.ts'
import type { SqliteTx } from '../../src/stores/sqlite/transaction.ts'

const Ping = defineMessage<{ n: number }>('ping')

let directory: string
let path: string
let connection: SqliteConnection
let hapax: Hapax<SqliteTx>

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'hapax-operator-'))
  path = join(directory, 'test.db')
  connection = new SqliteConnection(path, 'hapax_')
  hapax = on(connection)
  await hapax.migrate()
})

afterEach(async () => {
  await hapax.close()
  rmSync(directory, { recursive: true, force: true })
})

function on(each: Connection<SqliteTx>): Hapax<SqliteTx> {
  return createHapax({ store: sqlStore(each, dialect('hapax_')), source: '/test', logger: silentLogger })
}

/** The same connection, but the link breaks during COMMIT, before the database has it or after. */
function lossy(cut: 'before' | 'after', times = 1, between: () => Promise<void> = async () => {}): Hapax<SqliteTx> {
  let left = times
  const transaction: Connection<SqliteTx>['transaction'] = async (options, work) => {
    let wrote = false
    const value = await connection.transaction(options, {
      first: work.first,
      body: async (tx, answers) => {
        const end = await work.body(tx, answers)
        wrote = end.last !== undefined && left > 0
        return wrote && cut === 'before' ? { ...end, last: undefined } : end
      },
    })
    if (!wrote) return value
    left -= 1
    await between()
    throw new HapaxError('store-unavailable', 'the link was cut')
  }
  return on(
    new Proxy(connection, {
      get: (target, name) => {
        if (name === 'transaction') return transaction
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    }),
  )
}

let consumers = 0

/** A message in failed, and its seq. */
async function failedOne(id: string): Promise<string> {
  consumers += 1
  const consumer = hapax.consumer(`billing ${consumers}`)
  consumer.on(Ping, () => {
    throw new Permanent('bad')
  })
  await consumer.handle({ id, source: '/sender', type: 'ping', data: { n: 1 } })
  const [failed] = await hapax.failed.list()
  return failed?.seq as string
}

async function places(id: string): Promise<readonly string[]> {
  return (await hapax.explain(id)).map(({ where }) => where).sort()
}

describe('a change by hand whose commit had no answer', () => {
  it('is made again if it had not happened', async () => {
    await lossy('before').failed.retry(await failedOne('a'))
    expect(await places('a')).toEqual(['audit', 'inbox', 'receipt'])
    await lossy('before', 4).failed.discard(await failedOne('b'))
    expect(await places('b')).toEqual(['audit', 'receipt'])
  })

  it('is not made twice if it had happened, and says that it does not know', async () => {
    const retry = lossy('after').failed.retry(await failedOne('a'))
    await expect(retry).rejects.toMatchObject({ code: 'commit-unknown' })
    expect(await places('a')).toEqual(['audit', 'inbox', 'receipt'])
  })

  it('is known for an edit by the id that it left behind', async () => {
    const seq = await failedOne('a')
    const { id } = await lossy('after').failed.edit(seq, { n: 2 })
    expect(await hapax.failed.get(seq)).toMatchObject({ replacedBy: id })
    expect(await places(id)).toEqual(['inbox', 'receipt'])
  })

  it('is not claimed by an edit if somebody else was faster', async () => {
    const seq = await failedOne('a')
    const rival = async (): Promise<void> => {
      await hapax.failed.edit(seq, { n: 3 }, { id: 'theirs' })
    }
    const edit = lossy('before', 1, rival).failed.edit(seq, { n: 2 }, { id: 'ours' })
    await expect(edit).rejects.toMatchObject({ code: 'commit-unknown' })
    expect(await hapax.failed.get(seq)).toMatchObject({ replacedBy: 'theirs' })
    expect(await places('ours')).toEqual([])
  })

  it('is given up when the link breaks again and again', async () => {
    const seq = await failedOne('a')
    await expect(lossy('before', 100).failed.retry(seq)).rejects.toMatchObject({ code: 'commit-unknown' })
    expect(await places('a')).toEqual(['failed', 'receipt'])
  })
})

describe('held keys', () => {
  it('are found by an index, among however many rows', () => {
    const { admin, held } = dialect('hapax_')
    const database = new DatabaseSync(path)
    const plan = ({ text, params }: Statement): string =>
      database
        .prepare(`explain query plan ${text}`)
        .all(...(params as string[]))
        .map(({ detail }) => detail)
        .join('\n')
    const [list, lock] = [plan(admin.keys(50)), plan(held.inbox.lock('billing', 'k'))]
    database.close()
    for (const index of ['inbox_held', 'outbox_held', 'failed_held']) expect(list).toContain(`INDEX hapax_${index}`)
    for (const index of ['inbox_key', 'failed_held']) expect(lock).toContain(`INDEX hapax_${index}`)
  })
})

describe('doctor', () => {
  it('finds columns and indexes that somebody removed', async () => {
    const database = new DatabaseSync(path)
    database.exec('drop index hapax_inbox_message')
    database.exec('alter table hapax_audit drop column note')
    database.close()
    const drift = (await hapax.doctor()).find(({ check }) => check === 'schema drift')
    expect(drift).toMatchObject({
      level: 'error',
      message: 'missing from the tables: hapax_inbox.hapax_inbox_message, hapax_audit.note',
    })
  })

  it('names a table that is not there, and not each of its columns', async () => {
    const database = new DatabaseSync(path)
    database.exec('drop table hapax_sent')
    database.close()
    const drift = (await hapax.doctor()).find(({ check }) => check === 'schema drift')
    expect(drift?.message).toBe('missing from the tables: the whole table hapax_sent')
  })

  it('calls what may not be looked at a warning, and goes on', async () => {
    const query = ({ text }: { text: string }) => connection.query({ text, params: [] })
    const findings = await lookAt(query, [
      { check: 'secret', statement: { text: 'select * from secrets', params: [] }, judge: () => ok('seen') },
      { check: 'open', statement: { text: 'select 1', params: [] }, judge: () => ok('seen') },
    ])
    expect(findings).toEqual([
      {
        check: 'secret',
        level: 'warning',
        message: 'could not be checked: no such table: secrets',
        advice: expect.stringContaining('by hand'),
      },
      { check: 'open', level: 'ok', message: 'seen', advice: '' },
    ])
  })
})
