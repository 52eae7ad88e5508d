import { randomUUID } from 'node:crypto'
import { createHapax, defineMessage, type Hapax, Permanent, RetryAfter, type Store, silentLogger } from 'hapax'
import { memoryBroker } from 'hapax/memory-broker'
import type { Look, Share, WaitingWhere } from '../../src/contracts/index.ts'
import { fingerprint, messageKey } from '../../src/message/index.ts'
import { until } from '../../src/testing/wait.ts'
import type { RigTx } from './databases.ts'

/** The type of the messages that the tables are filled with. */
export const Grown = defineMessage<number>('grown')

type Rig = Hapax<RigTx, unknown>

const LANES = Array.from({ length: 64 }, (_, lane) => lane)
const INBOX: Share = { table: 'inbox', scope: 'loose', types: ['grown'], lanes: LANES, limit: 200, after: new Map() }
const OUTBOX: Share = { ...INBOX, table: 'outbox', scope: 'default', types: [] }
const ERROR = { name: 'Error', message: 'no' }

/**
 * Does everything that workers and people do, on tables that are large before it begins: messages run, fail, are tried again, hold
 * their key, are let go, are published, sent and refused, and are cleaned up; workers die.
 */
export async function doEverything(store: Store<RigTx>): Promise<void> {
  const hapax = createHapax({ store, source: '/test', delivery: 'local', logger: silentLogger })
  await consuming(hapax, store)
  await leasing(hapax, store)
  await sending(hapax, store)
  await deaths(store)
  await people(hapax, store)
  await waiting(store)
  await requests(store)
  await endpoints(store)
  await operations(store)
  await cleaning(store)
  await hapax.close()
}

/** Consumers without and with order, of messages of which some fail for now, and some for good. */
async function consuming(hapax: Rig, store: Store<RigTx>): Promise<void> {
  const done = { loose: 0, keyed: 0 }
  const failing = (number: number, attempt: number): void => {
    if (attempt === 1 && number % 50 === 1) throw new RetryAfter(3_600_000)
    if (number % 50 === 2) throw new Permanent('no')
  }
  const loose = hapax.consumer('loose', { group: { size: 20 } }).on(Grown, async (number, { attempt }) => {
    failing(number, attempt)
    done.loose += 1
  })
  const keyed = hapax.consumer('keyed', { order: 'wait', group: { size: 20 } })
  keyed.on(Grown, async (number, { attempt }) => {
    failing(number, attempt)
    done.keyed += 1
  })
  const worker = hapax.worker({ consume: [loose, keyed], pollMs: 20 })
  await worker.start()
  const held = async () => (await hapax.failed.list({ consumer: 'keyed' })).filter((each) => each.held)
  await until(async () => done.loose >= 200 && done.keyed >= 200 && (await held()).length >= 6)
  await hapax.transaction((tx) => hapax.publish(tx, Grown, 7, { key: 'new' }))
  const message = (id: string, data: number) => ({ id, source: '/sender', type: Grown.type, data })
  for (const data of [7, 7, 1, 2]) await loose.handle(message(`handled ${data}`, data))
  await loose.handleMany([message('one of many', 7), message('another', 8)])
  for (const _ of ['once', 'again']) await keyed.handleMany([message('stored', 7), message('stored too', 8)])
  await worker.stop()
  await letGo(hapax, store, await held())
  const before = done.keyed
  const later = hapax.worker({ consume: [loose, keyed], pollMs: 20 })
  await later.start()
  await until(() => done.keyed > before + 20)
  await later.stop()
  await store.inbox.find('keyed', randomUUID())
  // A row that was stored without its key.
  const [look] = await store.workers.look([INBOX])
  await store.inbox.addKey(look?.entries[0]?.seq ?? '', 'added')
}

