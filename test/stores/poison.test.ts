import { randomBytes } from 'node:crypto'
import {
  createHapax,
  defineMessage,
  type Hapax,
  type IncomingMessage,
  type Logger,
  type Outcome,
  silentLogger,
  stubOf,
} from 'hapax'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import mysql2 from 'mysql2/promise'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { pgPool } from '../support/pg-pool.ts'
import { requireServer, testStores } from '../support/servers.ts'

const Ping = defineMessage<unknown>('ping')
const MiB = 1024 * 1024

const ping = (id: string, more: Partial<IncomingMessage> = {}): IncomingMessage => ({
  id,
  source: '/sender',
  type: 'ping',
  data: { n: 1 },
  ...more,
})

// biome-ignore lint/suspicious/noExplicitAny: these cases run on stores of different transactions
type AnyHapax = Hapax<any, any>
type Way = (hapax: AnyHapax, name: string, messages: readonly IncomingMessage[]) => Promise<readonly Outcome[]>

/** The ids that took effect. */
let done: string[] = []

const handler = async (_: unknown, { message }: { readonly message: { readonly id: string } }): Promise<void> => {
  if (!message.id.startsWith('good')) throw new Error(`the handler does not want ${message.id}`)
  done.push(message.id)
}

const WAYS: Readonly<Record<string, Way>> = {
  'one by one': (hapax, name, messages) => hapax.consumer(name).on(Ping, handler).handleMany(messages),
  'in a group': (hapax, name, messages) =>
    hapax
      .consumer(name, { group: { size: 10 } })
      .on(Ping, handler)
      .handleMany(messages),
  'in a stored batch': async (hapax, name, messages) => {
    const consumer = hapax.consumer(name, { receive: 'store' }).on(Ping, handler)
    const outcomes = await consumer.handleMany(messages)
    await using worker = hapax.worker({ consume: [consumer] })
    await worker.start()
    await worker.drain()
    return outcomes
  },
  leased: async (hapax, name, messages) => {
    const consumer = hapax.leased(name).on(Ping, handler)
    const outcomes = await consumer.handleMany(messages)
    await using worker = hapax.worker({ consume: [consumer] })
    await worker.start()
    await worker.drain()
    return outcomes
  },
}

/** The neighbours of a message take effect, and it is in the failed store. */
async function expectIsolated(hapax: AnyHapax, poison: IncomingMessage, way: Way, consumer = 'billing') {
  done = []
  const outcomes = await way(hapax, consumer, [ping('good 1'), poison, ping('good 2')])
  expect(outcomes.map(({ ack }) => ack)).toEqual([true, true, true])
  expect(outcomes[1]?.status).toBe('failed')
  expect([...new Set(done)].sort()).toEqual(['good 1', 'good 2'])
  const failed = await hapax.failed.list({ consumer })
  expect(failed).toHaveLength(1)
  return failed[0]
}

