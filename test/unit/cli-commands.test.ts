import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { stripVTControlCharacters } from 'node:util'
import { createHapax, silentLogger } from 'hapax'
import { sqlite } from 'hapax/sqlite'
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
      /^consumer .*\nbilling +0 +1 +\d+ \w+ +0 +3 +0\n\nrelay .*\ndefault +1 +\d+ \w+ +0 +0 +no worker has served it yet\n\nno workers are running\n$/,
    )
  })

  it('counts for programs', async () => {
    expect(JSON.parse((await shop.look('status', '--json')).stdout)).toEqual({
      at: expect.stringMatching(/^\d{4}-.*Z$/),
      consumers: [
        {
          ...{ consumer: 'billing', waiting: 0, retrying: 1, held: 0, failed: 3, unknownEffects: 0 },
          ...{ oldestAt: expect.stringMatching(/^\d{4}-.*Z$/), estimated: false },
        },
      ],
      relays: [
        {
          ...{ relay: 'default', waiting: 1, retrying: 0, held: 0, failed: 0 },
          ...{ oldestAt: expect.any(String), destination: null },
          estimated: false,
        },
      ],
      failed: [{ origin: 'inbox', scope: 'billing', reason: expect.any(String), count: 3, estimated: false }],
      tables: expect.arrayContaining([{ table: 'inbox', rows: 1, oldestMs: expect.any(Number) }]),
      workers: [],
      paused: [],
      operations: [],
    })
  })
})

describe('failed list', () => {
  it('shows the newest first, and how to get the next page', async () => {
    const { stdout } = await shop.look('failed', 'list', '--limit', '2', '--consumer', 'billing')
    expect(stdout.split('\n').slice(1, 3)).toEqual([
      expect.stringMatching(/^3-7 .*permanent/),
      expect.stringMatching(/^2-7 .*billing {2}order.placed {2}failed-2 .* 1 {2}permanent {2}no such card/),
    ])
    expect(stdout).toContain('hapax -- failed list --before 2-7 --limit 2 --consumer billing --store sqlite:shop.db')
  })

  it('lets no control character of a message through', async () => {
    for (const argv of [
      ['failed', 'list'],
      ['failed', 'list', '--json'],
      ['failed', 'show', '3-7'],
    ]) {
      const { stdout } = await shop.look(...argv)
      expect(harmful(stdout)).toEqual([])
      expect(stdout).toContain('\\u001b[2J\\u009b31m\\u202e\\nhapax: all is well')
    }
  })

  it('pages and filters for programs', async () => {
    const page = async (...argv: string[]) => JSON.parse((await shop.look('failed', 'list', '--json', ...argv)).stdout)
    const first = await page('--limit', '2')
    expect(first).toMatchObject({ messages: [{ seq: '3-7' }, { seq: '2-7' }], next: '2-7' })
    const second = await page('--limit', '2', '--before', first.next)
    expect(second.next).toBeNull()
    expect(second.messages).toEqual([
      {
        seq: '1-7',
        failedAt: expect.stringMatching(/Z$/),
        origin: 'inbox',
        consumer: 'billing',
        id: 'failed-1',
        source: '/shop',
        type: 'order.placed',
        key: null,
        attempts: 1,
        reason: 'permanent',
        error: { name: 'Permanent', message: 'no such card', cause: { name: 'TypeError', message: 'bad digits' } },
        errorHash: expect.stringMatching(/^[0-9a-f]+$/),
        held: false,
        replacedBy: null,
        stub: null,
      },
    ])
    const none = { messages: [], next: null }
    for (const filter of ['consumer', 'relay', 'type', 'reason', 'error']) {
      expect(await page(`--${filter}`, 'other')).toEqual(none)
    }
    // A consumer is no relay of the same name.
    expect(await page('--relay', 'billing')).toEqual(none)
    expect(await page('--older-than', '1h')).toEqual(none)
    expect((await page('--newer-than', '1h')).messages).toHaveLength(3)
    expect((await page('--error', second.messages[0].errorHash)).messages).toHaveLength(2)
  })

  it('puts together what failed alike, and says how to retry it', async () => {
    const { stdout } = await shop.look('failed', 'list', '--group')
    expect(stdout.split('\n')[1]).toMatch(
      /^ {4}2 {2}billing {2}order.placed {2}permanent .* 2-7 {2}[0-9a-f]{16} {2}no such card/,
    )
    const retry = /failed (retry --consumer billing --type order.placed --reason permanent --error \w+)/.exec(
      stdout,
    )?.[1]
    expect((await shop.look('failed', ...(retry as string).split(' '), '--dry-run')).stdout).toBe(
      'would retry 2 failed messages\n',
    )
    const { groups } = JSON.parse((await shop.look('failed', 'list', '--group', '--json')).stdout)
    expect(groups).toMatchObject([{ count: 2, seq: '2-7', error: { message: 'no such card' } }, { count: 1 }])
  })
})

