import { randomUUID } from 'node:crypto'
import { createHapax, defineMessage, Permanent, type Store, silentLogger } from 'hapax'
import type { BulkOperation, OperationDraft } from 'hapax/contracts'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Dialect, plain } from '../../src/stores/sql/index.ts'
import {
  type Checker,
  type DurableStore,
  durableStores,
  makePlace,
  openStore,
  type RigTx,
} from '../support/databases.ts'

const Placed = defineMessage<{ n: number }>('placed')
const BY = { actor: 'ada', action: 'begin' } as const
const RETRY = { actor: 'ada', action: 'retry' } as const

describe.each(durableStores())('operations on %s', (name: DurableStore) => {
  it.each(['operations', 'audit'] as const)(
    'a row whose change cannot be written to %s as well is left alone',
    async (table) => {
      const { store, checker } = await opened(name)
      await failed(store, ['a', 'b'])
      const { id } = await begun(store)
      const step = { id, token: randomUUID() }
      await store.operations.lease(step.token, 60_000, id)
      const [first = '', second = ''] = await store.failed.seqs({}, undefined, 9)
      expect(await store.failed.retry(first, RETRY, step)).toBe(true)
      const allow = await refuse(checker, table)
      await expect(store.failed.retry(second, RETRY, step)).rejects.toThrow()
      await expect(store.failed.discard(second, RETRY, step)).rejects.toThrow()
      await allow()
      expect(await store.failed.seqs({}, undefined, 9)).toEqual([second])
      expect(await store.operations.get(id)).toMatchObject({ done: 1, after: first })
      expect(await store.failed.retry(second, RETRY, step)).toBe(true)
      expect(await store.operations.get(id)).toMatchObject({ done: 2, after: second })
    },
  )
})

const parallel = durableStores().filter((name) => name !== 'sqlite')

describe.each(parallel)('operations while messages fail on %s', (name: DurableStore) => {
  // Not on MariaDB: there it passes without the wait too, so it would show nothing.
  it.runIf(name === 'postgres')('count a message that is being written, or leave it alone', async () => {
    let tries = 0
    const { store } = await opened(name, (dialect) => {
      const writers: Dialect['operations']['writers'] = (kind) => {
        tries += 1
        const statements = dialect.operations.writers(kind)
        // That it waits is known by then. It must not give up while a busy server takes its time to commit.
        return tries === 1 ? statements : [plain(`set local lock_timeout = '20s'`), ...statements.slice(1)]
      }
      return { ...dialect, operations: { ...dialect.operations, writers } }
    })
    const slow = await failingSlowly(store)
    // It has a higher number than the one that is being written.
    await failed(store, ['a'])
    let settled = false
    const operation = begun(store).finally(() => {
      settled = true
    })
    await expect.poll(() => settled || tries > 1).toBe(true)
    await slow.end()
    const { where, upTo, total } = await operation
    expect((await rowsOf(store, where, upTo)).length).toBe(total)
  })

  it('begin although somebody takes long to write a failed message', async () => {
    const { store } = await opened(name)
    await failed(store, ['a'])
    const slow = await failingSlowly(store)
    expect((await begun(store)).total).toBe(1)
    await slow.end()
  })
})

/** A message that fails for good, in a transaction that is open until `end`. */
async function failingSlowly(store: Store<RigTx>): Promise<{ end(): Promise<void> }> {
  const { promise: entered, resolve: enter } = Promise.withResolvers<void>()
  const { promise: left, resolve: leave } = Promise.withResolvers<void>()
  const hapax = createHapax({ store, source: '/test', logger: silentLogger })
  // Its failed row is written before `onFailed` runs, because it has a row of the inbox.
  const slow = hapax.consumer('slow', { receive: 'store' })
  slow.on(Placed, () => {
    throw new Permanent('no')
  })
  slow.onFailed(Placed, async () => {
    enter()
    await left
  })
  await slow.handle({ id: 'slow', source: '/test', type: 'placed', data: { n: 1 } })
  const worker = hapax.worker({ consume: [slow], pollMs: 20 })
  await worker.start()
  await entered
  return {
    end: async () => {
      leave()
      await expect.poll(() => store.failed.count({ consumer: 'slow' })).toBe(1)
      await worker.stop()
    },
  }
}

/** The rows up to the last one that belongs to an operation. */
async function rowsOf(
  store: Store<RigTx>,
  where: BulkOperation['where'],
  upTo: string | null,
): Promise<readonly string[]> {
  const seqs = await store.failed.seqs(where, undefined, 100_000)
  return seqs.filter((seq) => BigInt(seq.split('-')[0] ?? 0) <= BigInt(upTo?.split('-')[0] ?? 0))
}

async function opened(
  name: DurableStore,
  statements: (dialect: Dialect) => Dialect = (dialect) => dialect,
): Promise<{ store: Store<RigTx>; checker: Checker }> {
  const checker = await makePlace(name)
  const store = await openStore(checker.place, { statements })
  onTestFinished(async () => {
    await store.close()
    await checker[Symbol.asyncDispose]()
  })
  return { store, checker }
}

/** Messages that fail for good. */
async function failed(store: Store<RigTx>, ids: readonly string[]): Promise<void> {
  const billing = createHapax({ store, source: '/test', logger: silentLogger }).consumer('billing')
  billing.on(Placed, () => {
    throw new Permanent('no')
  })
  for (const id of ids) {
    const outcome = await billing.handle({ id, source: '/test', type: 'placed', data: { n: 1 } })
    expect(outcome.status).toBe('failed')
  }
}

function begun(store: Store<RigTx>, more: Partial<OperationDraft> = {}): Promise<BulkOperation> {
  const draft = { id: randomUUID(), kind: 'retry', where: {}, perSecond: null, limit: null, ...more } as OperationDraft
  return store.operations.begin(draft, BY)
}

/** Makes every write to a table fail; resolves with what allows it again. */
async function refuse({ place, query }: Checker, table: 'operations' | 'audit'): Promise<() => Promise<void>> {
  const event = table === 'audit' ? 'insert' : 'update'
  if (place.store === 'postgres') {
    const of = `${place.schema}.${table}`
    await query(
      `create function ${place.schema}.refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$`,
    )
    await query(`create trigger refuse before ${event} on ${of} for each row execute function ${place.schema}.refuse()`)
    return async () => void (await query(`drop trigger refuse on ${of}`))
  }
  const body =
    place.store === 'sqlite'
      ? `begin select raise(abort, 'refused'); end`
      : `for each row signal sqlstate '45000' set message_text = 'refused'`
  await query(`create trigger refuse before ${event} on hapax_${table} ${body}`)
  return async () => void (await query('drop trigger refuse'))
}
