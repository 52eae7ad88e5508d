import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { pages, root } from '../support/pages.ts'

const example = join(root, 'examples/quick-start.ts')

test('the quick start of the README is the example that runs', () => {
  const readme = readFileSync(join(root, 'README.md'), 'utf8')
  const shown = /<!-- quick-start[^\n]*-->\n```ts\n([\s\S]*?)```/.exec(readme)?.[1]
  expect(shown).toBe(readFileSync(example, 'utf8'))
})

test('the quick start prints what its comments say, also when it is run a second time', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hapax-quick-start-'))
  const run = (): string[] =>
    execFileSync(process.execPath, ['--conditions=hapax-source', example], { cwd: folder, encoding: 'utf8' })
      .trim()
      .split('\n')
  try {
    expect(run()).toEqual(['processed', 'duplicate', '2'])
    expect(run()).toEqual(['duplicate', 'duplicate', '3'])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('the relay example prints what its comment says', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hapax-relay-'))
  try {
    const relay = join(root, 'examples/relay.ts')
    const args = ['--conditions=hapax-source', relay]
    expect(execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' })).toBe('A1 v1, A1 v2, A1 v3\n')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('the example of outgoing webhooks prints what its comments say', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hapax-webhooks-'))
  try {
    const args = ['--conditions=hapax-source', join(root, 'examples/outgoing-webhook.ts')]
    const lines = execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' }).trim().split('\n')
    expect(lines).toEqual([
      expect.stringMatching(/^give the receiver of ep_\w+ its secret: whsec_…$/),
      'first, first, second',
    ])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('the SMS example prints what its comments say', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hapax-sms-'))
  try {
    const args = ['--conditions=hapax-source', join(root, 'examples/sms.ts')]
    const lines = execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' }).split('\n')
    expect(lines[0]).toBe('without hapax: 1 message, 2 SMS')
    // The log of the failed attempt is between them.
    expect(lines.at(-2)).toBe('with hapax: 1 message, 2 requests, 1 SMS')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('the page about observability shows the example of traces, which prints what its comments say', () => {
  const example = join(root, 'examples/opentelemetry.ts')
  const page = readFileSync(join(root, 'docs/observability.md'), 'utf8')
  const shown = /<!-- opentelemetry[^\n]*-->\n```ts\n([\s\S]*?)```/.exec(page)?.[1]
  expect(shown).toBe(readFileSync(example, 'utf8'))
  const folder = mkdtempSync(join(tmpdir(), 'hapax-traces-'))
  try {
    const args = ['--conditions=hapax-source', example]
    const lines = execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' }).trim().split('\n')
    const comments = [...(shown ?? '').matchAll(/console\.log.*\/\/ (.*)/g)].map(([, said]) => said)
    expect(lines).toEqual(comments)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('the example of metrics prints what its comments say', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hapax-metrics-'))
  try {
    const path = join(root, 'examples/metrics.ts')
    const shown = [...readFileSync(path, 'utf8').matchAll(/^\/\/ (hapax_.*)$/gm)].map(([, line]) => line)
    const printed = execFileSync(process.execPath, ['--conditions=hapax-source', path], {
      cwd: folder,
      encoding: 'utf8',
    })
    expect(shown).toHaveLength(3)
    expect(printed.trim().split('\n')).toEqual(shown)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('the tests that docs/testing.md shows pass', () => {
  const example = join(root, 'examples/testing.ts')
  const page = readFileSync(join(root, 'docs/testing.md'), 'utf8')
  expect(/<!-- testing[^\n]*-->\n```ts\n([\s\S]*?)```/.exec(page)?.[1]).toBe(readFileSync(example, 'utf8'))
  const args = ['--conditions=hapax-source', '--test', example]
  // Inside a runner of tests the runner of Node.js would report to it.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  expect(execFileSync(process.execPath, args, { encoding: 'utf8', env })).toContain('pass 5')
})

test('the configuration that docs/deployment.md shows is the example that runs', () => {
  const page = readFileSync(join(root, 'docs/deployment.md'), 'utf8')
  const shown = /<!-- worker[^\n]*-->\n```ts\n([\s\S]*?)```/.exec(page)?.[1]
  expect(shown).toBe(readFileSync(join(root, 'examples/hapax.config.ts'), 'utf8'))
})

test('every call by fetch that is shown says what becomes of a redirect, which would be a second request', () => {
  const examples = readdirSync(join(root, 'examples')).filter((name) => name.endsWith('.ts'))
  const shown = [...pages(), ...examples.map((name) => join('examples', name))].flatMap((page) =>
    [...readFileSync(join(root, page), 'utf8').matchAll(/\bfetch\((.*)\)/g)].map(([call]) => `${page}: ${call}`),
  )
  expect(shown).toContainEqual(expect.stringMatching(/^docs.leased\.md/))
  expect(shown.filter((call) => !/redirect: '(error|manual)'/.test(call))).toEqual([])
})
