import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { describe, expect, test } from 'vitest'
import { command, failedCommand, shellWord } from '../../src/console/page/state/commands.ts'
import { diff } from '../../src/console/page/state/diff.ts'
import { uuidv7 } from '../../src/console/page/state/uuid.ts'
import { root } from '../support/pages.ts'

describe('the page of the console', () => {
  test('loads less than 40 kB of script at first, and its charts are less than 30', async () => {
    const { outputFiles } = await build({
      entryPoints: [join(root, 'src/console/page/main.tsx')],
      bundle: true,
      minify: true,
      splitting: true,
      format: 'esm',
      jsx: 'automatic',
      jsxImportSource: 'preact',
      chunkNames: 'charts',
      outdir: 'out',
      write: false,
    })
    const size = (name: string) =>
      gzipSync(outputFiles.find(({ path }) => path.endsWith(name))?.contents ?? '').byteLength
    expect(size('main.js')).toBeGreaterThan(20_000)
    expect(size('main.js')).toBeLessThan(40_000)
    expect(size('charts.js')).toBeLessThan(30_000)
  })

  test('has no inline script and no inline style', () => {
    const html = readFileSync(join(root, 'src/console/page/index.html'), 'utf8')
    expect(html).not.toMatch(/<style|style=|<script>|\son\w+=/)
  })
})

const SAME_WORDS = [
  'a/b',
  `it's "q" $x \`y\` !!`,
  '\u0085nel',
  '\u009b31m',
  "\u0001'\\",
  '😀 x',
  '~root',
  '{a,b}*?#',
  '\r\n',
  'x'.repeat(2_000),
]

test.for<[text: string, word: string]>([
  ['billing', 'billing'],
  ['', "''"],
  ['two words', "'two words'"],
  ["it's", "'it'\\''s'"],
  ['$(reboot)', "'$(reboot)'"],
  ['a\nb', "'a\nb'"],
  ['\u001b[2J', "$'\\x1b[2J'"],
  ['\u0085b', "$'\\xc2\\x85b'"],
  ['=ls', "'=ls'"],
])('%j is %s for a shell', ([text, word]) => {
  expect(shellWord(text)).toBe(word)
})

test.for(SAME_WORDS)('a shell reads %j as it is', (text) => {
  expect(execFileSync('bash', ['-c', `printf %s ${shellWord(text)}`], { encoding: 'utf8' })).toBe(text)
})

test('a command has exactly the conditions of the page', () => {
  expect(failedCommand('retry', { origin: 'outbox', type: 't' }, { yes: true })).toBe(
    'npx hapax failed retry --origin outbox --type t --yes',
  )
  expect(failedCommand('retry', { origin: 'outbox', scope: 'default' }, {})).toBe(
    'npx hapax failed retry --relay default',
  )
  expect(failedCommand('discard', { scope: 'default' }, { yes: true })).toBe(
    'npx hapax failed discard --consumer default --yes &&\nnpx hapax failed discard --relay default --yes',
  )
})

test('what begins with a dash is no option', () => {
  expect(command(['keys', 'release', '--all'], { consumer: '-x' })).toBe(
    'npx hapax keys release --consumer=-x -- --all',
  )
  expect(command(['explain', '-1'], { scan: true })).toBe('npx hapax explain --scan -- -1')
})

test('a comparison keeps both texts', () => {
  const [old, changed] = ['a\nb\nc\nd', 'a\nx\nc\ny\nd']
  const lines = diff(old, changed)
  const side = (mark: string) =>
    lines
      .filter((each) => each.mark === ' ' || each.mark === mark)
      .map(({ text }) => text)
      .join('\n')
  expect([side('-'), side('+')]).toEqual([old, changed])
  expect(lines.filter(({ mark }) => mark === ' ').map(({ text }) => text)).toEqual(['a', 'c', 'd'])
})

test('ids of operations are UUIDv7 in the order of time', () => {
  expect(uuidv7()).toMatch(/^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
  const before = Date.now()
  expect(Number.parseInt(uuidv7().replaceAll('-', '').slice(0, 12), 16)).toBeGreaterThanOrEqual(before)
})
