import { randomBytes } from 'node:crypto'
import { createHapax, defineMessage, type Hapax, Permanent, silentLogger } from 'hapax'
import { memoryBroker } from 'hapax/memory-broker'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import mysql2 from 'mysql2/promise'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { asRole, posted } from '../support/console-world.ts'
import { read } from '../support/pages.ts'
import { pgPool } from '../support/pg-pool.ts'
import { requireServer, testStores } from '../support/servers.ts'

// The SQL of docs/grants.md, executed; then each role does what the page says that it is for.

const Placed = defineMessage<{ n: number }>('placed')
const Sms = defineMessage<{ n: number }>('sms')

interface Place {
  /** A hapax as this role, with what the page grants to it. */
  open(role: Role): Promise<Hapax<unknown>>
  /** The name of a table of hapax. */
  table(name: string): string
  /** A call of the routine that publishes. */
  readonly routine: string
}
type Role = 'migrator' | 'application' | 'producer' | 'operator' | 'viewer'

const databases: readonly (readonly [
  name: 'postgres' | 'mysql',
  setUp: () => Promise<Place>,
  roles: readonly Role[],
])[] = [
  ['postgres', setUpPostgres, ['application', 'operator']],
  ['mysql', setUpMysql, ['application']],
]

describe.for(databases.filter(([name]) => testStores().includes(name)))('grants on %s', ([, setUp, changing]) => {
  it('a migrator makes and updates the tables', async () => {
    const { open } = await setUp()
    const hapax = await open('migrator')
    expect((await hapax.migrate()).length).toBeGreaterThan(0)
    expect(await hapax.migrate()).toEqual([])
  })

  it('an application consumes, retries, calls, publishes, relays and cleans up, and changes no schema', async () => {
    const { open, table } = await setUp()
    await (await open('migrator')).migrate()
    const hapax = await open('application')
    expect(await hapax.migrate()).toEqual([])
    await work(hapax)
    expect(await hapax.failed.list({})).toEqual([])
    await expect(query(hapax, `delete from ${table('migrations')}`)).rejects.toThrow(/denied/)
  })

  it.for(changing)('a person with the rights of the %s decides about messages', async (role) => {
    const { open } = await setUp()
    await (await open('migrator')).migrate()
    await fail(await open('application'))
    const hapax = await open(role)
    const by = { actor: 'tester' }
    const [first, second, third] = await hapax.failed.list({})
    await hapax.failed.discard(first?.seq ?? '', by)
    await hapax.failed.retry(second?.seq ?? '', by)
    await hapax.failed.edit(third?.seq ?? '', { data: { n: 4 }, ...by })
    expect(await hapax.failed.list({})).toEqual([])
    expect((await hapax.doctor()).length).toBeGreaterThan(0)
    expect(await hapax.cleanup({ consumer: 'billing', olderThanMs: 1 })).toEqual({ receipts: expect.any(Number) })
  })

  it('a viewer looks, and changes nothing', async () => {
    const { open } = await setUp()
    await (await open('migrator')).migrate()
    await fail(await open('application'))
    const hapax = await open('viewer')
    await hapax.status()
    expect((await hapax.doctor()).length).toBeGreaterThan(0)
    const [first] = await hapax.failed.list({})
    expect(await hapax.explain('1', '/test')).not.toEqual([])
    await expect(hapax.failed.discard(first?.seq ?? '', { actor: 'tester' })).rejects.toThrow(/denied/)
  })

  it('a console with the rights of a viewer refuses changes and names the reason', async () => {
    const { open } = await setUp()
    await (await open('migrator')).migrate()
    await fail(await open('application'))
    const hapax = await open('viewer')
    const admin = asRole({ hapax }, 'admin')
    const [first] = await hapax.failed.list({})
    for (const action of ['discard', 'retry']) {
      const refused = await admin(`api/failed/${first?.seq}/${action}`, posted({}))
      expect([refused.status, await refused.json()]).toEqual([
        403,
        expect.objectContaining({ code: 'denied', advice: expect.stringContaining('docs/grants.md') }),
      ])
    }
    expect(await hapax.failed.list({})).toHaveLength(3)
  })

  it('a viewer sees endpoints, and not what signs their webhooks', async () => {
    const { open, table } = await setUp()
    await (await open('migrator')).migrate()
    const hapax = await open('viewer')
    await query(hapax, `select id, url, types, enabled, reason, note from ${table('endpoints')}`)
    await expect(query(hapax, `select secrets from ${table('endpoints')}`)).rejects.toThrow(/denied/)
    await expect(query(hapax, `select * from ${table('endpoints')}`)).rejects.toThrow(/denied/)
    const drift = (await hapax.doctor()).filter(({ check }) => check === 'schema drift')
    expect(drift.map(({ level }) => level)).toEqual(['ok'])
  })

  it('a producer can publish, and cannot read messages', async () => {
    const { open, routine } = await setUp()
    await (await open('migrator')).migrate()
    const hapax = await open('producer')
    await hapax.transaction((tx) => hapax.publish(tx, Placed, { n: 1 }))
    await query(hapax, routine)
    await expect(hapax.status()).rejects.toThrow(/denied/)
    await expect(
      hapax
        .consumer('billing')
        .on(Placed, () => {})
        .handle(message(1)),
    ).rejects.toThrow(/denied/)
  })
})

