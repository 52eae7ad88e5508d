import { readdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { createHapax, defineMessage, type Store, silentLogger } from 'hapax'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import { sqlite } from 'hapax/sqlite'
import { describe, expect, it } from 'vitest'
import config from '../../tsconfig.json' with { type: 'json' }
import { cli } from '../support/cli.ts'
import { diagnosticsOf } from '../support/compiler.ts'
import { migrationTools, type OwnDatabase, ownDatabase, withMikroOrmPackages } from '../support/migration-tools.ts'
import { orSkip } from '../support/registry.ts'
import { inThisRun, oneInTest } from '../support/runs.ts'
import { mikroOrmSettings, mikroOrmUpdate, sequelizeSync, typeormSynchronize } from '../support/schema-tools.ts'
import { testStores } from '../support/servers.ts'

const stores = testStores().filter((name) => name !== 'memory')
/** One database for each tool is enough for `npm test`. */
const inRun = oneInTest(stores, 'postgres')
const Paid = defineMessage<{ amount: number }>('invoice.paid')

/** Writes the migration with the command line; returns the folder. */
async function written({ url, project }: OwnDatabase, format: string, ...more: string[]): Promise<string> {
  const print = ['migrate', '--print', '--all', '--format', format, '--out', 'migrations', '--store', url, ...more]
  expect(await cli(print, { cwd: project })).toMatchObject({ exitCode: 0, stderr: '' })
  return join(project, 'migrations')
}

function opened({ store, url, file }: OwnDatabase): Store<unknown> {
  const made = { postgres: () => postgres({ url }), mysql: () => mysql({ url }), sqlite: () => sqlite({ path: file }) }
  return made[store]() as Store<unknown>
}

/** What hapax makes of the tables: nothing is missing, a message runs once, and doctor has no objection. */
async function expectComplete(database: OwnDatabase): Promise<void> {
  const around = { cwd: database.project, env: { HAPAX_STORE: database.url } }
  expect(await cli(['migrate', '--check'], around)).toMatchObject({ exitCode: 0 })
  const hapax = createHapax({ store: opened(database), source: '/shop', logger: silentLogger })
  try {
    expect(await hapax.migrate()).toEqual([])
    const billing = hapax.consumer('billing').on(Paid, () => {})
    const message = { id: 'evt_1', source: 'stripe', type: 'invoice.paid', data: { amount: 1 } }
    expect((await billing.handle(message)).status).toBe('processed')
    expect((await billing.handle(message)).status).toBe('duplicate')
    const { findings } = JSON.parse((await cli(['doctor', '--json'], around)).stdout)
    expect(findings.filter(({ level }: { level: string }) => level !== 'ok')).toEqual([])
  } finally {
    await hapax.close()
  }
}

describe.for(inRun)('migrations of %s', (store) => {
  it.for(migrationTools)('are applied and taken back by $format', async ({ format, up, down }, { skip }) => {
    await using database = await ownDatabase(store)
    const folder = await written(database, format)
    await orSkip(up(database, folder), skip)
    await expectComplete(database)
    // A second run of the tool has nothing to do.
    if (format !== 'prisma') await up(database, folder)
    if (down === undefined) return
    await down(database, folder)
    const around = { cwd: database.project, env: { HAPAX_STORE: database.url } }
    expect(JSON.parse((await cli(['migrate', '--dry-run', '--json'], around)).stdout).pending).toHaveLength(1)
    await up(database, folder)
    await expectComplete(database)
  })
})

/** A database that has the tables of hapax. */
async function migrated(store: (typeof stores)[number]): Promise<OwnDatabase> {
  const database = await ownDatabase(store)
  expect((await cli(['migrate', '--store', database.url])).exitCode).toBe(0)
  return database
}

describe.for(inRun)('the tables on %s', (store) => {
  it('stay when TypeORM synchronizes', async () => {
    await using database = await migrated(store)
    await typeormSynchronize(database)
    await expectComplete(database)
  })

  it.skipIf(store === 'sqlite')('stay when Sequelize synchronizes', async () => {
    await using database = await migrated(store)
    await sequelizeSync(database)
    await expectComplete(database)
  })

  it('are dropped by MikroORM, unless it is told to leave them alone', async () => {
    await using database = await migrated(store)
    expect(await mikroOrmUpdate(database, {})).toMatch(/drop table.*hapax/)
    expect(await mikroOrmUpdate(database, mikroOrmSettings[store])).not.toContain('drop')
  })
})

describe.for(inThisRun(['modules'], () => false))('migrations as %s', () => {
  const formats = ['kysely', 'knex', 'typeorm', 'mikro-orm']

  it('type-check under strict options', async ({ skip }) => {
    await using database = await ownDatabase('sqlite')
    await orSkip(withMikroOrmPackages(database), skip)
    for (const format of formats) await written(database, format, '--language', 'ts', '--out', format)
    const options = { ...config.compilerOptions, skipLibCheck: true, customConditions: [] }
    writeFileSync(join(database.project, 'tsconfig.json'), JSON.stringify({ compilerOptions: options }))
    expect(await diagnosticsOf(database.project)).toEqual([])
  })

  it.for(formats)('of %s load with require', async (format, { skip }) => {
    await using database = await ownDatabase('sqlite', { name: 'shop' })
    if (format === 'mikro-orm') await orSkip(withMikroOrmPackages(database), skip)
    const folder = await written(database, format)
    const [name = ''] = readdirSync(folder)
    const loaded: Record<string, unknown> = createRequire(join(folder, 'x.js'))(join(folder, name))
    const made = ['kysely', 'knex'].includes(format) ? loaded : Object.values(loaded)[0]
    const methods = typeof made === 'function' ? made.prototype : made
    expect(methods).toMatchObject({ up: expect.any(Function), down: expect.any(Function) })
  })
})
