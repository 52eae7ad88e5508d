import { expect, it } from 'vitest'
import { pastOf, REMEMBERED, recordFailure, remember } from '../../src/message/history.ts'

const NEVER = { failures: 0, history: null }
const engine = { worker: 'host/1', redact: (text: string) => text.replaceAll('hunter2', '[hidden]') }

/** What a row remembers after these errors. */
function after(...errors: readonly Error[]) {
  return errors.reduce<Parameters<typeof remember>[0]>(
    (row, error, index) => remember(row, 1_000 + index, index + 1, recordFailure(engine, error).entry),
    NEVER,
  )
}

it('reads what was written, oldest first', () => {
  const coded = Object.assign(new RangeError('too far'), { code: 'E_FAR' })
  expect(pastOf(after(new Error('no'), coded))).toEqual({
    failures: 2,
    history: [
      { at: new Date(1_000), attempt: 1, worker: 'host/1', name: 'Error', message: 'no' },
      { at: new Date(1_001), attempt: 2, worker: 'host/1', name: 'RangeError', code: 'E_FAR', message: 'too far' },
    ],
  })
  expect(pastOf(NEVER)).toEqual({ failures: 0, history: [] })
})

it('keeps the last ten, in a text of bounded size, whatever was thrown', () => {
  const texts = ['x', '\0', '\n', '"', '\\', 'ü', '\u2028', '𝄞', '\ud800', '\udc00']
  for (const text of texts) {
    const huge = Object.assign(new Error(text.repeat(500_000)), { name: text.repeat(5_000), code: text.repeat(5_000) })
    const row = after(...Array.from({ length: 25 }, () => huge))
    expect(row.history).toMatch(/^[\x20-\x7e\n]{1,40000}$/)
    const { failures, history } = pastOf(row)
    expect([failures, history.length, history[0]?.attempt, history.at(-1)?.attempt]).toEqual([25, REMEMBERED, 16, 25])
    for (const { message } of history) expect([message.length <= 300, message.isWellFormed()]).toEqual([true, true])
  }
})

it('stores no secrets, neither those that hapax knows nor those of the application', () => {
  const { history } = after(new Error('postgres://app:swordfish@db/x said hunter2'))
  expect(history).not.toMatch(/swordfish|hunter2/)
})

it('leaves out what is no history: another version or a person wrote it', () => {
  const good = after(new Error('no')).history as string
  const garbage = [
    '',
    ' ',
    'null',
    '[]',
    '{"at":1}',
    '1 1 ',
    '1 1 {',
    '1 1 null',
    '1 1 []',
    '1 1 {"__proto__":1}}',
    '-1 1 {}',
    '1e9 1 {}',
    `${'9'.repeat(400)} 1 {}`,
    `1 ${'9'.repeat(400)} {}`,
    `1 1 ${'{"a":'.repeat(50_000)}`,
    '\ud800',
    '\0\0',
    'x'.repeat(1_000_000),
    '\n'.repeat(1_000),
  ]
  for (const text of garbage) {
    expect(pastOf({ failures: 3, history: text })).toEqual({ failures: 3, history: [] })
    // What is written from now on is read.
    const next = remember({ failures: 3, history: text }, 5, 4, recordFailure(engine, new Error('now')).entry)
    expect(pastOf(next).history.map(({ message }) => message)).toEqual(['now'])
    const mixed = pastOf({ failures: Number.NaN, history: `${text.slice(0, 100).split('\n')[0]}\n${good}` })
    expect([mixed.failures, mixed.history.map(({ message }) => message)]).toEqual([1, ['no']])
  }
})

it('reads entries that lack what is expected, or have something else', () => {
  const odd = '5 1 {"worker":1,"name":{},"code":null,"message":["x"],"kind":"other"}'
  expect(pastOf({ failures: 0, history: `${odd}\n4 0 {}` })).toEqual({
    failures: 2,
    history: [
      { at: new Date(4), attempt: 0, worker: '', name: 'Error', message: '' },
      { at: new Date(5), attempt: 1, worker: '', name: 'Error', message: '' },
    ],
  })
})
