import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAX_DEPTH, parseJson } from '../../src/message/payload.ts'

const nested = (depth: number, inside = ''): string => `${'['.repeat(depth)}${inside}${']'.repeat(depth)}`

describe('parseJson', () => {
  it('reads what JSON.parse reads', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 10 }), (text) => {
        fc.pre(!text.includes('__proto__'))
        expect(parseJson(text)).toEqual(JSON.parse(text))
      }),
      { numRuns: 500 },
    )
  })

  it('takes what is nested as deeply as it may be, and no deeper', () => {
    expect(parseJson(nested(MAX_DEPTH))).toBeInstanceOf(Array)
    expect(() => parseJson(nested(MAX_DEPTH + 1))).toThrow(`nested deeper than ${MAX_DEPTH} levels`)
    expect(() =>
      parseJson(nested(MAX_DEPTH, ' '.repeat(1_000)).replaceAll('[', '[{"a":').replaceAll(']', '}]')),
    ).toThrow(SyntaxError)
    expect(parseJson(nested(65), 65)).toBeInstanceOf(Array)
  })

  it.for([
    ['lists', nested(100_000)],
    ['objects', `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`],
    ['lists that never end', '['.repeat(100_000)],
    ['lists behind a string with brackets', `["${']'.repeat(200)}",${nested(100_000)}]`],
  ])('refuses %s of depth 100,000 without walking into them', ([, text]) => {
    expect(() => parseJson(text as string)).toThrow('nested deeper')
  })

  it('does not count brackets in strings', () => {
    const value = [`${'[{'.repeat(500)}\\"[[`, '\\', '"', { '[[[[': '{{{{' }]
    expect(parseJson(JSON.stringify(value))).toEqual(value)
    const pad = ['['.repeat(200), 'x\\'.repeat(100)]
    expect(parseJson(JSON.stringify(pad))).toEqual(pad)
  })

  it.for([
    '{"__proto__":{"polluted":true}}',
    '[{"a":{"__proto__":null}}]',
    String.raw`{"\u005f\u005fproto\u005f\u005f":1}`,
    String.raw`{"__\u0070roto__":1}`,
    String.raw`{"\u005F_proto__":1}`,
  ])('refuses %s', (text) => {
    expect(() => parseJson(text)).toThrow(`a field is called '__proto__'`)
  })

  it('takes __proto__ in values, and other names of members of objects', () => {
    const value = { a: '__proto__', constructor: { prototype: 1 }, toString: 1, b: '\u0000' }
    expect(parseJson(JSON.stringify(value))).toEqual(value)
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
  })

  it('throws SyntaxError for what is no JSON', () => {
    for (const text of ['', '{', '{"a":}', 'undefined', '01', `{"a":1}${' '.repeat(200)}]`]) {
      expect(() => parseJson(text)).toThrow(SyntaxError)
    }
  })
})