describe('failed show', () => {
  it('shows attributes, error, causes and payload', async () => {
    const { stdout } = await shop.look('failed', 'show', '1-7')
    for (const part of [
      /^header tenant +blue$/m,
      /^Permanent: no such card$/m,
      /^ {4}at /m,
      /^ {2}because TypeError: bad digits$/m,
      /^ {4}"id": "failed-1"$/m,
      /failed retry 1-7/,
    ]) {
      expect(stdout).toMatch(part)
    }
    const shown = JSON.parse((await shop.look('failed', 'show', '1-7', '--json')).stdout)
    expect(shown).toMatchObject({
      seq: '1-7',
      headers: { tenant: 'blue' },
      data: { outcome: 'failed', id: 'failed-1' },
      error: { stack: expect.stringContaining('no such card') },
    })
  })

  it('shows a row that somebody has spoilt, and every other one', async () => {
    const around = shop.copy()
    const database = new DatabaseSync(join(around.cwd, 'shop.db'))
    database.exec(`update hapax_failed set attributes = 'garbage', error = 'no JSON' where seq = 2`)
    database.close()
    expect((await cli(['failed', 'list'], around)).stdout.split('\n')[2]).toContain('no JSON')
    expect((await cli(['failed', 'show', '2-7'], around)).stdout).toMatch(/^id +failed-2$/m)
    expect((await cli(['explain', 'failed-2'], around)).stdout).toContain('(Error: no JSON)')
  })

  it('K17: says of a stub what is missing, and that it cannot be tried again', async () => {
    const around = shop.copy()
    const database = new DatabaseSync(join(around.cwd, 'shop.db'))
    const stub = JSON.stringify({ stub: { bytes: 4711, sha256: 'abc', why: 'it was large' } })
    database.prepare('update hapax_failed set attributes = ? where seq = 1').run(stub)
    database.close()
    const { stdout } = await cli(['failed', 'show', '1-7'], around)
    expect(stdout).toMatch(/^stub +\d+ of the 4,?711 bytes of its payload are kept: it was large$/m)
    expect(stdout).toMatch(/^payload sha256 +abc$/m)
    expect(stdout).not.toContain('failed retry 1-7')
    expect(stdout).toContain('failed edit 1-7')
    expect(JSON.parse((await cli(['failed', 'show', '1-7', '--json'], around)).stdout)).toMatchObject({
      stub: { bytes: 4711, sha256: 'abc', why: 'it was large' },
    })
    const retried = await cli(['failed', 'retry', '1-7'], around)
    expect(retried.exitCode).toBe(1)
    expect(retried.stdout + retried.stderr).toMatch(/only a stub could be kept/)
    expect((await cli(['failed', 'edit', '1-7', '--data', '{"n":1}'], around)).exitCode).toBe(0)
  })

  it('says that there is no such message', async () => {
    const ran = await shop.look('failed', 'show', '99-7')
    expect(ran).toMatchObject({ exitCode: 1, stdout: '', stderr: expect.stringMatching(/99-7 \(not-found\)\n/) })
  })
})