describe.skipIf(!testStores().includes('postgres'))('PostgreSQL', () => {
  /** A database for each encoding. To drop one takes a checkpoint, which takes as long as a busy server likes. */
  const databases = new Map<string, Promise<string>>()
  const run = `poison_${randomBytes(6).toString('hex')}`

  async function admin(statement: string): Promise<void> {
    const client = pgPool({ connectionString: requireServer('postgres'), max: 1 })
    await client.query(statement)
    await client.end()
  }

  async function databaseIn(encoding: string): Promise<string> {
    const name = `${run}_${encoding.toLowerCase()}`
    await admin(`create database ${name} encoding '${encoding}' template template0 lc_collate 'C' lc_ctype 'C'`)
    const url = new URL(requireServer('postgres'))
    url.pathname = `/${name}`
    return url.href
  }

  afterAll(async () => {
    for (const encoding of databases.keys()) await admin(`drop database ${run}_${encoding.toLowerCase()} with (force)`)
  }, 600_000)

  /** A hapax on a database in this encoding. */
  async function inEncoding(encoding: string, logger: Logger = silentLogger): Promise<AnyHapax> {
    const known = databases.get(encoding) ?? databaseIn(encoding)
    databases.set(encoding, known)
    const pool = pgPool({ connectionString: await known, max: 4 })
    const schema = `hapax_${randomBytes(6).toString('hex')}`
    const hapax = createHapax({ store: postgres({ pool, schema }), source: '/test', logger })
    onTestFinished(async () => {
      await hapax.close()
      await pool.end()
    })
    await hapax.migrate()
    return hapax
  }

  const STRANGE = '\u65e5\u672c'

  it.for(Object.entries(WAYS))(
    'K12: a message with characters that the encoding lacks is kept in others, and its neighbours take effect: %s',
    async ([, way]) => {
      const hapax = await inEncoding('LATIN1')
      for (const name of ['id', 'source', 'type', 'key'] as const) {
        const poison = ping('bad', { [name]: STRANGE, headers: { h: STRANGE } })
        const found = await expectIsolated(hapax, poison, way, `by ${name}`)
        expect(found?.message.attributes).toMatch(/"h":"\\u65e5\\u672c"/)
        const { id, source, type, key } = found?.message ?? {}
        expect([id, source, type, key].filter((text) => text === '\\u65e5\\u672c')).toHaveLength(1)
        expect(found && stubOf(found.message)).toMatchObject({ bytes: 7, escaped: true })
        await expect(hapax.failed.retry(found?.seq ?? '')).rejects.toMatchObject({ code: 'not-whole' })
        await expect(hapax.failed.edit(found?.seq ?? '', {})).rejects.toMatchObject({ code: 'not-whole' })
      }
    },
  )

  it('K12: the error of a handler is recorded, whatever characters it has', async () => {
    const hapax = await inEncoding('LATIN1')
    const consumer = hapax.consumer('billing').on(Ping, () => {
      throw new Error(`no ${STRANGE}`)
    })
    expect(await consumer.handle(ping('a'))).toMatchObject({ status: 'retrying' })
    const [trace] = (await hapax.explain('a')).filter(({ where }) => where === 'inbox')
    expect(JSON.stringify(trace)).toContain(`no ${STRANGE}`)
  })

  it('K12: what an outside call returned is journalled, whatever characters it has', async () => {
    const hapax = await inEncoding('LATIN1')
    const results: unknown[] = []
    const consumer = hapax.leased('billing', { retry: { attempts: 2, minDelayMs: 0, maxDelayMs: 0 } })
    consumer.on(Ping, async (_, ctx) => {
      await ctx.note({ [STRANGE]: STRANGE })
      results.push(await ctx.effect('send', async () => `${STRANGE} ${results.length}`))
      if (ctx.attempt === 1) throw new Error('once more')
    })
    await consumer.handle(ping('a'))
    await using worker = hapax.worker({ consume: [consumer] })
    await worker.start()
    await worker.drain()
    expect(results).toEqual([`${STRANGE} 0`, `${STRANGE} 0`])
    expect(await hapax.failed.count()).toBe(0)
  })

  it('K12: a message that is published with such characters is refused at once', async () => {
    const hapax = await inEncoding('LATIN1')
    const publishing = hapax.transaction((tx) => hapax.publish(tx, Ping, 1, { id: STRANGE }))
    await expect(publishing).rejects.toMatchObject({ code: 'unstorable' })
  })

  it('K12: a worker warns of such an encoding when it starts, and doctor does', async () => {
    const warnings: string[] = []
    const warn = (_: object, message: string): void => void warnings.push(message)
    const hapax = await inEncoding('LATIN1', { ...silentLogger, warn })
    await using worker = hapax.worker({ consume: [hapax.consumer('billing').on(Ping, handler)] })
    await worker.start()
    expect(warnings.join()).toContain('the encoding of the database is LATIN1')
    const found = (await hapax.doctor()).find(({ check }) => check === 'encoding')
    expect(found).toMatchObject({ level: 'warning', message: expect.stringContaining('LATIN1') })
  })

  it.for(['SQL_ASCII', 'UTF8'])('every character is stored in %s', async (encoding) => {
    const hapax = await inEncoding(encoding)
    const consumer = hapax.consumer('billing', { receive: 'store' }).on(Ping, () => {})
    const message = ping(STRANGE, { source: STRANGE, key: STRANGE, headers: { h: STRANGE } })
    expect(await consumer.handle(message)).toMatchObject({ status: 'stored' })
    expect(await consumer.handle(message)).toMatchObject({ status: 'duplicate' })
    await using worker = hapax.worker({ consume: [consumer] })
    await worker.start()
    await worker.drain()
    expect(await hapax.failed.count()).toBe(0)
  })

  it('K16: a payload that does not fit into one text is no outage, and what can be kept is', async () => {
    const schema = `poison_${randomBytes(6).toString('hex')}`
    const pool = pgPool({ connectionString: requireServer('postgres'), max: 4 })
    const store = postgres({ pool, schema })
    const hapax = createHapax({ store, source: '/test', logger: silentLogger, maxMessageBytes: 2 ** 30 })
    onTestFinished(async () => {
      await hapax.close()
      await pool.query(`drop schema ${schema} cascade`)
      await pool.end()
    })
    await hapax.migrate()
    const data = Buffer.alloc(2 ** 28)
    const stored = WAYS['in a stored batch'] as Way
    const found = await expectIsolated(hapax, ping('bad', { data }), stored)
    expect(found && stubOf(found.message)).toMatchObject({ bytes: data.byteLength })
    expect(found?.reason).toBe('unstorable')
  })
})

