import { expect, it } from 'vitest'
import { bulk } from '../../src/admin/bulk.ts'
import { systemClock } from '../../src/base/index.ts'
import { compareSeq } from '../../src/message/index.ts'

it('leaves alone a message that failed again under its number, after somebody else had retried it, on any page', async () => {
  // More than one page. The mark of a row changes with each of its failures.
  const rows = Array.from({ length: 1_200 }, (_, index) => `${index + 1}-1`)
  const changed: string[] = []
  const work = {
    newest: async () => rows.at(-1),
    page: async (after: string | undefined, limit: number) =>
      rows.filter((seq) => after === undefined || compareSeq(seq, after) > 0).slice(0, limit),
    change: async (seq: string) => {
      if (changed.length === 0) rows[1_100] = '1101-2'
      if (!rows.includes(seq)) return false
      changed.push(seq)
      return true
    },
  }
  expect(await bulk(systemClock, work, {})).toEqual({ done: 1_199, gone: 1, errors: 0, stopped: false })
  expect(changed).not.toContain('1101-2')
  const few = await bulk(systemClock, work, { limit: 700 })
  expect(few).toEqual({ done: 700, gone: 0, errors: 0, stopped: false })
})

it.each(['before', 'while'])('stops when it is told to %s it lists its rows', async (when) => {
  const stop = new AbortController()
  if (when === 'before') stop.abort()
  const work = {
    newest: async () => '9999-1',
    page: async (after: string | undefined) => {
      stop.abort()
      return [`${Number.parseInt(after ?? '0', 10) + 1}-1`]
    },
    change: async () => expect.unreachable(),
  }
  const done = await bulk(systemClock, work, { signal: stop.signal })
  expect(done).toEqual({ done: 0, gone: 0, errors: 0, stopped: true })
})
