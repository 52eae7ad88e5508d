/**
 * The oldest releases of ORMs and drivers that pass the suite of connections. They are no peers in package.json: hapax imports none of them.
 * docs/orms.md names them too.
 */
export const OLDEST_ORMS: Readonly<Record<string, string>> = {
  '@libsql/client': '0.18.0',
  '@prisma/client': '7.0.0',
  'better-sqlite3': '13.0.0',
  'drizzle-orm': '0.44.0',
  knex: '3.0.1',
  kysely: '0.28.18',
  postgres: '3.4.9',
  sequelize: '6.37.0',
  typeorm: '0.3.20',
}
