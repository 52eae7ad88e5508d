import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { type Around, cli, prepareOrdered, sharedDatabase } from '../support/cli.ts'

const shop = sharedDatabase(prepareOrdered)

const document = async (argv: string[], around: Around) => JSON.parse((await cli([...argv, '--json'], around)).stdout)

/** Runs SQL on a copy of the database, as nobody but a test does. */
function sql(cwd: string, text: string): void {
  const database = new DatabaseSync(join(cwd, 'shop.db'))
  database.exec(text)
  database.close()
}

const DAY = 86_400_000

function worker(cwd: string, serves: object): void {
  sql(
    cwd,
    `insert into hapax_workers (id, ttl_ms, name, serves) values ('w', ${DAY}, 'host/1', '${JSON.stringify(serves)}')`,
  )
}

describe('status', () => {
  it('shows held keys, destinations and workers', async () => {
    const around = shop.copy()
    worker(around.cwd, { consumers: { shipping: ['parcel.packed'] }, relays: ['partners'] })
    const { stdout } = await cli(['status'], around)
    expect(stdout).toMatch(/^shipping +2 +0 +\d+ \w+ +1 +1 +1$/m)
    expect(stdout).toMatch(/^partners +1 +\d+ \w+ +1 +2 +hook of the partners$/m)
    expect(stdout).toMatch(/^host\/1 +alive +\d+ \w+ +0 +shipping, relay partners$/m)
  })
})

describe('keys', () => {
  it('lists what waits behind what', async () => {
    const { stdout } = await shop.look('keys', 'list')
    expect(stdout).toMatch(/^order-17 +shipping +\d+ \w+ +2 +p-1 +\d+-7$/m)
    expect(stdout).toMatch(/^order-17 +relay partners +\d+ \w+ +1 +bad-key +\d+-7$/m)
  })

  it('releases a key from its message, which stays failed', async () => {
    const around = shop.copy()
    const release = ['keys', 'release', 'order-17', '--consumer', 'shipping']
    expect((await cli([...release, '--dry-run'], around)).stdout).toBe(
      'would release the key order-17 of shipping: 2 messages behind p-1 would continue\n',
    )
    expect((await document(['keys', 'list'], around)).keys).toHaveLength(2)
    expect(await cli(release, around)).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('needs --yes') })
    expect((await document(['keys', 'list'], around)).keys).toHaveLength(2)
    release.push('--yes')
    expect((await cli(release, around)).stdout).toMatch(/^released the key order-17 of shipping: 2 messages/)
    expect((await document(['keys', 'list'], around)).keys).toMatchObject([{ origin: 'outbox', scope: 'partners' }])
    expect(await cli(release, around)).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('(not-found)') })
    expect((await cli(['explain', 'p-1'], around)).stdout).toMatch(/audit .* released its key/)
    expect((await cli(['failed', 'list', '--consumer', 'shipping'], around)).stdout).toContain('p-1')
  })
})

describe('explain', () => {
  it('tells the failure of a held message once, also if its failed row is gone', async () => {
    const failures = (text: string): number => text.match(/ failure /g)?.length ?? 0
    expect(failures((await shop.look('explain', 'p-1')).stdout)).toBe(1)
    expect(failures((await shop.look('explain', 'bad-key')).stdout)).toBe(1)
    const around = shop.copy()
    const database = new DatabaseSync(join(around.cwd, 'shop.db'))
    database.exec('delete from hapax_failed')
    database.close()
    expect(failures((await cli(['explain', 'p-1'], around)).stdout)).toBe(1)
  })

  it('says what a message waits behind', async () => {
    expect((await shop.look('explain', 'p-2')).stdout).toMatch(/It waits: p-1, an earlier message of its key order-17/)
    expect((await shop.look('explain', 'late')).stdout).toMatch(/It waits: bad-key, an earlier message/)
  })

  it('says that a message holds its key', async () => {
    const { stdout } = await shop.look('explain', 'bad-key')
    expect(stdout).toMatch(/failed for the relay partners after 1 attempt: refused-by-broker \(Error: 413 too large\)/)
    expect(stdout).toContain('and later messages of its key wait behind it. To retry:')
  })

  it('says that a broker has it', async () => {
    const { stdout } = await shop.look('explain', 'good')
    expect(stdout).toMatch(/sent {2}the relay partners sent it, and the broker confirmed it\n\nThe broker has it/)
  })
})

describe('failed show', () => {
  it('says how a held key goes on', async () => {
    const [{ seq }] = (await document(['failed', 'list', '--consumer', 'shipping'], shop.copy())).messages
    const { stdout } = await shop.look('failed', 'show', seq)
    expect(stdout).toMatch(/^correlationId +cart-4$/m)
    expect(stdout).toMatch(/^held +it keeps its place/m)
    expect(stdout).toContain('keys release order-17 --consumer shipping')
  })
})

