import { EntitySchema } from '@mikro-orm/core'
import { MikroORM as OnMariadb } from '@mikro-orm/mariadb'
import { MikroORM as OnMysql } from '@mikro-orm/mysql'
import { MikroORM as OnPostgres } from '@mikro-orm/postgresql'
import { MikroORM as OnSqlite } from '@mikro-orm/sqlite'
import { createHapax, defineMessage } from 'hapax'
import { fromMikroOrm } from 'hapax/mikro-orm'
import { mysql } from 'hapax/mysql'
import { sqlite } from 'hapax/sqlite'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { type Reached, runPair } from '../support/pairs.ts'
import { requireServer, testStores } from '../support/servers.ts'

type Tx = OnPostgres['em']

const cannot = {
  'watched statements': `MikroORM runs the handler's statements itself: a swallowed deadlock costs an attempt`,
}

class Note {
  id!: number
}

const entities = [new EntitySchema({ class: Note, properties: { id: { type: 'number', primary: true } } })]

const reached = (orm: Pick<OnPostgres, 'em' | 'config' | 'close'>): Reached<Tx> => {
  const { em } = orm
  return {
    from: fromMikroOrm(orm),
    own: (work) => em.fork().transactional(work),
    notBegun: (work) => work(em.fork()),
    close: () => orm.close(),
  }
}

const client = (tx: Tx) => ({
  query: (text: string, values: unknown[] = []) => tx.execute(text.replaceAll('$1', '?'), values),
})

const left = (text: string) => (tx: Tx) => tx.execute(text).catch(() => {})

const nested = <T>(tx: Tx, work: (inner: Tx) => Promise<T>) => tx.transactional(work)

await runPair<Tx>({
  orm: 'mikro-orm',
  driver: 'pg',
  database: 'postgres',
  cannot,
  open: async ({ url, max }) => {
    const driverOptions = { application_name: new URL(url).searchParams.get('application_name') }
    return reached(await OnPostgres.init({ entities, clientUrl: url, pool: { max }, driverOptions }))
  },
  client,
  nested,
  leaveOpen: left('select pg_sleep(300)'),
})

await runPair<Tx>({
  orm: 'mikro-orm',
  driver: 'mysql2',
  database: 'mysql',
  cannot,
  open: async ({ url, max }) => reached((await OnMysql.init({ entities, clientUrl: url, pool: { max } })) as never),
  client,
  nested,
  leaveOpen: left('do sleep(300)'),
})

await runPair<Tx>({
  orm: 'mikro-orm',
  driver: 'better-sqlite3',
  database: 'sqlite',
  cannot: { ...cannot, 'something left open': 'a statement is over when it returns' },
  open: async ({ url }) =>
    reached((await OnSqlite.init({ entities, dbName: url, driverOptions: { timeout: 0 } })) as never),
  client,
  nested,
  leaveOpen: () => {},
})

describe.runIf(testStores().includes('mysql'))('MikroORM for MariaDB', () => {
  it('is taken as well, by the store of its database only', async () => {
    const orm = await OnMariadb.init({ entities, clientUrl: requireServer('mysql') })
    onTestFinished(() => orm.close())
    const database = `mikro_${process.pid}`
    const hapax = createHapax({ store: mysql(fromMikroOrm(orm), { database }), source: '/test' })
    await orm.em.execute(`create database ${database}`)
    onTestFinished(async () => void (await orm.em.execute(`drop database ${database}`)))
    await hapax.migrate()
    const consumer = hapax.consumer('notes')
    consumer.on(defineMessage('noted'), async (_, { tx }) => void (await tx.execute('select 1')))
    const message = { id: 'a', source: '/test', type: 'noted', data: {} }
    expect(await consumer.handle(message)).toMatchObject({ status: 'processed' })
    expect(await consumer.handle(message)).toMatchObject({ status: 'duplicate' })
    expect(() => sqlite(fromMikroOrm(orm))).toThrow('a MikroORM for sqlite')
  })
})

describe.runIf(testStores().includes('sqlite'))('entities of MikroORM', () => {
  const Noted = defineMessage<{ id: number }>('noted')
  let orm: OnSqlite

  beforeEach(async () => {
    orm = await OnSqlite.init({ entities, dbName: ':memory:' })
    await orm.schema.create()
  })
  afterEach(() => orm.close())

  const started = async () => {
    const hapax = createHapax({ store: sqlite(fromMikroOrm(orm)), source: '/test' })
    await hapax.migrate()
    const notes = () => orm.em.fork().count(Note)
    return { hapax, notes }
  }

  it('are written when the handler returns, without a flush', async () => {
    const { hapax, notes } = await started()
    await hapax.transaction(async (tx) => {
      tx.persist(tx.create(Note, { id: 1 }))
      await hapax.publish(tx, Noted, { id: 1 }, { relay: 'later' })
    })
    expect(await notes()).toBe(1)
  })

  it('that break a constraint when they are flushed fail the handler, and nothing is kept', async () => {
    const { hapax, notes } = await started()
    await orm.em.fork().insert(Note, { id: 1 })
    const failing = hapax.transaction(async (tx) => {
      tx.persist(tx.create(Note, { id: 2 }))
      tx.persist(tx.create(Note, { id: 1 }))
    })
    await expect(failing).rejects.toMatchObject({ name: 'UniqueConstraintViolationException' })
    expect(await notes()).toBe(1)
    // The connection is free again.
    await hapax.transaction(async (tx) => tx.persist(tx.create(Note, { id: 3 })))
    expect(await notes()).toBe(2)
  })

  it('that cannot be flushed are no failure of the store', async () => {
    const { hapax } = await started()
    await orm.schema.drop()
    const failing = hapax.transaction(async (tx) => tx.persist(tx.create(Note, { id: 1 })))
    await expect(failing).rejects.toMatchObject({ name: 'TableNotFoundException' })
  })
})
