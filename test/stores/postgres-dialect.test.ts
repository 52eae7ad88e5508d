import type { Socket } from 'node:net'
import fc from 'fast-check'
import {
  createHapax,
  defineMessage,
  type Hapax,
  type HapaxOptions,
  messageKey,
  type Outcome,
  silentLogger,
} from 'hapax'
import { type PgClient, type PgPoolClient, type PgTx, postgres } from 'hapax/postgres'
import pg from 'pg'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { numberOf } from '../../src/message/lanes.ts'
import { array, literal, script } from '../../src/stores/postgres/literal.ts'
import { anyCharacter } from '../support/any-text.ts'
import { pgPool } from '../support/pg-pool.ts'
import { requireServer } from '../support/servers.ts'
import { uncaughtErrors } from '../support/uncaught.ts'

type Tx = PgTx<PgPoolClient>
type AnyHapax = Hapax<Tx, PgClient>

const connectionString = requireServer('postgres')
const admin = pgPool({ connectionString, max: 4 })
afterAll(() => admin.end())

const Ping = defineMessage<{ n: number }>('ping')
const message = (id: string, n = 1) => ({ id, source: '/s', type: 'ping', data: { n } })
const AT_ONCE = { minDelayMs: 0, maxDelayMs: 0 }
let opened = 0

/** A schema of its own with a table `effects`; `hapax` makes one on a new pool. */
async function setUp() {
  const schema = `dialect_${process.pid}_${++opened}`
  await admin.query(`create schema ${schema}; create table ${schema}.business (label text not null)`)
  onTestFinished(async () => {
    await admin.query(`drop schema ${schema} cascade`)
  })
  const hapax = (options: pg.PoolConfig = {}, more: Partial<HapaxOptions<Tx, PgClient>> = {}): AnyHapax => {
    const pool = new pg.Pool({ connectionString, max: 4, application_name: schema, ...options })
    onTestFinished(() => pool.end())
    return createHapax({ store: postgres({ pool, schema }), source: '/test', logger: silentLogger, ...more })
  }
  const effect = (tx: Tx, label: string) => tx.query(`insert into ${schema}.business values ($1)`, [label])
  const effects = async (): Promise<string[]> => {
    const { rows } = await admin.query(`select label from ${schema}.business order by label collate "C"`)
    return rows.map(({ label }) => label)
  }
  const first = hapax()
  await first.migrate()
  return { schema, hapax, first, effect, effects }
}

/** Waits for a condition of the server. */
async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 10))
}

describe('literals', () => {
  /** What quoting, arrays and escapes could trip over; U+0000 never gets here. */
  const text = () =>
    fc
      .string({
        unit: fc.oneof(
          fc.constantFrom(
            "'",
            '"',
            '\\',
            '{',
            '}',
            ',',
            '$1',
            ';',
            '--',
            'NULL',
            'E',
            '\n',
            '\t',
            ' ',
            'é',
            '👍',
            '\\x',
          ),
          fc.string({ minLength: 1, maxLength: 1, unit: anyCharacter }),
        ),
      })
      .filter((value) => value.isWellFormed() && !value.includes('\0'))

  it.for(['on', 'off'])('mean what a bound value means, with standard_conforming_strings %s', async (setting) => {
    const client = new pg.Client({ connectionString, options: `-c standard_conforming_strings=${setting}` })
    await client.connect()
    onTestFinished(() => client.end())
    await client.query("set escape_string_warning = off; set bytea_output = 'hex'")
    const answer = async (statement: string, params: unknown[]): Promise<unknown> => {
      const bound = (await client.query(statement, params)).rows[0].value
      const inlined = (await client.query(script([{ text: statement, params: params as string[] }]))).rows[0].value
      expect(inlined).toEqual(bound)
      return inlined
    }
    await fc.assert(
      fc.asyncProperty(fc.array(text(), { maxLength: 5 }), fc.uint8Array({ maxLength: 20 }), async (texts, bytes) => {
        const one = texts.join('')
        expect(await answer('select $1::text as value', [one])).toBe(one)
        expect(await answer('select $1::text::text[] as value', [array(texts)])).toEqual(texts)
        expect(await answer('select $1::text::bytea[] as value', [array([bytes])])).toEqual([Buffer.from(bytes)])
        const { rows } = await client.query(`select ${literal(bytes)}::bytea as value, ${literal(null)} as nothing`)
        expect(rows).toEqual([{ value: Buffer.from(bytes), nothing: null }])
      }),
      { numRuns: 150 },
    )
  })

  it('a text with U+0000 never reaches the server', () => {
    expect(() => literal('a\0b')).toThrow('a text with U+0000 cannot be sent to PostgreSQL')
  })

  it('ids with quotes and backslashes are taken with standard_conforming_strings off', async () => {
    const { hapax, effect, effects } = await setUp()
    const ids = [`'`, `''`, '\\', "\\'", `'; drop table effects; --`, '"', '{', '}', '\\\\', '$1', 'a\0b']
    const consumer = hapax({ options: '-c standard_conforming_strings=off -c escape_string_warning=off' })
      .consumer('a', { group: { size: 20 } })
      .on(Ping, ({ n }, { tx }) => effect(tx, `${n}`))
    const messages = ids.map((id, n) => message(id, n))
    expect(new Set((await consumer.handleMany(messages)).map(({ status }) => status))).toEqual(new Set(['processed']))
    for (const each of messages) expect((await consumer.handle(each)).status).toBe('duplicate')
    expect((await effects()).length).toBe(ids.length)
  })
})

