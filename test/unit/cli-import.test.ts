import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createHapax, defineMessage, silentLogger } from '../../src/index.ts'
import { sqlite } from '../../src/stores/sqlite/index.ts'
import { cli, temporaryDirectory } from '../support/cli.ts'

const Paid = defineMessage<{ amount: number }>('invoice.paid')

async function database(): Promise<{ cwd: string; around: { cwd: string; env: Record<string, string> } }> {
  const cwd = temporaryDirectory()
  const around = { cwd, env: { HAPAX_STORE: 'sqlite:./shop.db' } }
  expect(await cli(['migrate'], around)).toMatchObject({ exitCode: 0 })
  return { cwd, around }
}

async function* piped<Chunk extends string | Uint8Array>(...chunks: Chunk[]): AsyncGenerator<Chunk> {
  yield* chunks
}

/** Delivers messages to a consumer and returns the outcomes, and what ran. */
async function delivered(
  cwd: string,
  ids: readonly string[],
  source = 'stripe',
): Promise<{ statuses: string[]; ran: string[] }> {
  const hapax = createHapax({ store: sqlite({ path: join(cwd, 'shop.db') }), source: '/shop', logger: silentLogger })
  try {
    const ran: string[] = []
    const billing = hapax.consumer('billing').on(Paid, (_, { message }) => void ran.push(message.id))
    const statuses: string[] = []
    for (const id of ids) {
      const outcome = await billing.handle({ id, source, type: 'invoice.paid', data: { amount: 1 } })
      statuses.push(outcome.status)
    }
    return { statuses, ran }
  } finally {
    await hapax.close()
  }
}

