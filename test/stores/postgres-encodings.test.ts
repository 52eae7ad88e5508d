import { createHapax, defineMessage, isHapaxError, silentLogger } from 'hapax'
import { type PgPoolClient, type PgTx, postgres } from 'hapax/postgres'
import pg from 'pg'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { array, literal } from '../../src/stores/postgres/literal.ts'
import { pgPool } from '../support/pg-pool.ts'
import { requireServer } from '../support/servers.ts'

const connectionString = requireServer('postgres')
const admin = pgPool({ connectionString, max: 4 })
afterAll(() => admin.end())

/** In the first seven the second byte of a character may be one of ASCII, such as a backslash. */
const ENCODINGS = [
  'GBK',
  'GB18030',
  'BIG5',
  'SJIS',
  'SHIFT_JIS_2004',
  'UHC',
  'JOHAB',
  'UTF8',
  'LATIN1',
  'WIN1251',
  'EUC_JP',
]
const NAMED = [...ENCODINGS, 'SQL_ASCII']

const SETTINGS: readonly Readonly<Record<string, string>>[] = ['on', 'off'].flatMap((conforming) =>
  ['on', 'off', 'safe_encoding'].map((quote, index) => ({
    standard_conforming_strings: conforming,
    backslash_quote: quote,
    escape_string_warning: index % 2 === 0 ? 'on' : 'off',
    bytea_output: index % 2 === 0 ? 'escape' : 'hex',
    array_nulls: index % 2 === 0 ? 'off' : 'on',
    transform_null_equals: index % 2 === 0 ? 'on' : 'off',
    extra_float_digits: index % 2 === 0 ? '-15' : '3',
    DateStyle: index % 2 === 0 ? "'German, DMY'" : "'SQL, MDY'",
    IntervalStyle: index % 2 === 0 ? 'sql_standard' : 'iso_8601',
    TimeZone: index % 2 === 0 ? "'Pacific/Apia'" : "'America/St_Johns'",
    search_path: "''",
  })),
)

/** Characters whose last byte in UTF-8 is the first one of a character elsewhere. */
const LEADS = Array.from({ length: 16 }, (_, n) => [
  String.fromCodePoint(0x7e00 + 4 * n + (n % 4)),
  String.fromCodePoint(0x80 + 4 * n + (n % 3)),
]).flat()
const INJECTION = '; select 666 as value; --'
const HOSTILE = LEADS.flatMap((lead) => [
  `${lead}\\${INJECTION}`,
  `${lead}'${INJECTION}`,
  `${lead}\\'${INJECTION}`,
  `${lead}\\\\'${INJECTION}`,
])

async function connected(encoding: string, settings: Readonly<Record<string, string>>): Promise<pg.Client> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  onTestFinished(() => client.end())
  for (const [name, value] of Object.entries(settings)) await client.query(`set ${name} = ${value}`)
  await client.query(`set client_encoding to '${encoding}'`)
  return client
}

describe('K21: a value in the text of a statement', () => {
  it.for(NAMED.flatMap((encoding) => SETTINGS.map((settings) => [encoding, settings] as const)))(
    'stays a value with client_encoding %s and %o',
    async ([encoding, settings]) => {
      const client = await connected(encoding, settings)
      const exact = encoding === 'UTF8' || encoding === 'SQL_ASCII'
      for (const text of HOSTILE) {
        // Several results would be those of several statements.
        const answer = await client.query(`select ${literal(text)}::text as value`).catch((error: unknown) => error)
        if (answer instanceof Error && !exact) continue
        expect(answer).toMatchObject({ command: 'SELECT', rows: [exact ? { value: text } : expect.anything()] })
        if (!exact) continue
        const listed = await client.query(`select ${literal(array(['a', text, '']))}::text::text[] as value`)
        expect(listed.rows).toEqual([{ value: ['a', text, ''] }])
      }
    },
  )
})

let opened = 0

