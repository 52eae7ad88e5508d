import { expect, it } from 'vitest'
import { safe, shellWord } from '../../src/base/index.ts'
import { durationMs, durationText } from '../../src/cli/io/duration.ts'
import type { Io } from '../../src/cli/io/io.ts'
import { changes } from '../../src/cli/io/json-changes.ts'
import { table } from '../../src/cli/io/table.ts'
import { cut, span, widthOf } from '../../src/cli/io/text.ts'

it('shows control characters, direction marks and lone surrogates as escapes', () => {
  expect(safe('a\u001b[31mb\n\t\u009b\u202e\u200b\u2028\ud800')).toBe(
    'a\\u001b[31mb\\n\\t\\u009b\\u202e\\u200b\\u2028\\ud800',
  )
  expect(safe('Grüße, 漢字 🚀')).toBe('Grüße, 漢字 🚀')
})

it('measures text as a terminal does', () => {
  expect(['abc', 'é', 'e\u0301', '漢字', '🚀', ''].map(widthOf)).toEqual([3, 1, 1, 4, 2, 0])
})

it('cuts text by columns, never through a character', () => {
  expect(cut('漢字漢字', 5)).toBe('漢字…')
  expect(cut('abcdef', 6)).toBe('abcdef')
  expect(cut('abcdefg', 6)).toBe('abcde…')
})

it('says spans in their largest unit', () => {
  expect([5, 1500, 125_000, 7_300_000, 200_000_000].map(span)).toEqual(['5 ms', '1 s', '2 min', '2 h', '2 d'])
})

it('quotes what a shell would read otherwise', () => {
  expect([`sqlite:./a.db`, `it's $x`].map(shellWord)).toEqual(['sqlite:./a.db', `'it'\\''s $x'`])
})

function printed(columns: number | undefined): string[] {
  let text = ''
  const write = (part: string): void => {
    text += part
  }
  const io = { out: { write, isTTY: columns !== undefined, columns }, color: false } as unknown as Io
  table(
    io,
    [{ title: 'seq', align: 'right' }, { title: 'name' }, { title: 'error', shrinkTo: 6 }],
    [
      ['1', '漢字', 'a long story'],
      ['12', 'abc', 'short'],
    ],
  )
  return text.split('\n').slice(0, -1)
}

it('aligns columns by width', () => {
  expect(printed(undefined)).toEqual(['seq  name  error', '  1  漢字  a long story', ' 12  abc   short'])
})

it('cuts what may be cut to the width of the terminal', () => {
  expect(printed(20)).toEqual(['seq  name  error', '  1  漢字  a long s…', ' 12  abc   short'])
  expect(printed(5)).toEqual(['seq  name  error', '  1  漢字  a lon…', ' 12  abc   short'])
})

it('reads times in one unit, and nothing else', () => {
  expect(['30d', '12h', '15m', '90s', '500ms'].map(durationMs)).toEqual([
    2_592_000_000, 43_200_000, 900_000, 90_000, 500,
  ])
  expect(['', '30', 'd', '1.5h', '-1s', '1h30m', '1 h', '1w', '1e3s'].map(durationMs)).toEqual(Array(9).fill(undefined))
  for (const text of ['30d', '36h', '15m', '90s', '500ms', '1001ms']) {
    expect(durationText(durationMs(text) as number)).toBe(text)
  }
})

it('tells what differs between two JSON values by path', () => {
  const texts = (old: unknown, now: unknown) => changes(old, now).map(({ mark, text }) => `${mark} ${text}`)
  expect(texts({ a: { b: 1, c: [1, 2] }, d: null }, { a: { b: 2, c: [1] }, e: 'x' })).toEqual([
    '~ a.b: 1 -> 2',
    '- a.c.1: 2',
    '- d: null',
    '+ e: "x"',
  ])
  expect(texts([1], { 0: 1 })).toEqual(['~ data: [1] -> {"0":1}'])
  expect(texts({ a: 1 }, { a: 1 })).toEqual([])
  expect(texts(JSON.parse('{"__proto__":1}'), {})).toEqual(['- __proto__: 1'])
})