describe('receipts import', () => {
  it('takes over what another inbox has processed: only the rest runs', async () => {
    const { cwd, around } = await database()
    const importing = ['receipts', 'import', '--consumer', 'billing', '--source', 'stripe']
    const input = (): AsyncGenerator<string> => piped('evt_1\nevt', '_2\r\n\n', 'evt_2\nevt_3')
    const read = 'read 5 rows: 0 left out, 1 without an id\nthe first id is "evt_1", the last "evt_3"\n'
    expect((await cli([...importing, '--dry-run'], { ...around, input: input() })).stdout).toBe(
      `${read}would import 3 receipts for billing; 0 existed before\n`,
    )
    expect(await cli(importing, { ...around, input: input() })).toEqual({
      exitCode: 0,
      stdout: `${read}imported 3 receipts for billing; 0 existed before\n`,
      stderr: '',
    })
    const { statuses, ran } = await delivered(cwd, ['evt_1', 'evt_2', 'evt_3', 'evt_4'])
    expect(statuses).toEqual(['duplicate', 'duplicate', 'duplicate', 'processed'])
    expect(ran).toEqual(['evt_4'])
    // Another source is another message.
    expect((await delivered(cwd, ['evt_1'], 'paypal')).ran).toEqual(['evt_1'])
    expect((await cli(['explain', 'evt_1', '--source', 'stripe'], around)).stdout).toMatch(/\(imported\)/)
  })

  it('parses CSV: quotes are not part of an id, spaces are, and unfinished rows are excluded', async () => {
    const { cwd, around } = await database()
    const text = [
      '\ufeff"event_id",status,"a ""note"""',
      '"evt_1",done,',
      'evt_2,failed,"not, finished"',
      '" evt_3 ",done,"over\ntwo lines"',
      '"evt ""4""\n",done,',
      ',done,',
      'evt_1,done,again',
      '',
    ].join('\r\n')
    writeFileSync(join(cwd, 'processed.csv'), text)
    const importing = ['receipts', 'import', 'processed.csv', '--id', 'event_id', '--where', 'status=done']
    const whole = [...importing, '--consumer', 'billing', '--source', 'stripe']
    const expected = { read: 6, empty: 1, leftOut: 1, first: { id: 'evt_1' }, last: { id: 'evt_1' } }
    const columns = ['event_id', 'status', 'a "note"']
    const dry = JSON.parse((await cli([...whole, '--dry-run', '--json'], around)).stdout)
    expect(dry).toMatchObject({ ...expected, columns, imported: 3, existing: 0 })
    expect((await cli(whole, around)).stdout).toContain(
      'read 6 rows with the columns event_id, status, a "note": 1 left',
    )
    const again = [...whole.map((each) => each.replace('status=done', 'status!=failed')), '--json']
    expect(JSON.parse((await cli(again, around)).stdout)).toMatchObject({ ...expected, imported: 0, existing: 3 })
    const { ran } = await delivered(cwd, ['evt_1', 'evt_2', ' evt_3 ', 'evt_3', 'evt "4"\r\n', 'evt "4"\n'])
    expect(ran).toEqual(['evt_2', 'evt_3', 'evt "4"\r\n'])
    const bare = [
      'receipts',
      'import',
      '--format',
      'csv',
      '--columns',
      'n,id',
      '--consumer',
      'billing',
      '--source',
      's',
    ]
    const rows = await cli(bare, { ...around, input: piped('1,"evt_1"\n2,evt_2') })
    expect(rows.stdout).toContain('imported 2 receipts')
    expect((await delivered(cwd, ['evt_1', 'evt_2', 'evt_3'], 's')).ran).toEqual(['evt_3'])
  })

  it('keeps ids as they are, including surrounding spaces', async () => {
    const { cwd, around } = await database()
    const importing = ['receipts', 'import', '--consumer', 'billing', '--source', 'stripe']
    expect((await cli(importing, { ...around, input: piped(' a\nb \r\n') })).stdout).toContain('the last "b "')
    expect((await delivered(cwd, [' a', 'a', 'b ', 'b'])).ran).toEqual(['a', 'b'])
  })

  it('excludes objects by a field', async () => {
    const { cwd, around } = await database()
    const objects = [{ key: 'a', state: 2 }, { key: 'b', state: 3 }, { key: 'c' }].map((each) => JSON.stringify(each))
    writeFileSync(join(cwd, 'p.jsonl'), objects.join('\n'))
    const importing = ['receipts', 'import', 'p.jsonl', '--id', 'key', '--where', 'state=2']
    const { stdout } = await cli([...importing, '--consumer', 'billing', '--source', 's'], around)
    expect(stdout).toContain('read 3 rows: 2 left out, 0 without an id')
    expect((await delivered(cwd, ['a', 'b', 'c'], 's')).ran).toEqual(['b', 'c'])
  })

  it('takes no object that lacks a field of a condition, whatever it asks', async () => {
    const { cwd, around } = await database()
    const objects = [{ id: 'a', done_at: 1 }, { id: 'b', done_at: null }, { id: 'c' }]
    writeFileSync(join(cwd, 'p.jsonl'), objects.map((each) => JSON.stringify(each)).join('\n'))
    const importing = ['receipts', 'import', 'p.jsonl', '--consumer', 'billing', '--source', 's']
    const misspelt = await cli([...importing, '--where', 'stattus!=failed'], around)
    expect(misspelt.stdout).toContain('read 3 rows: 3 left out')
    expect(misspelt.stderr).toBe('no row has "failed" as its stattus: check --where\n')
    await cli([...importing, '--where', 'done_at!='], around)
    expect((await delivered(cwd, ['a', 'b', 'c'], 's')).ran).toEqual(['b', 'c'])
  })

  it('refuses a condition that would ask for another value, and tells of a value that no row has', async () => {
    const { cwd, around } = await database()
    writeFileSync(join(cwd, 'p.csv'), 'id,status\na,done\nb,failed\n')
    const importing = ['receipts', 'import', 'p.csv', '--consumer', 'billing', '--source', 's', '--dry-run', '--where']
    for (const condition of ['status==done', 'status!==failed', "status!='failed'", 'status!="failed"']) {
      const { exitCode, stderr } = await cli([...importing, condition], around)
      expect(exitCode).toBe(2)
      expect(stderr).toContain('without quotes')
    }
    expect((await cli([...importing, 'status!= failed'], around)).stderr).toBe(
      'no row has " failed" as its status: check --where\n',
    )
    expect((await cli([...importing, 'status!=failed'], around)).stderr).toBe('')
  })

  it('can be repeated, and is audited', async () => {
    const { cwd, around } = await database()
    const path = join(cwd, 'processed.ndjson')
    const rows = Array.from({ length: 1_201 }, (_, n) => ({
      id: `e${n}`,
      ...(n % 2 && { source: '/other', type: 'order.placed' }),
    }))
    writeFileSync(path, rows.map((row) => JSON.stringify(row)).join('\n'))
    const importing = ['receipts', 'import', path, '--consumer', 'billing', '--source', 'stripe', '--json']
    expect(JSON.parse((await cli([...importing, '--note', 'switch'], around)).stdout)).toEqual({
      dryRun: false,
      stopped: false,
      read: 1_201,
      empty: 0,
      leftOut: 0,
      columns: null,
      first: { id: 'e0', source: 'stripe' },
      last: { id: 'e1200', source: 'stripe' },
      imported: 1_201,
      existing: 0,
    })
    expect(JSON.parse((await cli(importing, around)).stdout)).toMatchObject({ imported: 0, existing: 1_201 })
    const { statuses } = await delivered(cwd, ['e1', 'e3'], '/other')
    expect(statuses).toEqual(['duplicate', 'duplicate'])
  })

  it('warns of a consumer that the database does not know', async () => {
    const { cwd, around } = await database()
    const hapax = createHapax({ store: sqlite({ path: join(cwd, 'shop.db') }), source: '/shop', logger: silentLogger })
    const worker = hapax.worker({ consume: [hapax.consumer('billing').on(Paid, () => undefined)] })
    await worker.start()
    await worker.stop()
    await hapax.close()
    const importing = (name: string) =>
      cli(['receipts', 'import', '--consumer', name, '--source', 's'], { ...around, input: piped('a') })
    expect(await importing('billing')).toMatchObject({ exitCode: 0, stderr: '' })
    expect(await importing('biling')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^imported 1 receipt for biling; 0 existed before$/m),
      stderr:
        'the consumer biling is not known to this database (known: billing): check its name, unless it is yet to be created\n',
    })
  })

  it('refuses bytes that are no text, and takes characters in pieces', async () => {
    const { cwd, around } = await database()
    const importing = ['receipts', 'import', '--consumer', 'billing', '--source', 'stripe']
    const run = (...chunks: Buffer[]) => cli(importing, { ...around, input: piped(...chunks) })
    const garbled = Buffer.concat([Buffer.from('evt_1\n\nevt_'), Buffer.from([0xff]), Buffer.from('\nevt_3\n')])
    const { exitCode, stderr } = await run(garbled)
    expect(exitCode).toBe(2)
    expect(stderr).toContain('expected line 3 to be UTF-8, got evt_\ufffd (usage)')
    const whole = Buffer.from('\ufeffbestellung_ü\n')
    expect(await run(whole.subarray(0, -2), whole.subarray(-2))).toMatchObject({ exitCode: 0 })
    expect((await delivered(cwd, ['bestellung_ü'])).statuses).toEqual(['duplicate'])
  })

  it('says what is wrong with its input', async () => {
    const { around } = await database()
    const importing = ['receipts', 'import', '--consumer', 'billing']
    const stderr = async (argv: string[], input?: AsyncGenerator<string>): Promise<string> => {
      const ran = await cli(argv, { ...around, ...(input && { input }) })
      expect(ran.exitCode).not.toBe(0)
      return ran.stderr
    }
    expect(await stderr(importing, piped('a'))).toContain('expected --source, because the input has no sources')
    expect(await stderr([...importing, '--source', 's'])).toContain('expected a file, or ids on standard input')
    expect(await stderr([...importing, '--source', 's', 'nowhere.txt'])).toContain('nowhere.txt')
    expect(await stderr([...importing, '--format', 'ndjson'], piped('{"id":"a"}'))).toContain(
      'expected source of message 1 to be',
    )
    expect(await stderr([...importing, '--format', 'ndjson'], piped('[1]'))).toContain(
      'expected line 1 to be a JSON object with an id',
    )
    expect(await stderr([...importing, '--source', 's'], piped(`ok\n${'x'.repeat(3_000)}`))).toContain(
      'line 2: expected id of message 2',
    )
    for (const [text, format] of [
      ['"evt_1"', 'csv'],
      ['"evt_1",done', 'csv'],
      ['1;"evt_1"', 'csv'],
      ['{"id":"evt_1"}', 'ndjson'],
      ['{ "id": "evt_1" }', 'ndjson'],
      ['[{"id": "evt_1"}]', 'ndjson'],
      ['[', 'ndjson'],
    ] as const) {
      expect(await stderr([...importing, '--source', 's'], piped(`ok\n${text}\n`))).toContain(
        `expected an id on line 2, got what looks like ${format}: ${text} (usage)\n  --format ${format} reads it`,
      )
    }
    expect(await stderr([...importing, '--source', 's'], piped('id,status\nevt_1,done\n'))).toContain(
      'expected an id on line 1, got what looks like csv: id,status',
    )
    // A single id otherwise, which no message has.
    expect(await stderr([...importing, '--source', 's'], piped('ok\nevt_1\revt_2'))).toContain(
      'expected an id on line 2, got a carriage return without a line feed: evt_1\\revt_2',
    )
    const csv = [...importing, '--source', 's', '--format', 'csv']
    const refused = async (text: string, ...more: string[]): Promise<string> => stderr([...csv, ...more], piped(text))
    expect(await refused('evt_1\nevt_2\n')).toContain('expected one column id in the first line, got evt_1 (usage)')
    expect(await refused('id,id\n')).toContain('expected one column id in the first line, got id, id')
    expect(await refused('id\na\n', '--where', 'status=done')).toContain('expected one column status in the first line')
    expect(await refused('a\n', '--columns', 'name')).toContain('expected one column id among --columns, got name')
    expect(await refused('id,n\na,1\nb\n')).toContain('expected 2 fields on line 3, one for each column, got 1')
    expect(await refused('id\n"a\n')).toContain('an unterminated quote on line 3')
    expect(await refused('id\na\n', '--where', 'status')).toContain('expected column=value or column!=value')
    expect(await stderr([...importing, '--source', 's', '--where', 'a=b'], piped('a'))).toContain('--where requires')
  })
})