describe('failed retry and discard', () => {
  it('goes on after a row that is not there', async () => {
    const around = shop.copy()
    const retried = await cli(['failed', 'retry', '99-7', '1-7', '--json'], around)
    expect(retried.exitCode).toBe(1)
    expect(JSON.parse(retried.stdout)).toEqual({
      change: 'retry',
      dryRun: false,
      count: 1,
      stopped: false,
      done: 1,
      gone: 0,
      unknown: 0,
      errors: 1,
      results: [
        { seq: '99-7', result: 'error', error: { code: 'not-found', message: expect.stringContaining('99') } },
        { seq: '1-7', result: 'done' },
      ],
    })
    const discarded = await cli(['failed', 'discard', '2-7', '98-7'], around)
    expect(discarded.exitCode).toBe(1)
    expect(discarded.stdout).toMatch(
      /^discarded {2}2-7 {2}order.placed failed-2 of billing\nnot done {3}98-7 {2}.*\(not-found\)\n\n1 discarded, 1 not done\n$/,
    )
    expect(JSON.parse((await cli(['status', '--exact', '--json'], around)).stdout).consumers).toMatchObject([
      { waiting: 1, retrying: 1, failed: 1, receipts: 5 },
    ])
  })

  it('retries a message whose effects may be partly committed only with --effects-checked, and says what to check', async () => {
    const around = shop.copy()
    const database = new DatabaseSync(join(around.cwd, 'shop.db'))
    database.exec(`update hapax_failed set reason = 'broken-atomicity' where seq = 1`)
    database.close()
    for (const more of [[], ['--dry-run']]) {
      const refused = await cli(['failed', 'retry', '1-7', ...more], around)
      expect(refused.exitCode).toBe(1)
      expect(refused.stdout).toMatch(/not done .*check what it has written.*--effects-checked.*\(effects-unchecked\)/)
    }
    const edited = await cli(['failed', 'edit', '1-7', '--data', '{"n":1}'], around)
    expect([edited.exitCode, edited.stderr]).toEqual([1, expect.stringContaining('(effects-unchecked)')])
    expect((await cli(['failed', 'show', '1-7'], around)).stdout).toContain('failed retry 1-7 --effects-checked')
    expect((await cli(['explain', 'failed-1'], around)).stdout).toMatch(/To see what to check .*failed show 1-7/)
    const all = await cli(['failed', 'retry', '--all', '--yes'], around)
    expect(all.exitCode).toBe(1)
    expect(all.stdout).toMatch(/not done +1-7 .*\(effects-unchecked\)\n/)
    expect(all.stdout).toContain('2 retried, 1 not done\n')
    const checked = await cli(['failed', 'retry', '--all', '--yes', '--effects-checked', '--note', 'seen'], around)
    expect([checked.exitCode, checked.stdout]).toEqual([0, expect.stringContaining('1 retried\n')])
    expect((await cli(['explain', 'failed-1'], around)).stdout).toContain('effects checked: seen')
    expect((await cli(['failed', 'retry', '--help'], around)).stdout).toContain('--effects-checked')
  })

  it('tries by number without changing anything', async () => {
    const ran = await shop.look('failed', 'discard', '1-7', '99-7', '--dry-run')
    expect(ran.exitCode).toBe(1)
    expect(ran.stdout).toMatch(
      /^would discard {2}1-7 {2}order.placed failed-1 of billing\nnot done {7}99-7 .*not-found/,
    )
    expect((await shop.look('failed', 'show', '1-7')).exitCode).toBe(0)
  })

  it('takes numbers alone, and does each row once', async () => {
    const around = shop.copy()
    const shown = await cli(['failed', 'show', '1', '--json'], around)
    expect(JSON.parse(shown.stdout)).toMatchObject({ seq: '1-7', id: 'failed-1' })
    expect((await cli(['failed', 'show', '99'], around)).stderr).toMatch(/no failed message 99 \(not-found\)/)
    expect((await cli(['failed', 'show', '999999999999999999'], around)).stderr).toMatch(/\(not-found\)/)
    const retried = await cli(['failed', 'retry', '1', '1-7', '99', '2', '--json'], around)
    expect(retried.exitCode).toBe(1)
    expect(JSON.parse(retried.stdout).results).toEqual([
      { seq: '1-7', result: 'done' },
      { seq: '99', result: 'error', error: { code: 'not-found', message: 'there is no such message' } },
      { seq: '2-7', result: 'done' },
    ])
    expect((await cli(['failed', 'edit', '3', '--data', '{"n":1}'], around)).stdout).toMatch(/^3-7 is replaced by /m)
    expect((await cli(['failed', 'show', '3'], around)).stdout).toMatch(/^an edit replaced it with /m)
    expect((await cli(['failed', 'list', '--replaced', '--before', '4'], around)).stdout).toContain('3-7')
    expect((await cli(['failed', 'discard', '3'], around)).stdout).toMatch(/^discarded +3-7 /)
  })

  it.for(['retry', 'discard'])('refuses to %s by filter without a terminal', async (change) => {
    const around = shop.copy()
    for (const filter of [['--all'], ['--reason', 'permanent']]) {
      const refused = await cli(['failed', change, ...filter], around)
      expect(refused).toMatchObject({ exitCode: 1, stdout: '' })
      expect(refused.stderr).toMatch(/^hapax: .*3 failed messages needs --yes.*\(refused\)\n.*--dry-run\n$/)
    }
    const dry = await cli(['failed', change, '--all', '--dry-run'], around)
    expect(dry.stdout).toBe(`would ${change} 3 failed messages\n`)
    expect((await cli(['status', '--json'], around)).stdout).toContain('"failed": 3')

    const some = await cli(['failed', change, '--all', '--limit', '1', '--yes', '--json'], around)
    expect(JSON.parse(some.stdout)).toMatchObject({ done: 1, results: [{ seq: '1-7', result: 'done' }] })
    const done = await cli(['failed', change, '--reason', 'permanent', '--yes'], around)
    expect(done).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/ {2}2-7\n.* {2}3-7\n\n2 \w+ed\n/) })
    expect((await cli(['failed', change, '--all'], around)).stdout).toBe('no failed messages match\n')
  })

  it.for([
    '--consumer',
    '--relay',
    '--type',
    '--reason',
    '--error',
    '--store',
    '--schema',
    '--prefix',
    '--note',
    '--actor',
  ])('K18: %s without a value, as of a variable that is not set, is not everything', async (filter) => {
    const around = shop.copy()
    const refused = await cli(['failed', 'discard', filter, '', '--yes'], around)
    expect(refused).toMatchObject({ exitCode: 2, stdout: '' })
    expect(refused.stderr).toBe(`hapax: expected ${filter} to have a value, got '' (usage)\n`)
    expect((await cli(['status', '--json'], around)).stdout).toContain('"failed": 3')
  })

  it('asks on a terminal, and counts there', async () => {
    const around = { ...shop.copy(), columns: 100 }
    const questions: string[] = []
    const answer = (yes: boolean) => async (question: string) => {
      questions.push(question)
      return yes
    }
    const no = await cli(['failed', 'discard', '--all'], { ...around, confirm: answer(false) })
    expect(no).toEqual({ exitCode: 1, stdout: '', stderr: 'hapax: nothing was changed (refused)\n' })
    const yes = await cli(['failed', 'discard', '--all'], { ...around, confirm: answer(true) })
    expect(yes).toMatchObject({ exitCode: 0, stdout: '\n3 discarded\n', stderr: expect.stringContaining('of 3') })
    expect(questions).toEqual(Array(2).fill('Delete for good 3 failed messages?'))
  })

  it('stops between two rows when it is asked to end', async () => {
    const around = shop.copy()
    const onStart = (signal: (name: 'SIGINT') => void): void => signal('SIGINT')
    const ran = await cli(['failed', 'discard', '--all', '--yes', '--json'], { ...around, onStart })
    expect(ran.exitCode).toBe(1)
    expect(JSON.parse(ran.stdout)).toMatchObject({ done: 0, stopped: true })
    const numbered = await cli(['failed', 'discard', '1-7', '2-7'], { ...around, onStart })
    expect(numbered).toMatchObject({ exitCode: 1, stdout: expect.stringMatching(/^0 discarded\nstopped before/m) })
    expect((await cli(['status', '--json'], around)).stdout).toContain('"failed": 3')
  })

  it('keeps to a rate', async () => {
    const around = shop.copy()
    const begun = performance.now()
    await cli(['failed', 'retry', '--all', '--yes', '--rate', '4'], around)
    // The third row has its turn after half a second.
    expect(performance.now() - begun).toBeGreaterThanOrEqual(500)
  })

  it('tells the audit who and why', async () => {
    const around = shop.copy()
    await cli(['failed', 'discard', '1-7', '--actor', 'ada', '--note', 'paid by hand'], around)
    const { stdout } = await cli(['explain', 'failed-1'], around)
    expect(stdout).toMatch(/audit {4}ada discarded it: paid by hand\n/)
    expect(stdout).toContain('billing is done with it')
  })
})