const message = (n: number) => ({ id: String(n), source: '/test', type: 'placed', data: { n } })

/** All that the processes of an application do. */
async function work(hapax: Hapax<unknown>): Promise<void> {
  const broker = memoryBroker()
  const billing = hapax.consumer('billing', { order: 'wait', retry: { minDelayMs: 0, maxDelayMs: 0 } })
  billing.on(Placed, async (_, ctx) => {
    if (ctx.attempt === 1) throw new Error('once')
    await ctx.publish(Sms, { n: 1 })
  })
  const sms = hapax.leased('sms')
  const called: string[] = []
  sms.on(Sms, async (_, ctx) => void (await ctx.effect('send', (key) => called.push(key))))
  const queue = broker.queue('sms', { topic: 'shop' })
  const worker = hapax.worker({ relay: broker.topic('shop'), consume: [billing, sms.from(queue)], keepSentMs: 1 })
  await worker.start()
  await billing.handle({ ...message(1), key: 'a' })
  await expect.poll(() => called.length).toBe(1)
  await worker.drain()
  await worker.stop()
  await hapax.cleanup({ consumer: 'billing', olderThanMs: 1 })
  await answer(hapax)
}

/** A request and its retry; and one under the same key once the response has expired. */
async function answer(hapax: Hapax<unknown>): Promise<void> {
  const sending = (name: string, keepMs: number): (() => Promise<number>) => {
    let handled = 0
    const handler = hapax.http(name, { principal: 'none', keepMs }).handler(() => Response.json({ handled: ++handled }))
    const request = { method: 'POST', headers: { 'idempotency-key': 'a' } }
    return async () => Object(await (await handler(new Request('http://shop/orders', request))).json()).handled
  }
  const kept = sending('orders', 60_000)
  for (const _ of ['once', 'again']) expect(await kept()).toBe(1)
  const brief = sending('brief', 1_000)
  await brief()
  await expect.poll(brief, { timeout: 20_000 }).toBeGreaterThan(1)
}

/** Leaves three messages in the failed store. */
async function fail(hapax: Hapax<unknown>): Promise<void> {
  const billing = hapax.consumer('billing').on(Placed, () => Promise.reject(new Permanent('no')))
  for (const n of [1, 2, 3]) expect((await billing.handle(message(n))).status).toBe('failed')
}

function query(hapax: Hapax<unknown>, text: string): Promise<unknown> {
  return hapax.transaction((tx) => (tx as { query(text: string): Promise<unknown> }).query(text))
}

