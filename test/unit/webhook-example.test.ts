import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { temporaryDirectory } from '../support/cli.ts'
import { root } from '../support/pages.ts'

const example = join(root, 'examples/stripe-webhook.ts')

it('the example of a receiver prints what its comments say, also when it is run a second time', () => {
  const run = { cwd: temporaryDirectory(), encoding: 'utf8', stdio: 'pipe' } as const
  const comments = [...readFileSync(example, 'utf8').matchAll(/console\.log.*\/\/ (.*)/g)].map(([, said]) => said)
  for (const _ of ['first', 'again']) {
    const printed = execFileSync(process.execPath, ['--conditions=hapax-source', example], run)
    expect(printed.trim().split('\n')).toEqual(comments)
  }
})
