import { spawnSync } from 'node:child_process'
import fc from 'fast-check'
import { type Destination, defineMessage, type Store } from 'hapax'
import { memoryBroker } from 'hapax/memory-broker'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { formatted, type Printed } from '../../src/cli/migrations/formats.ts'
import { anyCharacter } from '../support/any-text.ts'
import { makeEmptyPlace, openStore, type Place, table } from '../support/databases.ts'
import { testStores } from '../support/servers.ts'
import { type SqlMessage, type SqlRig, sqlRigs } from '../support/sql-publish.ts'

const stores = testStores().filter((name) => name === 'postgres' || name === 'mysql')

/** The programs that come with the databases. */
interface SqlClient {
  readonly program: string
  args(place: Place): readonly string[]
  env(place: Place): NodeJS.ProcessEnv
  /** A call of the routine. */
  call(place: Place): string
}

const clients: Record<(typeof stores)[number], SqlClient> = {
  postgres: {
    program: 'psql',
    args: ({ url }) => ['--no-psqlrc', '--quiet', '--set=ON_ERROR_STOP=1', '--output=/dev/null', url],
    env: () => ({}),
    call: ({ schema }) => `select ${schema}.publish('/s', 't', '1')`,
  },
  mysql: {
    program: 'mysql',
    args: ({ url }) => {
      const { hostname, port, username, pathname } = new URL(url)
      return ['--protocol=tcp', `--host=${hostname}`, `--port=${port}`, `--user=${username}`, pathname.slice(1)]
    },
    env: ({ url }) => ({ MYSQL_PWD: decodeURIComponent(new URL(url).password) }),
    call: () => `call hapax_publish('/s', 't', '1', null, null, null, @id)`,
  },
}

/** Text that a database can hold: any but U+0000, among it what looks escaped, quoted or like SQL. */
function text(maxLength: number): fc.Arbitrary<string> {
  return fc
    .oneof(
      { weight: 4, arbitrary: fc.string({ unit: anyCharacter, minLength: 1, maxLength }) },
      { weight: 2, arbitrary: fc.string({ unit: 'grapheme', minLength: 1, maxLength: maxLength / 10 }) },
      fc.constantFrom(
        "'",
        '"',
        '\\',
        '\\u0041',
        "'); drop table x; --",
        '%25',
        '\u0001%00',
        '\u007f\u2028',
        ' a ',
        'é',
        'e\u0301',
        '$1',
        '?',
      ),
      fc.string({ unit: fc.constantFrom('a', 'ü', '%', '😀'), minLength: 200, maxLength: 500 }),
    )
    .map((value) => value.replaceAll('\0', '-'))
}

/** A text that may be a source or an id: the library sends none with U+FFFD, which readers refuse there. */
const name = text(60).map((value) => value.replaceAll('\ufffd', '-'))

const id = fc.oneof(
  name,
  fc.uuid({ version: 7 }),
  fc.uuid({ version: 7 }).map((uuid) => uuid.toUpperCase()),
  fc.uuid({ version: 4 }),
  fc.uuid({ version: 7 }).map((uuid) => `${uuid} `),
)