describe('messages list and audit list', () => {
  it('list what waits, by place, state and type, and page on by a command that can be pasted', async () => {
    const { stdout } = await shop.look('messages', 'list')
    expect(stdout).toMatch(/^seq +written at \(UTC\) +of +state +tries +due at \(UTC\) +type +key +id +error\n/)
    expect(stdout).toMatch(/ billing +retrying +1 .* order\.placed +- +retrying-1 +Error: the tax service/)
    const held = await shop.look('messages', 'list', '--state', 'held', '--type', 'order.placed', '--since', '1d')
    expect(held.stdout).toBe('none found\n')
    const outbox = JSON.parse((await shop.look('messages', 'list', '--origin', 'outbox', '--json')).stdout)
    expect(outbox).toMatchObject({
      messages: [{ id: 'published-1', scope: 'default', state: 'waiting' }],
      before: null,
    })
    const around = shop.copy()
    for (const id of ['failed-1', 'failed-2']) await cli(['failed', 'retry', id], around)
    const page = await cli(['messages', 'list', '--consumer', 'billing', '--limit', '2'], around)
    const [, before = ''] =
      /next page: .*messages list --consumer billing --limit 2 --before (\S+)/.exec(page.stdout) ?? []
    const rest = await cli(['messages', 'list', '--consumer', 'billing', '--before', before, '--json'], around)
    expect(JSON.parse(rest.stdout).messages.map(({ id }: { id: string }) => id)).toEqual(['retrying-1'])
  })

  it('are tried at once where a person asks for it', async () => {
    const around = shop.copy()
    const [{ seq }] = JSON.parse(
      (await cli(['messages', 'list', '--id', 'retrying-1', '--json'], around)).stdout,
    ).messages
    expect((await cli(['explain', 'retrying-1'], around)).stdout).toContain(`messages retry ${seq}`)
    const dry = await cli(['messages', 'retry', '--consumer', 'billing', '--dry-run'], around)
    expect(dry.stdout).toContain('1 message')
    expect((await cli(['messages', 'retry', '--consumer', 'billing'], around)).stderr).toContain('needs --yes')
    const all = await cli(['messages', 'retry', '--consumer', 'billing', '--yes', '--actor', 'ada'], around)
    expect(all).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('retried') })
    expect((await cli(['explain', 'retrying-1'], around)).stdout).toMatch(/audit .* ada retried it[\s\S]*due now/)
    const [number] = seq.split('-')
    expect(await cli(['messages', 'retry', number], around)).toMatchObject({
      exitCode: 1,
      stdout: expect.stringContaining('does not wait for its next attempt'),
    })
    expect((await cli(['messages', 'retry', '99'], around)).exitCode).toBe(1)
    expect((await cli(['messages', 'retry'], around)).exitCode).toBe(2)
    expect((await cli(['messages', 'retry', number, '--type', 'order.placed'], around)).exitCode).toBe(2)
    expect((await cli(['messages', 'retry', '--relay', 'default', '--all', '--yes'], around)).exitCode).toBe(2)
  })

  it('look for a number where the consumer or the relay has its messages', async () => {
    const around = shop.copy()
    const database = new DatabaseSync(join(around.cwd, 'shop.db'))
    database.exec(`
      update hapax_inbox set seq = 12;
      update hapax_outbox set seq = 12, attempts = 1, available_at = available_at + 600000`)
    database.close()
    const retry = async (...argv: string[]) => {
      const { results } = JSON.parse((await cli(['messages', 'retry', '12', ...argv, '--json'], around)).stdout)
      return results.map(({ result, error }: { result: string; error?: object }) => error ?? result)
    }
    const absent = [{ code: 'not-found', message: 'there is no such message' }]
    expect(await retry('--relay', 'partners')).toEqual(absent)
    expect(await retry('--consumer', 'shipping')).toEqual(absent)
    expect(await retry('--relay', 'default')).toEqual(['done'])
    expect((await cli(['explain', 'retrying-1'], around)).stdout).not.toContain('retried it')
    expect((await cli(['explain', 'published-1'], around)).stdout).toContain('retried it')
    expect(await retry('--consumer', 'billing')).toEqual(['done'])
    expect((await cli(['explain', 'retrying-1'], around)).stdout).toContain('retried it')
  })

  it('tell a consumer and a relay with the same name apart', async () => {
    const around = shop.copy()
    const hapax = createHapax({
      store: sqlite({ path: join(around.cwd, 'shop.db') }),
      source: '/shop',
      logger: silentLogger,
    })
    await hapax.audit.record('look', { actor: 'ada' }, { origin: 'inbox', consumer: 'both' })
    await hapax.audit.record('look', { actor: 'bob' }, { origin: 'outbox', consumer: 'both' })
    await hapax.close()
    const actors = async (...argv: string[]) =>
      JSON.parse((await cli(['audit', 'list', ...argv, '--json'], around)).stdout).entries.map(
        ({ actor }: { actor: string }) => actor,
      )
    expect(await actors('--consumer', 'both')).toEqual(['ada'])
    expect(await actors('--relay', 'both')).toEqual(['bob'])
  })

  it('tell who did what and why, and a note is a part of it', async () => {
    const around = shop.copy()
    const by = ['--actor', 'ada', '--note']
    expect((await cli(['failed', 'note', '1-7'], around)).exitCode).toBe(2)
    expect((await cli(['failed', 'note', '99', ...by, 'x'], around)).exitCode).toBe(1)
    const dry = await cli(['failed', 'note', '1-7', ...by, 'x', '--dry-run'], around)
    expect(dry.stdout).toBe('would leave the note at 1-7\n')
    expect((await cli(['failed', 'note', 'failed-1', ...by, 'asked the \u001b[2Jbank'], around)).exitCode).toBe(0)
    await cli(['failed', 'discard', '2-7', '--actor', 'bob'], around)
    const { stdout } = await cli(['audit', 'list'], around)
    expect(stdout).toMatch(
      /^at \(UTC\) +who +action +of +type +id +note\n.* bob +discard .* failed-2 +-\n.* ada +note /,
    )
    expect(stdout).toContain('asked the \\u001b[2Jbank')
    const notes = JSON.parse(
      (await cli(['audit', 'list', '--action', 'note', '--actor', 'ada', '--json'], around)).stdout,
    )
    expect(notes).toMatchObject({ entries: [{ id: 'failed-1', scope: 'billing', origin: 'inbox' }], before: null })
    expect((await cli(['audit', 'list', '--since', '1d', '--consumer', 'other'], around)).stdout).toBe('none found\n')
    expect((await cli(['audit', 'list', '--action', 'drop'], around)).exitCode).toBe(2)
    expect((await cli(['explain', 'failed-1'], around)).stdout).toContain('ada left a note: asked the')
  })

  it('explain says why, in each place where a message waits', async () => {
    expect((await shop.look('explain', 'retrying-1')).stdout).toMatch(
      /^Why it waits in the inbox of billing: No live worker serves the consumer billing: /m,
    )
    const { messages } = JSON.parse((await shop.look('explain', 'published-1', '--json')).stdout)
    expect(messages[0].waiting).toMatchObject([
      { where: 'outbox', scope: 'default', why: expect.stringMatching(/^No live/) },
    ])
  })
})