/** The statements under a mark on the page, with other names. */
function grants(database: string, role: Role, renamed: (sql: string) => string): readonly string[] {
  const mark = `<!-- grants: ${database} ${role} -->\n\`\`\`sql\n`
  const [, block] = read('docs/grants.md').split(mark)
  if (block === undefined) throw new Error(`docs/grants.md has no ${mark}`)
  const statements = block.slice(0, block.indexOf('```')).split(';')
  return statements.map((each) => renamed(each.trim())).filter((each) => each !== '')
}

async function setUpPostgres(): Promise<Place> {
  const unique = `grants_${randomBytes(5).toString('hex')}`
  const connectionString = requireServer('postgres')
  const admin = pgPool({ connectionString, max: 1 })
  const { rows } = await admin.query('select current_database() as name')
  const opened: Hapax<unknown>[] = []
  const pools: pg.Pool[] = []
  const roles: string[] = []
  onTestFinished(async () => {
    for (const hapax of opened) await hapax.close()
    for (const pool of pools) await pool.end()
    await admin.query(`drop schema if exists ${unique} cascade`)
    for (const role of roles) await admin.query(`drop owned by ${role}; drop role ${role}`)
    await admin.end()
  })
  const open = async (role: Role): Promise<Hapax<unknown>> => {
    const name = `${unique}_${role}`
    roles.push(name)
    await admin.query(`create role ${name} nologin`)
    const renamed = (sql: string): string =>
      sql
        .replace(/\bdatabase shop\b/, `database ${rows[0]?.['name']}`)
        .replaceAll(/\bhapax\b/g, unique)
        .replaceAll(new RegExp(`\\b${role}\\b`, 'g'), name)
    for (const statement of grants('postgres', role, renamed)) await admin.query(statement)
    const pool = new pg.Pool({ connectionString, max: 6 })
    pool.on('connect', (client) => void client.query(`set role ${name}`))
    pools.push(pool)
    const store = postgres({ pool, schema: unique })
    const hapax = createHapax({ store, source: '/shop', logger: silentLogger }) as Hapax<unknown>
    opened.push(hapax)
    return hapax
  }
  const routine = `select ${unique}.publish(source => '/shop', type => 'placed')`
  return { open: once(open), table: (name) => `${unique}.${name}`, routine }
}

async function setUpMysql(): Promise<Place> {
  const unique = `grants_${randomBytes(5).toString('hex')}`
  const admin = await mysql2.createConnection(requireServer('mysql'))
  await admin.query(`create database ${unique}`)
  const opened: Hapax<unknown>[] = []
  const pools: mysql2.Pool[] = []
  const users: string[] = []
  onTestFinished(async () => {
    for (const hapax of opened) await hapax.close()
    for (const pool of pools) await pool.end()
    for (const user of users) await admin.query(`drop user '${user}'@'%'`)
    await admin.query(`drop database ${unique}`)
    await admin.end()
  })
  const open = async (role: Role): Promise<Hapax<unknown>> => {
    const user = `${unique}_${role}`.slice(0, 32)
    users.push(user)
    await admin.query(`create user '${user}'@'%' identified by 'Secret-1'`)
    const renamed = (sql: string): string => sql.replaceAll('shop.', `${unique}.`).replaceAll(`'${role}'`, `'${user}'`)
    for (const statement of grants('mysql', role, renamed)) await admin.query(statement)
    const uri = requireServer('mysql')
    const pool = mysql2.createPool({ uri, database: unique, user, password: 'Secret-1', connectionLimit: 6 })
    pools.push(pool)
    const hapax = createHapax({ store: mysql({ pool }), source: '/shop', logger: silentLogger }) as Hapax<unknown>
    opened.push(hapax)
    return hapax
  }
  const routine = `call ${unique}.hapax_publish('/shop', 'placed', 'none', null, null, null, @id)`
  return { open: once(open), table: (name) => `${unique}.hapax_${name}`, routine }
}

/** A role is made once. */
function once<T>(open: (role: Role) => Promise<T>): (role: Role) => Promise<T> {
  const opened = new Map<Role, Promise<T>>()
  return (role) => {
    const known = opened.get(role) ?? open(role)
    opened.set(role, known)
    return known
  }
}