describe('locks and time', () => {
  it('A13: a paused winner loses its transaction, and its duplicate runs', async () => {
    const { schema, hapax, first, effect, effects } = await setUp()
    const consumer = first.consumer('a', { lockTimeoutMs: 30_000 }).on(Ping, (_, { tx }) => effect(tx, 'second'))
    const running = Promise.withResolvers<void>()
    const go = Promise.withResolvers<void>()
    const paused = hapax().transaction(
      async (tx) => {
        await effect(tx, 'first')
        await tx.query(
          `insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
           select 'a', $1, gen_random_uuid(), '/s', 'x', 'ping', ''`,
          [messageKey('/s', 'x')],
        )
        running.resolve()
        await go.promise
      },
      // Longer than a busy machine stands still between two statements.
      { idleTimeoutMs: 7_000 },
    )
    await running.promise
    expect((await consumer.handle(message('x'))).status).toBe('processed')
    go.resolve()
    await expect(paused).rejects.toMatchObject({ code: 'transaction-lost' })
    expect(await effects()).toEqual(['second'])
  })

  it('the lock timeout of hapax does not reach the handler', async () => {
    const { first } = await setUp()
    const seen: string[] = []
    const consumer = first.consumer('a', { lockTimeoutMs: 7 }).on(Ping, async (_, { tx }) => {
      seen.push((await tx.query<{ lock_timeout: string }>('show lock_timeout')).rows[0]?.lock_timeout as string)
    })
    await consumer.handle(message('x'))
    expect(seen).toEqual(['0'])
  })

  it('a statement_timeout shorter than the lock timeout ends the wait for a duplicate as busy', async () => {
    const { hapax, first, effect, effects } = await setUp()
    const running = Promise.withResolvers<void>()
    const go = Promise.withResolvers<void>()
    const winner = first.consumer('a').on(Ping, async (_, { tx }) => {
      running.resolve()
      await go.promise
      await effect(tx, 'first')
    })
    const waiting = hapax({ statement_timeout: 5_000 })
      .consumer('a', { lockTimeoutMs: 30_000 })
      .on(Ping, (_, { tx }) => effect(tx, 'second'))
    const won = winner.handle(message('x'))
    await running.promise
    expect(await waiting.handle(message('x'))).toMatchObject({ status: 'busy', ack: false })
    go.resolve()
    expect((await won).status).toBe('processed')
    expect((await waiting.handle(message('x'))).status).toBe('duplicate')
    expect(await effects()).toEqual(['first'])
  })

  it('a statement_timeout in the handler is an error of the handler', async () => {
    const { hapax } = await setUp()
    const consumer = hapax({ statement_timeout: 5_000 })
      .consumer('a', { retry: { attempts: 1 } })
      .on(Ping, async (_, { tx }) => void (await tx.query('select pg_sleep(60)')))
    expect(await consumer.handle(message('x'))).toMatchObject({ status: 'failed', error: { code: '57014' } })
  })

  it('a query_timeout of the driver loses the transaction, and nothing is kept', async () => {
    const { hapax, first, effect, effects } = await setUp()
    const slow = hapax({ query_timeout: 5_000 })
      .consumer('a')
      .on(Ping, async (_, { tx }) => {
        await effect(tx, 'first')
        await tx.query('select pg_sleep(10)')
      })
    expect(await slow.handle(message('x'))).toMatchObject({ status: 'rolled-back', ack: false })
    // The server learns only after the statement that its client has gone.
    const consumer = first.consumer('a', { lockTimeoutMs: 30_000 }).on(Ping, (_, { tx }) => effect(tx, 'second'))
    expect(await consumer.handle(message('x'))).toMatchObject({ status: 'processed' })
    expect(await effects()).toEqual(['second'])
  })

  it('A11: a timeout ends the statement that runs, also on a pool of one', async () => {
    const { schema, hapax, effect, effects } = await setUp()
    const consumer = hapax({ max: 1 })
      .consumer('a', { timeoutMs: 200, retry: AT_ONCE })
      .on(Ping, async (_, { tx }) => {
        await effect(tx, 'late')
        await tx.query('select pg_sleep(120)')
      })
    expect(await consumer.handle(message('x'))).toMatchObject({
      status: 'retrying',
      error: { code: 'handler-timeout' },
    })
    await until(async () => {
      const { rows } = await admin.query(
        `select 1 from pg_stat_activity where application_name = $1 and state = 'active' and query like '%pg_sleep%'`,
        [schema],
      )
      return rows.length === 0
    })
    expect(await effects()).toEqual([])
  })

  it('A12: a handler that takes a second connection does not exhaust a pool of two', async () => {
    const { hapax, effect, effects } = await setUp()
    const one = hapax({ max: 2 })
    const consumer = one.consumer('a').on(Ping, async (_, { tx }) => {
      await one.transaction((other) => effect(other, 'second'))
      await effect(tx, 'first')
    })
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => consumer.handle(message('x'))))
    expect(outcomes.filter(({ status }) => status === 'processed').length).toBe(1)
    expect(await effects()).toEqual(['first', 'second'])
  })
})