describe.skipIf(!testStores().includes('mysql'))('MySQL', () => {
  async function opened(): Promise<{ readonly hapax: AnyHapax; readonly packet: number }> {
    const database = `poison_${randomBytes(6).toString('hex')}`
    const uri = requireServer('mysql')
    const admin = await mysql2.createConnection(uri)
    await admin.query(`create database ${database}`)
    const [rows] = await admin.query<mysql2.RowDataPacket[]>('select @@max_allowed_packet as packet')
    const pool = mysql2.createPool({ uri, database, connectionLimit: 4 })
    const hapax = createHapax({
      store: mysql({ pool }),
      source: '/test',
      logger: silentLogger,
      maxMessageBytes: 128 * MiB,
    })
    onTestFinished(async () => {
      await hapax.close()
      await pool.end()
      await admin.query(`drop database ${database}`)
      await admin.end()
    })
    await hapax.migrate()
    return { hapax, packet: Number(rows[0]?.['packet']) }
  }

  it.for(Object.entries(WAYS))(
    'K12: a message above max_allowed_packet is kept as a stub, and its neighbours take effect: %s',
    async ([, way]) => {
      const { hapax, packet } = await opened()
      const data = Buffer.alloc(packet, 0x61)
      const found = await expectIsolated(hapax, ping('bad', { data }), way)
      expect(found && stubOf(found.message)).toMatchObject({
        bytes: packet,
        why: expect.stringContaining('max_allowed_packet'),
      })
      await expect(hapax.failed.retry(found?.seq ?? '')).rejects.toMatchObject({ code: 'not-whole' })
    },
  )

  it('K16: a message above max_allowed_packet is refused where it is published', async () => {
    const { hapax, packet } = await opened()
    let refused: unknown
    await hapax.transaction(async (tx) => {
      await hapax.publish(tx, Ping, 'x'.repeat(packet)).catch((error: unknown) => {
        refused = error
      })
    })
    expect(refused).toMatchObject({ code: 'too-large', message: expect.stringContaining('what the database takes') })
  })
})
