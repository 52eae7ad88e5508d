import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { PROGRAM } from '../../src/cli/store.ts'
import { cli, sharedDatabase, temporaryDirectory } from '../support/cli.ts'

const shop = sharedDatabase()

describe('the hint of a usage error', () => {
  it.for([
    [['bogus'], ''],
    [['status', '--bogus'], ' status'],
    [['failed', 'show'], ' failed show'],
    [['failed', 'bogus'], ' failed'],
  ] as const)('%j names the help of its command', async ([args, command]) => {
    const { exitCode, stderr } = await cli([...args], { cwd: temporaryDirectory() })
    const last = stderr.trimEnd().split('\n').at(-1)
    expect({ exitCode, last }).toEqual({ exitCode: 2, last: `  for help: ${PROGRAM}${command} --help` })
  })
})

describe('finding the store', () => {
  it('names the three ways when there is none', async () => {
    const { exitCode, stdout, stderr } = await cli(['status'], { cwd: temporaryDirectory() })
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' })
    expect(stderr).toMatch(/^hapax: no store was given \(no-store\)\n/)
    for (const way of ['--store', 'HAPAX_STORE', 'hapax.config.ts']) expect(stderr).toContain(way)
  })

  it('takes the environment, and the command line before it', async () => {
    const env = { HAPAX_STORE: 'sqlite:shop.db' }
    expect((await cli(['status'], { cwd: shop.cwd(), env })).exitCode).toBe(0)
    const other = await cli(['status', '--store', 'sqlite:other.db'], { cwd: shop.cwd(), env })
    expect(other).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('no database sqlite:other.db') })
    expect(existsSync(join(shop.cwd(), 'other.db'))).toBe(false)
  })

  it('takes a URL from the configuration file', async () => {
    const around = shop.copy()
    writeFileSync(join(around.cwd, 'hapax.config.mjs'), `export default { store: 'sqlite:shop.db' }`)
    expect((await cli(['status'], { cwd: around.cwd })).exitCode).toBe(0)
  })

  it.for([
    ['hapax.config.mjs without a store', 'export default {}', /expected the default export of hapax.config.mjs/],
    ['hapax.config.mjs that throws', `throw new Error('no \u001b env')`, /could not be loaded: no \\u001b env/],
  ] as const)('refuses %s', async ([, source, message]) => {
    const cwd = temporaryDirectory()
    writeFileSync(join(cwd, 'hapax.config.mjs'), source)
    const ran = await cli(['status'], { cwd })
    expect(ran).toMatchObject({ exitCode: 1, stderr: expect.stringMatching(message) })
  })

  it.for([
    ['an unknown scheme', ['--store', 'oracle://u:hunter2@h/0']],
    ['a schema on sqlite', ['--store', 'sqlite:shop.db', '--schema', 'x']],
    ['a prefix on postgres', ['--store', 'postgres://u:hunter2@h/d', '--prefix', 'x']],
    ['a database in memory', ['--store', 'sqlite::memory:']],
  ] as const)('refuses %s, and shows no password', async ([, argv]) => {
    const { exitCode, stderr } = await cli(['status', ...argv], { cwd: shop.cwd() })
    expect(exitCode).toBe(2)
    expect(stderr).toMatch(/^hapax: .*\(usage\)\n/)
    expect(stderr).not.toContain('hunter2')
  })

  it('says in one line that a server does not answer, without the password', async () => {
    const { exitCode, stderr } = await cli(['status', '--store', 'postgres://u:hunter2@127.0.0.1:1/d?sslmode=disable'])
    expect(exitCode).toBe(1)
    expect(stderr).toMatch(/^hapax: postgres could not be reached: .*\(store-unavailable\)\n {2}check the address/)
    expect(stderr).not.toMatch(/hunter2|\n {4}at /)
  })
})

