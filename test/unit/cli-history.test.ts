import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { stripVTControlCharacters } from 'node:util'
import { describe, expect, it } from 'vitest'
import { widthOf } from '../../src/cli/io/text.ts'
import { createHapax, defineMessage, silentLogger } from '../../src/index.ts'
import { sqlite } from '../../src/stores/sqlite/index.ts'
import { cli, sharedDatabase } from '../support/cli.ts'

const HOSTILE = '\u001b[2J\u009b31m\u202e\n1 1 {"worker":"forged"}'
const START = Date.parse('2026-03-01T10:00:00Z')
const shop = sharedDatabase(async (path) => {
  const hapax = createHapax({ store: sqlite({ path }), source: '/shop', logger: silentLogger })
  await hapax.migrate()
  const Placed = defineMessage<{ n: number }>('order.placed')
  const billing = hapax.consumer('billing', { retry: { attempts: 14, minDelayMs: 0, maxDelayMs: 0 } })
  billing.on(Placed, (_, { message, attempt }) => {
    const text = message.id === 'hostile' ? HOSTILE : `the tax service did not answer call ${attempt} within 30 seconds`
    throw Object.assign(new Error(text), { code: 'ETIMEDOUT' })
  })
  for (const id of ['slow', 'hostile'])
    await billing.handle({ id, source: '/shop', type: 'order.placed', data: { n: 1 } })
  const worker = hapax.worker({ consume: [billing] })
  await worker.start()
  await worker.drain()
  await worker.stop()
  const waiting = hapax.consumer('shipping', { retry: { minDelayMs: 600_000 } })
  waiting.on(Placed, () => Promise.reject(new Error('no')))
  await waiting.handle({ id: 'waits', source: '/shop', type: 'order.placed', data: { n: 1 } })
  await hapax.transaction((tx) => hapax.publish(tx, Placed, { n: 1 }, { id: 'published' }))
  await hapax.close()
  const database = new DatabaseSync(path)
  // Fixed times and names, so that what is printed can be compared.
  const line = (attempt: number, more: string) =>
    `${START + attempt * 60_000} ${attempt} {"worker":"app-7d9f/17",${more}"name":"Error","code":"ETIMEDOUT","message":"the tax service did not answer call ${attempt} within 30 seconds"}`
  const lines = [14, 13, 12, 11, 10, 9, 8, 7, 6, 5].map((attempt) =>
    line(attempt, attempt === 8 ? '"kind":"lost",' : ''),
  )
  database.prepare(`update hapax_failed set history = ? where id = 'slow'`).run(lines.join('\n'))
  const nacked = `${START} 1 {"worker":"app-7d9f/18","name":"Error","message":"nacked"}`
  database.prepare(`update hapax_outbox set attempts = 1, failures = 1, history = ?`).run(nacked)
  database.close()
})

/** What a terminal of this width shows. */
async function on(columns: number, ...argv: string[]): Promise<readonly string[]> {
  const { stdout } = await cli([...argv, '--store', 'sqlite:shop.db'], { cwd: shop.cwd(), columns, color: true })
  return stripVTControlCharacters(stdout).split('\n')
}

