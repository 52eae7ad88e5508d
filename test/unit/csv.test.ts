import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CsvReader, type CsvRecord } from '../../src/cli/csv.ts'

function read(...pieces: string[]): CsvRecord[] {
  const reader = new CsvReader()
  return [...pieces.flatMap((piece) => reader.push(piece)), ...reader.end()]
}

const fields = (...pieces: string[]): (readonly string[])[] => read(...pieces).map((record) => record.fields)

describe('CSV', () => {
  it.for<[text: string, rows: string[][]]>([
    ['', []],
    ['a', [['a']]],
    [
      'a,b\r\nc,d\r\n',
      [
        ['a', 'b'],
        ['c', 'd'],
      ],
    ],
    ['"a","b ""c"""\n', [['a', 'b "c"']]],
    ['"a\r\nb",c\n', [['a\r\nb', 'c']]],
    [' a , b \n', [[' a ', ' b ']]],
    [
      'a,\n,b',
      [
        ['a', ''],
        ['', 'b'],
      ],
    ],
    ['""\n\n', [[''], ['']]],
    ['a,', [['a', '']]],
    ['""', [['']]],
  ])('reads %j', ([text, rows]) => {
    expect(fields(text)).toEqual(rows)
    expect(fields(...text)).toEqual(rows)
  })

  it.for<[text: string, what: string]>([
    ['a\n"b', 'an unterminated quote on line 2'],
    ['a\n"b\n\nc', 'an unterminated quote on line 4, in the record that begins on line 2'],
    ['a\nb"c"\n', 'a quote inside an unquoted field on line 2'],
    ['"a" ,b\n', 'a character after a closing quote on line 1'],
    ['a\rb\n', 'a carriage return without a line feed on line 1'],
    ['a\r', 'a carriage return without a line feed on line 1'],
    ['"a"\rb', 'a carriage return without a line feed on line 1'],
  ])('refuses %j', ([text, what]) => {
    expect(() => read(text)).toThrow(`expected CSV, got ${what}`)
    expect(() => read(...text)).toThrow(what)
  })

  it('reports the line on which a record begins', () => {
    expect(read('a\n"b\nc"\nd\n').map(({ line }) => line)).toEqual([1, 2, 4])
  })

  it('reads back what a writer has written, split into chunks anywhere', () => {
    const field = fc.string({ unit: fc.constantFrom('a', 'ü', ' ', ',', '"', '\n', '\r', "'", ';', '\\') })
    const rows = fc.array(fc.array(fc.tuple(field, fc.boolean()), { minLength: 1, maxLength: 4 }), { maxLength: 6 })
    const written = (text: string, quoted: boolean): string =>
      quoted || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
    fc.assert(
      fc.property(
        rows,
        fc.constantFrom('\n', '\r\n'),
        fc.boolean(),
        fc.array(fc.nat(40), { maxLength: 8 }),
        (records, end, last, cuts) => {
          // An unterminated line with one empty field cannot be distinguished from no line.
          const lines = records.map((record) => record.map(([text, quoted]) => written(text, quoted)).join(','))
          const whole = lines.join(end) + (last || lines.at(-1) === '' ? end : '')
          const text = lines.length === 0 ? '' : whole
          const places = [0, ...cuts.map((cut) => Math.min(cut, text.length)).sort((a, b) => a - b), text.length]
          const pieces = places.slice(1).map((to, index) => text.slice(places[index], to))
          expect(fields(...pieces)).toEqual(records.map((record) => record.map(([each]) => each)))
        },
      ),
      { numRuns: 2_000 },
    )
  })
})
