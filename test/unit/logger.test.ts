import { consoleLogger } from 'hapax'
import { expect, it, vi } from 'vitest'

/** What the console logger writes. */
function written(fields: object, message: string): string {
  const write = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  try {
    consoleLogger.warn(fields, message)
    return String(write.mock.calls[0]?.[0])
  } finally {
    write.mockRestore()
  }
}

it('K21: no character of a message moves the cursor, forges a line or turns the text around', () => {
  const hostile = 'a\u001b[2J\u009b2J\u0085b\nc\u2028d\u202e\u2066e\u200f\u007f\ufeff'
  const line = written({ message: { id: hostile }, error: hostile }, hostile)
  expect(line.endsWith('\n')).toBe(true)
  expect(line.slice(0, -1)).toMatch(/^[\x20-\x7e]+$/)
  expect(JSON.parse(line)).toEqual({
    level: 'warn',
    msg: `hapax: ${hostile}`,
    message: { id: hostile },
    error: hostile,
  })
})