describe('failed edit', () => {
  it('shows what changes, and puts a new message in the place of the old one', async () => {
    const around = shop.copy()
    const data = '{"outcome":"fine","cents":1}'
    const dry = await cli(['failed', 'edit', '1-7', '--data', data, '--dry-run'], around)
    expect(dry.stdout).toBe(
      '~ outcome: "failed" -> "fine"\n- id: "failed-1"\n+ cents: 1\n\nwould replace 1-7 with a message that has this data and a new id\n',
    )
    const { id } = JSON.parse((await cli(['failed', 'edit', '1-7', '--data', data, '--json'], around)).stdout)
    const old = await cli(['failed', 'show', '1-7'], around)
    expect(old.stdout).toContain(`an edit replaced it with ${id}`)
    expect((await cli(['explain', id], around)).stdout).toContain('Next, a worker of billing handles it, due now')
    expect((await cli(['explain', 'failed-1'], around)).stdout).toContain(`An edit replaced it with ${id}`)
    expect(await cli(['failed', 'edit', '1-7', '--data', '{}'], around)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('already replaced'),
    })
    expect((await cli(['failed', 'retry', '1-7'], around)).exitCode).toBe(1)
    expect((await cli(['failed', 'retry', '1-7', '--dry-run'], around)).exitCode).toBe(1)
    expect((await cli(['failed', 'list', '--replaced'], around)).stdout).toContain('failed-1')
    expect((await cli(['failed', 'list'], around)).stdout).not.toContain('failed-1')
  })

  it('gives a message another type, and leaves its data as it is', async () => {
    const around = shop.copy()
    const dry = await cli(['failed', 'edit', '1-7', '--type', 'order.mended', '--dry-run'], around)
    expect(dry.stdout).toMatch(/^~ type: \S+ -> order\.mended\n\nwould replace 1-7 /)
    const retyped = await cli(['failed', 'edit', '1-7', '--type', 'order.mended', '--json'], around)
    const { id } = JSON.parse(retyped.stdout)
    const told = await cli(['explain', id], around)
    expect(told.stdout).toContain('order.mended')
    const { stdout } = await cli(['failed', 'show', '2-7', '--json'], around)
    const { type } = JSON.parse(stdout)
    expect(await cli(['failed', 'edit', '2-7', '--type', type], around)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('the type and the data are the same: nothing was changed'),
    })
  })

  it('takes the data from an editor, and asks', async () => {
    const around = shop.copy()
    const edit = async (text: string): Promise<string> => text.replace('"failed"', '"fine"')
    const say = (yes: boolean) => ({ ...around, edit, confirm: async () => yes })
    expect(await cli(['failed', 'edit', '1-7'], say(false))).toMatchObject({ exitCode: 1 })
    expect((await cli(['failed', 'list'], around)).stdout).toContain('failed-1')
    expect((await cli(['failed', 'edit', '1-7'], say(true))).stdout).toContain('1-7 is replaced by')
    const same = await cli(['failed', 'edit', '2-7'], { ...say(true), edit: async (text) => text })
    expect(same).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('nothing was changed') })
  })

  it.for([
    ['text/plain', 'fine: "ä"', '"fine: \\"ä\\""', { data: '17' }],
    ['application/octet-stream', 'abc', '"3 bytes"', { dataBase64: 'MTc=' }],
  ] as const)('S5: takes the data of a message of %s as it is, and shows it plainly', async (given) => {
    const [datacontenttype, data, told, shown] = given
    const around = shop.copy()
    const database = new DatabaseSync(join(around.cwd, 'shop.db'))
    const attributes = JSON.stringify({ datacontenttype })
    database
      .prepare('update hapax_failed set attributes = ?, data = ? where seq = 1')
      .run(attributes, Buffer.from('17'))
    database.close()
    expect((await cli(['failed', 'show', '1-7'], around)).stdout).toMatch(/^payload, 2 bytes, not JSON\n {2}17$/m)
    const dry = await cli(['failed', 'edit', '1-7', '--data', data, '--dry-run'], around)
    expect(dry.stdout).toContain(told)
    const { id } = JSON.parse((await cli(['failed', 'edit', '1-7', '--data', data, '--json'], around)).stdout)
    const edited = new DatabaseSync(join(around.cwd, 'shop.db'))
    const row = edited.prepare('select data from hapax_inbox where id = ?').get(id)
    edited.close()
    expect(Buffer.from(Object(row).data).toString()).toBe(data)
    expect(JSON.parse((await cli(['failed', 'show', '1-7', '--json'], around)).stdout)).toMatchObject(shown)
  })

  it('keeps every digit of a number, and shows it', async () => {
    const around = shop.copy()
    const data = '{ "id": 12345678901234567890, "cents": 1.10 }'
    const dry = await cli(['failed', 'edit', '1-7', '--data', data, '--dry-run'], around)
    expect(dry.stdout).toContain('~ id: "failed-1" -> 12345678901234567890\n')
    const { id } = JSON.parse((await cli(['failed', 'edit', '1-7', '--data', data, '--json'], around)).stdout)
    const edit = async (text: string): Promise<string> => text.replace('"failed-2"', '98765432109876543210')
    const edited = await cli(['failed', 'edit', '2-7', '--yes'], { ...around, edit, confirm: async () => true })
    const second = /replaced by (\S+),/.exec(edited.stdout)?.[1] ?? ''
    const database = new DatabaseSync(join(around.cwd, 'shop.db'))
    const stored = (of: string): string =>
      String(database.prepare('select cast(data as text) as data from hapax_inbox where id = ?').get(of)?.['data'])
    expect([stored(id), stored(second)]).toEqual([data, '{"outcome":"failed","id":98765432109876543210}'])
    database.close()
  })

  it.for([
    ['what is no JSON', ['--data', '{'], /expected the new data to be JSON/],
    ['a file that is not there', ['--file', 'none.json'], /none.json could not be read/],
    ['no data without a terminal', [], /expected --data or --file/],
  ] as const)('refuses %s', async ([, argv, message]) => {
    expect(await shop.look('failed', 'edit', '1-7', ...argv)).toMatchObject({
      exitCode: 2,
      stderr: expect.stringMatching(message),
    })
  })
})