describe('sent', () => {
  it('lists what was published, page by page', async () => {
    const { stdout } = await shop.look('sent', 'list', '--limit', '1', '--relay', 'partners')
    expect(stdout).toMatch(/partners {2}order.placed {2}- +good-2\n/)
    expect(stdout).toContain('sent list --before 2-7 --limit 1 --relay partners')
    const page = JSON.parse((await shop.look('sent', 'list', '--before', '2-7', '--json')).stdout)
    expect(page).toMatchObject({ messages: [{ seq: '1-7', id: 'good', data: { n: 1 } }], next: null })
  })

  it('publishes again, by number and by filter', async () => {
    const around = shop.copy()
    expect((await cli(['sent', 'republish', '--type', 'order.placed', '--dry-run'], around)).stdout).toBe(
      'would republish 2 published messages\n',
    )
    const numbered = await cli(['sent', 'republish', '1-7', '99-7'], around)
    expect(numbered.exitCode).toBe(1)
    expect(numbered.stdout).toMatch(/^republished {2}1-7 {2}order.placed good by partners\nnot done {5}99-7 /)
    const byNumber = await cli(['sent', 'republish', '2', '99'], around)
    expect(byNumber.stdout).toMatch(/^republished {2}2-7 {2}order.placed good-2 by partners\nnot done {5}99 /)
    expect((await cli(['sent', 'republish', '--relay', 'partners'], around)).stderr).toContain('(refused)')
    const all = await document(['sent', 'republish', '--relay', 'partners', '--newer-than', '1h', '--yes'], around)
    expect(all.errors).toBe(0)
    const { stdout } = await cli(['explain', 'good-2'], around)
    expect(stdout).toMatch(/audit .* republished it/)
    expect(stdout).toContain('Next, the relay partners sends it')
  })
})

describe('consumers', () => {
  it('lists them, and forgets one that no worker serves', async () => {
    const around = shop.copy()
    expect((await cli(['consumers', 'list'], around)).stdout).toMatch(/^shipping {2}by key {2}parcel.packed$/m)
    expect((await cli(['consumers', 'remove', 'shipping', '--dry-run'], around)).stdout).toContain('would remove')
    expect((await cli(['consumers', 'remove', 'shipping'], around)).exitCode).toBe(0)
    expect((await cli(['consumers', 'list'], around)).stdout).toContain('no consumers are known')
    expect((await cli(['consumers', 'remove', 'shipping'], around)).stderr).toContain('(not-found)')
  })

  it('refuses to forget one that a live worker serves', async () => {
    const around = shop.copy()
    worker(around.cwd, { consumers: { shipping: ['parcel.packed'] }, relays: [] })
    expect(await cli(['consumers', 'remove', 'shipping'], around)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/served by host\/1.*\(refused\)/),
    })
    expect((await cli(['consumers', 'remove', 'shipping', '--yes'], around)).exitCode).toBe(0)
  })
})

describe('relays', () => {
  it('moves one to another destination', async () => {
    const around = shop.copy()
    worker(around.cwd, { consumers: {}, relays: ['partners'] })
    const move = ['relays', 'move', 'partners', 'another hook']
    expect((await cli([...move, '--dry-run'], around)).stdout).toMatch(/^would move .* from hook of the partners to/)
    const list = async () => (await document(['relays', 'list'], around)).relays
    expect(await list()).toContainEqual(expect.objectContaining({ destination: 'hook of the partners' }))
    expect((await cli(move, around)).stdout).toMatch(
      /moved the relay partners .*\n.*restart these workers.*: host\/1\n/,
    )
    expect(await list()).toContainEqual(expect.objectContaining({ relay: 'partners', destination: 'another hook' }))
    expect((await cli(['relays', 'move', 'typo', 'x'], around)).stderr).toContain('(not-found)')
  })
})

describe('sent purge', () => {
  it('counts, asks, deletes, and changes nothing without a filter', async () => {
    const around = shop.copy()
    expect((await cli(['sent', 'purge', '--relay', 'partners', '--dry-run'], around)).stdout).toBe(
      'would delete 2 published messages\n',
    )
    expect((await cli(['sent', 'purge', '--older-than', '1d'], around)).stdout).toBe('deleted 0 published messages\n')
    expect((await cli(['sent', 'purge', '--all'], around)).stderr).toMatch(/deleting 2 published messages needs --yes/)
    for (const argv of [[], ['--all', '--relay', 'partners']]) {
      expect(await cli(['sent', 'purge', ...argv], around)).toMatchObject({ exitCode: 2 })
    }
    const refused = await cli(['sent', 'purge', '--all'], { ...around, confirm: async () => false })
    expect(refused.stderr).toContain('nothing was changed')
    const purged = await document(['sent', 'purge', '--all', '--yes', '--note', 'disk'], around)
    expect(purged).toEqual({ dryRun: false, stopped: false, purged: 2 })
    expect((await document(['sent', 'list'], around)).messages).toEqual([])
  })
})

