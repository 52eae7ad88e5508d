import { describe, expect, it } from 'vitest'
import { createHapax, defineMessage, type LeasedContext, Permanent, silentLogger } from '../../src/index.ts'
import { sqlite } from '../../src/stores/sqlite/index.ts'
import { cli, sharedDatabase } from '../support/cli.ts'

const SmsRequested = defineMessage<{ to: string }>('sms.requested')
const message = { source: '/shop', type: 'sms.requested', data: { to: '+41' } }

/** A database where the external call of sms-1 is unknown, and that of sms-2 is done. */
const shop = sharedDatabase(async (path) => {
  await withSms(path, async (ctx) => {
    await ctx.note({ order: 17 })
    await ctx.effect('reserve', async () => ({ place: 3 }))
    await ctx.effect('send', async () => {
      if (ctx.message.id === 'sms-1') throw new Error('socket hang up')
      return 'SM2'
    })
  })
})

async function withSms(path: string, handler: (ctx: LeasedContext<unknown>) => unknown): Promise<readonly string[]> {
  const hapax = createHapax({ store: sqlite({ path }), source: '/shop', logger: silentLogger })
  await hapax.migrate()
  const sms = hapax.leased('sms').on(SmsRequested, (_, ctx) => handler(ctx))
  const outcomes: string[] = []
  for (const id of ['sms-1', 'sms-2']) outcomes.push((await sms.handle({ ...message, id })).status)
  const worker = hapax.worker({ consume: [sms] })
  await worker.start()
  await worker.drain()
  await hapax.close()
  return outcomes
}

describe('effects list and receipts list', () => {
  it('list by consumer, state and time', async () => {
    const { stdout } = await shop.look('effects', 'list')
    expect(stdout).toMatch(/^last at \(UTC\) +consumer +effect +state +made +id +error\n/)
    expect(stdout).toMatch(/ sms +send +unknown +1 +sms-1 +Error: socket hang up$/m)
    expect(stdout.split('\n').filter((each) => / sms +(send|reserve) +done +1 +sms-[12] +-$/.test(each))).toHaveLength(
      3,
    )
    const unknown = JSON.parse((await shop.look('effects', 'list', '--state', 'unknown', '--json')).stdout)
    expect(unknown).toMatchObject({
      effects: [{ consumer: 'sms', name: 'send', message: { id: 'sms-1' } }],
      after: null,
    })
    expect((await shop.look('effects', 'list', '--until', '1h')).stdout).toBe('none found\n')
    const receipts = await shop.look('receipts', 'list', '--consumer', 'sms', '--since', '2020-01-01')
    expect(receipts.stdout).toMatch(
      /^taken at \(UTC\) +consumer +type +source +id\n(.* sms +sms.requested +\/shop +sms-[12]\n){2}$/,
    )
    expect((await shop.look('receipts', 'list', '--consumer', 'other')).stdout).toBe('none found\n')
  })

  it('page on by a command that can be pasted', async () => {
    const { stdout } = await shop.look('receipts', 'list', '--limit', '1', '--since', '2020-01-01')
    const [, after = ''] =
      /next page: .*receipts list --since 2020-01-01T00:00:00.000Z --limit 1 --after (\S+) --store/.exec(stdout) ?? []
    const next = JSON.parse((await shop.look('receipts', 'list', '--limit', '1', '--after', after, '--json')).stdout)
    expect(next.receipts).toHaveLength(1)
    expect(stdout).not.toContain(next.receipts[0].id)
    expect((await shop.look('receipts', 'list', '--after', 'x')).stderr).toContain(
      'expected after to be that of the page',
    )
  })

  it('refuse what is no time, and no state', async () => {
    const wrong = await shop.look('receipts', 'list', '--since', 'yesterday')
    expect(wrong).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('expected a time ago like 2h') })
    expect(await shop.look('effects', 'list', '--state', 'open')).toMatchObject({ exitCode: 2 })
  })
})

describe('failed show', () => {
  it('shows the journal, and how to settle what nobody knows', async () => {
    const { stdout } = await shop.look('failed', 'show', '1-7')
    expect(stdout).toMatch(/note order +17\n/)
    expect(stdout).toMatch(
      /reserve {2}done\n {4}key {3}[0-9a-f-]{36}\n {4}made {2}1 time, .*\n {4}gave {2}\{"place":3\}/,
    )
    expect(stdout).toMatch(/send {2}it is unknown whether it happened\n(.*\n){2} {4}error Error: socket hang up/)
    expect(stdout).toContain("failed settle 1-7 send --done --result '<json>' --store sqlite:shop.db")
    const labels = stdout.match(/^(?:if|to) .*?: +(?=np[xm] )/gm) ?? []
    expect(labels).toHaveLength(4)
    expect(new Set(labels.map((label) => label.length)).size).toBe(1)
    const shown = JSON.parse((await shop.look('failed', 'show', '1-7', '--json')).stdout)
    expect(shown).toMatchObject({
      reason: 'unknown-effect',
      notes: { order: 17 },
      effects: [
        { name: 'reserve', state: 'done', result: { place: 3 } },
        { name: 'send', state: 'unknown', result: null, attempts: 1 },
      ],
    })
  })
})

