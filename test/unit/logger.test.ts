import { consoleLogger, type Logger } from 'hapax'
import { afterEach, expect, it, vi } from 'vitest'

const { isTTY } = process.stderr

afterEach(() => {
  process.stderr.isTTY = isTTY
})

/** What the console logger writes. */
function written(level: keyof Logger, fields: object, message: string, terminal = false): string {
  const write = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  process.stderr.isTTY = terminal
  try {
    consoleLogger[level](fields, message)
    return String(write.mock.calls[0]?.[0] ?? '')
  } finally {
    write.mockRestore()
  }
}

const HOSTILE = 'a\u001b[2J\u009b2J\u0085b\nc\u2028d\u202e\u2066e\u200f\u007f\ufeff'
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

it('K21: no character of a message moves the cursor, forges a line or turns the text around', () => {
  const line = written('warn', { about: { id: HOSTILE }, error: HOSTILE }, HOSTILE)
  expect(line.endsWith('\n')).toBe(true)
  expect(line.slice(0, -1)).toMatch(/^[\x20-\x7e]+$/)
  expect(JSON.parse(line)).toEqual({
    time: expect.stringMatching(TIME),
    level: 'warn',
    msg: `hapax: ${HOSTILE}`,
    about: { id: HOSTILE },
    error: HOSTILE,
  })
})

it('K21: nor on a terminal, where a stack has its own lines', () => {
  const fields = { [HOSTILE]: HOSTILE, about: { id: HOSTILE }, error: HOSTILE, code: HOSTILE, advice: HOSTILE }
  const lines = written('warn', { ...fields, stack: `${HOSTILE}\n${HOSTILE}` }, HOSTILE, true).split('\n')
  for (const line of lines) expect(line).toMatch(/^[\x20-\x7e]*$/)
  // The sentence, the advice, four lines of the stack, and the end of the last one.
  expect(lines).toHaveLength(7)
})

it('no field takes the place of the time, the level or the sentence', () => {
  const line = JSON.parse(written('error', { time: 'never', level: 'silly', msg: 'nothing' }, 'it happened'))
  expect(line).toEqual({ time: expect.stringMatching(TIME), level: 'error', msg: 'hapax: it happened' })
})

it('a terminal gets the sentence, the error and its code, the fields, what to do, and the stack below', () => {
  const fields = {
    consumer: 'billing',
    about: { id: '17', type: 'order.placed' },
    attempt: 1,
    error: 'no such card',
    code: 'E_CARD',
    advice: 'Look at the card.',
    stack: 'Error: no such card\n    at charge (billing.ts:3:9)',
  }
  expect(written('error', fields, 'the handler failed', true).replace(/^\S+/, 'time')).toBe(
    [
      'time error hapax: the handler failed: no such card (E_CARD) id=17 type=order.placed consumer=billing attempt=1',
      '    Look at the card.',
      '    Error: no such card',
      '    at charge (billing.ts:3:9)',
      '',
    ].join('\n'),
  )
})

it('only warnings and errors are written', () => {
  expect(written('debug', {}, 'a') + written('info', {}, 'b')).toBe('')
})
