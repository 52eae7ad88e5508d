// An SQL store has three layers. A connection (stores/postgres/connection.ts, connections/*) opens transactions on the user's pool or
// ORM. A dialect (stores/*/statements) has the text and the values of every statement. The parts here are the logic, the same for all.

import { type Random, systemClock, systemRandom } from '../../base/index.ts'
import type { Connection, Store, StoreFeatures } from '../../contracts/index.ts'
import { SqlCalls } from './calls.ts'
import { StoreErrors } from './connection/store-errors.ts'
import type { Dialect } from './dialect/dialect.ts'
import { sqlAdmin } from './parts/admin.ts'
import { sqlClock } from './parts/clock.ts'
import { sqlEndpoints } from './parts/endpoints.ts'
import { sqlFailed } from './parts/failed.ts'
import { sqlInbox } from './parts/inbox.ts'
import { sqlJournal } from './parts/journal.ts'
import { sqlKeys } from './parts/keys.ts'
import { sqlNews } from './parts/news.ts'
import { sqlOperations } from './parts/operations.ts'
import { sqlOutbox } from './parts/outbox.ts'
import { sqlPauses } from './parts/pauses.ts'
import { sqlResponses } from './parts/responses.ts'
import { sqlSamples } from './parts/samples.ts'
import { sqlSchema } from './parts/schema.ts'
import { sqlSent } from './parts/sent.ts'
import { Sessions } from './parts/sessions.ts'
import { sqlSubscriptions } from './parts/subscriptions.ts'
import { SqlTransactions } from './parts/transactions.ts'
import { sqlWorkers } from './parts/workers.ts'

/** A store on an SQL database: the logic is in its parts, the statements are the dialect's, the transactions the connection's. */
export function sqlStore<Tx, Own>(
  connection: Connection<Tx, Own>,
  ofDatabase: Dialect,
  random: Random = systemRandom,
): Store<Tx, Own> {
  const dialect = connection.features.oneWriter ? { ...ofDatabase, parallelWriters: false } : ofDatabase
  const errors = new StoreErrors(dialect)
  const calls = new SqlCalls(connection, dialect, errors)
  const sessions = new Sessions(systemClock, dialect.workers.session?.own())
  const context = { connection, dialect, calls, errors, random, sessions }
  const transactions = new SqlTransactions(context)
  return {
    features: features(connection, dialect),
    schema: sqlSchema(context),
    transactions,
    inbox: sqlInbox(context, transactions),
    outbox: sqlOutbox(context),
    journal: sqlJournal(context),
    responses: sqlResponses(context),
    endpoints: sqlEndpoints(context),
    workers: sqlWorkers(context),
    subscriptions: sqlSubscriptions(context),
    failed: sqlFailed(context),
    keys: sqlKeys(context),
    sent: sqlSent(context),
    operations: sqlOperations(context),
    pauses: sqlPauses(context),
    samples: sqlSamples(context),
    clock: sqlClock(context),
    admin: sqlAdmin(context),
    news: sqlNews(context),
    close: () => connection.close(),
  }
}

function features<Tx, Own>({ features: of, reach }: Connection<Tx, Own>, dialect: Dialect): StoreFeatures {
  const { name, roundTrips, lateUse, unawaited, ownTransactions, pool } = of
  const { isolationLevels, parallelWriters, mostBorders } = dialect
  // Where statements cannot be observed, a border follows each message.
  const mostShared = reach === undefined && parallelWriters ? mostBorders : undefined
  return Object.freeze({
    ...{ name, isolationLevels, parallelWriters, ownTransactions, durable: true },
    ...{ pool, roundTrips, lateUse, unawaited, mostShared },
  })
}