/** What people do about messages that hold their key, after looks have put the keys aside. */
async function letGo(
  hapax: Rig,
  store: Store<RigTx>,
  held: readonly { readonly seq: string; readonly message: { readonly key: string | null } }[],
): Promise<void> {
  let after: Look['after'] = new Map()
  do {
    const lanes = after.size === 0 ? LANES : [...after.keys()]
    const [look] = await store.workers.look([{ ...INBOX, scope: 'keyed', limit: 500, lanes, after }])
    after = look?.after ?? new Map()
  } while (after.size > 0)
  const [first, second, third, ...others] = held
  for (const { seq } of others) await hapax.failed.retry(seq)
  if (first !== undefined) await hapax.failed.discard(first.seq)
  if (second !== undefined) await hapax.failed.edit(second.seq, 8)
  if (third !== undefined) await hapax.keys.release({ origin: 'inbox', scope: 'keyed', key: third.message.key ?? '' })
  const [loose, edited] = await hapax.failed.list({ consumer: 'loose' })
  if (loose !== undefined) await hapax.failed.retry(loose.seq)
  if (edited !== undefined) await hapax.failed.edit(edited.seq, 8)
}

/** Leased messages, of which one calls the outside, one fails, and one does not know what became of its call. */
async function leasing(hapax: Rig, store: Store<RigTx>): Promise<void> {
  const numbers = new Set<number>()
  const calls = hapax
    .leased('calls', { retry: { attempts: 2, minDelayMs: 600_000 } })
    .on(Grown, async (number, ctx) => {
      numbers.add(number)
      if (number === 1) throw new Error('not yet')
      await ctx.effect('call', async () => {
        if (number === 2) throw new Error('timeout')
      })
    })
  const worker = hapax.worker({ consume: [calls], pollMs: 20 })
  await worker.start()
  await hapax.transaction((tx) =>
    hapax.publishMany(
      tx,
      [1, 2, 3].map((data) => Grown.of(data)),
    ),
  )
  await until(() => numbers.size === 3)
  await until(async () => (await hapax.failed.list({ consumer: 'calls' })).length > 0)
  await worker.stop()
  const [unknown] = await hapax.failed.list({ consumer: 'calls' })
  if (unknown !== undefined) {
    await hapax.failed.settle(unknown.seq, { effect: 'call', as: 'not-done' })
    const { source, id } = unknown.message
    await hapax.failed.correct({ consumer: 'calls', source, id }, { effect: 'call', as: 'not-done' })
  }
  const [seq = ''] = await entries(store, INBOX)
  const token = randomUUID()
  for (const { fence } of await store.inbox.lease([seq], token, 60_000)) {
    await store.inbox.renew([{ seq, token, fence }], 1)
    await store.inbox.release({ seq, token, fence }, 0)
  }
}

/** A relay, whose broker takes most messages, but not all. */
async function sending(hapax: Rig, store: Store<RigTx>): Promise<void> {
  let sent = 0
  hapax.events.on('relayed', () => {
    sent += 1
  })
  const worker = hapax.worker({ relay: memoryBroker().topic('grown'), keepSentMs: 60_000, pollMs: 20 })
  await worker.start()
  await until(() => sent > 200)
  await worker.stop()
  const relaying = createHapax({ store, source: '/test', logger: silentLogger })
  await relaying.transaction((tx) => relaying.publish(tx, Grown, 7))
  const [waits = '', ...others] = await keyed(store, OUTBOX)
  await store.outbox.postpone([{ seq: waits, delayMs: 3_600_000, error: ERROR, entry: '{}' }])
  const [confirmed = '', kept = '', ...refused] = others
  for (const [nth, seq] of refused.slice(0, 6).entries())
    await store.outbox.refuse({ seq, reason: 'refused', error: ERROR, entry: '{}', hold: nth < 4 })
  await store.outbox.confirm([confirmed], false)
  await store.outbox.confirm([kept], true)
  await store.workers.look([{ ...OUTBOX, limit: 500 }])
  await store.workers.look([{ ...OUTBOX, all: true }])
  await actOnRefused(hapax)
  const [first, second] = await hapax.sent.list({ relay: 'default', limit: 2 })
  if (first !== undefined) await hapax.sent.republish(first.seq)
  if (second !== undefined) await store.sent.purge([second.seq])
  await store.sent.seqs({ relay: 'default' }, undefined, 10)
  await hapax.relays.move('default', 'elsewhere')
}

