import { mkdirSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { temporaryDirectory } from '../support/cli.ts'
import { blocksOf } from '../support/pages.ts'
import { npmInstall, orSkip } from '../support/registry.ts'
import { packed, run, Service } from './app.ts'

const { devDependencies } = manifest

/** The files of docs/http.md, on SQLite, with a handler that goes on for a while once the process was told to end. */
function documented(): Record<string, string> {
  const files = blocksOf('docs/http.md').flatMap(({ code }) => {
    const [, file] = /^\/\/ ((?:lib|app|instrumentation)\S*)\n/.exec(code) ?? []
    return file === undefined ? [] : [[file.replace(/ts$/, 'js'), stripTypeScriptTypes(code)] as const]
  })
  return Object.fromEntries(files)
}

const ON_SQLITE: readonly (readonly [postgres: string, sqlite: string])[] = [
  ['import { postgres } from', "import { once } from 'node:events'\nimport { sqlite } from"],
  ["'hapax/postgres'", "'hapax/sqlite'"],
  ["postgres({ url: 'postgres://localhost/shop' })", "sqlite({ path: 'shop.db' })"],
  [
    "await ctx.tx.query('insert into invoices values ($1)', [order.orderId])",
    `console.log('billing', order.orderId)
    await once(process, 'SIGTERM')
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    await ctx.tx.query('insert into invoices values (?)', [order.orderId])
    console.log('billed', order.orderId)`,
  ],
  [
    'const worker = hapax.worker(',
    `await hapax.migrate()
  await hapax.transaction((tx) => tx.query('create table if not exists invoices (id text)'))
  const worker = hapax.worker(`,
  ],
]

const OPS = `
import { createConsole } from 'hapax/console'
import { hapax } from '../../../lib/shop'
const ops = createConsole(hapax, { authorize: () => ({ actor: 'ada', role: 'operator' }) })
export const GET = ops.handler
export const HEAD = ops.handler
export const POST = ops.handler
`

it('an application of Next.js is built, serves the console, and ends when its worker has', async (context) => {
  const { tarball } = packed(context)
  const cwd = temporaryDirectory()
  const { next, react, 'react-dom': dom } = devDependencies
  writeFileSync(
    join(cwd, 'package.json'),
    JSON.stringify({ private: true, dependencies: { next, react, 'react-dom': dom } }),
  )
  await orSkip(npmInstall(cwd, tarball), context.skip)
  const shown = documented()
  expect(Object.keys(shown).toSorted()).toEqual(['app/orders/route.js', 'instrumentation.js', 'lib/shop.js'])
  for (const [postgres, sqlite] of ON_SQLITE) {
    expect(shown['lib/shop.js']).toContain(postgres)
    shown['lib/shop.js'] = shown['lib/shop.js']?.replace(postgres, () => sqlite) ?? ''
  }
  for (const [file, text] of Object.entries({ ...shown, 'app/ops/[[...path]]/route.js': OPS })) {
    mkdirSync(join(cwd, dirname(file)), { recursive: true })
    writeFileSync(join(cwd, file), text)
  }
  const program = join(cwd, 'node_modules', 'next', 'dist', 'bin', 'next')
  const env = { NEXT_TELEMETRY_DISABLED: '1', NODE_ENV: 'production' }
  const built = await run(process.execPath, [program, 'build'], { cwd, env })
  expect([built.code, built.stderr]).toEqual([0, expect.not.stringContaining('hapax')])

  const manual = { ...env, NEXT_MANUAL_SIG_HANDLE: 'true' }
  const service = new Service(process.execPath, [program, 'start', '--port', '0'], { cwd, env: manual })
  await service.printed('Ready')
  const url = /http:\/\/localhost:\d+/.exec(service.stdout)?.[0] ?? ''
  // Next redirects the second address to the first.
  for (const address of [`${url}/ops`, `${url}/ops/`]) {
    const page = await fetch(address)
    expect([address, page.status, page.url]).toEqual([address, 200, `${url}/ops`])
    const files = [...(await page.text()).matchAll(/(?:src|href)="([^"]+)"/g)].map(([, file = '']) => file)
    expect(files.length).toBeGreaterThan(1)
    for (const file of files) expect([file, (await fetch(new URL(file, page.url))).status]).toEqual([file, 200])
  }
  expect(await (await fetch(`${url}/ops/api/session`)).json()).toMatchObject({ actor: 'ada' })

  const order = { method: 'POST', headers: { 'idempotency-key': 'k1' }, body: '{"orderId":"A1"}' }
  expect((await fetch(`${url}/orders`, order)).status).toBe(201)
  await service.printed('billing A1')
  service.kill('SIGTERM')
  const { code, stdout } = await service.ended
  expect([code, stdout]).toEqual([0, expect.stringContaining('billed A1')])
}, 600_000)
