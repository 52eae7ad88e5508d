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
    expect((await cli([...importing, '--dry-run'], { ...around, input: input() })).stdout).toBe(
      'would import 3 receipts for billing; 0 existed before\n',
    )
    expect(await cli(importing, { ...around, input: input() })).toEqual({
      exitCode: 0,
      stdout: 'imported 3 receipts for billing; 0 existed before\n',
      stderr: '',
    })
    const { statuses, ran } = await delivered(cwd, ['evt_1', 'evt_2', 'evt_3', 'evt_4'])
    expect(statuses).toEqual(['duplicate', 'duplicate', 'duplicate', 'processed'])
    expect(ran).toEqual(['evt_4'])
    // Another source is another message.
    expect((await delivered(cwd, ['evt_1'], 'paypal')).ran).toEqual(['evt_1'])
    expect((await cli(['explain', 'evt_1', '--source', 'stripe'], around)).stdout).toMatch(/\(imported\)/)
  })

  it('can be repeated, and is audited', async () => {
    const { cwd, around } = await database()
    const path = join(cwd, 'processed.ndjson')
    const rows = Array.from({ length: 1_201 }, (_, n) => ({
      id: `e${n}`,
      ...(n % 2 && { source: '/other', type: 'order.placed' }),
    }))
    writeFileSync(path, rows.map((row) => JSON.stringify(row)).join('\n'))
    const importing = ['receipts', 'import', path, '--ndjson', '--consumer', 'billing', '--source', 'stripe', '--json']
    expect(JSON.parse((await cli([...importing, '--note', 'switch'], around)).stdout)).toEqual({
      dryRun: false,
      stopped: false,
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
      stdout: 'imported 1 receipt for biling; 0 existed before\n',
      stderr:
        'the consumer biling is not known to this database (known: billing): check its name, unless it is still to come\n',
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
    expect(await stderr(importing, piped('a'))).toContain('expected --source, because ids alone do not say it')
    expect(await stderr([...importing, '--source', 's'])).toContain('expected a file, or ids on standard input')
    expect(await stderr([...importing, '--source', 's', 'nowhere.txt'])).toContain('nowhere.txt')
    expect(await stderr([...importing, '--ndjson'], piped('{"id":"a"}'))).toContain(
      'expected source of message 1 to be',
    )
    expect(await stderr([...importing, '--ndjson'], piped('[1]'))).toContain(
      'expected line 1 to be a JSON object with an id',
    )
    expect(await stderr([...importing, '--source', 's'], piped(`ok\n${'x'.repeat(3_000)}`))).toContain(
      'id of message 2',
    )
  })
})
