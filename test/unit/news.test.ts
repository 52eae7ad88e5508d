import { silentLogger } from 'hapax'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import type { Committed } from '../../src/transaction/committed.ts'
import { News, newsText, readNews } from '../../src/worker/news.ts'

function row(number: number, scope = 'billing', key: string | null = null): Committed {
  const entry = {
    seq: `${number}-1`,
    type: 'order',
    lane: number % 64,
    key,
    bytes: 10,
    dueMs: 0,
    held: false,
    deaths: 0,
  }
  return { table: 'inbox', scope, lane: number % 64, entry }
}

/** News to other processes, and the texts that they get. */
function told(): { news: News; texts: string[] } {
  const texts: string[] = []
  const tell = async (text: string) => void texts.push(text)
  const news = new News({
    news: { tell, listen: () => async () => {} },
    clock: systemClock,
    logger: silentLogger,
    from: 'me',
  })
  return { news, texts }
}

describe('what is told', () => {
  it('in one moment is one text', async () => {
    const { news, texts } = told()
    for (const number of [1, 2, 3]) news.tell([row(number)])
    await news.close()
    expect(texts.map((text) => readNews(text).rows)).toEqual([[row(1), row(2), row(3)]])
  })

  it('before the end is said before it', async () => {
    const { news, texts } = told()
    news.tell([row(1)])
    await expect.poll(() => texts.length).toBe(1)
    news.tell([row(2)])
    await news.close()
    expect(texts.map((text) => readNews(text).rows)).toEqual([[row(1)], [row(2)]])
  })

  it('is nothing if all rows are for workers of this process', async () => {
    const { news, texts } = told()
    news.tell([])
    await news.close()
    expect(texts).toEqual([])
  })
})

describe('news', () => {
  it('say rows as they were committed, in ASCII', () => {
    const rows = [row(1), row(2, 'лавка'), { table: 'outbox', scope: 'default', lane: 3 } as const]
    const text = newsText('me', rows)
    expect(text).toMatch(/^[\x20-\x7e]*$/)
    expect(readNews(text)).toEqual({ from: 'me', rows })
  })

  it('contain no message keys: of rows with a key only their locations, each once', () => {
    const keyed = [row(3, 'billing', 'customer 4711'), row(67, 'billing', 'customer 4712')]
    const text = newsText('me', [row(1), ...keyed])
    expect(text).not.toContain('customer')
    expect(readNews(text).rows).toEqual([row(1), { table: 'inbox', scope: 'billing', lane: 3 }])
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
