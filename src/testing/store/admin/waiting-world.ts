import assert from 'node:assert/strict'
import type { ErrorRecord, Numbered, Origin, WaitingMessage, WaitingWhere } from '../../../contracts/index.ts'
import { fingerprint, messageKey, type StoredMessage } from '../../../message/index.ts'
import { Ping, type World } from '../world.ts'

/** What a stored message is made of. */
export interface Stored {
  readonly key?: string | null
  readonly type?: string
  readonly source?: string
  readonly data?: Uint8Array
}

/** A message as a store has it. */
export function stored(
  id: string,
  { key = null, type = 'ping', source = '/sender', data }: Stored = {},
): StoredMessage {
  const bytes = data ?? Buffer.from('{"n":1}')
  const attributes = '{"datacontenttype":"application/json"}'
  return {
    messageKey: messageKey(source, id),
    ...{ source, id, type, key, attributes, data: bytes, fingerprint: fingerprint(bytes) },
  }
}

const OPTIONS = { lockTimeoutMs: 20_000, idleTimeoutMs: 60_000 }
const BATCH = 500

/** Puts messages into the inbox of a consumer, in this order; returns their seqs by id. */
export async function put(
  { store }: World,
  messages: readonly StoredMessage[],
  { consumer = 'billing', ordered = false }: { consumer?: string; ordered?: boolean } = {},
): Promise<ReadonlyMap<string, string>> {
  const seqs = new Map<string, string>()
  for (let at = 0; at < messages.length; at += BATCH) {
    const batch = messages.slice(at, at + BATCH)
    await store.inbox.store(OPTIONS, { consumer, token: crypto.randomUUID(), messages: batch, ordered, starts: 0 })
  }
  for (const { id, messageKey: key } of messages.length > BATCH ? [] : messages) {
    const seq = await store.inbox.find(consumer, key)
    assert.ok(seq, `${id} is in the inbox`)
    seqs.set(id, seq)
  }
  return seqs
}

/** Publishes pings for the relay `default`, in this order. */
export async function publish(world: World, ids: readonly string[], key?: string): Promise<void> {
  const hapax = world.hapax({ delivery: 'relay' })
  for (const id of ids) {
    const options = { id, ...(key !== undefined && { key }) }
    await hapax.transaction((tx) => hapax.publish(tx, Ping, { n: 1 }, options))
  }
}

/** What a failed attempt leaves behind. */
export const FAILURE: { readonly error: ErrorRecord; readonly entry: string } = {
  error: { name: 'Error', message: 'no answer' },
  entry: JSON.stringify({ worker: 'w', name: 'Error', message: 'no answer' }),
}

/** Lets a row of the inbox fail, to be tried again later. */
export async function retryLater({ store }: World, seq: string | undefined, delayMs: number): Promise<void> {
  const row = { seq: seq ?? '', attempts: 1, lost: 0, delayMs, ...FAILURE, leaseToken: null }
  assert.ok(await store.inbox.reschedule(row))
}

/** Lets a row of the inbox fail for good, and hold its key. */
export async function hold({ store }: World, seq: string | undefined): Promise<void> {
  const row = { seq: seq ?? '', attempts: 3, reason: 'permanent', ...FAILURE, hold: true, leaseToken: null }
  assert.ok(await store.inbox.fail(row))
}

/** All ids of a list, page by page; `between` runs after each page. */
export async function idsOf(
  { store }: World,
  where: WaitingWhere,
  { origin = 'inbox', limit = 100, between }: { origin?: Origin; limit?: number; between?: () => Promise<void> } = {},
): Promise<readonly string[]> {
  const ids: string[] = []
  let before: string | undefined
  do {
    const page: Numbered<WaitingMessage> = await store.admin.waiting(origin, where, before, limit)
    assert.ok(page.rows.length <= limit)
    ids.push(...page.rows.map(({ id }) => id))
    before = page.before
    await between?.()
  } while (before !== undefined)
  return ids
}
