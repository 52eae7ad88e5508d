import { EntitySchema as MariadbEntity, MikroORM as MikroMariadb } from '@mikro-orm/mariadb'
import { MikroORM as MikroPostgres, EntitySchema as PostgresEntity } from '@mikro-orm/postgresql'
import { MikroORM as MikroSqlite, EntitySchema as SqliteEntity } from '@mikro-orm/sqlite'
import { DataTypes, Sequelize } from 'sequelize'
import { DataSource, EntitySchema } from 'typeorm'
import type { OwnDatabase } from './migration-tools.ts'

/** Lets TypeORM make the database like its entities, as in development. */
export async function typeormSynchronize({ store, url, file }: OwnDatabase): Promise<void> {
  const entities = [new EntitySchema({ name: 'user', columns: { id: { type: Number, primary: true } } })]
  const source = new DataSource(
    store === 'sqlite'
      ? { type: 'better-sqlite3', database: file, entities, synchronize: true }
      : { type: store, url, entities, synchronize: true },
  )
  await source.initialize()
  await source.destroy()
}

/** Lets Sequelize make the database like its models. */
export async function sequelizeSync({ store, url }: OwnDatabase): Promise<void> {
  const sequelize = new Sequelize(url, { dialect: store, logging: false })
  sequelize.define('user', { id: { type: DataTypes.INTEGER, primaryKey: true } })
  await sequelize.sync({ alter: true }).finally(() => sequelize.close())
}

/** What the documentation says MikroORM has to be told. */
export const mikroOrmSettings: Record<OwnDatabase['store'], object> = {
  postgres: { ignoreSchema: ['hapax'] },
  mysql: { skipTables: [/^hapax_/], ignoreRoutines: true },
  sqlite: { skipTables: [/^hapax_/] },
}

/** What MikroORM would run to make the database like its entities. */
export async function mikroOrmUpdate({ store, url, file }: OwnDatabase, schemaGenerator: object): Promise<string> {
  const user = { name: 'User', properties: { id: { type: 'number', primary: true } } } as const
  const orms = {
    postgres: () => MikroPostgres.init({ clientUrl: url, entities: [new PostgresEntity(user)], schemaGenerator }),
    mysql: () => MikroMariadb.init({ clientUrl: url, entities: [new MariadbEntity(user)], schemaGenerator }),
    sqlite: () => MikroSqlite.init({ dbName: file, entities: [new SqliteEntity(user)], schemaGenerator }),
  }
  const orm = await orms[store]()
  return await orm.schema.getUpdateSchemaSQL().finally(() => orm.close())
}
