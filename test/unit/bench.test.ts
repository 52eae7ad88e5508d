import { describe, expect, it } from 'vitest'
import { picture } from '../../bench/page/picture.ts'
import { sections, withSections } from '../../bench/page/tables.ts'
import { benchFor, choose, type Part } from '../../bench/part.ts'
import { parts } from '../../bench/parts.ts'
import { readResults } from '../../bench/results.ts'
import { read } from '../support/pages.ts'

describe('parts of the benchmark', () => {
  it('are all chosen where none is named', () => {
    expect(choose(parts, []).map(({ part }) => part)).toEqual(parts)
  })

  it('run with all of their sections, or with those that are named', () => {
    expect(wanted(['growth'])).toEqual(['calls', 'held'])
    expect(wanted(['growth/held'])).toEqual(['held'])
    expect(wanted(['growth/held', 'growth'])).toEqual(['calls', 'held'])
  })

  it('are refused when unknown', () => {
    expect(() => choose(some, ['growth/hold'])).toThrow(
      "expected a part or a section that --help lists, got 'growth/hold'",
    )
  })
})

const some: readonly Part[] = [
  { name: 'sqlite', about: '', needs: [], run: async () => {} },
  { name: 'growth', about: '', needs: [], sections: ['calls', 'held'], run: async () => {} },
]

function wanted(words: readonly string[]): readonly string[] {
  const [choice] = choose(some, words)
  if (choice === undefined) throw new Error('expected a part')
  expect(choice.part.name).toBe('growth')
  const bench = benchFor(choice, true, () => '')
  return (choice.part.sections ?? []).filter((section) => bench.wants(section))
}

describe('docs/performance.md', () => {
  const results = readResults()
  if (results === undefined) throw new Error('expected bench/results.json to exist')

  it('shows what bench/results.json and the budgets say: `npm run bench -- --draw` makes it again', () => {
    const page = read('docs/performance.md')
    expect(page).toBe(withSections(page, sections(results)))
  })

  it('has the picture of bench/results.json', () => {
    expect(read('docs/performance.svg')).toBe(picture(results))
  })
})
