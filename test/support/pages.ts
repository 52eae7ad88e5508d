import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of the repository. */
export const root: string = fileURLToPath(new URL('../..', import.meta.url))

/** Every page of the repository, not those of the packages that it uses. */
export function pages(): readonly string[] {
  return globSync('**/*.md', { cwd: root, exclude: ['**/node_modules', '.*'] }).toSorted()
}

/** A file of the repository. */
export function read(path: string): string {
  return readFileSync(join(root, path), 'utf8')
}

/** A block of code on a page. */
export interface Block {
  readonly page: string
  /** The line of the page on which the code begins. */
  readonly line: number
  readonly language: string
  readonly code: string
}

/** The blocks of code on a page, without the indentation that they have inside a list. */
export function blocksOf(page: string): readonly Block[] {
  const text = read(page)
  return [...text.matchAll(/^( *)```([a-z]*)\n([\s\S]*?)^\1```$/gm)].map((match) => ({
    page,
    line: text.slice(0, match.index).split('\n').length + 1,
    language: match[2] ?? '',
    code: (match[3] ?? '').replaceAll(new RegExp(`^${match[1]}`, 'gm'), ''),
  }))
}
