import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { OLDEST_CLIENTS } from '../../src/base/links.ts'

const root = join(import.meta.dirname, '..', '..')

/** What postgres({ url }) says in a process where `import('pg')` ends like this. */
async function said(pg: string): Promise<string> {
  const hook = `
    import { registerHooks } from 'node:module'
    registerHooks({ resolve: (name, context, next) => name === 'pg' ? ${pg} : next(name, context) })`
  const code = `
    import { postgres } from 'hapax/postgres'
    const store = postgres({ url: 'postgres://127.0.0.1:1/shop' })
    await store.schema.migrations().catch((error) => console.log(error.code + ': ' + error.message + ' / ' + error.cause?.message))`
  const args = ['--conditions=hapax-source', '--no-warnings', '--input-type=module']
  const imported = ['--import', `data:text/javascript,${encodeURIComponent(hook)}`]
  const { stdout } = await promisify(execFile)(process.execPath, [...args, ...imported, '--eval', code], { cwd: root })
  return stdout.trim()
}

const module = (text: string): string =>
  JSON.stringify({ url: `data:text/javascript,${encodeURIComponent(text)}`, shortCircuit: true })

it('a client library that is not installed is missing', async () => {
  expect(await said(`next('pg', { ...context, parentURL: 'file:///nowhere/a.js' })`)).toMatch(
    /^client-missing: postgres\(\{ url \}\) needs the package pg: npm install pg \/ Cannot find package 'pg'/,
  )
})

it.for([
  ['lacks a dependency', `import 'pg-not-there'`, `Failed to resolve module specifier "pg-not-there"`],
  ['does not parse', 'export const = 1', "Missing initializer in const declaration|Unexpected token '='"],
  ['throws', `throw new Error('needs Node.js 99')`, 'needs Node.js 99'],
] as const)('a client library that %s is broken, and the error says why', async ([, text, why]) => {
  expect(await said(module(text))).toMatch(
    new RegExp(`^client-broken: postgres.* needs the package pg, which could not be loaded: .*(${why}).* / .*(${why})`),
  )
})

it('the oldest client libraries are those that npm allows', () => {
  const ranges = Object.entries(OLDEST_CLIENTS).map(([name, version]) => [name, `>=${version}`])
  expect(manifest.peerDependencies).toMatchObject(Object.fromEntries(ranges))
})