describe('cleanup', () => {
  it('deletes old receipts of finished messages, and no others', async () => {
    const around = shop.copy()
    sql(around.cwd, `update hapax_receipts set taken_at = taken_at - ${40 * DAY}`)
    const cleanup = ['cleanup', '--older-than', '30d']
    expect((await cli([...cleanup, '--dry-run'], around)).stdout).toMatch(/^shipping +1$/m)
    expect((await cli(cleanup, around)).stderr).toMatch(/deleting 1 receipt needs --yes.*\(refused\)/)
    expect((await document([...cleanup, '--yes', '--consumer', 'other'], around)).receipts).toBe(0)
    expect(await document([...cleanup, '--yes'], around)).toEqual({
      dryRun: false,
      stopped: false,
      receipts: 1,
      consumers: [{ consumer: 'shipping', receipts: 1 }],
    })
    expect((await cli(['explain', 'p-0'], around)).exitCode).toBe(1)
    expect((await cli(['explain', 'p-1'], around)).stdout).toContain('taken by shipping')
  })

  it('deletes old audit entries', async () => {
    const around = shop.copy()
    await cli(['consumers', 'remove', 'shipping'], around)
    sql(around.cwd, `update hapax_audit set at = at - ${400 * DAY}`)
    const cleanup = ['cleanup', '--audit', '--older-than', '365d']
    expect((await cli([...cleanup, '--dry-run'], around)).stdout).toBe('would delete 1 audit entry\n')
    expect((await cli(cleanup, around)).stderr).toMatch(/deleting 1 audit entry needs --yes.*\(refused\)/)
    expect(await document([...cleanup, '--yes'], around)).toEqual({ dryRun: false, stopped: false, audit: 1 })
    expect((await cli([...cleanup, '--dry-run'], around)).stdout).toBe('would delete 0 audit entries\n')
    expect((await cli([...cleanup, '--consumer', 'shipping'], around)).stderr).toContain('--consumer or --audit')
  })

  it('refuses less than a day without --yes, even on a terminal', async () => {
    const around = { ...shop.copy(), confirm: async () => true }
    expect(await cli(['cleanup', '--older-than', '23h'], around)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/--older-than 23h, less than a day, needs --yes \(refused\)/),
    })
  })
})

