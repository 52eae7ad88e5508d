import { describe, expect, it } from 'vitest'
import type { Committed } from '../../src/transaction/committed.ts'
import { newsText, readNews } from '../../src/worker/news.ts'

function row(number: number, scope = 'billing'): Committed {
  const entry = {
    seq: `${number}-1`,
    type: 'order',
    lane: number % 64,
    key: 'ключ',
    bytes: 10,
    dueMs: 0,
    held: false,
    deaths: 0,
  }
  return { table: 'inbox', scope, lane: number % 64, entry }
}

describe('news', () => {
  it('say rows as they were committed, in ASCII', () => {
    const rows = [row(1), row(2, 'лавка'), { table: 'outbox', scope: 'default', lane: 3 } as const]
    const text = newsText('me', rows)
    expect(text).toMatch(/^[\x20-\x7e]*$/)
    expect(readNews(text)).toEqual({ from: 'me', rows })
  })

  it('say only where the rows are if they are many, each place once', () => {
    const rows = Array.from({ length: 400 }, (_, index) => row(index + 1))
    const text = newsText('me', rows)
    expect(text.length).toBeLessThanOrEqual(7_000)
    const { rows: said } = readNews(text)
    expect(said).toHaveLength(64)
    expect(said?.every(({ entry }) => entry === undefined)).toBe(true)
  })

  it('say nothing of rows if even their places are too many, or unknown', () => {
    const rows = Array.from({ length: 400 }, (_, index) => row(index + 1, `consumer ${index}`))
    expect(readNews(newsText('me', rows))).toEqual({ from: 'me' })
    expect(readNews(newsText('me', undefined))).toEqual({ from: 'me' })
  })

  it.each([
    'nonsense',
    '[]',
    'null',
    '{"rows":[{"table":"other","scope":"a","lane":1}]}',
    '{"rows":[{"table":"inbox","scope":"a","lane":1,"entry":{"seq":"1; drop"}}]}',
    '{"rows":[null]}',
  ])('that cannot be read may mean anything: %s', (text) => {
    expect(readNews(text).rows).toBeUndefined()
  })
})