describe('a result that could not be kept', () => {
  const lost = sharedDatabase(async (path) => {
    await withSms(path, (ctx) => ctx.effect('send', async () => (ctx.message.id === 'sms-1' ? 1n : 'SM2')))
  })

  it('is asked for by failed show, and given by failed settle; nobody can say that the call was not made', async () => {
    const { stdout } = await lost.look('failed', 'show', '1-7')
    expect(stdout).toMatch(/to say what 'send' returned: .* failed settle 1-7 send --done --result '<json>' --store/)
    expect(stdout).not.toMatch(/--not-done|failed retry|failed edit/)
    const around = lost.copy()
    const refused = await cli(['failed', 'settle', '1-7', 'send', '--not-done'], around)
    expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringContaining(`'send' is known to be done`) })
    const settled = await cli(['failed', 'settle', '1-7', 'send', '--done', '--result', '"SM1"'], around)
    expect(settled.exitCode).toBe(0)
  })
})

describe('failed settle', () => {
  const retrying = sharedDatabase(async (path) => {
    await withSms(path, async (ctx) => {
      await ctx.effect('send', async () => 'SM1')
      if (ctx.message.id === 'sms-1') throw new Error('the tax service did not answer')
    })
  })

  it('corrects a wrong result while the message is being retried, which is named by its id', async () => {
    const around = shop.copy()
    const settle = (...words: string[]) => cli(['failed', 'settle', ...words], around)
    expect((await settle('1-7', 'send', '--done', '--no-result')).exitCode).toBe(0)
    const late = await settle('1-7', 'send', '--done', '--result', '"SM1"')
    expect(late).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('being retried is named by its id') })
    const corrected = await settle('sms-1', 'send', '--done', '--result', '"SM1"', '--note', 'seen')
    expect(corrected).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(`'send' of sms-1 is settled`) })
    const { stdout } = await cli(['explain', 'sms-1'], around)
    expect(stdout).toMatch(/external call 'send'.*: "SM1"/)
    expect(stdout).toMatch(/audit +\S+ settled an external call: 'send' as done: seen/)
    expect((await settle('sms-1', 'other', '--done', '--result', '1')).stderr).toContain('not-found')
  })

  it('refuses a call that a message never made or that nobody has settled while it is retried, also in a dry run', async () => {
    const around = retrying.copy()
    for (const dry of [[], ['--dry-run']]) {
      const settle = (effect: string) => cli(['failed', 'settle', 'sms-1', effect, '--not-done', ...dry], around)
      expect(await settle('nope')).toMatchObject({
        exitCode: 1,
        stdout: '',
        stderr: expect.stringMatching(
          /sms-1 has no external call 'nope' \(not-found\)\n +it made: send\n.*explain sms-1/,
        ),
      })
      expect(await settle('send')).toMatchObject({
        exitCode: 1,
        stdout: '',
        stderr: expect.stringMatching(/sms-1 is not a failed message, and 'send' was not settled before \(conflict\)/),
      })
    }
  })

  it('settles a call as done, with its result, and the message is finished without making it again', async () => {
    const around = shop.copy()
    const dry = await cli(['failed', 'settle', '1-7', 'send', '--done', '--dry-run'], around)
    expect(dry).toMatchObject({ exitCode: 0, stdout: `'send' of 1-7 would be settled as done: it is not repeated\n` })
    const done = await cli(['failed', 'settle', '1-7', 'send', '--done', '--result', '"SM1"', '--note', 'seen'], around)
    expect(done).toMatchObject({ exitCode: 0, stderr: '', stdout: expect.stringContaining('the message is due') })
    const results: unknown[] = []
    await withSms(`${around.cwd}/shop.db`, async (ctx) => {
      results.push(await ctx.effect('send', () => Promise.reject(new Error('made again'))))
    })
    expect(results).toEqual(['SM1'])
    expect((await cli(['failed', 'list'], around)).stdout).toBe('no failed messages\n')
    const { stdout } = await cli(['explain', 'sms-1'], around)
    expect(stdout).toMatch(/effect +external call 'send', made 1 time, last at .*: done: "SM1"/)
    expect(stdout).toMatch(/audit +\S+ settled an external call: 'send' as done: seen/)
    expect(stdout).toContain('sms is done with it')
  })

  it('asks for the result on a terminal', async () => {
    const asked: string[] = []
    const ask = async (question: string): Promise<string> => {
      asked.push(question)
      return '{"id":"SM1"}'
    }
    const around = { ...shop.copy(), ask }
    expect((await cli(['failed', 'settle', '1-7', 'send', '--done'], around)).exitCode).toBe(0)
    expect(asked).toEqual([expect.stringContaining(`What did 'send' return, as JSON?`)])
    expect((await cli(['explain', 'sms-1'], around)).stdout).toContain('done: {"id":"SM1"}')
    const givenUp = { ...shop.copy(), ask: async () => undefined }
    expect(await cli(['failed', 'settle', '1-7', 'send', '--done'], givenUp)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('nothing was changed'),
    })
  })

  it('takes another result after a handler has failed for the first one, and the audit has both', async () => {
    const around = shop.copy()
    const run = (): Promise<unknown> =>
      withSms(`${around.cwd}/shop.db`, async (ctx) => {
        const sent = await ctx.effect<{ id: string }>('send', () => Promise.reject(new Error('made again')))
        if (sent?.id === undefined) throw new Permanent('no id')
      })
    for (const said of ['--no-result', '--result=1', '--result={"id":"SM1"}']) {
      const settled = await cli(['failed', 'settle', '1', 'send', '--done', said], around)
      expect(settled).toMatchObject({ exitCode: 0, stderr: '' })
      await run()
    }
    expect((await cli(['failed', 'list'], around)).stdout).toBe('no failed messages\n')
    const { stdout } = await cli(['explain', 'sms-1'], around)
    expect(stdout.match(/'send' as done/g)).toHaveLength(3)
  })

  it('takes the id of the message', async () => {
    const settled = await cli(['failed', 'settle', 'sms-1', 'send', '--not-done'], shop.copy())
    expect(settled).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^'send' of 1-7 is settled/) })
  })

  it.for([['--not-done'], ['--retry']])('lets a call be made again with %s', async ([how]) => {
    const around = shop.copy()
    const settled = await cli(['failed', 'settle', '1-7', 'send', how as string, '--json'], around)
    expect(JSON.parse(settled.stdout)).toEqual({ seq: '1-7', effect: 'send', as: how?.slice(2), dryRun: false })
    let calls = 0
    const count = (): void => {
      calls += 1
    }
    await withSms(`${around.cwd}/shop.db`, (ctx) => ctx.effect('send', count))
    expect(calls).toBe(1)
  })

  it('takes the number of the message alone', async () => {
    const settled = await cli(['failed', 'settle', '1', 'send', '--not-done'], shop.copy())
    expect(settled).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^'send' of 1-7 is settled/) })
  })

  it('says what is wrong', async () => {
    const around = shop.copy()
    const said = async (...argv: string[]): Promise<string> => (await cli(['failed', 'settle', ...argv], around)).stderr
    expect(await said('1-7', 'send')).toMatch(
      /expected exactly one of --done, --not-done and --retry, got none \(usage\)/,
    )
    expect(await said('1-7', 'send', '--done', '--retry')).toMatch(/got several/)
    expect(await said('1-7', 'send', '--retry', '--result', '1')).toMatch(/--result requires --done/)
    expect(await said('1-7', 'send', '--done', '--result', '{')).toMatch(/expected the result to be JSON/)
    expect(await said('1-7', 'send', '--done', '--result', '{"id":12345678901234567890}')).toMatch(
      /12345678901234567890 would become 12345678901234567000: write it as a string/,
    )
    expect(await said('1-7', 'send', '--done')).toMatch(/--done needs --result <json>, or --no-result/)
    expect(await said('1-7', 'call', '--done')).toMatch(
      /1-7 has no external call 'call' \(not-found\)\n {2}it made: reserve, send/,
    )
    expect(await said('9-7', 'send', '--done')).toMatch(/there is no failed message 9-7/)
    expect(await said('1-7', 'reserve', '--not-done')).toMatch(/'reserve' is known to be done \(conflict\)/)
  })
})

describe('explain', () => {
  it('says that a process has a message, while it works on it', async () => {
    const around = shop.copy()
    let told = ''
    const hapax = createHapax({
      store: sqlite({ path: `${around.cwd}/shop.db` }),
      source: '/shop',
      logger: silentLogger,
    })
    const sms = hapax.leased('sms').on(SmsRequested, async () => {
      told = (await cli(['explain', 'sms-3'], around)).stdout
    })
    await sms.handle({ ...message, id: 'sms-3' })
    await hapax.close()
    expect(told).toMatch(
      /A process of sms is working on it\. If that process stops responding, a worker of sms takes over in \d/,
    )
  })
})
