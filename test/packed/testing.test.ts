import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { oldestNode } from '../support/registry.ts'
import { directoryIn, nodeOf, packed, run } from './app.ts'
import { install } from './setup.ts'

// A user's test files, in the runners that people have: an unsafe handler has to fail in each of them.

const setting = `
const Placed = defineMessage('placed')
const order = { id: '1', source: '/shop', type: 'placed', data: { orderId: 'A1' } }
`

const safe = `${setting}
test('a handler on the memory store is safe to repeat', async () => {
  const { hapax, rows, reset } = testHapax()
  const billing = hapax.consumer('billing').on(Placed, ({ orderId }, ctx) => ctx.tx.insert('invoices', { orderId }))
  await safeToRepeat(billing, order, { snapshot: () => rows('invoices'), reset })
}, LIMIT)

test('a handler with SQL is safe to repeat', async () => {
  const pg = await testPostgres({ setup: 'create table invoices (order_id text)' })
  const { hapax, reset } = testHapax({ store: pg.store })
  const billing = hapax.consumer('billing').on(Placed, async ({ orderId }, ctx) => {
    await ctx.tx.query('insert into invoices values ($1)', [orderId])
  })
  await safeToRepeat(billing, order, { snapshot: () => pg.query('select * from invoices'), reset })
  await pg.close()
}, LIMIT)
`

const unsafe = `${setting}
test('a handler that sends mails', async () => {
  const { hapax, reset } = testHapax()
  const mails = []
  const mailing = hapax.consumer('mailing').on(Placed, ({ orderId }) => void mails.push(orderId))
  const clear = async () => {
    await reset()
    mails.length = 0
  }
  await safeToRepeat(mailing, order, { snapshot: () => [...mails], reset: clear })
}, LIMIT)
`

const names = '{ safeToRepeat, testHapax, testPostgres }'
const imported = `import { defineMessage } from 'hapax'\nimport ${names} from 'hapax/testing'\n`
const required = `const { defineMessage } = require('hapax')\nconst ${names} = require('hapax/testing')\n`

interface Runner {
  readonly name: string
  readonly file: string
  readonly head: string
  /** The second or third argument of a test with more time. */
  readonly limit: string
  args(project: string): readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

const MODULES = { NODE_OPTIONS: '--experimental-vm-modules' }
const jest = (project: string) => [join(project, 'node_modules/jest/bin/jest.js'), '--rootDir', '.']

const runners: readonly Runner[] = [
  {
    name: 'node:test',
    file: 'billing.test.mjs',
    head: `import { test } from 'node:test'\n${imported}`,
    limit: '{}',
    args: () => ['--test'],
  },
  {
    name: 'node:test with CommonJS',
    file: 'billing.test.cjs',
    head: `const { test } = require('node:test')\n${required}`,
    limit: '{}',
    args: () => ['--test'],
  },
  {
    name: 'Vitest',
    file: 'billing.test.mjs',
    head: `import { test } from 'vitest'\n${imported}`,
    limit: '120_000',
    args: (project) => [join(project, 'node_modules/vitest/vitest.mjs'), 'run', '--root', '.'],
  },
  {
    name: 'Jest',
    file: 'billing.test.mjs',
    head: imported,
    limit: '120_000',
    args: (project) => [...jest(project), '--testMatch', '**/*.test.mjs'],
    env: MODULES,
  },
  {
    name: 'Jest with CommonJS',
    file: 'billing.test.cjs',
    head: required,
    limit: '120_000',
    env: MODULES,
    args: (project) => [...jest(project), '--testMatch', '**/*.test.cjs'],
  },
]

const place = mkdtempSync(join(tmpdir(), 'hapax-testing-'))
const project = join(place, 'project')

beforeAll(async () => {
  const told = inject('packed')
  if ('skip' in told) return
  const { vitest, '@electric-sql/pglite': pglite } = manifest.devDependencies
  await install(project, told.tarball, { jest: '30.5.2', vitest, '@electric-sql/pglite': pglite })
}, 600_000)
afterAll(() => rmSync(place, { recursive: true, force: true }), 600_000)

async function ran(program: string, { file, head, limit, args, env }: Runner, body: string) {
  const cwd = directoryIn(project)
  writeFileSync(join(cwd, 'package.json'), '{}')
  // What order the arguments have differs: Node.js takes options second, the others a number last.
  const text = limit === '{}' ? body.replaceAll(', LIMIT)', ')') : body.replaceAll('LIMIT', limit)
  writeFileSync(join(cwd, file), head + text)
  const { code, stdout, stderr } = await run(program, args(project), { cwd, env: { NO_COLOR: '1', ...env } })
  return { passed: code === 0, output: stdout + stderr }
}

describe.for(runners)('$name', (runner) => {
  it('passes a handler that is safe to repeat', async (context) => {
    packed(context)
    const { passed, output } = await ran(process.execPath, runner, safe)
    // A runner that finds no tests is content as well.
    expect(output).toMatch(/2 passed|pass 2/)
    expect(passed, output).toBe(true)
  })

  it('fails for one that is not', async (context) => {
    packed(context)
    const { passed, output } = await ran(process.execPath, runner, unsafe)
    expect(output).toContain('not safe to repeat, with a crash before-commit')
    expect(passed).toBe(false)
  })
})

it('passes with CommonJS on the oldest Node.js', async (context) => {
  const runner = runners[1]
  if (runner === undefined) throw new Error('no such runner')
  const { passed, output } = await ran(nodeOf(packed(context), oldestNode), runner, safe)
  expect(output).toContain('pass 2')
  expect(passed, output).toBe(true)
})