describe('a row of the outbox that somebody keeps locked', () => {
  it.for([true, false])('D5: does not keep the others (copied to sent: %s)', async (keep) => {
    const { schema, first } = await setUp()
    await first.transaction((tx) =>
      first.publishMany(
        tx,
        [1, 2, 3].map((n) => Ping.of({ n })),
      ),
    )
    const seqs = async (): Promise<string[]> => {
      const { rows } = await admin.query(`select seq || '-' || mark as seq from ${schema}.outbox order by outbox.seq`)
      return rows.map(({ seq }) => seq)
    }
    const all = await seqs()
    const store = postgres({ url: connectionString, schema })
    onTestFinished(() => store.close())
    const lock = await admin.connect()
    await lock.query(`begin; select from ${schema}.outbox where seq = ${numberOf(all[1] as string)} for update`)
    expect(await store.outbox.confirm(all, keep)).toEqual([all[1]])
    expect(await seqs()).toEqual([all[1]])
    await lock.query('rollback')
    lock.release()
    expect(await store.outbox.confirm(all, keep)).toEqual([])
    expect(await seqs()).toEqual([])
    const { rows } = await admin.query(`select from ${schema}.sent`)
    expect(rows).toHaveLength(keep ? 3 : 0)
  })
})

describe('commits', () => {
  it('a constraint that fails at COMMIT is the failure of the handler', async () => {
    const { schema, first, effect, effects } = await setUp()
    await admin.query(`create table ${schema}.parents (id integer primary key);
      create table ${schema}.children (id integer references ${schema}.parents deferrable initially deferred)`)
    const consumer = first.consumer('a', { retry: AT_ONCE }).on(Ping, async (_, { tx }) => {
      await effect(tx, 'x')
      await tx.query(`insert into ${schema}.children values (1)`)
    })
    expect(await consumer.handle(message('x'))).toMatchObject({ status: 'retrying', error: { code: '23503' } })
    expect(await effects()).toEqual([])
    expect((await first.explain('x')).map(({ where }) => where).sort()).toEqual(['inbox', 'receipt'])
  })

  it.for([
    ['22003', 'perform 2147483647 + 1'],
    ['22P02', `perform 'x'::integer`],
    ['42P01', 'perform 1 from nowhere'],
    ['54001', `raise exception 'too deep' using errcode = '54001'`],
  ] as const)(
    'K12: what a deferred trigger says at COMMIT is about the handler, not the message: %s',
    async (given) => {
      const [code, statement] = given
      const { schema, first, effect, effects } = await setUp()
      await admin.query(`create function ${schema}.check_it() returns trigger language plpgsql as
        $$ begin ${statement}; return null; end $$;
      create constraint trigger later after insert on ${schema}.business deferrable initially deferred
        for each row execute function ${schema}.check_it()`)
      const consumer = first.consumer('a', { retry: AT_ONCE }).on(Ping, (_, { tx }) => effect(tx, 'x'))
      expect(await consumer.handle(message('x'))).toMatchObject({ status: 'retrying', error: { code } })
      expect(await effects()).toEqual([])
    },
  )

  it('A15: a write skew under serializable is run again and is no attempt', async () => {
    const { schema, first, effect, effects } = await setUp()
    const attempts: number[] = []
    const both = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const consumer = first
      .consumer('a', { isolation: 'serializable', retry: AT_ONCE })
      .on(Ping, async ({ n }, { tx, attempt }) => {
        attempts.push(attempt)
        await tx.query(`select count(*) from ${schema}.business`)
        both[n]?.resolve()
        await both[1 - n]?.promise
        await effect(tx, `${n}`)
      })
    const outcomes = await Promise.all([consumer.handle(message('x', 0)), consumer.handle(message('y', 1))])
    expect(outcomes.map(({ status }) => status)).toEqual(['processed', 'processed'])
    // How often the two get in each other's way is up to the database.
    expect(attempts.length).toBeGreaterThan(2)
    expect(new Set(attempts)).toEqual(new Set([1]))
    expect(await effects()).toEqual(['0', '1'])
  })

  it.for([true, false])(
    'a backend that is killed under the handler keeps nothing (swallowed: %s)',
    async (swallowed) => {
      const { first, effect, effects } = await setUp()
      let kill = true
      const consumer = first.consumer('a', { retry: AT_ONCE }).on(Ping, async (_, { tx }) => {
        await effect(tx, 'x')
        if (!kill) return
        kill = false
        const { rows } = await tx.query<{ pid: number }>('select pg_backend_pid() as pid')
        await admin.query('select pg_terminate_backend($1)', [rows[0]?.pid])
        const next = tx.query('select 1')
        await (swallowed ? next.catch(() => {}) : next)
      })
      expect(await consumer.handle(message('x'))).toMatchObject({ status: 'rolled-back', ack: false })
      expect(await effects()).toEqual([])
      expect(await consumer.handle(message('x'))).toMatchObject({ status: 'processed' })
      expect(await effects()).toEqual(['x'])
    },
  )

  it('E8: a link that breaks under a look ends no process, also when its client is older than hapax', async () => {
    const { schema } = await setUp()
    const application_name = `${schema}_look`
    const pool = new pg.Pool({ connectionString, max: 1, application_name })
    onTestFinished(() => pool.end())
    const client = await pool.connect()
    client.release()
    const uncaught = uncaughtErrors()
    const lock = await admin.connect()
    await lock.query(`begin; lock table ${schema}.inbox`)
    const renewed = postgres({ pool, schema }).inbox.renew(
      [{ seq: '1-1', token: crypto.randomUUID(), fence: 1 }],
      1_000,
    )
    const waiting = `select from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'`
    await until(async () => (await admin.query(waiting, [application_name])).rowCount === 1)
    ;(client as unknown as { connection: { stream: Socket } }).connection.stream.destroy()
    await lock.query('rollback')
    lock.release()
    expect(await renewed).toHaveLength(0)
    expect(uncaught).toEqual([])
  })

  it('E8: a link that breaks while the pool hands its client out ends no process', async () => {
    const { schema } = await setUp()
    const pool = new pg.Pool({ connectionString, max: 1 })
    onTestFinished(() => pool.end())
    const client = await pool.connect()
    client.release()
    const uncaught = uncaughtErrors()
    const { stream } = (client as unknown as { connection: { stream: Socket } }).connection
    const broken = new Promise((resolve) => stream.once('close', resolve))
    // Its error comes before whoever waits for the client goes on.
    pool.once('acquire', () => stream.destroy(new Error('read ECONNRESET')))
    const hapax = createHapax({ store: postgres({ pool, schema }), source: '/test', logger: silentLogger })
    const failure = await hapax.transaction(async () => {}).catch((error: unknown) => error)
    await broken
    expect(failure).toMatchObject({ code: 'store-unavailable' })
    expect(uncaught).toEqual([])
  })

  it('the default isolation of the server may be serializable', async () => {
    const { hapax, effect, effects } = await setUp()
    const options = '-c default_transaction_isolation=serializable'
    const consumers = [1, 2].map(() =>
      hapax({ options })
        .consumer('a')
        .on(Ping, (_, { tx }) => effect(tx, 'x')),
    )
    const outcomes = await Promise.all(consumers.map((consumer) => consumer.handle(message('x'))))
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['duplicate', 'processed'])
    expect(await effects()).toEqual(['x'])
  })
})

