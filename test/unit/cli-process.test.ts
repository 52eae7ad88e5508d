import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { type Ran, temporaryDirectory } from '../support/cli.ts'

const root = join(import.meta.dirname, '..', '..')
const main = join(root, 'src', 'cli', 'main.ts')

function hapax(argv: readonly string[], cwd: string, env: Record<string, string> = {}): Promise<Ran> {
  const { HAPAX_STORE: _, NO_COLOR: __, FORCE_COLOR: ___, ...inherited } = process.env
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [main, ...argv], {
      cwd,
      env: { ...inherited, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let [stdout, stderr] = ['', '']
    child.stdout.on('data', (chunk) => {
      stdout += chunk
    })
    child.stderr.on('data', (chunk) => {
      stderr += chunk
    })
    child.on('error', reject)
    child.on('close', (exitCode) => resolve({ exitCode: exitCode ?? -1, stdout, stderr }))
  })
}

it('runs as a program: a configuration in TypeScript, data on stdout, errors on stderr, exit codes', async () => {
  const cwd = temporaryDirectory()
  const source = join(root, 'src', 'stores', 'sqlite', 'index.ts')
  writeFileSync(
    join(cwd, 'hapax.config.ts'),
    `import { sqlite } from ${JSON.stringify(source)}
const path: string = 'shop.db'
// What a configuration leaves open must not keep the command line alive.
setInterval(() => {}, 60_000)
export default { store: sqlite({ path }), source: '/shop' }`,
  )
  const [migrated, version, wrong] = await Promise.all([
    hapax(['migrate', '--json'], cwd),
    hapax(['--version'], cwd),
    hapax(['status', '--store', 'sqlite:none.db'], cwd, { HAPAX_DEBUG: '1' }),
  ])
  expect(migrated).toMatchObject({ exitCode: 0, stderr: '' })
  expect(JSON.parse(migrated.stdout)).toMatchObject({ applied: [{ version: 1 }] })
  expect(version).toEqual({ exitCode: 0, stdout: `${manifest.version}\n`, stderr: '' })
  expect(wrong).toMatchObject({ exitCode: 1, stdout: '' })
  expect(wrong.stderr).toMatch(/^hapax: there is no database[\s\S]*CliError: .*\n +at /)
})

it.for(['commonjs', 'module'])('loads sources as their compiler finds them, in a package of type %s', async (type) => {
  const cwd = temporaryDirectory()
  const files = {
    'package.json': JSON.stringify({ type }),
    'hapax.config.mjs': `export { default } from './src/hapax'`,
    'src/hapax.ts': `import { folder } from './generated'\nimport { name } from './name.js'\nexport default { store: \`sqlite:\${folder}/\${name}\` }`,
    'src/generated/index.ts': `export * from './client'`,
    'src/generated/client.ts': `export const folder: string = '.'`,
    'src/name.ts': `export const name: string = 'shop.db'`,
  }
  mkdirSync(join(cwd, 'src/generated'), { recursive: true })
  for (const [name, text] of Object.entries(files)) writeFileSync(join(cwd, name), text)
  expect(await hapax(['migrate', '--json'], cwd)).toMatchObject({ exitCode: 0, stderr: '' })
  writeFileSync(join(cwd, 'src/hapax.ts'), `import './none'\nexport default {}`)
  expect((await hapax(['status'], cwd)).stderr).toMatch(/could not be loaded: Cannot find module .*none.*\(config\)/)
})

it.for([
  [
    `import type { Server } from 'node:http'\nconst path = require('node:path')\nmodule.exports.server = null as Server | null`,
  ],
  [
    `const path = require('node:path')\nexport type Server = import('node:http').Server\nexport interface Named { name: string }`,
  ],
  [`const path = require('node:path')\nconst later = () =>\nimport('node:http')`],
  [`const path = require('node:path')\n/*\nimport it from elsewhere\n*/\nconst text = \`\nexport const one = 1\n\``],
  [`#!/usr/bin/env node\nconst path = require('node:path')`],
])('leaves a CommonJS source in TypeScript what it is: %j', async ([source]) => {
  const cwd = temporaryDirectory()
  const files = {
    'package.json': JSON.stringify({ type: 'commonjs' }),
    'hapax.config.mjs': `import store from './store.ts'\nexport default { store }`,
    'store.ts': `${source}\nmodule.exports = 'sqlite:' + path.join('.', 'shop.db')`,
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(cwd, name), text)
  expect(await hapax(['migrate', '--json'], cwd)).toMatchObject({ exitCode: 0, stderr: '' })
})