describe('explain', () => {
  it.for([
    ['done-1', /taken by billing\n\nbilling is done with it/],
    [
      'retrying-1',
      /1 attempt so far\n.*attempt 1 .*Error: the tax service.*\n\nNext, a worker of billing retries it in \d+ min/,
    ],
    ['failed-1', /after 1 attempt: permanent .*\n\n.*hapax -- failed retry 1-7 --store sqlite:shop.db/],
    ['published-1', /outbox .*relay default\n\nNext, the relay default sends it/],
  ] as const)('tells what became of %s and what is next', async ([id, story]) => {
    const { exitCode, stdout } = await shop.look('explain', id)
    expect(exitCode).toBe(0)
    expect(stdout).toMatch(story)
  })

  it('says what it has not looked through, and looks through everything if asked', async () => {
    const { stdout } = await shop.look('explain', 'failed-1')
    expect(stdout).toContain('to read all rows, add --scan')
    expect((await shop.look('explain', 'failed-1', '--scan')).stdout).not.toContain('--scan')
    expect((await shop.look('explain', 'failed-1', '--source', '/shop')).stdout).not.toContain('--scan')
  })

  it('tells it to programs', async () => {
    expect(JSON.parse((await shop.look('explain', 'failed-1', '--json')).stdout)).toEqual({
      id: 'failed-1',
      complete: false,
      messages: [
        {
          source: '/shop',
          type: 'order.placed',
          traces: [
            { where: 'receipt', consumer: 'billing', at: expect.any(String) },
            expect.objectContaining({ where: 'failed', seq: '1-7', attempts: 1, reason: 'permanent' }),
          ],
          waiting: [],
          next: expect.stringContaining('failed retry 1-7'),
        },
      ],
    })
  })

  it('names the trace in which the message was published', async () => {
    const around = shop.copy()
    const database = new DatabaseSync(join(around.cwd, 'shop.db'))
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
    const attributes = JSON.stringify({ traceparent: `00-${traceId}-00f067aa0ba902b7-01` })
    database.prepare('update hapax_outbox set attributes = ?').run(attributes)
    database.exec(`update hapax_failed set attributes = '{"traceparent":"no such thing"}' where seq = 1`)
    database.close()
    expect((await cli(['explain', 'published-1'], around)).stdout).toMatch(new RegExp(`^trace id ${traceId}$`, 'm'))
    const { messages } = JSON.parse((await cli(['explain', 'published-1', '--json'], around)).stdout)
    expect(messages).toMatchObject([{ traceId, traces: [{ where: 'outbox', traceparent: expect.any(String) }] }])
    expect((await cli(['explain', 'failed-1'], around)).stdout).not.toContain('trace id')
    const other = JSON.parse((await cli(['explain', 'failed-1', '--json'], around)).stdout)
    expect(other.messages[0]).not.toHaveProperty('traceId')
  })

  it('tells that a request goes on when its client sends it again', async () => {
    const around = shop.copy()
    const store = sqlite({ path: join(around.cwd, 'shop.db') })
    const hapax = createHapax({ store, source: '/shop', logger: silentLogger })
    const handler = hapax.http('pay', { principal: 'none', mode: 'leased' }).handler(() => {
      throw new Error('not now')
    })
    await handler(new Request('http://shop/pay', { method: 'POST', headers: { 'idempotency-key': 'key-18' } }))
    await hapax.close()
    const { stdout } = await cli(['explain', 'key-18'], around)
    expect(stdout).toMatch(/Next, another request with this key, or a worker of http:pay, retries it/)
  })

  it('finds a request by its key alone, and tells how it was answered', async () => {
    const around = shop.copy()
    const store = sqlite({ path: join(around.cwd, 'shop.db') })
    const hapax = createHapax({ store, source: '/shop', logger: silentLogger })
    const request = (user: string) =>
      new Request(`http://shop/orders?as=${user}`, {
        method: 'POST',
        headers: { 'idempotency-key': 'key-17' },
        body: '{}',
      })
    const principal = ({ url }: Request): string => new URL(url).searchParams.get('as') ?? ''
    const handler = hapax
      .http('orders', { principal })
      .handler((each) => Response.json({ secret: 'body' }, { status: principal(each) === 'ada' ? 201 : 422 }))
    for (const user of ['ada', 'bob']) await handler(request(user))
    await hapax.close()
    const { stdout } = await cli(['explain', 'key-17'], around)
    expect(stdout).toMatch(/^key-17 {2}http\.request from POST .*orders/m)
    expect(stdout.match(/taken by http:orders/g)).toHaveLength(2)
    expect(stdout).toMatch(/response {2}answered with 201, which is sent again until \d{4}-/)
    expect(stdout).toMatch(/answered with 422/)
    expect(stdout).toContain('http:orders is done with it; another request with this key gets the same response.')
    expect(stdout).not.toContain('duplicate')
    const { messages } = JSON.parse((await cli(['explain', 'key-17', '--json'], around)).stdout)
    const traces = messages.flatMap((each: { traces: readonly object[] }) => each.traces)
    const response = {
      where: 'response',
      consumer: 'http:orders',
      at: expect.any(String),
      expiresAt: expect.any(String),
    }
    expect(traces).toEqual(
      expect.arrayContaining([
        { ...response, status: 201 },
        { ...response, status: 422 },
      ]),
    )
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
