import { stripVTControlCharacters } from 'node:util'
import { describe, expect, it } from 'vitest'
import { cli, sharedDatabase } from '../support/cli.ts'

const shop = sharedDatabase()

/** Characters that could take over a terminal or turn its text around. */
const harmful = (text: string): string[] => text.replaceAll('\n', '').match(/[\p{Cc}\p{Cf}]/gu) ?? []

describe('status', () => {
  it('counts for people', async () => {
    const { exitCode, stdout } = await shop.look('status')
    expect(exitCode).toBe(0)
    expect(stdout).toMatch(
      /^consumer {2}receipts {2}waiting {2}retrying {2}failed\nbilling {10}5 {8}0 {9}1 {7}3\n\noutbox: 1 message, the oldest is \d+ \w+ old\n$/,
    )
  })

  it('counts for programs', async () => {
    expect(JSON.parse((await shop.look('status', '--json')).stdout)).toEqual({
      consumers: [{ consumer: 'billing', receipts: 5, waiting: 0, retrying: 1, failed: 3 }],
      outbox: { count: 1, oldestAt: expect.stringMatching(/^\d{4}-.*Z$/) },
    })
  })
})

describe('failed list', () => {
  it('shows the newest first, and how to get the next page', async () => {
    const { stdout } = await shop.look('failed', 'list', '--limit', '2', '--consumer', 'billing')
    expect(stdout.split('\n').slice(1, 3)).toEqual([
      expect.stringMatching(/^ {2}3 .*permanent/),
      expect.stringMatching(/^ {2}2 .*billing {3}order.placed {2}failed-2 .* 1 {2}permanent {2}no such card/),
    ])
    expect(stdout).toContain('hapax -- failed list --before 2 --limit 2 --consumer billing --store sqlite:shop.db')
  })

  it('lets no control character of a message through', async () => {
    for (const argv of [
      ['failed', 'list'],
      ['failed', 'list', '--json'],
      ['failed', 'show', '3'],
    ]) {
      const { stdout } = await shop.look(...argv)
      expect(harmful(stdout)).toEqual([])
      expect(stdout).toContain('\\u001b[2J\\u009b31m\\u202e\\nhapax: all is well')
    }
  })

  it('pages and filters for programs', async () => {
    const page = async (...argv: string[]) => JSON.parse((await shop.look('failed', 'list', '--json', ...argv)).stdout)
    const first = await page('--limit', '2')
    expect(first).toMatchObject({ messages: [{ seq: '3' }, { seq: '2' }], next: '2' })
    const second = await page('--limit', '2', '--before', first.next)
    expect(second.next).toBeNull()
    expect(second.messages).toEqual([
      {
        seq: '1',
        failedAt: expect.stringMatching(/Z$/),
        consumer: 'billing',
        id: 'failed-1',
        source: '/shop',
        type: 'order.placed',
        key: null,
        attempts: 1,
        reason: 'permanent',
        error: { name: 'Permanent', message: 'no such card', cause: { name: 'TypeError', message: 'bad digits' } },
      },
    ])
    for (const filter of ['consumer', 'type', 'reason']) {
      expect(await page(`--${filter}`, 'other')).toEqual({ messages: [], next: null })
    }
  })
})

describe('failed show', () => {
  it('shows attributes, error, causes and payload', async () => {
    const { stdout } = await shop.look('failed', 'show', '1')
    for (const part of [
      /^header tenant +blue$/m,
      /^Permanent: no such card$/m,
      /^ {4}at /m,
      /^ {2}because TypeError: bad digits$/m,
      /^ {4}"id": "failed-1"$/m,
      /failed retry 1/,
    ]) {
      expect(stdout).toMatch(part)
    }
    const shown = JSON.parse((await shop.look('failed', 'show', '1', '--json')).stdout)
    expect(shown).toMatchObject({
      seq: '1',
      headers: { tenant: 'blue' },
      data: { outcome: 'failed', id: 'failed-1' },
      error: { stack: expect.stringContaining('no such card') },
    })
  })

  it('says that there is no such message', async () => {
    const ran = await shop.look('failed', 'show', '99')
    expect(ran).toMatchObject({ exitCode: 1, stdout: '', stderr: expect.stringMatching(/99 \(not-found\)\n/) })
  })
})

