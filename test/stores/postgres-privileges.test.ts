import { createHapax, silentLogger } from 'hapax'
import { postgres } from 'hapax/postgres'
import pg from 'pg'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { pgPool } from '../support/pg-pool.ts'
import { requireServer } from '../support/servers.ts'

const connectionString = requireServer('postgres')
const admin = pgPool({ connectionString, max: 2 })
afterAll(() => admin.end())

let roles = 0

/** A role that may do nothing yet, a hapax as this role, and one as the role that may do everything. */
async function setUp() {
  const name = `privileges_${process.pid}_${++roles}`
  await admin.query(`create role ${name} nologin`)
  const pool = new pg.Pool({ connectionString, max: 4 })
  pool.on('connect', (client) => void client.query(`set role ${name}`))
  onTestFinished(async () => {
    await pool.end()
    await admin.query(`drop schema if exists ${name} cascade; drop owned by ${name}; drop role ${name}`)
  })
  const hapax = createHapax({ store: postgres({ pool, schema: name }), source: '/test', logger: silentLogger })
  const owner = createHapax({ store: postgres({ pool: admin, schema: name }), source: '/test', logger: silentLogger })
  return { name, hapax, owner }
}

describe('K21: migrate needs no more than what is missing needs', () => {
  it('nothing is missing: reading is enough', async () => {
    const { name, hapax, owner } = await setUp()
    await owner.migrate()
    await admin.query(`grant usage on schema ${name} to ${name}; grant select on ${name}.migrations to ${name}`)
    expect(await hapax.migrate()).toEqual([])
  })

  it('tables are missing: the schema is enough', async () => {
    const { name, hapax } = await setUp()
    await admin.query(`create schema ${name}; grant usage, create on schema ${name} to ${name}`)
    expect((await hapax.migrate()).length).toBeGreaterThan(0)
    expect(await hapax.migrate()).toEqual([])
    await hapax.transaction(async () => {})
  })

  it('without the schema it says what it may not do', async () => {
    const { hapax } = await setUp()
    await expect(hapax.migrate()).rejects.toMatchObject({ code: '42501' })
  })

  it('a schema of another version is noticed all the same', async () => {
    const { name, hapax, owner } = await setUp()
    await owner.migrate()
    await admin.query(`grant usage on schema ${name} to ${name}; grant select on ${name}.migrations to ${name}`)
    await admin.query(`update ${name}.migrations set checksum = 'other'`)
    await expect(hapax.migrate()).rejects.toMatchObject({ code: 'schema-drift' })
  })
})