describe('wrong usage', () => {
  it.for([
    ['stats'],
    ['status', '--jsn'],
    ['status', 'extra'],
    ['failed', 'list', '--limit', '0'],
    ['failed', 'list', '--before', 'x'],
    ['failed', 'show'],
    ['failed', 'show', ' '],
    ['explain'],
    ['demo', '--messages', '-1'],
    ['demo', '--messages', '20', '--kills', '3'],
    ['migrate', '--print', '--check'],
    ['failed', 'retry', '--store', 'sqlite:shop.db'],
    ['failed', 'retry', '1-7', '--all', '--store', 'sqlite:shop.db'],
    ['failed', 'retry', '1-7', '--consumer', 'billing', '--store', 'sqlite:shop.db'],
    ['failed', 'retry', '--replaced', '--store', 'sqlite:shop.db'],
    ['failed', 'list', '--consumer', 'x', '--relay', 'x', '--store', 'sqlite:shop.db'],
    ['failed', 'list', '--older-than', '2 hours'],
    ['failed', 'retry', '--all', '--rate', 'fast'],
    ['failed', 'discard', '--all', '--consumer', 'billing', '--store', 'sqlite:shop.db'],
    ['failed', 'discard', '--older-than', '0s', '--store', 'sqlite:shop.db'],
    ['sent', 'republish', '--all', '--type', 'order.placed', '--store', 'sqlite:shop.db'],
    ['keys', 'release', 'order-17', '--store', 'sqlite:shop.db'],
    ['sent', 'republish', '--store', 'sqlite:shop.db'],
    ['cleanup', '--store', 'sqlite:shop.db'],
    ['cleanup', '--older-than', '0d', '--store', 'sqlite:shop.db'],
    ['relay', '--store', 'sqlite:shop.db'],
    ['relay', '--store', 'sqlite:shop.db', '--broker', 'pigeon://u:hunter2@h'],
  ])('%s: exit code 2 and one clear line', async (argv) => {
    const { exitCode, stdout, stderr } = await cli(argv, { cwd: shop.cwd() })
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' })
    expect(stderr).toMatch(/^hapax: .*\(usage\)\n/)
    expect(stderr).not.toContain('hunter2')
  })

  it.for([
    [['messages', 'list', '--scope', 'billing'], 'write --consumer <name> or --relay <name>'],
    [['audit', 'list', '--scope', 'billing'], 'write --consumer <name> or --relay <name>'],
    [['keys', 'release', 'k', '--consumer', 'x', '--reason', 'why'], 'write --note <text>'],
    [['endpoints', 'disable', 'ep_1', '--reason', 'why'], 'write --note <text>'],
    [['messages', 'list', '--consumer', 'x', '--relay', 'x'], 'for a consumer, write --consumer <name>; for a relay,'],
    [['keys', 'release', 'k', '--consumer', 'x', '--relay', 'x'], 'for a consumer, write --consumer <name>; for a'],
    [['audit', 'list', '--consumer', 'x', '--relay', 'x'], 'for a consumer, write --consumer <name>; for a relay,'],
    [['messages', 'list', '--consumer', 'x', '--origin', 'outbox'], 'or write --relay <name>'],
    [['failed', 'list', '--relay', 'x', '--origin', 'inbox'], 'or write --consumer <name>'],
  ] as const)('%s: says what to write instead', async ([argv, instead]) => {
    const { exitCode, stderr } = await cli([...argv, '--store', 'sqlite:shop.db'], { cwd: shop.cwd() })
    expect(exitCode).toBe(2)
    expect(stderr).toContain(instead)
  })

  it.for([
    ['--poll', '0s', '1ms to 23d'],
    ['--keep-sent', '0d', '1ms to 36500d'],
    ['--deadline', '30d', '0d to 23d'],
  ] as const)('relay %s %s: names the option as it was typed, and what it takes', async ([option, time, range]) => {
    const { exitCode, stderr } = await cli(
      ['relay', '--store', 'sqlite:shop.db', '--broker', 'memory:x', option, time],
      { cwd: shop.cwd() },
    )
    expect(exitCode).toBe(2)
    expect(stderr).toMatch(`option '${option} <time>' argument '${time}' is invalid. expected a time from ${range}`)
    expect(stderr).not.toContain('Ms')
  })

  it('shows the help without a command', async () => {
    const { exitCode, stderr } = await cli([])
    expect(exitCode).toBe(2)
    expect(stderr).toContain('Commands:')
  })

  it.for([
    [],
    ['migrate'],
    ['status'],
    ['failed'],
    ['failed', 'list'],
    ['failed', 'show'],
    ['failed', 'retry'],
    ['failed', 'edit'],
    ['failed', 'discard'],
    ['failed', 'note'],
    ['keys'],
    ['keys', 'list'],
    ['keys', 'release'],
    ['consumers'],
    ['consumers', 'list'],
    ['consumers', 'remove'],
    ['relays'],
    ['relays', 'list'],
    ['relays', 'move'],
    ['sent'],
    ['sent', 'list'],
    ['sent', 'republish'],
    ['sent', 'purge'],
    ['receipts'],
    ['receipts', 'list'],
    ['effects'],
    ['effects', 'list'],
    ['messages'],
    ['messages', 'list'],
    ['audit'],
    ['audit', 'list'],
    ['cleanup'],
    ['doctor'],
    ['relay'],
    ['metrics'],
    ['work'],
    ['explain'],
    ['demo'],
  ])('hapax %s --help has examples', async (argv) => {
    const { exitCode, stdout } = await cli([...argv, '--help'])
    expect(exitCode).toBe(0)
    expect(stdout).toMatch(/Examples:\n {2}\$ npx hapax /)
  })
})
