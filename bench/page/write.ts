import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Results } from '../results.ts'
import { picture } from './picture.ts'
import { sections, withSections } from './tables.ts'

const DOCS = join(import.meta.dirname, '..', '..', 'docs')
const PAGE = join(DOCS, 'performance.md')
const PICTURE = join(DOCS, 'performance.svg')

/** Brings docs/performance.md and its picture up to date. */
export function writePage(results: Results): void {
  writeFileSync(PICTURE, picture(results))
  writeFileSync(PAGE, withSections(readFileSync(PAGE, 'utf8'), sections(results)))
}
