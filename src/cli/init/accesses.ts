import type { Format } from '../migrations/formats.ts'

/** The databases. */
export type Database = 'postgres' | 'mysql' | 'sqlite'

/** How a store is set up through one ORM or driver, on one database. */
export interface StoreTemplate {
  /** What has to be installed. */
  readonly packages: readonly string[]
  readonly imports: readonly string[]
  readonly setup: readonly string[]
  readonly store: string
  /** What connects, to be awaited, if that does not happen by itself. */
  readonly connect?: string
  /** What an application of Nest injects, if it has the package for this ORM. */
  readonly nest?: Injected
  /** Another one for the same database, for projects that have its packages. */
  readonly other?: StoreTemplate
}

/** A connection that Nest provides by its class. */
export interface Injected {
  readonly package: string
  /** Where the class and the type of transactions are from. */
  readonly from: string
  readonly type: string
  /** The name under which the store of the template uses it. */
  readonly variable: string
  readonly transaction: string
  /** An expression for the name of the database. */
  readonly database: string
}

/** What an application reaches its database through. */
export interface Access {
  readonly name: string
  /** Packages of which one says that it is used. */
  readonly packages: readonly string[]
  readonly isOrm: boolean
  readonly on: Partial<Record<Database, StoreTemplate>>
  /** The tool that applies its migrations, if it has one. */
  readonly migrations?: {
    readonly format: Format
    /** Folders in which the tool may look; the first one unless another one exists. */
    readonly folders: readonly string[]
    readonly command: string
    /** What the migration and the command need, besides what the template does. */
    readonly packages: readonly string[]
  }
}

/** Stands for the URL of the database, or the path of its file. */
export const PLACE = '$PLACE'

const PG_POOL = `const pool = new pg.Pool({ connectionString: ${PLACE} })`
const SQLITE = `import { sqlite } from 'hapax/sqlite'`
const POSTGRES = `import { postgres } from 'hapax/postgres'`
const MYSQL = `import { mysql } from 'hapax/mysql'`