describe('failed retry and discard', () => {
  it('goes on after a row that is not there', async () => {
    const around = shop.copy()
    const retried = await cli(['failed', 'retry', '99', '1', '--json'], around)
    expect(retried.exitCode).toBe(1)
    expect(JSON.parse(retried.stdout)).toEqual({
      change: 'retry',
      dryRun: false,
      results: [
        { seq: '99', ok: false, error: { code: 'not-found', message: 'there is no failed message 99' } },
        { seq: '1', ok: true },
      ],
    })
    expect((await cli(['failed', 'discard', '2', '98'], around)).stdout).toBe(
      'discarded  2  order.placed failed-2 of billing\nnot done   98  there is no failed message 98 (not-found)\n',
    )
    expect(JSON.parse((await cli(['status', '--json'], around)).stdout).consumers).toMatchObject([
      { waiting: 1, retrying: 1, failed: 1, receipts: 5 },
    ])
  })

  it.for(['retry', 'discard'])('refuses to %s everything without a terminal', async (change) => {
    const around = shop.copy()
    const refused = await cli(['failed', change, '--all'], around)
    expect(refused).toMatchObject({ exitCode: 1, stdout: '' })
    expect(refused.stderr).toMatch(/^hapax: .*3 messages needs --yes.*\(refused\)\n.*--dry-run\n$/)
    const dry = await cli(['failed', change, '--all', '--dry-run'], around)
    expect(dry.stdout.match(new RegExp(`^would ${change} {2}\\d`, 'gm'))).toHaveLength(3)
    expect((await cli(['status', '--json'], around)).stdout).toContain('"failed": 3')

    const done = await cli(['failed', change, '--all', '--yes', '--reason', 'permanent'], around)
    expect(done.exitCode).toBe(0)
    expect((await cli(['status', '--json'], around)).stdout).toContain('"failed": 0')
    expect((await cli(['failed', change, '--all'], around)).stdout).toBe('no failed messages match\n')
  })

  it('asks on a terminal', async () => {
    const around = shop.copy()
    const questions: string[] = []
    const answer = (yes: boolean) => async (question: string) => {
      questions.push(question)
      return yes
    }
    const no = await cli(['failed', 'discard', '--all'], { ...around, confirm: answer(false) })
    expect(no).toEqual({ exitCode: 1, stdout: '', stderr: 'hapax: nothing was changed (refused)\n' })
    const yes = await cli(['failed', 'discard', '--all'], { ...around, confirm: answer(true) })
    expect(yes.exitCode).toBe(0)
    expect(questions).toEqual(Array(2).fill('Delete for good 3 failed messages?'))
  })
})

describe('explain', () => {
  it.for([
    ['done-1', /taken by billing\n\nbilling is done with it/],
    [
      'retrying-1',
      /1 attempt so far \(Error: the tax service.*\)\n\nNext, a worker of billing tries it again in \d+ min/,
    ],
    ['failed-1', /after 1 attempt: permanent .*\n\n.*hapax -- failed retry 1 --store sqlite:shop.db/],
    ['published-1', /outbox .*not confirmed yet\n\nNext, the relay default sends it/],
  ] as const)('tells what became of %s and what is next', async ([id, story]) => {
    const { exitCode, stdout } = await shop.look('explain', id)
    expect(exitCode).toBe(0)
    expect(stdout).toMatch(story)
  })

  it('tells it to programs', async () => {
    expect(JSON.parse((await shop.look('explain', 'failed-1', '--json')).stdout)).toEqual({
      id: 'failed-1',
      messages: [
        {
          source: '/shop',
          type: 'order.placed',
          traces: [
            { where: 'receipt', consumer: 'billing', at: expect.any(String) },
            expect.objectContaining({ where: 'failed', seq: '1', attempts: 1, reason: 'permanent' }),
          ],
          next: expect.stringContaining('failed retry 1'),
        },
      ],
    })
  })

  it('says that nothing is known', async () => {
    expect(await shop.look('explain', 'nope')).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('(not-found)'),
    })
    expect((await shop.look('explain', 'done-1', '--source', '/other')).exitCode).toBe(1)
  })
})

it('colours on a terminal only, and cuts tables to its width', async () => {
  const argv = ['failed', 'list', '--store', 'sqlite:shop.db']
  expect((await cli(argv, { cwd: shop.cwd() })).stdout).not.toContain('\u001b')
  const { stdout } = await cli(argv, { cwd: shop.cwd(), color: true, columns: 80 })
  expect(stdout).toContain('\u001b[31m')
  for (const row of stripVTControlCharacters(stdout).split('\n').slice(0, 4)) {
    expect(row.length).toBeLessThanOrEqual(80)
  }
})