describe('A21: the index of receipts is rebuilt concurrently', () => {
  // It waits for the snapshots of everybody in this database.
  it('every message takes effect once, and nothing rejects', { timeout: 400_000 }, async () => {
    const { schema, hapax, effect, effects } = await setUp()
    const consumers = [1, 2].map(() =>
      hapax()
        .consumer('a', { concurrency: 4, lockTimeoutMs: 20_000 })
        .on(Ping, (_, { tx, message: { id } }) => effect(tx, id)),
    )
    let rebuilt = 0
    let working = true
    const rebuild = (async () => {
      while (working || rebuilt < 3) {
        await admin.query(`reindex index concurrently ${schema}.hapax_receipts_key`)
        rebuilt += 1
      }
    })()
    const ids = Array.from({ length: 400 }, (_, index) => `m${index}`)
    const outcomes: Outcome[][] = await Promise.all(
      consumers.map(async (consumer) => [...(await consumer.handleMany(ids.map((id) => message(id))))]),
    )
    working = false
    await rebuild
    const all = outcomes.flat().map(({ status }) => status)
    expect(all.filter((status) => status === 'processed').length).toBe(ids.length)
    expect(all.filter((status) => status === 'duplicate').length).toBe(ids.length)
    expect(await effects()).toEqual(ids.toSorted())
  })
})