/** Everything that init knows, ORMs first. */
export const ACCESSES: readonly Access[] = [
  {
    name: 'drizzle',
    packages: ['drizzle-orm'],
    isOrm: true,
    migrations: {
      format: 'drizzle',
      folders: ['drizzle', 'migrations'],
      command: 'npx drizzle-kit migrate',
      packages: ['drizzle-kit'],
    },
    on: {
      postgres: {
        packages: ['drizzle-orm', 'pg'],
        imports: [
          `import { sql } from 'drizzle-orm'`,
          `import { drizzle } from 'drizzle-orm/node-postgres'`,
          `import { fromDrizzle } from 'hapax/drizzle'`,
          POSTGRES,
        ],
        setup: [`export const db = drizzle(${PLACE})`],
        store: 'postgres(fromDrizzle(db, sql))',
      },
      mysql: {
        packages: ['drizzle-orm', 'mysql2'],
        imports: [
          `import { sql } from 'drizzle-orm'`,
          `import { drizzle } from 'drizzle-orm/mysql2'`,
          `import { fromDrizzle } from 'hapax/drizzle'`,
          MYSQL,
          `import { createPool } from 'mysql2/promise'`,
        ],
        setup: [`export const db = drizzle(createPool(${PLACE}))`],
        store: 'mysql(fromDrizzle(db, sql))',
      },
      sqlite: {
        packages: ['drizzle-orm', 'better-sqlite3'],
        imports: [
          `import { sql } from 'drizzle-orm'`,
          `import { drizzle } from 'drizzle-orm/better-sqlite3'`,
          `import { fromDrizzle } from 'hapax/drizzle'`,
          SQLITE,
        ],
        setup: [`export const db = drizzle(${PLACE})`],
        store: 'sqlite(fromDrizzle(db, sql))',
      },
    },
  },
  {
    name: 'prisma',
    packages: ['@prisma/client', 'prisma'],
    isOrm: true,
    migrations: {
      format: 'prisma',
      folders: ['prisma/migrations'],
      command: 'npx prisma migrate deploy',
      packages: ['prisma'],
    },
    on: {
      postgres: prisma('postgres', POSTGRES, '@prisma/adapter-pg', 'PrismaPg', `{ connectionString: ${PLACE} }`),
      mysql: prisma('mysql', MYSQL, '@prisma/adapter-mariadb', 'PrismaMariaDb', PLACE),
      sqlite: prisma('sqlite', SQLITE, '@prisma/adapter-better-sqlite3', 'PrismaBetterSqlite3', `{ url: ${PLACE} }`),
    },
  },
  {
    name: 'kysely',
    packages: ['kysely'],
    isOrm: true,
    migrations: {
      format: 'kysely',
      folders: ['migrations', 'src/migrations', 'src/db/migrations'],
      command: 'your migrator, such as npx kysely migrate:latest of kysely-ctl',
      packages: [],
    },
    on: {
      postgres: {
        packages: ['kysely', 'pg'],
        imports: [
          `import { fromKysely } from 'hapax/kysely'`,
          POSTGRES,
          `import { Kysely, PostgresDialect } from 'kysely'`,
          `import pg from 'pg'`,
        ],
        setup: [
          PG_POOL,
          '// Without a listener, an idle connection that breaks would end the process.',
          `pool.on('error', (error) => console.error('an idle connection broke:', error.message))`,
          'export const db = new Kysely({ dialect: new PostgresDialect({ pool }) })',
        ],
        store: 'postgres(fromKysely(db, { pool }))',
      },
      mysql: {
        packages: ['kysely', 'mysql2'],
        imports: [
          `import { fromKysely } from 'hapax/kysely'`,
          MYSQL,
          `import { Kysely, MysqlDialect } from 'kysely'`,
          `import { createPool } from 'mysql2'`,
        ],
        setup: [`export const db = new Kysely({ dialect: new MysqlDialect({ pool: createPool(${PLACE}) }) })`],
        store: 'mysql(fromKysely(db))',
      },
      sqlite: {
        packages: ['kysely', 'better-sqlite3'],
        imports: [
          `import Database from 'better-sqlite3'`,
          `import { fromKysely } from 'hapax/kysely'`,
          SQLITE,
          `import { Kysely, SqliteDialect } from 'kysely'`,
        ],
        setup: [`export const db = new Kysely({ dialect: new SqliteDialect({ database: new Database(${PLACE}) }) })`],
        store: 'sqlite(fromKysely(db))',
      },
    },
  },
  {
    name: 'typeorm',
    packages: ['typeorm'],
    isOrm: true,
    migrations: {
      format: 'typeorm',
      folders: ['migrations', 'src/migrations', 'src/migration'],
      command: 'npx typeorm migration:run -d <your data source>',
      packages: [],
    },
    on: {
      postgres: typeorm('postgres', POSTGRES, 'pg', `{ type: 'postgres', url: ${PLACE} }`),
      mysql: typeorm('mysql', MYSQL, 'mysql2', `{ type: 'mysql', url: ${PLACE} }`),
    },
  },
  {
    name: 'mikro-orm',
    packages: [
      '@mikro-orm/core',
      '@mikro-orm/postgresql',
      '@mikro-orm/mysql',
      '@mikro-orm/mariadb',
      '@mikro-orm/sqlite',
    ],
    isOrm: true,
    migrations: {
      format: 'mikro-orm',
      folders: ['migrations', 'src/migrations'],
      command: 'npx mikro-orm migration:up',
      packages: ['@mikro-orm/migrations', '@mikro-orm/cli'],
    },
    on: {
      postgres: mikroOrm('postgres', POSTGRES, 'postgresql', `clientUrl: ${PLACE}`, `ignoreSchema: ['hapax']`),
      mysql: { ...mikroOrmMysql('mysql'), other: mikroOrmMysql('mariadb') },
      sqlite: mikroOrm('sqlite', SQLITE, 'sqlite', `dbName: ${PLACE}`, 'skipTables: [/^hapax_/]'),
    },
  },
  {
    name: 'sequelize',
    packages: ['sequelize'],
    isOrm: true,
    on: {
      postgres: sequelize('postgres', POSTGRES, ['sequelize', 'pg']),
      mysql: sequelize('mysql', MYSQL, ['sequelize', 'mysql2']),
    },
  },
  {
    name: 'knex',
    packages: ['knex'],
    isOrm: true,
    migrations: {
      format: 'knex',
      folders: ['migrations', 'src/migrations', 'db/migrations'],
      command: 'npx knex migrate:latest',
      packages: [],
    },
    on: {
      postgres: knex('postgres', POSTGRES, 'pg', PLACE),
      mysql: knex('mysql', MYSQL, 'mysql2', PLACE),
      sqlite: knex('sqlite', SQLITE, 'better-sqlite3', `{ filename: ${PLACE} }, useNullAsDefault: true`),
    },
  },
  {
    name: 'pg',
    packages: ['pg'],
    isOrm: false,
    on: {
      postgres: {
        packages: ['pg'],
        imports: [POSTGRES, `import pg from 'pg'`],
        setup: [`export ${PG_POOL}`],
        store: 'postgres({ pool })',
      },
    },
  },
  {
    name: 'postgres-js',
    packages: ['postgres'],
    isOrm: false,
    on: {
      postgres: {
        packages: ['postgres'],
        imports: [POSTGRES, `import { fromPostgresJs } from 'hapax/postgres-js'`, `import connect from 'postgres'`],
        setup: [`export const sql = connect(${PLACE})`],
        store: 'postgres(fromPostgresJs(sql))',
      },
    },
  },
  {
    name: 'mysql2',
    packages: ['mysql2'],
    isOrm: false,
    on: {
      mysql: {
        packages: ['mysql2'],
        imports: [MYSQL, `import { createPool } from 'mysql2/promise'`],
        setup: [`export const pool = createPool(${PLACE})`],
        store: 'mysql({ pool })',
      },
    },
  },
  {
    name: 'better-sqlite3',
    packages: ['better-sqlite3'],
    isOrm: false,
    on: {
      sqlite: {
        packages: ['better-sqlite3'],
        imports: [
          `import Database from 'better-sqlite3'`,
          `import { fromBetterSqlite3 } from 'hapax/better-sqlite3'`,
          SQLITE,
        ],
        setup: [`export const db = new Database(${PLACE})`],
        store: 'sqlite(fromBetterSqlite3(db))',
      },
    },
  },
  {
    name: 'sqlite',
    packages: [],
    isOrm: false,
    on: { sqlite: { packages: [], imports: [SQLITE], setup: [], store: `sqlite({ path: ${PLACE} })` } },
  },
]