async function actOnRefused(hapax: Rig): Promise<void> {
  const failed = await hapax.failed.list({ origin: 'outbox' })
  const [first, second, third, fourth] = failed.filter(({ held }) => held)
  const [fifth, sixth] = failed.filter(({ held }) => !held)
  if (first !== undefined) await hapax.failed.retry(first.seq)
  if (second !== undefined) await hapax.failed.discard(second.seq)
  if (third !== undefined) await hapax.failed.edit(third.seq, 8)
  if (fourth !== undefined)
    await hapax.keys.release({ origin: 'outbox', scope: 'default', key: fourth.message.key ?? '' })
  if (fifth !== undefined) await hapax.failed.retry(fifth.seq)
  if (sixth !== undefined) await hapax.failed.edit(sixth.seq, 8)
}

/** Workers that died with messages in hand. */
async function deaths(store: Store<RigTx>): Promise<void> {
  const [first = '', second = ''] = await entries(store, INBOX)
  for (const [seq, alone] of [[first, false] as const, [second, true] as const]) {
    const id = randomUUID()
    await store.workers.join({ id, name: 'dead', ttlMs: 1, serves: '{}' })
    await store.workers.note(id, { seqs: [seq], alone }, false)
  }
  let buried = 0
  await until(async () => {
    buried += await store.workers.bury()
    return buried >= 2
  })
  await store.workers.look([INBOX, { ...INBOX, types: [Grown.type, ''], all: true }])
}

const UUIDV7 = '019a8c3e-5b0e-7d44-9d3b-0f6f1f0c7a11'

/** What people look at. */
async function people(hapax: Rig, store: Store<RigTx>): Promise<void> {
  await hapax.status()
  await hapax.status({ exact: true })
  await hapax.keys.list()
  await hapax.doctor()
  await hapax.failed.count({ consumer: 'loose' })
  await hapax.failed.groups({ consumer: 'loose' })
  await store.failed.seqs({ consumer: 'loose' }, undefined, 10)
  await hapax.receipts.list({ consumer: 'loose', limit: 5 })
  await hapax.receipts.list({ limit: 1000, since: new Date(), signal: AbortSignal.abort() })
  await hapax.effects.list({ consumer: 'loose', state: 'unknown' })
  await hapax.cleanup({ consumer: 'loose', olderThanMs: 1_000, dryRun: true })
  await hapax.explain(UUIDV7)
  await hapax.explain('handled 7', '/sender')
  await hapax.explain('handled 7')
  await hapax.consumers.remove('calls')
}

/** Every way to what waits, each with a condition that few rows meet, and the audit. */
async function waiting({ admin }: Store<RigTx>): Promise<void> {
  for (const origin of ['inbox', 'outbox'] as const) {
    const scope = origin === 'inbox' ? 'keyed' : 'default'
    const wheres: readonly WaitingWhere[] = [
      ...[{}, { scope: 'gone' }, { type: 'none' }, { id: 'none' }, { id: UUIDV7 }, { until: new Date(0) }],
      ...[{ key: 'key 7' }, { scope, key: 'key 7' }, { scope, key: 'none' }, { scope, key: 'key 7', type: 'none' }],
      ...(['waiting', 'retrying', 'held', 'leased'] as const).flatMap((state) => [{ state }, { scope, state }]),
    ]
    for (const where of wheres) {
      const { before } = await admin.waiting(origin, where, undefined, 50)
      if (before !== undefined) await admin.waiting(origin, where, before, 50)
    }
    for (const { seq, dueAt } of await admin.retries(origin, 50)) {
      if (dueAt.getTime() > Date.now() && (await admin.hasten(origin, seq, { action: 'retry', actor: 'test' }))) break
    }
    const [last] = (await admin.waiting(origin, { scope, key: 'key 20000' }, undefined, 1)).rows
    if (last !== undefined) await admin.ahead(origin, last.seq)
    if (last !== undefined) await admin.one(origin, last.seq)
  }
  await admin.audited({}, undefined, 50)
  await admin.audited({ actor: 'nobody', action: 'retry', scope: 'none' }, undefined, 50)
}