describe('prepared statements of handlers', () => {
  it('are named once they repeat, and a plan that the tables have outgrown costs no attempt', async () => {
    const { schema, effects } = await setUp()
    const pool = new pg.Pool({ connectionString, max: 1 })
    onTestFinished(() => pool.end())
    const store = postgres({ pool, schema })
    const hapax = createHapax({ store, source: '/test', logger: silentLogger })
    const attempts: number[] = []
    const consumer = hapax.consumer('billing').on(Ping, async (_data, { tx, message: { id }, attempt }) => {
      attempts.push(attempt)
      await tx.query(`insert into ${schema}.business (label) values ($1)`, [id])
      await tx.query(`select * from ${schema}.business where label = $1`, [id])
    })
    const deliver = async (id: string): Promise<string> => (await consumer.handle(message(id))).status
    for (const id of ['a', 'b', 'c', 'd']) expect(await deliver(id)).toBe('processed')
    const { rows } = await pool.query(
      "select 1 from pg_prepared_statements where name like 'hapax_%' and statement like '%business%'",
    )
    expect(rows).toHaveLength(2)
    await admin.query(`alter table ${schema}.business add column more integer`)
    expect(await deliver('e')).toBe('processed')
    expect(new Set(attempts)).toEqual(new Set([1]))
    expect(await effects()).toEqual(['a', 'b', 'c', 'd', 'e'])
  })
})

