import assert from 'node:assert/strict'
import { isHapaxError } from '../../../base/index.ts'
import type {
  InboxRow,
  Receipt,
  ResponseRow,
  StoredResponse,
  Unit,
  UnitOptions,
  Writes,
} from '../../../contracts/index.ts'
import { fingerprint, messageKey, type StoredMessage } from '../../../message/index.ts'
import type { AnyStore, Tx, World } from '../world.ts'

export const ORDERS = 'http:orders'
export const UNIT: UnitOptions = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }
/** How long a response is kept that a case does not want to see expire. */
export const DAY_MS = 86_400_000

export const CREATED: StoredResponse = {
  status: 201,
  headers: [['content-type', 'application/json']],
  body: Buffer.from('{"order":17}'),
}

/** A request as it is stored. */
export function request(id: string, source = 'POST /orders ~ada'): StoredMessage {
  const data = Buffer.from('{"n":1}')
  return {
    ...{ messageKey: messageKey(source, id), source, id, type: 'http.request', key: null },
    ...{ attributes: '{}', data, fingerprint: fingerprint(data) },
  }
}

/** The row of a response. */
export function rowOf(
  { messageKey: key, id }: StoredMessage,
  response: StoredResponse = CREATED,
  keepMs: number = DAY_MS,
  consumer: string = ORDERS,
): ResponseRow {
  return { consumer, messageKey: key, id, response, keepMs }
}

/** What became of a request: its receipt was there before, or the body ran. */
export interface Taken {
  readonly receipt: Receipt | undefined
  readonly token: string
  /** How often it was tried. */
  readonly runs: number
}

interface TakeOptions {
  readonly store?: AnyStore
  readonly consumer?: string
  readonly lockTimeoutMs?: number
  /** @default nothing but the response */
  readonly body?: (unit: Unit<Tx>) => Promise<Writes | undefined>
  readonly response?: StoredResponse
  readonly keepMs?: number
}

/** Takes a request; if it is new, it runs and is answered. What conflicts with others is repeated, as the engine does. */
export async function take(world: World, message: StoredMessage, options: TakeOptions = {}): Promise<Taken> {
  const { store = world.store, consumer = ORDERS, lockTimeoutMs = UNIT.lockTimeoutMs } = options
  const answer = { response: rowOf(message, options.response, options.keepMs, consumer) }
  for (let runs = 1; ; runs++) {
    const token = crypto.randomUUID()
    const opening = { kind: 'take', consumer, token, messages: [message], responses: true } as const
    try {
      return await store.transactions.run(
        { ...UNIT, lockTimeoutMs, isolation: world.isolation },
        opening,
        async (unit) => {
          const receipt = unit.existing.get(message.messageKey)
          const writes = receipt === undefined ? await (options.body?.(unit) ?? answer) : undefined
          return { value: { receipt, token, runs }, writes }
        },
      )
    } catch (error) {
      if (!isHapaxError(error, 'transaction-conflict')) throw error
    }
  }
}

/** Writes a response by itself, as the settling transaction of leased work does. */
export function answer(world: World, row: ResponseRow): Promise<void> {
  return world.store.transactions.run(UNIT, { kind: 'plain' }, async () => ({
    value: undefined,
    writes: { response: row },
  }))
}

/** Stores a request as leased work, and leases it. */
export async function leasedRequest(world: World, message: StoredMessage): Promise<InboxRow> {
  const token = crypto.randomUUID()
  await world.store.inbox.store(UNIT, { consumer: ORDERS, token, messages: [message], ordered: false, starts: 0 })
  const seq = await world.store.inbox.find(ORDERS, message.messageKey)
  const [row] = await world.store.inbox.lease([seq ?? ''], crypto.randomUUID(), 60_000)
  assert.ok(row)
  return row
}
