import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { ResponseRow, StoredResponse } from '../../src/contracts/index.ts'
import { fingerprint, messageKey, type StoredMessage } from '../../src/message/index.ts'
import { gate, until } from '../../src/testing/wait.ts'
import { durableStores, makePlace, openStore, type Place } from '../support/databases.ts'

const SOURCE = 'POST /orders ~ada'
const CONSUMER = 'http:orders'
const UNIT = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }

const DATA = Buffer.from('{}')

function request(id: string): StoredMessage {
  const [type, attributes] = ['http.request', '{}']
  const key = { messageKey: messageKey(SOURCE, id), source: SOURCE, id, key: null }
  return { ...key, type, attributes, data: DATA, fingerprint: fingerprint(DATA) }
}

function responseTo({ messageKey: key, id }: StoredMessage, keepMs: number): ResponseRow {
  return { consumer: CONSUMER, messageKey: key, id, keepMs, response: { status: 200, headers: [], body: DATA } }
}

/** Requests whose responses have expired, in a database where rows can be locked. */
async function expired(name: 'postgres' | 'mysql', ids: readonly string[]) {
  const checker = await makePlace(name)
  const store = await openStore(checker.place)
  for (const id of ids) {
    const message = request(id)
    const opening = { kind: 'take', consumer: CONSUMER, token: randomUUID(), messages: [message] } as const
    const writes = { response: responseTo(message, 0) }
    await store.transactions.run(UNIT, opening, async () => ({ value: undefined, writes }))
  }
  const tables = name === 'postgres' ? `${checker.place.schema}.` : 'hapax_'
  const uuid = messageKey(SOURCE, 'a')
  const key = name === 'postgres' ? `'${uuid}'` : `x'${uuid.replaceAll('-', '')}'`
  const [locked, go] = [gate(), gate()]
  /** Locks the row of the request `a` in this table until `go`. */
  const lock = (table: string): Promise<void> =>
    store.transactions.run(UNIT, { kind: 'plain' }, async ({ tx }) => {
      await tx.query(
        `select id from ${tables}${table} where consumer = '${CONSUMER}' and message_key = ${key} for update`,
        [],
      )
      locked.open()
      await go.passed
      return { value: undefined, writes: undefined }
    })
  const close = async (): Promise<void> => {
    await store.close()
    await checker[Symbol.asyncDispose]()
  }
  return { store, lock, locked, go, close }
}

const locking = durableStores().filter((name) => name !== 'sqlite')

describe.for(locking)('G2: expired responses on %s', (name) => {
  // On PostgreSQL nobody locks a receipt.
  it.for(name === 'mysql' ? ['responses', 'receipts'] : ['responses'])(
    'a locked row of %s is left, and nothing waits for it',
    async (table) => {
      const { store, lock, locked, go, close } = await expired(name, ['a', 'b'])
      const locking = lock(table)
      await locked.passed
      expect(await store.responses.expire(10)).toBe(1)
      expect(await store.responses.expire(10)).toBe(0)
      const places = async (id: string) => (await store.admin.trace(id)).map(({ where }) => where).sort()
      expect([await places('a'), await places('b')]).toEqual([['receipt', 'response'], []])
      go.open()
      await locking
      expect(await store.responses.expire(10)).toBe(1)
      expect(await places('a')).toEqual([])
      await close()
    },
  )
})

/** How many statements on the receipts of this database are under way: one that goes on waits for the lock of another. */
const WAITING = {
  postgres: ({ schema }: Place) =>
    `select count(*) as n from pg_stat_activity where wait_event_type = 'Lock' and query like '%${schema}%receipts%'`,
  // Not innodb_trx, which is as it was a while ago if it is asked too often.
  mysql: () =>
    `select count(*) as n from information_schema.processlist
where command = 'Query' and id <> connection_id() and info like concat('%insert into%', database(), '%receipts%')`,
}

describe.for(locking)('A13: two requests with one key on %s', (name) => {
  it('the one that waited sees the response in the statements it opened with', async () => {
    await using checker = await makePlace(name)
    const store = await openStore(checker.place)
    const message = request('a')
    const [running, go] = [gate(), gate()]
    const take = (body: (known: StoredResponse | undefined) => Promise<void>): Promise<unknown> => {
      const opening = {
        kind: 'take',
        consumer: CONSUMER,
        token: randomUUID(),
        messages: [message],
        responses: true,
      } as const
      return store.transactions.run({ ...UNIT, isolation: 'read committed' }, opening, async ({ existing }) => {
        await body(existing.get(message.messageKey)?.response)
        const writes = existing.size > 0 ? undefined : { response: responseTo(message, 60_000) }
        return { value: undefined, writes }
      })
    }
    const first = take(async () => {
      running.open()
      await go.passed
    })
    await running.passed
    let seen: StoredResponse | undefined
    const second = take(async (known) => {
      seen = known
    })
    await until(async () => Number((await checker.query(WAITING[name](checker.place)))[0]?.['n']) > 0)
    go.open()
    await Promise.all([first, second])
    expect(seen?.status).toBe(200)
    await store.close()
  })
})
