import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { describe, expect, test } from 'vitest'
import { command, failedCommand, shellWord } from '../../src/console/page/state/commands.ts'
import { changes, diff } from '../../src/console/page/state/diff.ts'
import { type Fold, foldsOf, indented } from '../../src/console/page/state/indented.ts'
import { brokenUp, tokens } from '../../src/console/page/state/tokens.ts'
import { uuidv7 } from '../../src/console/page/state/uuid.ts'
import { visible } from '../../src/console/page/state/visible.ts'
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
  'rlo\u202egnp.exe',
  '\u2066a\u2069 \u200e\u200f\u061c7',
  'two\u2028lines\u2029 \u{e0041}1',
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
  ['\u202eb', "$'\\xe2\\x80\\xaeb'"],
  ['a\u2028b', "$'a\\xe2\\x80\\xa8b'"],
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

test('of a long text, a comparison shows what changes and some lines around it', () => {
  const before = Array.from({ length: 1_000 }, (_, index) => `line ${index}`)
  const after = before.with(500, 'changed')
  const around = (from: number, to: number) => before.slice(from, to).map((text) => ({ mark: ' ', text }))
  expect(changes(diff(before.join('\n'), after.join('\n')))).toEqual([
    497,
    ...around(497, 500),
    { mark: '-', text: 'line 500' },
    { mark: '+', text: 'changed' },
    ...around(501, 504),
    496,
  ])
})

const kindsOf = (text: string) => tokens(text).map(({ kind, text: part }) => [kind, part])

test('a payload is taken apart by what it looks like', () => {
  expect(kindsOf('{"a" : -1.5e3, "b\\"": ["x", true]}')).toEqual([
    ['other', '{'],
    ['name', '"a"'],
    ['other', ' : '],
    ['num', '-1.5e3'],
    ['other', ', '],
    ['name', '"b\\""'],
    ['other', ': ['],
    ['text', '"x"'],
    ['other', ', '],
    ['word', 'true'],
    ['other', ']}'],
  ])
  expect(kindsOf('"open 1\n2\\')).toEqual([
    ['text', '"open 1'],
    ['other', '\n'],
    ['num', '2'],
    ['other', '\\'],
  ])
})

/** How many characters regular expressions go over while this runs. */
function charactersSeen(run: () => void): number {
  const { exec } = RegExp.prototype
  let seen = 0
  RegExp.prototype.exec = function (text) {
    const from = this.lastIndex
    const found = exec.call(this, text)
    seen += (found === null ? text.length : this.lastIndex) - from
    return found
  }
  try {
    run()
  } finally {
    RegExp.prototype.exec = exec
  }
  return seen
}

test.for<[what: string, make: (size: number) => string]>([
  ['a string that nobody closes', (size) => `"${'\\"'.repeat(size / 2)}`],
  ['quotes', (size) => '"'.repeat(size)],
  ['numbers', (size) => `[${Array.from({ length: size / 2 }, (_, index) => index % 10).join()}]`],
  ['strings far apart', (size) => '"a"   '.repeat(size / 6)],
])('taking a megabyte of %s apart looks at each character a few times', ([, make]) => {
  const text = make(1_000_000)
  let found = ''
  const seen = charactersSeen(() => {
    found = tokens(text)
      .map((token) => token.text)
      .join('')
  })
  expect(found === text).toBe(true)
  expect(seen).toBeLessThan(4 * text.length)
  expect(brokenUp(text).replaceAll('\n', '') === text).toBe(true)
})

const json = (text: string) => indented({ text, contentType: 'application/json', whole: true })

test('JSON is indented as text: numbers keep their digits, and names their order', () => {
  const text = '{"b":12345678901234567890,"1":[1.10,-0.0e5],"a":{"text":"[{,: \\" }"},"empty":[ ],"none":{}, "b":null}'
  expect(json(text)).toBe(
    [
      '{',
      '  "b": 12345678901234567890,',
      '  "1": [',
      '    1.10,',
      '    -0.0e5',
      '  ],',
      '  "a": {',
      '    "text": "[{,: \\" }"',
      '  },',
      '  "empty": [],',
      '  "none": {},',
      '  "b": null',
      '}',
    ].join('\n'),
  )
})

test.for<[what: string, text: string]>([
  ['text that is no JSON', '{"a": }'],
  ['a value without parts', '"a"'],
  ['what is nested too deeply', `${'['.repeat(500)}${']'.repeat(500)}`],
  ['what would become too large', `${'['.repeat(99)}${'1,'.repeat(500_000)}1${']'.repeat(99)}`],
  ['what is too large', `["${'x'.repeat(2_000_000)}"]`],
])('%s is shown as it is stored', ([, text]) => {
  expect(json(text)).toBeUndefined()
})

test('the beginning of a payload is indented where its type is JSON', () => {
  const part = { text: '{"a":[1,2,{"b":"cut', whole: false }
  expect(indented({ ...part, contentType: 'application/cloudevents+json' })).toBe(
    '{\n  "a": [\n    1,\n    2,\n    {\n      "b": "cut',
  )
  expect(indented({ ...part, contentType: 'text/plain' })).toBeUndefined()
  expect(indented({ ...part, contentType: null })).toBeUndefined()
})

test('objects and lists are folded, and all lines are kept', () => {
  const linesOf = (fold: Fold): readonly string[] =>
    typeof fold === 'string' ? [fold] : [fold.first, ...fold.inner.flatMap(linesOf), fold.last]
  const text = json('{"a":[{"b":"{"},[]],"c":1}') ?? ''
  const folds = foldsOf(text)
  expect(folds).toMatchObject([
    {
      first: '{',
      inner: [{ first: '  "a": [', inner: [{ first: '    {' }, '    []'], last: '  ],' }, '  "c": 1'],
      last: '}',
    },
  ])
  expect(folds.flatMap(linesOf).join('\n')).toBe(text)
})

test.for<[text: string, shown: string]>([
  ['order.placed', 'order.placed'],
  ['rlo\u202egnp.exe', 'rlo\\u202egnp.exe'],
  ['\u2066\u2069\u200e\u200f\u061c', '\\u2066\\u2069\\u200e\\u200f\\u061c'],
  ['\u001b[2J\u0000', '\\u001b[2J\\u0000'],
  ['a\u200bb\u00adc\u2028d\u3164', 'a\\u200bb\\u00adc\\u2028d\\u3164'],
  ['\u{e0041}\ud800', '\\u{e0041}\\ud800'],
  ['a\n\tb\r\nc\rd', 'a\n\tb\r\nc\\u000dd'],
  ['שלום 😀', 'שלום 😀'],
])('%j is shown as %s', ([text, shown]) => {
  expect(visible(text)).toBe(shown)
  expect(visible(shown)).toBe(shown)
})

test('ids of operations are UUIDv7 in the order of time', () => {
  expect(uuidv7(Date.now())).toMatch(/^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
  const at = Date.parse('2026-05-01T12:00:00.123Z')
  expect(Number.parseInt(uuidv7(at).replaceAll('-', '').slice(0, 12), 16)).toBe(at)
})
