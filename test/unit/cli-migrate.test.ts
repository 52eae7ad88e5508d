import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { cli, sharedDatabase, temporaryDirectory } from '../support/cli.ts'
import { read } from '../support/pages.ts'

const shop = sharedDatabase()

describe('migrate', () => {
  it('applies what is missing, then says that nothing is', async () => {
    const around = { cwd: temporaryDirectory(), env: { HAPAX_STORE: 'sqlite:new.db' } }
    expect(await cli(['migrate', '--check'], around)).toMatchObject({
      exitCode: 1,
      stdout: expect.stringMatching(/^missing {2}1 .*\n.*lacks 1 migration/),
    })
    const dry = await cli(['migrate', '--dry-run', '--json'], around)
    expect(JSON.parse(dry.stdout)).toMatchObject({ applied: [], pending: [{ version: 1 }] })
    expect(existsSync(join(around.cwd, 'new.db'))).toBe(false)

    const first = await cli(['migrate', '--json'], around)
    const checksum = expect.stringMatching(/^[0-9a-f]{16}$/)
    const applied = [{ version: 1, name: 'hapax', checksum }]
    expect(JSON.parse(first.stdout)).toEqual({ applied, pending: [] })
    expect(await cli(['migrate'], around)).toEqual({ exitCode: 0, stdout: 'sqlite:new.db is up to date\n', stderr: '' })
    expect((await cli(['migrate', '--check'], around)).exitCode).toBe(0)
    expect((await cli(['migrate', '--print'], around)).stdout).toBe('-- sqlite:new.db is up to date\n')
  })

  it('fails the check when the schema has drifted', async () => {
    const around = shop.copy()
    const database = new DatabaseSync(join(around.cwd, 'shop.db'))
    database.exec(`update hapax_migrations set checksum = 'other'`)
    database.close()
    expect(await cli(['migrate', '--check'], around)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/^hapax: .*\(schema-drift\)\n {2}use the version/),
    })
  })

  it('prints a script that makes the same tables, without touching the database', async () => {
    const around = { cwd: temporaryDirectory(), env: { HAPAX_STORE: 'sqlite:new.db' } }
    const { stdout } = await cli(['migrate', '--print', '--prefix', 'my_'], around)
    expect(existsSync(join(around.cwd, 'new.db'))).toBe(false)
    const database = new DatabaseSync(join(around.cwd, 'new.db'))
    database.exec(stdout)
    database.close()
    expect((await cli(['migrate', '--check', '--prefix', 'my_'], around)).exitCode).toBe(0)
    expect((await cli(['status', '--prefix', 'my_'], around)).stdout).toContain('no consumer has taken a message yet')
  })

  it.for([
    ['postgres://u:hunter2@127.0.0.1:1/d', 'create table "hapax".receipts', 'pg_advisory_xact_lock'],
    ['mysql://u:hunter2@127.0.0.1:1/d', 'create table if not exists hapax_receipts', 'get_lock'],
  ] as const)('prints everything while %s cannot be reached, if it is told to', async ([store, table, lock]) => {
    const print = ['migrate', '--print', '--all', '--store', store]
    const { exitCode, stdout, stderr } = await cli([...print, '--format', 'client'])
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(stdout).toMatch(/^begin;\n[\s\S]*\ncommit;\n$/)
    for (const part of [table, lock]) expect(stdout).toContain(part)
    // No placeholder is left, and no credential.
    expect(stdout + stderr).not.toMatch(/\$\d|\?|hunter2/)
    const plain = await cli(print)
    expect(plain.stdout).toContain(table)
    expect(plain.stdout).not.toMatch(/^(begin|commit);$|^delimiter\b/m)
    expect(plain.stdout).not.toContain(lock)
    expect(plain.stdout).toEqual((await cli([...print, '--format', 'sql'])).stdout)
  })

  it('prints nothing if the database cannot say what it lacks', async () => {
    const cwd = temporaryDirectory()
    const print = ['migrate', '--print', '--out', 'migrations', '--store', 'postgres://u:hunter2@127.0.0.1:1/d']
    const { exitCode, stdout, stderr } = await cli(print, { cwd })
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' })
    expect(stderr).toMatch(
      /^hapax: .* cannot be asked what it lacks: .*\(store-unavailable\)\n.*\n {2}--all prints all/,
    )
    expect(stderr).not.toContain('hunter2')
    expect(existsSync(join(cwd, 'migrations'))).toBe(false)
  })

  it('names the journal that it cannot read', async () => {
    const cwd = temporaryDirectory()
    mkdirSync(join(cwd, 'drizzle/meta'), { recursive: true })
    const write = ['migrate', '--print', '--all', '--format', 'drizzle', '--out', 'drizzle', '--store', 'sqlite:new.db']
    for (const [text, said] of [
      ['{', /^hapax: expected drizzle\/meta\/_journal\.json to be a journal of drizzle-kit: .+ \(config\)\n$/],
      ['{}', /^hapax: expected drizzle\/meta\/_journal\.json to be a journal of drizzle-kit \(config\)\n$/],
    ] as const) {
      writeFileSync(join(cwd, 'drizzle/meta/_journal.json'), text)
      expect(await cli(write, { cwd })).toMatchObject({ exitCode: 1, stderr: expect.stringMatching(said) })
    }
  })

  it.for([
    [
      ['--print', '--format', 'yaml'],
      /Allowed choices are sql, client, drizzle, prisma, kysely, typeorm, knex, mikro-orm/,
    ],
    [['--format', 'sql'], /--format requires --print/],
    [['--out', 'drizzle'], /--out requires --print/],
    [['--all'], /--all requires --print/],
    [['--language', 'cjs'], /--language requires --print/],
  ] as const)('refuses %s', async ([args, said]) => {
    const { exitCode, stderr } = await cli(['migrate', ...args, '--store', 'sqlite:new.db'])
    expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringMatching(said) })
  })

  it.for([
    ['sql', /^migrations\/\d{14}_hapax\.sql$/],
    ['prisma', /^migrations\/\d{14}_hapax\/migration\.sql$/],
    ['kysely', /^migrations\/\d{14}_hapax\.js$/],
    ['knex', /^migrations\/\d{14}_hapax\.js$/],
    ['typeorm', /^migrations\/\d{13}-Hapax\.js$/],
    ['mikro-orm', /^migrations\/Migration\d{14}_hapax\.js$/],
  ] as const)('writes a file as %s wants it, once', async ([format, name]) => {
    const cwd = temporaryDirectory()
    writeFileSync(join(cwd, 'package.json'), '{}')
    const print = ['migrate', '--print', '--all', '--format', format, '--store', 'sqlite:new.db']
    const write = [...print, '--out', 'migrations', '--json']
    const { files, sql } = JSON.parse((await cli(write, { cwd })).stdout)
    expect(files).toEqual([expect.stringMatching(name)])
    expect(readFileSync(join(cwd, files[0]), 'utf8')).toBe(sql)
    expect(await cli(write, { cwd })).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining(`${files[0]} has these migrations already (exists)`),
    })
  })

  it('writes modules in the language of the project', async () => {
    const cwd = temporaryDirectory()
    const print = ['migrate', '--print', '--all', '--format', 'kysely', '--store', 'sqlite:new.db']
    const first = async (...more: string[]): Promise<string | undefined> =>
      (await cli([...print, ...more], { cwd })).stdout.split('\n')[2]
    expect(await first()).toBe(`import { type Kysely, sql } from 'kysely'`)
    writeFileSync(join(cwd, 'package.json'), '{}')
    expect(await first()).toBe(`const { sql } = require('kysely')`)
    writeFileSync(join(cwd, 'package.json'), '{"type":"module"}')
    expect(await first()).toBe(`import { sql } from 'kysely'`)
    writeFileSync(join(cwd, 'tsconfig.json'), '{}')
    expect(await first()).toBe(`import { type Kysely, sql } from 'kysely'`)
    expect(await first('--language', 'cjs')).toBe(`const { sql } = require('kysely')`)
  })

  it('continues the journal of drizzle-kit, or writes a folder where it has none', async () => {
    const cwd = temporaryDirectory()
    const write = ['migrate', '--print', '--all', '--format', 'drizzle', '--out', 'drizzle', '--store', 'sqlite:new.db']
    const wrote = async () => JSON.parse((await cli([...write, '--json'], { cwd })).stdout).files
    mkdirSync(join(cwd, 'drizzle/meta'), { recursive: true })
    // The clock of the machine that made the last one was ahead.
    const last = { idx: 4, version: '6', when: 9_000_000_000_000, tag: '0004_users', breakpoints: true }
    const journal = { version: '7', dialect: 'sqlite', entries: [last] }
    writeFileSync(join(cwd, 'drizzle/meta/_journal.json'), JSON.stringify(journal))
    expect(await wrote()).toEqual(['drizzle/0005_hapax.sql', 'drizzle/meta/_journal.json'])
    expect(JSON.parse(readFileSync(join(cwd, 'drizzle/meta/_journal.json'), 'utf8'))).toEqual({
      ...journal,
      entries: [last, { idx: 5, version: '7', when: 9_000_000_000_001, tag: '0005_hapax', breakpoints: true }],
    })
    rmSync(join(cwd, 'drizzle'), { recursive: true })
    mkdirSync(join(cwd, 'drizzle/20260101000000_users'), { recursive: true })
    writeFileSync(join(cwd, 'drizzle/20260101000000_users/migration.sql'), '')
    expect(await wrote()).toEqual([expect.stringMatching(/^drizzle\/\d{14}_hapax\/migration\.sql$/)])
  })

  it('makes the tables that the documentation lists for Prisma', async () => {
    const print = ['migrate', '--print', '--all', '--store', 'sqlite:new.db']
    const made = [...(await cli(print)).stdout.matchAll(/^create table (?:if not exists )?(\w+)/gm)].map(
      ([, name]) => name,
    )
    const listed = read('docs/migrations.md')
      .match(/external: \[([^\]]+)\]/)?.[1]
      ?.match(/\w+/g)
    expect(listed).toEqual(made.toSorted())
  })

  it('is what the other commands ask for where the tables are missing', async () => {
    const cwd = temporaryDirectory()
    writeFileSync(join(cwd, 'empty.db'), '')
    const { exitCode, stderr } = await cli(['status', '--store', 'sqlite:empty.db'], { cwd })
    expect(exitCode).toBe(1)
    expect(stderr).toMatch(/^hapax: .*\(schema-missing\)\n.*hapax -- migrate --store sqlite:empty.db\n$/)
  })
})