/** Requests, new and known, and what becomes of their responses. */
async function requests(store: Store<RigTx>): Promise<void> {
  const [consumer, source, type] = ['http:orders', 'POST /orders ~ada', 'http.request']
  const data = Buffer.from('{}')
  const take = (id: string, keepMs: number): Promise<void> => {
    const key = { messageKey: messageKey(source, id), id }
    const message = { ...key, source, type, key: null, attributes: '{}', data, fingerprint: fingerprint(data) }
    const opening = { kind: 'take', consumer, token: randomUUID(), messages: [message], responses: true } as const
    return store.transactions.run({ lockTimeoutMs: 10_000, idleTimeoutMs: 60_000 }, opening, async ({ existing }) => {
      const response = { consumer, ...key, response: { status: 201, headers: [], body: data }, keepMs }
      return { value: undefined, writes: existing.size > 0 ? undefined : { response } }
    })
  }
  for (const _ of ['once', 'again']) await take('first', 60_000)
  await take('second', 0)
  await store.responses.read(consumer, messageKey(source, 'first'))
  await store.responses.forget(consumer, messageKey(source, 'second'))
  await store.responses.expire(100)
  await store.admin.trace('first')
}

async function endpoints(store: Store<RigTx>): Promise<void> {
  const endpoint = { id: 'ep-1', relay: 'default', url: 'https://example.com', types: 'all', secrets: [] } as const
  await store.endpoints.add({ ...endpoint, enabled: true, reason: null, note: null }, { action: 'add', actor: 'test' })
  await store.endpoints.change('ep-1', { note: 'changed' }, { action: 'change', actor: 'test' })
  await store.endpoints.list('default')
  await store.endpoints.look()
  await store.admin.trace('handled 7')
  await store.endpoints.remove('ep-1', { action: 'remove', actor: 'test' })
}

/** Changes to many rows, pauses and samples. */
async function operations(store: Store<RigTx>): Promise<void> {
  const by = { action: 'begin', actor: 'test' } as const
  const draft = { perSecond: null, limit: 5, where: {} } as const
  const [retry, republish] = [randomUUID(), randomUUID()]
  await store.operations.begin({ ...draft, id: retry, kind: 'retry' }, by)
  await store.operations.begin({ ...draft, id: republish, kind: 'republish' }, by)
  const step = { id: retry, token: randomUUID() }
  await store.operations.lease(step.token, 60_000, retry)
  const [seq] = await store.failed.seqs({}, undefined, 1)
  if (seq !== undefined) await store.failed.retry(seq, { ...by, action: 'retry' }, step)
  await store.operations.advance(step, 60_000, { after: null, gone: 0, errors: 0, error: null }, true)
  const other = await store.operations.lease(randomUUID(), 60_000)
  await store.operations.release({ id: other?.id ?? '', token: 'none' })
  await store.operations.change(republish, 'cancelled', { ...by, action: 'cancel' })
  await store.operations.list(undefined, 50)
  await store.operations.list(retry, 50)
  await store.pauses.pause('inbox', 'loose', { ...by, action: 'pause' })
  await store.pauses.list()
  await store.pauses.resume('inbox', 'loose', { ...by, action: 'resume' })
  const counts = { done: 1, duplicates: 0, retried: 0, failed: 0, lagMs: 1, aged: 1, waiting: null, oldestMs: null }
  await store.samples.add('worker', [{ origin: 'inbox', scope: 'loose', ...counts }], 3_600_000)
  await store.samples.list(3_600_000)
}

async function cleaning(store: Store<RigTx>): Promise<void> {
  for (const consumer of ['loose', 'gone'])
    await store.admin.clean({ kind: 'receipts', consumer, after: undefined }, 1_000, 500)
  await store.admin.clean({ kind: 'sent', relay: 'default' }, 1_000, 500)
  await store.admin.clean({ kind: 'audit' }, 1_000, 500)
  await store.admin.audit({ action: 'cleanup', actor: 'test' }, {})
}

/** The first rows of keys. */
async function keyed(store: Store<RigTx>, share: Share): Promise<readonly string[]> {
  const [look] = await store.workers.look([share])
  const first = new Map<string, string>()
  for (const { key, seq } of look?.entries ?? []) if (key !== null && !first.has(key)) first.set(key, seq)
  return [...first.values()]
}

async function entries(store: Store<RigTx>, share: Share): Promise<readonly string[]> {
  const [look] = await store.workers.look([share])
  return (look?.entries ?? []).map(({ seq }) => seq)
}
