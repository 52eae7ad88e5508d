import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { temporaryDirectory } from '../support/cli.ts'

const root = join(import.meta.dirname, '..', '..')
const example = join(root, 'examples/health.ts')

it('the page about brokers shows the example of a health page, which prints what its comments say', () => {
  const page = readFileSync(join(root, 'docs/brokers/README.md'), 'utf8')
  const shown = /<!-- health[^\n]*-->\n```ts\n([\s\S]*?)```/.exec(page)?.[1]
  expect(shown).toBe(readFileSync(example, 'utf8'))
  const run = { cwd: temporaryDirectory(), encoding: 'utf8', stdio: 'pipe' } as const
  const lines = execFileSync(process.execPath, ['--conditions=hapax-source', example], run).trim().split('\n')
  const comments = [...(shown ?? '').matchAll(/console\.log.*\/\/ (.*)/g)].map(([, said]) => said)
  expect(lines).toEqual(comments)
})
