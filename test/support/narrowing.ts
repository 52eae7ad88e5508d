import { globSync } from 'node:fs'
import { type BrokerName, listedStores, type StoreName, testBrokers } from './servers.ts'

type Name = StoreName | BrokerName | 'redis'

const durable: readonly Name[] = ['sqlite', 'postgres', 'mysql']
const servers: readonly Name[] = ['postgres', 'mysql']

/** Test files, and the stores or brokers of which one is enough for a file to have anything to test. */
const needs: readonly (readonly [files: string, oneOf: readonly Name[]])[] = [
  ['test/stores/{postgres,pgbouncer}*', ['postgres']],
  ['test/stores/mysql*', ['mysql']],
  ['test/stores/{sqlite,operator,nestjs}*', ['sqlite']],
  ['test/stores/{redis,lease-worker}*', ['redis']],
  ['test/stores/{connection-budget,grants,joining,outside-queries,poison,responses,sql-publish}*', servers],
  [
    'test/stores/{borders,closing,console,cost,fake-store,growth,histories,lambda,metrics,migration-tools,operations,opentelemetry}*',
    durable,
  ],
  ['test/stores/webhooks*', [...durable, 'redis']],
  ['test/brokers/rabbitmq*', ['rabbitmq']],
  ['test/brokers/nats*', ['nats']],
  ['test/brokers/redis-streams*', ['redis-streams']],
  ['test/brokers/kafka*', ['kafka']],
  [
    'test/faults/{handlers,http,kill-sweep,killer,nestjs,operations,outgoing-webhooks,race,relays,standstill}.test.ts',
    durable,
  ],
  ['test/faults/{clock-steps,commit-cut,down,fail-over,frameworks,reconcile,silent,soak/checker}.test.ts', servers],
  ['test/faults/{connecting,disk-full,orms,outage-events,webhooks}.test.ts', ['postgres']],
  ['test/stores/{guides,sharding-example}*', ['postgres']],
  ['test/faults/demo.test.ts', ['sqlite']],
  ['test/faults/deaths/deaths.test.ts', durable],
  ['test/stores/settings.test.ts', servers],
  ['test/console/*', durable],
  ['test/faults/sms.test.ts', [...durable, 'redis']],
  ['test/faults/redis-orders.test.ts', ['redis']],
  ['test/faults/garbage.test.ts', ['postgres', 'redis', 'rabbitmq', 'redis-streams']],
]

/** Files that say themselves what they leave out, or need no server. */
const narrowThemselves: readonly string[] = [
  'test/connections/*.test.ts',
  'test/stores/board.test.ts',
  'test/stores/conformance.test.ts',
  'test/stores/example-apps.test.ts',
  'test/stores/init.test.ts',
  'test/stores/mounting.test.ts',
  'test/stores/mounts.test.ts',
  'test/stores/outgoing-webhooks.test.ts',
  'test/stores/promtool.test.ts',
  'test/stores/testkit.test.ts',
  'test/stores/webhook-deliveries.test.ts',
  'test/stores/webhook-guard.test.ts',
  'test/brokers/client-missing.test.ts',
  'test/brokers/health-example.test.ts',
  'test/brokers/reaching.test.ts',
  'test/faults/private-server.test.ts',
  'test/faults/clusters/*.test.ts',
  'test/faults/soak/soak.test.ts',
  'test/faults/brokers/broker-soak.test.ts',
  'test/faults/brokers/timetable.test.ts',
  'test/faults/brokers/fuzz.test.ts',
]

/** The files that `HAPAX_TEST_STORES` and `HAPAX_TEST_BROKERS` leave out, as patterns. */
export function leftOut(): string[] {
  const chosen: readonly Name[] = [...listedStores(), ...testBrokers()]
  return needs.filter(([, oneOf]) => !oneOf.some((name) => chosen.includes(name))).map(([files]) => files)
}

/** Test files that need servers, perhaps, and about which nothing is said here. */
export function unknownFiles(root: string): string[] {
  const known = new Set(
    [...narrowThemselves, ...needs.map(([files]) => files)].flatMap((files) => globSync(files, { cwd: root })),
  )
  return globSync('test/{stores,connections,brokers,console,faults}/**/*.test.ts', { cwd: root }).filter(
    (file) => !known.has(file),
  )
}
