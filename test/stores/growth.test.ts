import { createHapax, defineMessage, type Hapax, Permanent, RetryAfter, silentLogger } from 'hapax'
import { memoryBroker } from 'hapax/memory-broker'
import { describe, expect, it } from 'vitest'
import type { Statement } from '../../src/contracts/connection.ts'
import { until } from '../../src/testing/wait.ts'
import {
  type Checker,
  type DurableStore,
  durableStores,
  makePlace,
  openStore,
  type RigTx,
} from '../support/databases.ts'
import { fillTables } from '../support/large-tables.ts'
import { scansOf } from '../support/plans.ts'
import { Recorded } from '../support/recorded.ts'

const Grown = defineMessage<number>('grown')
const AUDIT = { action: 'cleanup', actor: 'test' } as const

/**
 * Everything that workers do, on tables that are large before it begins: messages that run, fail, are tried again, hold their key,
 * are let go, are published and sent, and are cleaned up.
 */
async function useAll(checker: Checker, recorded: Recorded): Promise<void> {
  const store = await openStore(checker.place, { seams: recorded.seams })
  const hapax = createHapax({ store, source: '/test', delivery: 'local', logger: silentLogger })
  let [loose, keyed] = [0, 0]
  const one = hapax.consumer('loose', { group: { size: 20 } }).on(Grown, async (number, { attempt }) => {
    if (attempt === 1 && number % 50 === 1) throw new RetryAfter(3_600_000)
    if (number % 50 === 2) throw new Permanent('no')
    loose += 1
  })
  const two = hapax.consumer('keyed', { order: 'wait', group: { size: 20 } }).on(Grown, async (number, { attempt }) => {
    if (attempt === 1 && number % 50 === 1) throw new RetryAfter(3_600_000)
    if (number % 50 === 2) throw new Permanent('no')
    keyed += 1
  })
  const broker = memoryBroker()
  const relay = broker.topic('grown')
  const worker = hapax.worker({ consume: [one, two], relay, keepSentMs: 60_000, pollMs: 20 })
  await worker.start()
  await until(() => loose >= 200 && keyed >= 200)
  await hapax.transaction((tx) => hapax.publish(tx, Grown, 7, { key: 'new' }))
  await one.handle({ id: 'again', source: '/sender', type: Grown.type, data: 7 })
  await one.handle({ id: 'again', source: '/sender', type: Grown.type, data: 7 })
  const held = async () => (await hapax.failed.list({ consumer: 'keyed' })).filter((each) => each.held)
  await until(async () => (await held()).length >= 3)
  const [first, second, third] = await held()
  await hapax.failed.retry(first?.seq as string)
  await hapax.failed.discard(second?.seq as string)
  await hapax.keys.release({ origin: 'inbox', scope: 'keyed', key: third?.message.key as string })
  await worker.stop()
  await lookAround(hapax)
  for (const consumer of ['loose', 'gone'])
    await store.admin.clean({ kind: 'receipts', consumer, after: undefined }, 1_000, 500)
  await store.admin.clean({ kind: 'sent', relay: 'default' }, 1_000, 500)
  await store.admin.clean({ kind: 'audit' }, 1_000, 500)
  await store.admin.audit(AUDIT, {})
  await hapax.close()
}

/** What people look at. */
async function lookAround(hapax: Hapax<RigTx, unknown>): Promise<void> {
  await hapax.status()
  await hapax.keys.list()
  await hapax.doctor()
  await hapax.receipts.list({ consumer: 'loose', limit: 5 })
  await hapax.receipts.list({ limit: 1000, since: new Date(), signal: AbortSignal.abort() })
  await hapax.effects.list({ consumer: 'loose', state: 'unknown' })
  await hapax.cleanup({ consumer: 'loose', olderThanMs: 1_000, dryRun: true })
  await hapax.explain(UUIDV7)
  await hapax.explain('again', '/sender')
  const places = (await hapax.explain('again')).map(({ where }) => where)
  expect(places).toContain('receipt')
}

const UUIDV7 = '019a8c3e-5b0e-7d44-9d3b-0f6f1f0c7a11'

/** The schema of a file is read as a whole, and is small. */
function readsSchema({ text }: Statement): boolean {
  return text.includes('sqlite_schema')
}

/** What `status` and `explain` say of queues is counted and looked for in all of their rows, as is what has failed. */
function readsQueue({ text }: Statement): boolean {
  return /^\s*select (consumer|relay), sum\(waiting\)/.test(text) || /^\s*select 'outbox' as place/.test(text)
}

describe.each(durableStores())('K8: large tables on %s', (name: DurableStore) => {
  it('no statement of the engine reads a table from end to end', { timeout: 240_000 }, async () => {
    await using checker = await makePlace(name)
    await fillTables(checker)
    const recorded = new Recorded()
    await useAll(checker, recorded)
    expect(recorded.statements.size).toBeGreaterThan(30)
    const statements = [...recorded.statements.values()].filter((each) => !readsQueue(each) && !readsSchema(each))
    expect(await scansOf(checker, statements)).toEqual([])
  })

  it('a row that stands aside with nothing in front of it is found', async () => {
    await using checker = await makePlace(name)
    const store = await openStore(checker.place)
    const hapax = createHapax({ store, source: '/test', delivery: 'local', logger: silentLogger })
    const done: number[] = []
    const consumer = hapax.consumer('keyed', { order: 'wait' }).on(Grown, async (number) => void done.push(number))
    await hapax.transaction((tx) => hapax.publish(tx, Grown, 1, { key: 'k' }))
    const inbox = checker.place.store === 'postgres' ? `${checker.place.schema}.inbox` : 'hapax_inbox'
    await checker.query(`update ${inbox} set aside = ${checker.place.store === 'postgres' ? 'true' : '1'}`)
    const worker = hapax.worker({ consume: [consumer], pollMs: 20 })
    await worker.start()
    await until(() => done.length > 0)
    await hapax.close()
    expect(done).toEqual([1])
  })
})
