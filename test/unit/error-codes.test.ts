import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

it('docs/errors.md has a heading for every code, and no other', () => {
  const union =
    /export type ErrorCode =\n((?: +(?:\/\/.*|\| '[a-z-]+')\n)+)/.exec(read('src/base/errors.ts'))?.[1] ?? ''
  const codes = [...union.matchAll(/\| '([a-z-]+)'/g)].map((match) => match[1])
  const headings = [...read('docs/errors.md').matchAll(/^### `?([a-z-]+)`?$/gm)].map((match) => match[1])
  expect(codes.length).toBeGreaterThan(30)
  expect(headings.toSorted()).toEqual(codes.toSorted())
  expect(new Set(headings).size).toBe(headings.length)
})
