import { asInTest } from '../../test/support/runs.ts'
import type { ServerName } from '../../test/support/servers.ts'

/** What runs on a server: files, as patterns, and what narrows them to it. */
export interface Suites {
  readonly files: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** Of the files that run on several stores, those about tables and locks, and the faults that are short. */
const OF_SQL_STORES = [
  'test/stores/{closing,console,console-matrix,grants,histories,metrics,opentelemetry,operations,outgoing-webhooks}.test.ts',
  'test/stores/{poison,responses,sql-publish,testkit,webhook-deliveries,webhooks}.test.ts',
  'test/faults/{commit-cut,handlers,race}.test.ts',
]

export const suites: Readonly<Record<ServerName, Suites>> = {
  postgres: {
    files: ['test/stores/postgres*.test.ts', ...OF_SQL_STORES],
    env: { ...only('postgres', 'none'), ...asInTest },
  },
  mysql: { files: ['test/stores/mysql*.test.ts', ...OF_SQL_STORES], env: { ...only('mysql', 'none'), ...asInTest } },
  pgbouncer: { files: ['test/stores/pgbouncer*.test.ts'], env: only('postgres', 'none') },
  rabbitmq: ofBroker('rabbitmq'),
  nats: ofBroker('nats'),
  redis: {
    files: ['test/stores/redis*.test.ts', ...withClusters('redis-streams', 'redis-*')],
    env: only('redis,postgres', 'redis-streams'),
  },
  kafka: ofBroker('kafka'),
}

function ofBroker(name: string): Suites {
  return { files: withClusters(name, name), env: only('memory,postgres', name) }
}

/** The files of a broker, and the stories about clusters of it: there, the store is PostgreSQL. */
function withClusters(broker: string, cluster: string): string[] {
  return [`test/brokers/${broker}*.test.ts`, `test/faults/clusters/${cluster}.test.ts`]
}

function only(stores: string, brokers: string): Record<string, string> {
  return { HAPAX_TEST_STORES: stores, HAPAX_TEST_BROKERS: brokers }
}
