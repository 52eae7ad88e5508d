import { generate } from './generate.ts'

generate()

/** The clients that Prisma generates for tests; imported once they are there. */
export const onPostgres: typeof import('./generated/postgresql/client.ts') = await import(
  './generated/postgresql/client.ts'
)
export const onMysql: typeof import('./generated/mysql/client.ts') = await import('./generated/mysql/client.ts')
export const onSqlite: typeof import('./generated/sqlite/client.ts') = await import('./generated/sqlite/client.ts')
