/** The stores that the tests run on, in the order that they run. */
const storeNames = ['memory', 'sqlite', 'postgres', 'mysql'] as const

export type StoreName = (typeof storeNames)[number]

/** The environment variables that hold the URLs of the servers. */
export const serverVariables = {
  postgres: 'HAPAX_TEST_POSTGRES',
  mysql: 'HAPAX_TEST_MYSQL',
  /** In front of the same PostgreSQL, in transaction mode; not set where it is not installed. */
  pgbouncer: 'HAPAX_TEST_PGBOUNCER',
} as const

export type ServerName = keyof typeof serverVariables

/** The stores to test: all of them, or those that `HAPAX_TEST_STORES` lists (`sqlite,memory`). */
export function testStores(list: string | undefined = process.env.HAPAX_TEST_STORES): StoreName[] {
  if (!list?.trim()) return [...storeNames]
  const asked = list.split(',').map((name) => name.trim())
  const unknown = asked.find((name) => !storeNames.some((known) => known === name))
  if (unknown !== undefined) {
    throw new Error(`expected HAPAX_TEST_STORES to list some of ${storeNames.join(', ')}, got '${unknown}'`)
  }
  return storeNames.filter((name) => asked.includes(name))
}

/** The URL of a server for the tests. The database is shared by all test files: each uses a schema or database of its own. */
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