describe('failed show', () => {
  it('lists the failures, and how many earlier ones there were, in the width of the terminal', async () => {
    for (const columns of [80, 120]) {
      const lines = await on(columns, 'failed', 'show', 'slow')
      const start = lines.indexOf('14 failures, 4 earlier not kept')
      const table = lines.slice(start + 1, lines.indexOf('', start))
      expect(table).toHaveLength(11)
      expect(table[0]).toMatch(/^when +attempt {2}worker +error$/)
      expect(table[1]).toMatch(/^2026-03-01 10:05:00.000Z +5 {2}app-7d9f\/17 {2}Error \(ETIMEDOUT\): the tax serv/)
      expect(table[4]).toMatch(/^2026-03-01 10:08:00.000Z +- {2}app/)
      for (const row of table) expect(widthOf(row)).toBeLessThanOrEqual(columns)
    }
    expect((await shop.look('failed', 'show', 'slow')).stdout).toContain(
      'Error (ETIMEDOUT): the tax service did not answer call 14 within 30 seconds\n\n',
    )
  })

  it('tells it to programs', async () => {
    const { failures, history } = JSON.parse((await shop.look('failed', 'show', 'slow', '--json')).stdout)
    expect([failures, history.length]).toEqual([14, 10])
    expect(history[3]).toEqual({
      at: '2026-03-01T10:08:00.000Z',
      attempt: 8,
      worker: 'app-7d9f/17',
      kind: 'lost',
      name: 'Error',
      code: 'ETIMEDOUT',
      message: 'the tax service did not answer call 8 within 30 seconds',
    })
    const list = JSON.parse((await shop.look('failed', 'list', '--json')).stdout)
    expect(list.messages[0]).not.toHaveProperty('history')
  })

  it('lets no control character through, and no line that an error forged', async () => {
    for (const argv of [
      ['failed', 'show', 'hostile'],
      ['explain', 'hostile'],
      ['failed', 'show', 'hostile', '--json'],
    ]) {
      const { stdout } = await shop.look(...argv)
      expect(stdout.replaceAll('\n', '').match(/[\p{Cc}\p{Cf}]/gu)).toBeNull()
    }
    const { history } = JSON.parse((await shop.look('failed', 'show', 'hostile', '--json')).stdout)
    expect(history.map(({ worker }: { worker: string }) => worker)).not.toContain('forged')
  })

  it('shows a message whose history somebody has spoilt', async () => {
    const around = shop.copy()
    const database = new DatabaseSync(join(around.cwd, 'shop.db'))
    database.exec(`update hapax_failed set history = '[{"at":' where id = 'slow'`)
    database.close()
    for (const argv of [
      ['failed', 'show', 'slow'],
      ['explain', 'slow'],
    ]) {
      const { exitCode, stdout } = await cli(argv, around)
      expect([exitCode, stdout.includes('not kept')]).toEqual([0, false])
    }
  })
})

describe('explain', () => {
  it('tells the failures in their place in the life of the message', async () => {
    const lines = (await shop.look('explain', 'slow')).stdout.split('\n').slice(2)
    expect(lines[0]).toBe('  2026-03-01 10:05:00.000Z  failure  4 earlier not kept, for billing')
    expect(lines[1]).toBe(
      '  2026-03-01 10:05:00.000Z  failure  attempt 5 for billing failed on app-7d9f/17: Error (ETIMEDOUT): the tax service did not answer call 5 within 30 seconds',
    )
    expect(lines[4]).toContain('interrupted for billing on app-7d9f/17, without using up an attempt: Error')
    expect(lines[10]).toContain('attempt 14 for billing')
    expect(lines[11]).toMatch(/receipt {2}taken by billing$/)
    expect(lines[12]).toMatch(/failed {3}failed for billing after 14 attempts: attempts-exhausted/)
    expect((await shop.look('explain', 'waits')).stdout).toMatch(
      /inbox .*shipping; 1 attempt so far\n.*failure {2}attempt 1 for shipping failed on \S+\/\d+: Error: no\n\nNext, a worker/,
    )
    expect((await shop.look('explain', 'published')).stdout).toContain(
      'attempt 1 for the relay default failed on app-7d9f/18: Error: nacked',
    )
  })

  it('tells them to programs', async () => {
    const { messages } = JSON.parse((await shop.look('explain', 'waits', '--json')).stdout)
    expect(messages[0].traces).toContainEqual(
      expect.objectContaining({
        where: 'inbox',
        failures: 1,
        history: [{ at: expect.any(String), attempt: 1, worker: expect.any(String), name: 'Error', message: 'no' }],
      }),
    )
  })
})
