import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { fingerprint, messageKey } from '../../src/message/index.ts'
import { gate } from '../../src/testing/wait.ts'
import { durableStores, makePlace, openStore } from '../support/databases.ts'

const SOURCE = 'POST /orders ~ada'
const CONSUMER = 'http:orders'
const UNIT = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }

/** Requests whose responses have expired, in a database where rows can be locked. */
async function expired(name: 'postgres' | 'mysql', ids: readonly string[]) {
  const checker = await makePlace(name)
  const store = await openStore(checker.place)
  const data = Buffer.from('{}')
  for (const id of ids) {
    const key = { messageKey: messageKey(SOURCE, id), id }
    const rest = {
      source: SOURCE,
      type: 'http.request',
      key: null,
      attributes: '{}',
      data,
      fingerprint: fingerprint(data),
    }
    const opening = { kind: 'take', consumer: CONSUMER, token: randomUUID(), messages: [{ ...key, ...rest }] } as const
    const response = { consumer: CONSUMER, ...key, keepMs: 0, response: { status: 200, headers: [], body: data } }
    await store.transactions.run(UNIT, opening, async () => ({ value: undefined, writes: { response } }))
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
