import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { ACCESSES } from '../../src/cli/init/accesses.ts'
import { type Around, cli, temporaryDirectory } from '../support/cli.ts'

/** A directory with a package.json that names these packages. */
function project(packages: readonly string[], manifest: object = {}): string {
  const cwd = temporaryDirectory()
  const dependencies = Object.fromEntries(packages.map((name) => [name, '*']))
  writeFileSync(
    join(cwd, 'package.json'),
    JSON.stringify({ name: '@acme/shop', type: 'module', ...manifest, dependencies }),
  )
  return cwd
}

async function init(cwd: string, argv: readonly string[] = [], around: Around = {}) {
  const { exitCode, stdout, stderr } = await cli(['init', ...argv, '--json'], { ...around, cwd })
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
  return JSON.parse(stdout)
}

/** Every ORM whose connection Nest injects, on every database. */
const injected = ACCESSES.flatMap(({ name, on }) =>
  Object.entries(on).flatMap(([store, { nest }]) => (nest === undefined ? [] : [[name, store, nest.package] as const])),
)

describe('init', () => {
  it.for([
    [['drizzle-orm', 'pg'], { orm: 'drizzle', store: 'postgres' }],
    [
      ['drizzle-orm', 'mysql2', 'amqplib', 'express'],
      { orm: 'drizzle', store: 'mysql', broker: 'rabbitmq', framework: 'express' },
    ],
    [['drizzle-orm', '@libsql/client'], { orm: 'drizzle', store: 'sqlite' }],
    [['@prisma/client', '@prisma/adapter-pg', 'fastify'], { orm: 'prisma', store: 'postgres', framework: 'fastify' }],
    [['kysely', 'pg', '@nats-io/jetstream'], { orm: 'kysely', store: 'postgres', broker: 'nats' }],
    [['typeorm', 'mysql2', '@nestjs/core', 'express'], { orm: 'typeorm', store: 'mysql', framework: 'nestjs' }],
    [['knex', 'mysql2', 'hono'], { orm: 'knex', store: 'mysql', framework: 'hono' }],
    [['@mikro-orm/core', '@mikro-orm/postgresql'], { orm: 'mikro-orm', store: 'postgres' }],
    [['@mikro-orm/core', '@mikro-orm/mysql'], { orm: 'mikro-orm', store: 'mysql' }],
    [['sequelize', 'pg', 'next'], { orm: 'sequelize', store: 'postgres', framework: 'next' }],
    [['pg', '@platformatic/kafka'], { orm: 'pg', store: 'postgres', broker: 'kafka' }],
    [['postgres', 'ioredis'], { orm: 'postgres-js', store: 'postgres', broker: 'redis-streams' }],
    [['mysql2'], { orm: 'mysql2', store: 'mysql' }],
    [['better-sqlite3'], { orm: 'better-sqlite3', store: 'sqlite' }],
  ] as const)('finds out from %s what to set up', async ([packages, expected]) => {
    const { setup } = await init(project(packages), ['--dry-run'])
    expect(setup).toEqual({ broker: 'none', framework: 'none', language: 'esm', ...expected })
  })

  it('writes the files, and finds all of them the second time', async () => {
    const cwd = project(['drizzle-orm', 'pg', 'amqplib', 'typescript'])
    const first = await init(cwd)
    expect(first.files).toEqual(
      ['src/hapax.ts', 'hapax.config.mjs', 'drizzle/0000_hapax.sql', 'drizzle/meta/_journal.json'].map((path) => ({
        path,
        state: 'written',
      })),
    )
    expect(first.install).toEqual(['hapax', 'drizzle-kit', '@types/node'])
    expect(first.next.flatMap(({ command }: { command?: string }) => command ?? [])).toEqual([
      'npm install hapax drizzle-kit @types/node',
      'npx drizzle-kit migrate',
      'npx hapax work',
      'npx hapax doctor',
    ])
    const { stdout } = await cli(['init'], { cwd })
    expect(stdout).toContain('everything is there already')
    expect(stdout).not.toContain('written')
    expect(JSON.parse(readFileSync(join(cwd, 'drizzle/meta/_journal.json'), 'utf8')).entries).toHaveLength(1)
  })

  it('changes no file that differs, unless it is told to', async () => {
    const cwd = project(['pg'])
    writeFileSync(join(cwd, 'hapax.js'), '// mine')
    writeFileSync(join(cwd, 'hapax.config.mjs'), 'export default {}')
    const states = async (...argv: string[]) =>
      (await init(cwd, argv)).files.map(({ state }: { state: string }) => state)
    expect(await states()).toEqual(['kept', 'kept'])
    expect(readFileSync(join(cwd, 'hapax.js'), 'utf8')).toBe('// mine')
    expect(existsSync(join(cwd, 'hapax.config.js'))).toBe(false)
    expect((await cli(['init'], { cwd })).stdout).toMatch(/kept +hapax\.js +it differs/)
    expect(await states('--force')).toEqual(['overwritten', 'kept'])
    expect(readFileSync(join(cwd, 'hapax.js'), 'utf8')).toContain('createHapax')
  })

  it('reads a package.json that begins with a byte order mark', async () => {
    const cwd = temporaryDirectory()
    writeFileSync(join(cwd, 'package.json'), '\uFEFF{"type":"module","dependencies":{"pg":"*"}}')
    expect((await init(cwd, ['--dry-run'])).setup).toMatchObject({ orm: 'pg', language: 'esm' })
  })

  it('writes nothing in a dry run', async () => {
    const cwd = project(['knex', 'pg'])
    expect((await cli(['init', '--dry-run'], { cwd })).stdout).toMatch(/would be written +migrations\/\d{14}_hapax\.js/)
    expect(existsSync(join(cwd, 'hapax.js'))).toBe(false)
  })

  it.for([
    [{ type: 'module' }, ['typescript'], 'src/hapax.ts', 'hapax.config.mjs'],
    [{ type: undefined }, ['typescript'], 'src/hapax.mts', 'hapax.config.mjs'],
    [{ type: 'commonjs' }, ['typescript'], 'src/hapax.mts', 'hapax.config.mjs'],
    [{ type: 'module' }, [], 'hapax.js', 'hapax.config.js'],
    [{ type: undefined }, [], 'hapax.mjs', 'hapax.config.mjs'],
    [{ type: 'commonjs' }, [], 'hapax.mjs', 'hapax.config.mjs'],
  ] as const)('names files so that Node.js reads them as ES modules: %s %s', async ([manifest, packages, ...paths]) => {
    const { files } = await init(project([...packages, 'pg'], manifest), ['--dry-run'])
    expect(files.map(({ path }: { path: string }) => path)).toEqual(paths)
  })

  it.for([
    ['{ "compilerOptions": { "module": "ESNext" } }', 'src/hapax.ts'],
    ['{ "compilerOptions": { "module": "preserve" } }', 'src/hapax.ts'],
    ['{ "compilerOptions": { "module": "nodenext" } }', 'src/hapax.ts'],
    ['{ "compilerOptions": { "module": "nodenext", "verbatimModuleSyntax": true, } }', 'src/hapax.mts'],
    ['{\n// "verbatimModuleSyntax": true,\n"extends": "./base" }', 'src/hapax.mts'],
  ] as const)('without a type, names files by what the compiler makes of them: %s', async ([tsconfig, path]) => {
    const cwd = project(['pg'], { type: undefined })
    writeFileSync(join(cwd, 'tsconfig.json'), tsconfig)
    writeFileSync(
      join(cwd, 'base.json'),
      '{ "compilerOptions": { "module": "nodenext", /* all */ "verbatimModuleSyntax": true } }',
    )
    expect((await init(cwd, ['--dry-run'])).files[0].path).toBe(path)
  })

  it.for([
    ['"module": "node16"', '^5.9.0', /with module node16 of TypeScript 5\.9, CommonJS files cannot import hapax/],
    ['"module": "nodenext"', '~5.7.2', /with module nodenext of TypeScript 5\.7, CommonJS files cannot import hapax/],
    ['"module": "commonjs", "moduleResolution": "classic"', '5', /moduleResolution classic does not find hapax/],
    ['"target": "es2022", "module": "es2022"', '5', /moduleResolution classic does not find hapax.*\n.*"bundler"/],
    ['"module": "nodenext"', '^5', /with module nodenext of TypeScript 5\.0, CommonJS files cannot import hapax/],
    [
      '"module": "commonjs", "allowJs": true',
      '5',
      /allowJs would compile hapax\.config\.mjs.*\n.*"include": \["src"\]/,
    ],
  ] as const)(
    'refuses a compiler that would not take the files, before it writes any: %s of %s',
    async ([options, typescript, said]) => {
      const cwd = project(['pg'], { type: undefined, devDependencies: { typescript } })
      writeFileSync(join(cwd, 'tsconfig.json'), `{ "compilerOptions": { ${options} } }`)
      const refused = await cli(['init'], { cwd })
      expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringMatching(said) })
      expect(refused.stderr).toContain('nothing was written (refused)')
      expect(existsSync(join(cwd, 'src'))).toBe(false)
      expect(existsSync(join(cwd, 'hapax.config.mjs'))).toBe(false)
    },
  )

  it('gives a NestJS application the connection that it injects, in a file that imports nothing asynchronous', async () => {
    const cwd = project(['@nestjs/core', '@nestjs/typeorm', 'typeorm', 'pg', 'amqplib', 'jest'], { type: undefined })
    writeFileSync(join(cwd, 'tsconfig.json'), '{ "compilerOptions": { "module": "commonjs" } }')
    const { files, next } = await init(cwd)
    expect(next).toContainEqual({
      title: 'run the tests',
      command: expect.stringContaining('--experimental-vm-modules'),
    })
    expect(files.map(({ path }: { path: string }) => path)).toEqual([
      'src/hapax.module.ts',
      'hapax.config.mjs',
      expect.stringMatching(/^src\/migrations\/\d+-Hapax\.ts$/),
    ])
    const text = readFileSync(join(cwd, 'src/hapax.module.ts'), 'utf8')
    expect(text).toContain('inject: [DataSource]')
    expect(text).not.toMatch(/^(?:\w.*)?await /m)
    expect(readFileSync(join(cwd, 'hapax.config.mjs'), 'utf8')).toContain(`store: process.env['DATABASE_URL']`)
  })

  it.for(injected)(
    'tells the command line where the database of an injected connection is: %s on %s',
    async ([orm, store, nest]) => {
      const cwd = project(['@nestjs/core', nest, 'typescript'])
      await init(cwd, ['--orm', orm, '--store', store, '--no-migration'])
      for (const name of ['DATABASE_URL', 'DATABASE_FILE']) vi.stubEnv(name, undefined)
      onTestFinished(() => {
        vi.unstubAllEnvs()
      })
      const { default: config } = await import(pathToFileURL(join(cwd, 'hapax.config.mjs')).href)
      expect(config).toEqual({ store: store === 'sqlite' ? 'sqlite:shop.db' : `${store}://localhost/shop` })
      if (store !== 'sqlite') return
      expect(await cli(['migrate'], { cwd })).toMatchObject({ exitCode: 0, stderr: '' })
      expect(await cli(['status'], { cwd })).toMatchObject({ exitCode: 0, stderr: '' })
    },
  )

  it('does not wait for a connection while a CommonJS file is imported', async () => {
    const cwd = project(['typeorm', 'mysql2'], { type: undefined })
    writeFileSync(join(cwd, 'tsconfig.json'), '{ "compilerOptions": { "module": "commonjs" } }')
    await init(cwd)
    expect(readFileSync(join(cwd, 'src/hapax.ts'), 'utf8')).toContain(
      'export const connected = dataSource.initialize()',
    )
    expect(readFileSync(join(cwd, 'hapax.config.mjs'), 'utf8')).toContain('await connected')
  })

  it.for([
    ['knexfile.js', 'commonjs', /^migrations\/\d+_hapax\.js$/, 'exports.up ='],
    ['knexfile.js', 'module', /^migrations\/\d+_hapax\.js$/, 'export async function up(knex) {'],
    ['knexfile.ts', 'module', /^src\/migrations\/\d+_hapax\.ts$/, 'export async function up(knex: Knex)'],
  ] as const)(
    'writes a migration that Knex can run beside %s of a package of type %s',
    async ([knexfile, type, path, up]) => {
      const cwd = project(['knex', 'pg', 'typescript'], { type })
      writeFileSync(join(cwd, knexfile), '')
      const { files } = await init(cwd)
      expect(files[2].path).toMatch(path)
      expect(readFileSync(join(cwd, files[2].path), 'utf8')).toContain(up)
    },
  )

  it.for([
    [['@mikro-orm/core', '@mikro-orm/mariadb'], 'mariadb'],
    [['@mikro-orm/mariadb'], 'mariadb'],
    [['@mikro-orm/core', '@mikro-orm/mysql'], 'mysql'],
    [['@mikro-orm/core', '@mikro-orm/mysql', '@mikro-orm/mariadb'], 'mysql'],
  ] as const)('uses the package of MikroORM that is there: %s', async ([packages, driver]) => {
    const cwd = project(packages)
    expect((await init(cwd, ['--no-migration'])).install).not.toContain('@mikro-orm/mysql')
    expect(readFileSync(join(cwd, 'hapax.js'), 'utf8')).toContain(`from '@mikro-orm/${driver}'`)
  })

  it.for([
    [['drizzle-orm', 'pg'], ['drizzle-kit']],
    [['@prisma/client', '@prisma/adapter-pg'], ['prisma']],
    [
      ['@mikro-orm/core', '@mikro-orm/mariadb'],
      ['@mikro-orm/migrations', '@mikro-orm/cli'],
    ],
    [['knex', 'pg'], []],
  ] as const)('names what the migration needs beside %s', async ([packages, more]) => {
    const cwd = project(packages)
    expect((await init(cwd, ['--dry-run'])).install).toEqual(['hapax', ...more])
    expect((await init(cwd, ['--dry-run', '--no-migration'])).install).toEqual(['hapax'])
  })

  it('asks where package.json names several, until it understands the answer', async () => {
    const cwd = project(['kysely', 'knex', 'pg', 'mysql2'])
    const asked: string[] = []
    const answers = ['Oracle', 'kysely', '']
    const ask = async (question: string): Promise<string> => {
      asked.push(question)
      return answers.shift() ?? ''
    }
    expect((await init(cwd, ['--dry-run'], { ask })).setup).toMatchObject({ orm: 'kysely', store: 'postgres' })
    expect(asked).toEqual([
      'Which ORM or driver? kysely, knex [kysely]',
      'Which ORM or driver? kysely, knex [kysely]',
      'Which database? postgres, mysql [postgres]',
    ])
    expect((await init(cwd, ['--dry-run', '--yes'])).setup).toMatchObject({ orm: 'kysely', store: 'postgres' })
    expect((await init(cwd, ['--dry-run', '--orm', 'knex', '--store', 'mysql'])).setup).toMatchObject({ orm: 'knex' })
    const closed = await cli(['init'], { cwd, ask: async () => undefined })
    expect(closed).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('nothing was written (refused)') })
  })

  it.for([
    [
      ['kysely', 'knex', 'pg'],
      [],
      /names several \(kysely, knex\) and does not say which ORM or driver to set up \(usage\)\n +--orm kysely/,
    ],
    [[], [], /package\.json does not say which ORM or driver to set up/],
    [['typeorm'], [], /package\.json does not say which store to set up/],
    [['amqplib', '@platformatic/kafka', 'pg'], [], /names several \(rabbitmq, kafka\) and does not say which broker/],
    [
      ['pg'],
      ['--orm', 'pg', '--store', 'mysql'],
      /pg does not work on mysql here \(usage\)\n +databases of pg: postgres/,
    ],
    [['pg'], ['--orm', 'mongoose'], /Allowed choices are drizzle, prisma/],
    [['pg'], ['--broker', 'zeromq'], /Allowed choices are rabbitmq, nats/],
  ] as const)('says what is missing without a terminal: %s %s', async ([packages, argv, said]) => {
    const cwd = project(packages)
    expect(await cli(['init', ...argv], { cwd })).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(said) })
    expect(existsSync(join(cwd, 'hapax.js'))).toBe(false)
  })

  it('says that there is no package.json, that it is broken, or that it is that of a monorepo', async () => {
    const cwd = temporaryDirectory()
    const stderr = async (...argv: string[]) => (await cli(['init', ...argv], { cwd })).stderr
    expect(await stderr()).toMatch(/there is no package\.json in .* \(not-found\)\n.*npm init -y/)
    writeFileSync(join(cwd, 'package.json'), '{')
    expect(await stderr()).toMatch(/package\.json could not be read: .*\(config\)/)
    writeFileSync(join(cwd, 'package.json'), JSON.stringify({ workspaces: ['packages/*'] }))
    expect(await stderr('--yes')).toMatch(/this is the root of a monorepo.*\(refused\)\n +run it in the package/)
    expect(await stderr('--orm', 'pg', '--dry-run')).toBe('')
  })

  it('says which file could not be written', async () => {
    const cwd = project(['pg', 'typescript'])
    writeFileSync(join(cwd, 'src'), 'a file where a directory should be')
    expect(await cli(['init'], { cwd })).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/^hapax: src\/hapax\.ts could not be written: .*\(unwritable\)/),
    })
  })

  it('writes into the folders that the project has, and adds packages with its package manager', async () => {
    const cwd = project(['knex'])
    mkdirSync(join(cwd, 'db/migrations'), { recursive: true })
    mkdirSync(join(cwd, 'src'))
    writeFileSync(join(cwd, 'pnpm-lock.yaml'), '')
    const { files, next } = await init(cwd, ['--store', 'mysql', '--broker', 'redis-streams'])
    expect(files.map(({ path }: { path: string }) => path)).toEqual([
      'src/hapax.js',
      'hapax.config.js',
      expect.stringMatching(/^db\/migrations\/\d{14}_hapax\.js$/),
    ])
    expect(next[0].command).toBe('pnpm add hapax mysql2 ioredis')
    const moved = await init(project(['knex', 'pg']), ['--migrations', 'sql'])
    expect(moved.files[2].path).toMatch(/^sql\//)
    expect((await init(project(['knex', 'pg']), ['--no-migration'])).next[2].command).toBe('npx hapax migrate')
  })

  it.for([
    [undefined, './generated/prisma/client.ts'],
    ['{ "module": "nodenext" }', './generated/prisma/client.js'],
    ['{ "module": "nodenext", "rewriteRelativeImportExtensions": true }', './generated/prisma/client.ts'],
    ['{ "module": "esnext", "moduleResolution": "bundler" }', './generated/prisma/client'],
  ] as const)('imports the client that Prisma generates as the compiler finds it: %s', async ([options, path]) => {
    const cwd = project(['@prisma/client', 'typescript'])
    if (options !== undefined) writeFileSync(join(cwd, 'tsconfig.json'), `{ "compilerOptions": ${options} }`)
    mkdirSync(join(cwd, 'prisma'))
    writeFileSync(
      join(cwd, 'prisma/schema.prisma'),
      'generator client {\n provider = "prisma-client"\n output = "../src/generated/prisma"\n}\ndatasource db {\n provider = "postgresql"\n}\n',
    )
    const { setup, next } = await init(cwd)
    expect(setup).toMatchObject({ orm: 'prisma', store: 'postgres' })
    expect(next[1].command).toBe('npx prisma generate')
    expect(readFileSync(join(cwd, 'src/hapax.ts'), 'utf8')).toContain(`import { PrismaClient } from '${path}'`)
  })

  it('leaves the example out', async () => {
    const cwd = project(['pg', 'amqplib'])
    await init(cwd, ['--no-example'])
    const text = readFileSync(join(cwd, 'hapax.js'), 'utf8')
    expect(text).not.toMatch(/OrderPlaced|billing/)
    expect(text).toContain('export const worker = hapax.worker({ relay: destination })')
  })
})