/** A store in a schema of its own, on a pool whose connections are set up by `prepare`. */
async function store(prepare: (client: pg.PoolClient) => Promise<unknown>, max = 4) {
  const schema = `encodings_${process.pid}_${++opened}`
  const pool = new pg.Pool({ connectionString, max })
  pool.on('error', () => {})
  const hapax = createHapax({ store: postgres({ pool, schema }), source: '/test', logger: silentLogger })
  onTestFinished(async () => {
    await hapax.close()
    await pool.end()
    await admin.query(`drop schema if exists ${schema} cascade`)
  })
  await createHapax({ store: postgres({ pool: admin, schema }), source: '/test' }).migrate()
  pool.on('connect', (client) => void prepare(client as pg.PoolClient).catch(() => {}))
  return { hapax, pool, schema }
}

const Noted = defineMessage<{ readonly text: string }>('noted')
const noted = (id: string) => ({ id, source: '/s', type: 'noted', data: { text: id } })

describe('K21: on any connection of a pool', () => {
  it.for(SETTINGS.map((settings) => [settings] as const))('%o: what is stored is what came', async ([settings]) => {
    const { hapax, schema } = await store((client) =>
      client.query(
        Object.entries(settings)
          .map(([name, value]) => `set ${name} = ${value}`)
          .join(';'),
      ),
    )
    const texts = HOSTILE.slice(0, 24)
    const consumer = hapax.consumer('a', { group: { size: 50 }, receive: 'store' }).on(Noted, () => {})
    await consumer.handleMany(texts.map(noted))
    await hapax.transaction((tx) =>
      hapax.publishMany(
        tx,
        texts.map((text) => Noted.of({ text }, { id: text })),
      ),
    )
    for (const table of ['inbox', 'outbox']) {
      const { rows } = await admin.query(
        `select id, key, convert_from(data, 'UTF8') as data from ${schema}.${table} order by seq`,
      )
      expect(rows).toEqual(texts.map((text) => ({ id: text, key: null, data: JSON.stringify({ text }) })))
    }
    expect(await hapax.explain(texts[0] as string, '/s')).toMatchObject([
      { where: 'receipt' },
      { where: 'inbox', key: null, error: null },
    ])
    for (const { at } of await hapax.explain(texts[0] as string)) {
      expect(Math.abs(at.getTime() - Date.now())).toBeLessThan(600_000)
    }
    expect((await hapax.doctor()).filter(({ check }) => check === 'clock')).toMatchObject([{ level: 'ok' }])
  })

  it.for(ENCODINGS.filter((encoding) => encoding !== 'UTF8'))(
    'the encoding %s that a handler leaves behind changes nothing: not its own publishes, nor the next message',
    async (encoding) => {
      const { hapax, schema } = await store(async () => {}, 3)
      const consumer = hapax.consumer('a', { onError: 'rollback' }).on(Noted, async ({ text }, ctx) => {
        await (ctx.tx as PgTx<PgPoolClient>).query(`set client_encoding to '${encoding}'`)
        await ctx.publish(Noted, { text }, { id: text, key: text })
      })
      const texts = HOSTILE.slice(0, 8)
      for (const text of texts) {
        let outcome = await consumer.handle(noted(text)).catch((error: unknown) => error)
        // A connection that speaks otherwise is given up, and with it the attempt that met it.
        for (let tries = 0; isHapaxError(outcome, 'store-unavailable') && tries < 5; tries++) {
          outcome = await consumer.handle(noted(text)).catch((error: unknown) => error)
        }
        expect(outcome).toMatchObject({ status: 'processed' })
      }
      const { rows } = await admin.query(`select id, key from ${schema}.outbox order by seq`)
      expect(rows).toEqual(texts.map((text) => ({ id: text, key: text })))
      const receipts = await admin.query(`select id from ${schema}.receipts`)
      expect(receipts.rows.map(({ id }) => id).sort()).toEqual([...texts].sort())
    },
  )

  it('a pool that speaks something else than UTF-8 is refused, because pg reads and writes nothing else', async () => {
    const { hapax } = await store((client) => client.query(`set client_encoding to 'LATIN1'`))
    const refused = { code: 'store-unavailable', message: expect.stringMatching(/client_encoding.*UTF8.*LATIN1/) }
    await expect(hapax.transaction(async () => {})).rejects.toMatchObject(refused)
    await expect(hapax.status()).rejects.toMatchObject(refused)
  })
})