/** The names of the ORMs and drivers. */
export const ACCESS_NAMES: readonly string[] = ACCESSES.map(({ name }) => name)

function prisma(database: Database, store: string, adapter: string, name: string, options: string): StoreTemplate {
  return {
    packages: ['@prisma/client', adapter],
    imports: [
      `import { ${name} } from '${adapter}'`,
      `import { PrismaClient } from '@prisma/client'`,
      store,
      `import { fromPrisma } from 'hapax/prisma'`,
    ],
    setup: [`export const prisma = new PrismaClient({ adapter: new ${name}(${options}) })`],
    store: `${database}(fromPrisma(prisma))`,
  }
}

function typeorm(database: Database, store: string, driver: string, options: string): StoreTemplate {
  return {
    packages: ['typeorm', driver],
    imports: [store, `import { fromTypeorm } from 'hapax/typeorm'`, `import { DataSource } from 'typeorm'`],
    setup: [`export const dataSource = new DataSource(${options})`],
    connect: 'dataSource.initialize()',
    store: `${database}(fromTypeorm(dataSource))`,
    nest: {
      package: '@nestjs/typeorm',
      from: 'typeorm',
      type: 'DataSource',
      variable: 'dataSource',
      transaction: 'EntityManager',
      database: 'String(dataSource.driver.database)',
    },
  }
}

function mikroOrm(database: Database, store: string, driver: string, place: string, keep: string): StoreTemplate {
  return {
    packages: ['@mikro-orm/core', `@mikro-orm/${driver}`],
    imports: [
      `import { MikroORM } from '@mikro-orm/${driver}'`,
      `import { fromMikroOrm } from 'hapax/mikro-orm'`,
      store,
    ],
    setup: [
      'export const orm = new MikroORM({',
      `  ${place},`,
      '  entities: [],',
      '  discovery: { warnWhenNoEntities: false },',
      '  // Otherwise the schema generator would drop the tables of hapax.',
      `  schemaGenerator: { ${keep} },`,
      '})',
    ],
    store: `${database}(fromMikroOrm(orm))`,
    nest: {
      package: '@mikro-orm/nestjs',
      from: `@mikro-orm/${driver}`,
      type: 'MikroORM',
      variable: 'orm',
      transaction: 'EntityManager',
      database: `String(orm.config.get('dbName'))`,
    },
  }
}

function mikroOrmMysql(driver: 'mysql' | 'mariadb'): StoreTemplate {
  return mikroOrm('mysql', MYSQL, driver, `clientUrl: ${PLACE}`, 'skipTables: [/^hapax_/], ignoreRoutines: true')
}

function sequelize(database: Database, store: string, packages: readonly string[]): StoreTemplate {
  // Sequelize turns off a flag that hapax relies on.
  const flags = database === 'mysql' ? `, dialectOptions: { flags: '+FOUND_ROWS' }` : ''
  const options = `logging: false${flags}`
  return {
    packages,
    imports: [store, `import { fromSequelize } from 'hapax/sequelize'`, `import { Sequelize } from 'sequelize'`],
    setup: [`export const sequelize = new Sequelize(${PLACE}, { ${options} })`],
    store: `${database}(fromSequelize(sequelize))`,
  }
}

function knex(database: Database, store: string, client: string, connection: string): StoreTemplate {
  return {
    packages: ['knex', client],
    imports: [`import { fromKnex } from 'hapax/knex'`, store, `import knex from 'knex'`],
    setup: [`export const db = knex({ client: '${client}', connection: ${connection} })`],
    store: `${database}(fromKnex(db))`,
  }
}