describe('doctor', () => {
  it('says what is wrong, what to do, and fails on an error', async () => {
    const { exitCode, stdout } = await shop.look('doctor')
    expect(exitCode).toBe(1)
    expect(stdout).toMatch(/^error +workers +messages wait, and no worker is alive\n +Start a worker/m)
    expect(stdout).toMatch(/^warning +held keys +2 keys wait/m)
    expect(stdout).toMatch(/\n\n1 error, \d warnings\n$/)
  })

  it('warns of tables that have grown beyond a limit', async () => {
    const { stdout } = await shop.look('doctor', '--max-rows', 'inbox=1', 'failed=1', '--max-age', 'receipts=30d')
    expect(stdout).toMatch(/^warning +growth +inbox has about 3 rows, more than 1\n +Look at npx hapax status/m)
    expect(stdout).toMatch(/^warning +growth +failed has about 3 rows, more than 1\n +Look at npx hapax failed list/m)
    for (const [option, value, said] of [
      ['--max-rows', 'inbox', 'expected --max-rows to be a table and its limit, such as failed=…, got inbox (usage)'],
      [
        '--max-rows',
        'inbox=many',
        'expected a whole number from 1 to 1000000000000000 for --max-rows, got many (usage)',
      ],
      ['--max-age', 'inbox=5', 'expected a time like 30d, 12h, 15m, 90s or 500ms for --max-age, got 5 (usage)'],
      ['--max-age', 'effects=5d', 'expected maxAgeMs to be an object with the options inbox,'],
    ] as const) {
      const { exitCode, stderr } = await shop.look('doctor', option, value)
      expect(stderr).toContain(said)
      expect(exitCode).not.toBe(0)
    }
  })

  it('does not fail on warnings', async () => {
    const around = shop.copy()
    worker(around.cwd, { consumers: { shipping: ['parcel.packed'] }, relays: ['default', 'partners'] })
    const { exitCode, stdout } = await cli(['doctor', '--json'], around)
    expect(exitCode).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ ok: true })
    expect(stdout).toContain('"warning"')
  })

  it('finds what waits and is served by no live worker, though others are alive', async () => {
    const around = shop.copy()
    worker(around.cwd, { consumers: { other: ['parcel.packed'] }, relays: ['partners'] })
    const { exitCode, stdout } = await cli(['doctor'], around)
    expect(exitCode).toBe(1)
    expect(stdout).toMatch(
      /^error +workers +2 messages of the consumer shipping wait, and no live worker serves it\n +Start/m,
    )
    expect(stdout).toMatch(
      /^error +workers +1 message of the relay default waits, and no live worker serves it\n +Start/m,
    )
    expect(stdout).toMatch(/^ok +lanes +relay partners is served by 1 worker, each with 64 of 64 lanes$/m)
  })

  it('finds consumers and types that nobody serves before anything waits for them', async () => {
    const around = shop.copy()
    sql(
      around.cwd,
      `insert into hapax_subscriptions (consumer, type) values ('gone', 'order.placed'), ('shipping', 'parcel.lost')`,
    )
    worker(around.cwd, { consumers: { shipping: ['parcel.packed'] }, relays: ['default', 'partners'] })
    const { exitCode, stdout } = await cli(['doctor'], around)
    expect(exitCode).toBe(0)
    expect(stdout).toMatch(/^warning +workers +no live worker serves the consumer gone; nothing waits for it yet$/m)
    expect(stdout).toMatch(/^warning +workers +no live worker of the consumer shipping handles parcel\.lost, which/m)
  })

  it('takes no harm from what another version says that it serves', async () => {
    const around = shop.copy()
    for (const [id, serves] of [
      'null',
      '{"consumers":null,"relays":null}',
      '{"consumers":{"a":1},"relays":{}}',
    ].entries()) {
      sql(around.cwd, `insert into hapax_workers (id, ttl_ms, name, serves) values ('${id}', ${DAY}, 'h', '${serves}')`)
    }
    expect((await cli(['doctor'], around)).stdout).toMatch(/^ok +workers +3 alive$/m)
    expect((await cli(['status'], around)).exitCode).toBe(0)
    expect((await cli(['consumers', 'remove', 'shipping', '--dry-run'], around)).exitCode).toBe(0)
  })

  it('compares receipts with how long the workers of their consumer keep them', async () => {
    const around = shop.copy()
    sql(around.cwd, `update hapax_receipts set taken_at = taken_at - ${20 * DAY}`)
    const served = { consumers: { shipping: ['parcel.packed'] }, relays: ['partners'] }
    worker(around.cwd, { ...served, retention: { shipping: 30 * DAY } })
    expect((await cli(['doctor'], around)).stdout).not.toContain('has receipts')
    sql(around.cwd, `delete from hapax_workers`)
    worker(around.cwd, { ...served, retention: { shipping: 7 * DAY } })
    expect((await cli(['doctor'], around)).stdout).toContain(
      'shipping has receipts that are more than 8 days old, although its workers keep them for 7 days',
    )
    expect((await cli(['doctor', '--max-age', 'receipts=50d'], around)).stdout).not.toContain('has receipts')
    sql(around.cwd, `delete from hapax_workers`)
    worker(around.cwd, { ...served, retention: { shipping: 'forever' } })
    expect((await cli(['doctor'], around)).stdout).not.toContain('has receipts')
  })

  it('says how many workers share the lanes', async () => {
    const around = shop.copy()
    const serves = JSON.stringify({ consumers: { shipping: ['parcel.packed'] }, relays: ['default', 'partners'] })
    for (const id of ['one', 'two', 'three']) {
      sql(around.cwd, `insert into hapax_workers (id, ttl_ms, name, serves) values ('${id}', ${DAY}, 'h', '${serves}')`)
    }
    const { stdout } = await cli(['doctor'], around)
    expect(stdout).toMatch(/^ok +lanes +shipping is served by 3 workers, each with \d+ to \d+ of 64 lanes$/m)
  })

  it('says what to do about tables of another version', async () => {
    const around = shop.copy()
    sql(around.cwd, `update hapax_migrations set checksum = 'x'`)
    expect((await cli(['doctor'], around)).stdout).toMatch(/^error +schema +.*another version.*\n +Use the version/)
  })

  it('finds that the tables are missing', async () => {
    const around = shop.copy()
    sql(around.cwd, 'delete from hapax_migrations')
    expect(await cli(['doctor'], around)).toMatchObject({
      exitCode: 1,
      stdout: expect.stringMatching(/^error +schema +.*1 \(hapax\)\n +Run npx hapax migrate/),
    })
  })
})