const message = fc.record(
  {
    source: name,
    type: text(60).map((value) => Array.from(value).slice(0, 60).join('')),
    id,
    data: fc.oneof(
      // The library refuses a field of that name; the routine does not look for it.
      fc.json({ noUnicodeString: false }).filter((json) => !json.includes('__proto__')),
      text(2000).map((value) => JSON.stringify({ value })),
    ),
    key: text(60),
    subject: text(60),
    // Names without quotes and backslashes: MySQL 9.7.4 misreads one in some thousands of names that are escaped in JSON.
    headers: fc.dictionary(fc.stringMatching(/^[a-z'é-]+$/), text(60), { noNullPrototype: true }),
    correlationId: text(60),
    causationId: text(60),
    traceparent: text(60),
    tracestate: text(60),
    relay: fc.stringMatching(/^[a-z]{1,20}$/),
  },
  { requiredKeys: ['source', 'type', 'id', 'data'] },
)

describe.for(stores)('publishing with SQL on %s', (store) => {
  let rig: SqlRig
  beforeAll(async () => {
    rig = await sqlRigs[store]()
  })
  afterEach(() => rig.clear())
  afterAll(() => rig.close())

  const one = async (given: SqlMessage): Promise<Readonly<Record<string, unknown>>> => {
    await rig.publish(given)
    return (await rig.outbox()).at(-1) as Readonly<Record<string, unknown>>
  }

  it('writes the row that the library writes', async () => {
    await fc.assert(
      fc.asyncProperty(message, async ({ source, type, data, headers, ...options }) => {
        // What a run left behind that failed would fail every smaller one too.
        await rig.clear()
        const hapax = rig.hapax(source)
        const withHeaders = headers === undefined ? options : { ...options, headers }
        // The text of the payload decides, so both sides send the same one.
        const value = JSON.parse(data)
        // The routine takes JSON; without saying so, the library would send a string as the text it is.
        const json = { datacontenttype: 'application/json', ...withHeaders }
        await hapax.transaction((tx) => hapax.publish(tx, defineMessage<unknown>(type), value, json))
        const packed = headers === undefined ? {} : { headers: JSON.stringify(headers) }
        await rig.publish({ source, type, data: JSON.stringify(value), ...options, ...packed })
        const [library, sql] = await rig.outbox()
        expect({ ...sql, time: '' }).toEqual({ ...library, time: '' })
      }),
      { numRuns: 200 },
    )
  })

  it.for([
    ['a character that sorts as nothing', '\u00ad'],
    ['an accent', '\u0301'],
    ['what is written otherwise in an escaped text', '%'],
    ['other letters', 'ключ'],
  ])('K23: stores texts that begin with %s as they are', async ([, begin]) => {
    const key = `${begin}-1`
    expect(await one({ source: `${begin}/s`, type: `${begin}t`, id: `${begin}id`, data: '1', key })).toMatchObject({
      source: `${begin}/s`,
      type: `${begin}t`,
      id: `${begin}id`,
      key,
    })
  })

  it('gives the time of a library row, an id that rises, and the default relay', async () => {
    const before = Date.now()
    const first = await one({ source: '/shop', type: 'order.placed', data: '{"n":1}' })
    const second = await one({ source: '/shop', type: 'order.placed', data: '{"n":1}' })
    expect(first).toMatchObject({ relay: 'default', delay: 0, attributes: { datacontenttype: 'application/json' } })
    expect(first['time']).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    expect(Math.abs(Date.parse(String(first['time'])) - before)).toBeLessThan(60_000)
    for (const row of [first, second]) {
      expect(row['id']).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      const time = Number.parseInt(String(row['id']).replaceAll('-', '').slice(0, 12), 16)
      expect(Math.abs(time - before)).toBeLessThan(60_000)
      expect(String(row['message_key']).replaceAll('-', '').slice(0, 12)).toBe(
        String(row['id']).replaceAll('-', '').slice(0, 12),
      )
    }
    expect(String(second['id']) > String(first['id'])).toBe(true)
  })

  it('keeps the text of the payload, byte by byte', async () => {
    const data = '{ "b" : 1.0,\n "a" : "\\u0000\\u00e9é", "a" : 1e300 }'
    expect((await one({ source: '/s', type: 't', data }))['data']).toBe(Buffer.from(data).toString('hex'))
    expect((await one({ source: '/s', type: 't' }))['data']).toBe('')
    expect((await one({ source: '/s', type: 't', data: 'none' }))['data']).toBe('')
    expect((await one({ source: '/s', type: 't', data: 'null' }))['data']).toBe(Buffer.from('null').toString('hex'))
  })

  it('understands texts of JSON that are escaped to ASCII', async () => {
    const escaped = (text: string): string =>
      text.replaceAll(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    const headers = { 'é😀': 'ü😀"\\' }
    const data = escaped(JSON.stringify(headers))
    await rig.publish({ source: '/s', type: 't', data, headers: data })
    const [row] = await rig.outbox()
    expect(row).toMatchObject({ data: Buffer.from(data).toString('hex'), attributes: { headers } })
  })

  it('commits and rolls back with the transaction', async () => {
    await rig.publish({ source: '/s', type: 't', data: '1', id: 'gone' }, 'rollback')
    await rig.publish({ source: '/s', type: 't', data: '1', id: 'there' })
    expect((await rig.outbox()).map((row) => row['id'])).toEqual(['there'])
  })

  it('holds a message back for as long as it is told', async () => {
    expect(await one({ source: '/s', type: 't', data: '1', delayMs: 90_061_000 })).toMatchObject({ delay: 90_061 })
    expect(await one({ source: '/s', type: 't', data: '1', delayMs: 0, key: 'k' })).toMatchObject({ delay: 0 })
  })

  it('is relayed and consumed like any other message, in order per key', async () => {
    const hapax = rig.hapax('/reader')
    const broker = memoryBroker()
    const seen: unknown[] = []
    const consumer = hapax.consumer('reader').on(defineMessage<{ n: number }>('counted'), async (data, ctx) => {
      seen.push({ ...ctx.message, data, time: '' })
    })
    const queue = broker.queue('reader', { topic: 'all', single: true })
    const messages = Array.from({ length: 20 }, (_, n) => ({ n, id: `m-${n}` }))
    for (const { n, id } of messages) {
      await rig.publish({
        source: '/other',
        type: 'counted',
        data: JSON.stringify({ n }),
        key: 'same',
        id,
        subject: 's',
        correlationId: 'c',
        headers: '{"a": "b"}',
      })
    }
    const topic = broker.topic('all')
    const sent: string[] = []
    const relay: Destination = {
      name: topic.name,
      features: topic.features,
      prepare: () => topic.prepare(),
      close: () => topic.close(),
      publish: (messages, signal, settle) => {
        sent.push(...messages.map(({ id }) => id))
        topic.publish(messages, signal, settle)
      },
    }
    const worker = hapax.worker({ relay, consume: [consumer.from(queue)], pollMs: 20 })
    await worker.start()
    await expect.poll(() => seen.length, { timeout: 40_000 }).toBe(messages.length)
    await worker.stop()
    const common = {
      source: '/other',
      type: 'counted',
      key: 'same',
      subject: 's',
      correlationId: 'c',
      headers: { a: 'b' },
    }
    expect(sent).toEqual(messages.map(({ id }) => id))
    expect(seen).toHaveLength(messages.length)
    expect(seen).toEqual(
      expect.arrayContaining(
        messages.map(({ n, id }) => ({ ...common, datacontenttype: 'application/json', time: '', id, data: { n } })),
      ),
    )
    expect(await rig.outbox()).toEqual([])
  })

  const fine = { source: '/s', type: 't', data: '1' }
  const long = 'x'.repeat(2049)
  const refusals: readonly (readonly [what: string, given: SqlMessage, says: RegExp])[] = [
    ['a source that is null', { ...fine, source: null }, /expected source to be a text of 1 to 2048 bytes/],
    ['an empty source', { ...fine, source: '' }, /expected source /],
    ['a long source', { ...fine, source: long }, /expected source /],
    ['a source of many bytes', { ...fine, source: 'é'.repeat(1025) }, /expected source /],
    ['a type that is null', { ...fine, type: null }, /expected type to be a text of 1 to 255 bytes/],
    ['an empty type', { ...fine, type: '' }, /expected type /],
    ['a long type', { ...fine, type: 'x'.repeat(256) }, /expected type /],
    ['an empty id', { ...fine, id: '' }, /expected id to be null or a text of 1 to 2048 bytes/],
    ['a long id', { ...fine, id: long }, /expected id /],
    ['an empty key', { ...fine, key: '' }, /expected key to be null or a text of 1 to 2048 bytes/],
    ['a long key', { ...fine, key: long }, /expected key /],
    ['an empty relay', { ...fine, relay: '' }, /expected relay to be null or a text of 1 to 255 bytes/],
    ['a relay with a control character', { ...fine, relay: 'a\u001b[2Jb' }, /expected relay .* without control/],
    ['a long relay', { ...fine, relay: 'x'.repeat(256) }, /expected relay /],
    ['a delay below zero', { ...fine, delayMs: -1 }, /expected delay_ms to be null or a number from 0/],
    ['a delay with a key', { ...fine, key: 'k', delayMs: 1 }, /expected delay_ms to be absent on a message with a key/],
    ['data that is null', { ...fine, data: null }, /expected data to be the text of a JSON value, or none, got null/],
    ['empty data', { ...fine, data: '' }, /expected data to be the text of a JSON value, or none, got an empty text/],
    ['data that is no JSON', { ...fine, data: '{"a":' }, /expected data to be the text of a JSON value, or none/],
    ['a bare word as data', { ...fine, data: 'NaN' }, /expected data /],
    ['blanks as data', { ...fine, data: ' ' }, /expected data /],
    [
      'more than 1 MiB',
      { ...fine, data: `"${'x'.repeat(1024 * 1024)}"` },
      /expected a message of at most 1048576 bytes, got 1048\d{3}/,
    ],
    ['headers that are no object', { ...fine, headers: '["a"]' }, /expected headers to be a JSON object of texts/],
    ['a header that is no text', { ...fine, headers: '{"a":"b","c":1}' }, /expected header/],
  ]
  it.for(refusals)('refuses %s', async ([, given, says]) => {
    const state = { code: store === 'postgres' ? '22023' : 'ER_SIGNAL_EXCEPTION' }
    await expect(rig.publish(given)).rejects.toMatchObject({ message: expect.stringMatching(says), ...state })
    expect(await rig.outbox()).toEqual([])
  })

  it('takes what is just within the limits', async () => {
    const most = 'x'.repeat(2048)
    const row = await one({
      source: most,
      type: 'x'.repeat(255),
      id: most,
      key: most,
      relay: 'x'.repeat(255),
      data: '1',
    })
    expect(row).toMatchObject({ source: most, type: 'x'.repeat(255), id: most, key: most })
    const free = 1024 * 1024 - '{"time":"2026-01-01T00:00:00.000Z","datacontenttype":"application/json"}'.length - 2
    await one({ ...fine, data: `"${'x'.repeat(free)}"` })
    await expect(rig.publish({ ...fine, data: `"${'x'.repeat(free + 1)}"` })).rejects.toThrow('at most 1048576 bytes')
  })
})

const printed = ({ schema, features }: Store<unknown>): Printed => ({
  sql: schema.sql(),
  database: features.name,
  at: new Date(),
  language: 'ts',
})

describe.for(stores)('the printed migrations of %s', (store) => {
  const client = clients[store]
  const missing = spawnSync(client.program, ['--version']).status !== 0
  it.skipIf(missing)('are a script for its own client, routine and all', async () => {
    await using place = await makeEmptyPlace(store)
    const opened = await openStore(place.place, { max: 1 })
    const { status, stderr: said } = spawnSync(client.program, client.args(place.place), {
      input: formatted(printed(opened), 'client'),
      encoding: 'utf8',
      env: { ...process.env, ...client.env(place.place) },
    })
    expect({ status, errors: said.replaceAll(/^NOTICE: .*\n/gm, '') }).toEqual({ status: 0, errors: '' })
    expect((await opened.schema.migrations()).map(({ applied }) => applied)).not.toContain(false)
    await opened.close()
    await place.query(client.call(place.place))
    expect(await place.query(`select 1 from ${table(place.place, 'outbox')}`)).toHaveLength(1)
  })

  it('are plain statements for a tool that sends one after the other', async () => {
    await using place = await makeEmptyPlace(store)
    const opened = await openStore(place.place, { max: 1 })
    if (store === 'postgres') await place.query(`drop schema ${place.place.schema} cascade`)
    const sql = formatted(printed(opened), 'sql')
    expect(sql).not.toMatch(/^(begin|commit|rollback|start transaction);$|^delimiter\b/im)
    const statements = sql.split(/;\n(?:\n|$)/).filter((text) => text !== '')
    expect(statements).toEqual(opened.schema.sql().statements)
    for (const text of statements) await place.query(text)
    expect(await opened.schema.migrate()).toEqual([])
    await opened.close()
    await place.query(client.call(place.place))
    expect(await place.query(`select 1 from ${table(place.place, 'outbox')}`)).toHaveLength(1)
  })

  it.runIf(store === 'postgres')('are plain statements for a tool that sends all of them at once', async () => {
    await using place = await makeEmptyPlace(store)
    const opened = await openStore(place.place, { max: 1 })
    await place.query(formatted(printed(opened), 'sql'))
    expect(await opened.schema.migrate()).toEqual([])
    await opened.close()
  })
})
