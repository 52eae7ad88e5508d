/** The stores that the tests run on, in the order that they run. */
const storeNames = ['memory', 'sqlite', 'postgres', 'mysql'] as const

/** The stores for leased work only. */
const leaseStoreNames = ['redis'] as const

/** The brokers that the tests run on, in the order that they run. */
const brokerNames = ['rabbitmq', 'nats', 'redis-streams', 'kafka'] as const

export type StoreName = (typeof storeNames)[number]
export type BrokerName = (typeof brokerNames)[number]

/** The environment variables that hold the URLs of the servers. */
export const serverVariables = {
  postgres: 'HAPAX_TEST_POSTGRES',
  mysql: 'HAPAX_TEST_MYSQL',
  /** In front of the same PostgreSQL, in transaction mode; not set where it is not installed. */
  pgbouncer: 'HAPAX_TEST_PGBOUNCER',
  rabbitmq: 'HAPAX_TEST_RABBITMQ',
  nats: 'HAPAX_TEST_NATS',
  redis: 'HAPAX_TEST_REDIS',
  /** A protocol mock, unless a real broker is named; not set where neither can be had. */
  kafka: 'HAPAX_TEST_KAFKA',
} as const

export type ServerName = keyof typeof serverVariables

/** The stores to test: all of them, or those that `HAPAX_TEST_STORES` lists (`sqlite,memory`). */
export function testStores(list: string | undefined = process.env.HAPAX_TEST_STORES): StoreName[] {
  return listedStores(list).filter((name) => name !== 'redis')
}

/** Why the tests of the Redis store are left out, if they are. */
export function withoutRedis(list: string | undefined = process.env.HAPAX_TEST_STORES): string | undefined {
  return listedStores(list).includes('redis') ? undefined : 'left out by HAPAX_TEST_STORES'
}

/** The stores to test, including those for leased work only. */
export function listedStores(list: string | undefined = process.env.HAPAX_TEST_STORES): (StoreName | 'redis')[] {
  const all = [...storeNames, ...leaseStoreNames]
  return list?.trim() ? chosen('HAPAX_TEST_STORES', all, list) : all
}

/** The brokers to test: all of them, or those that `HAPAX_TEST_BROKERS` lists (`nats,kafka`); `none` or nothing for none. */
export function testBrokers(list: string | undefined = process.env.HAPAX_TEST_BROKERS): BrokerName[] {
  if (list === undefined) return [...brokerNames]
  return ['', 'none'].includes(list.trim()) ? [] : chosen('HAPAX_TEST_BROKERS', brokerNames, list)
}

function chosen<Name extends string>(variable: string, names: readonly Name[], list: string): Name[] {
  const asked = list.split(',').map((name) => name.trim())
  const unknown = asked.find((name) => !names.some((known) => known === name))
  if (unknown !== undefined)
    throw new Error(`expected ${variable} to list some of ${names.join(', ')}, got '${unknown}'`)
  return names.filter((name) => asked.includes(name))
}

/** The servers that the stores and brokers to test need. */
export function neededServers(): ServerName[] {
  const stores = listedStores()
  const brokers = testBrokers().map((name) => (name === 'redis-streams' ? 'redis' : name))
  return [...new Set([...stores, ...brokers])].filter((name) => name in serverVariables) as ServerName[]
}

/** The URL of a server for the tests. It is shared by all test files: each uses a schema, database, queue or stream of its own. */
export function requireServer(name: ServerName): string {
  const variable = serverVariables[name]
  const url = process.env[variable]
  if (url) return url
  throw new Error(
    `this test needs ${name}, and ${variable} is not set: run \`npm test\`, or \`npm run services -- vitest run <file>\``,
  )
}

/** The same PgBouncer with two sessions for all of its clients. */
export function narrowPgbouncer(url: string): string {
  const narrow = new URL(url)
  narrow.pathname = '/narrow'
  return narrow.href
}
