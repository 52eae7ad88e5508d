import type pg from 'pg'
import { load } from './peers.ts'
import { type Contender, countdown, type Effect, INSERT_EFFECT } from './side.ts'

/** The part of pg-transactional-outbox that is used. */
interface PgTransactionalOutbox {
  readonly DatabaseSetup: {
    dropAndCreateTable(config: object): string
    createPollingFunction(config: object): string
    setupPollingIndexes(config: object): string
  }
  readonly IsolationLevel: { readonly ReadCommitted: string }
  getDisabledLogger(): object
  initializePollingMessageListener(
    config: object,
    handlers: readonly object[],
    logger: object,
    strategies: object,
  ): [shutdown: () => Promise<void>]
}

// A message whose row was locked when its turn came is tried again only when its lock in time has ended: a second, not five.
const SETTINGS = { nextMessagesBatchSize: 50, nextMessagesPollingIntervalInMs: 50, nextMessagesLockInMs: 1_000 }
const TABLE = { outboxOrInbox: 'inbox', schema: 'bench_pto', table: 'inbox' }
const NEXT = 'next_inbox_messages'

// Parallel: messages without a segment that need no order.
const FILL = `
insert into bench_pto.inbox (id, aggregate_type, aggregate_id, message_type, concurrency, payload)
select gen_random_uuid(), 'effect', id, 'effect', 'parallel', jsonb_build_object('id', id, 'payload', payload)
from unnest($1::text[], $2::text[]) as m (id, payload)`

/** Its inbox with the polling listener: one transaction per message. */
export async function pgTransactionalOutbox(url: string, pool: pg.Pool): Promise<Contender> {
  const library = await load<PgTransactionalOutbox>('pg-transactional-outbox')
  const { DatabaseSetup, IsolationLevel } = library
  await pool.query(DatabaseSetup.dropAndCreateTable(TABLE))
  await pool.query(DatabaseSetup.createPollingFunction({ ...TABLE, nextMessagesName: NEXT }))
  await pool.query(DatabaseSetup.setupPollingIndexes(TABLE))
  const connection = { connectionString: url, max: SETTINGS.nextMessagesBatchSize }
  const config = {
    outboxOrInbox: 'inbox',
    dbListenerConfig: connection,
    dbHandlerConfig: connection,
    settings: {
      ...SETTINGS,
      dbSchema: TABLE.schema,
      dbTable: TABLE.table,
      nextMessagesFunctionSchema: TABLE.schema,
      nextMessagesFunctionName: NEXT,
      enableMaxAttemptsProtection: true,
      enablePoisonousMessageProtection: true,
    },
  }
  const strategies = { messageProcessingTransactionLevelStrategy: () => IsolationLevel.ReadCommitted }
  return {
    name: 'pg-transactional-outbox',
    how: '',
    settings: `inbox, polling, parallel messages, read committed, ${JSON.stringify(SETTINGS)}`,
    async fill(effects) {
      await pool.query('truncate bench_pto.inbox')
      await pool.query(FILL, [effects.map((effect) => effect.id), effects.map((effect) => effect.payload)])
      await pool.query('vacuum analyze bench_pto.inbox')
    },
    async work(count) {
      const { finished, done, failed } = countdown(count)
      const handler = {
        aggregateType: 'effect',
        messageType: 'effect',
        async handle({ payload }: { payload: Effect }, client: pg.PoolClient): Promise<void> {
          await client.query(INSERT_EFFECT, [payload.id, payload.payload])
          done()
        },
      }
      const logger = { ...library.getDisabledLogger(), error: failed }
      const [shutdown] = library.initializePollingMessageListener(config, [handler], logger, strategies)
      await finished
      await shutdown()
    },
    async close() {},
  }
}