describe('doctor', () => {
  it('says what a user may not do and not see', async () => {
    const { schema, hapax } = await setUp()
    const role = `${schema}_reader`
    await admin.query(`create role ${role}; grant usage on schema ${schema} to ${role};
      grant select on all tables in schema ${schema} to ${role}; grant insert on ${schema}.audit to ${role}`)
    const other = await admin.connect()
    try {
      const findings = await hapax({ options: `-c role=${role}` }).doctor()
      const found = (name: string) => findings.find(({ check }) => check === name)
      expect(found('privileges')).toMatchObject({
        level: 'warning',
        message: expect.stringMatching(
          /^this user may not update, delete on audit; insert, update, delete on effects; insert, /,
        ),
      })
      expect(found('long transactions')?.message).toMatch(/among those that this user may see/)
    } finally {
      other.release()
      await admin.query(`drop owned by ${role}; drop role ${role}`)
    }
  })
})

describe('a transaction of the user’s own', () => {
  it('K2: keeps nothing of the publishes that are done, however many they are', async () => {
    const { first } = await setUp()
    const local = (await setUp()).hapax({}, { delivery: 'local' })
    await local.migrate()
    local.consumer('a').on(Ping, () => {})
    const client = await admin.connect()
    onTestFinished(() => client.release())
    await client.query('begin')
    for (const hapax of [first, local]) {
      for (let n = 1; n <= 10; n++) await hapax.publish(client, Ping, { n })
      await Promise.all([11, 12].map((n) => hapax.publish(client, Ping, { n })))
    }
    const { rows } = await client.query(`select current_setting('hapax.entered') as entered`)
    await client.query('rollback')
    expect(rows).toEqual([{ entered: '' }])
  })
})

describe('the work of the server', () => {
  /** A pool whose server compiles whatever it may, and tells the plans that it ran. */
  function explaining(): { pool: pg.Pool; plans: string[] } {
    const plans: string[] = []
    const pool = new pg.Pool({
      connectionString,
      max: 1,
      verify: (client: pg.PoolClient, done: (error?: Error) => void) => {
        client.on('notice', ({ message: text }) => plans.push(text ?? ''))
        const settings = {
          'auto_explain.log_min_duration': '0',
          'auto_explain.log_analyze': 'on',
          'auto_explain.log_level': 'notice',
          jit_above_cost: '0',
        }
        const set = Object.entries(settings).map(([name, value]) => `set ${name} = '${value}'`)
        client.query(`load 'auto_explain'; ${set.join(';')}`).then(() => done(), done)
      },
    } as pg.PoolConfig)
    onTestFinished(() => pool.end())
    return { pool, plans }
  }

  it('a look is not compiled, whatever the planner fears of it', async (context) => {
    const { rows } = await admin.query('select pg_jit_available() as jit')
    if (!rows[0]?.jit) return context.skip('this PostgreSQL was built without JIT')
    const { schema } = await setUp()
    const { pool, plans } = explaining()
    await pool.query(`select count(*) from ${schema}.receipts`)
    expect(plans.join()).toContain('JIT:')
    plans.length = 0
    await postgres({ pool, schema }).workers.look([
      { table: 'outbox', scope: 'default', types: [], lanes: [1, 2], limit: 10, after: new Map() },
    ])
    const looks = plans.filter((plan) => plan.includes('outbox_share'))
    expect(looks).toHaveLength(1)
    expect(looks.join()).not.toContain('JIT:')
    expect(plans.join()).not.toContain('WARNING')
  })
})
