import { globSync, readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { type Comment, type Program, parseSync } from 'oxc-parser'

/** A parsed file of src. */
export interface Source {
  /** Relative to the root, with forward slashes: `src/stores/sqlite/index.ts`. */
  readonly path: string
  readonly text: string
  readonly lines: readonly string[]
  readonly program: Program
  readonly comments: readonly Comment[]
}

/** The files of src by path. */
export type Tree = ReadonlyMap<string, Source>

const KIT = 'src/testing/'

/** Parses every TypeScript file below `src`, wherever it is. */
export function readTree(root: string): Tree {
  const paths = globSync('src/**/*.ts', { cwd: root }).map((path) => path.replaceAll('\\', '/'))
  return new Map(paths.sort().map((path) => [path, readSource(root, path)]))
}

function readSource(root: string, path: string): Source {
  const text = readFileSync(join(root, path), 'utf8')
  const { program, comments, errors } = parseSync(path, text, { preserveParens: false })
  if (errors[0] !== undefined) throw new Error(`${path}: ${errors[0].message}`)
  return { path, text, lines: text.replace(/\n$/, '').split('\n'), program, comments }
}

/** The sources that applications run: everything but the testing kit, which is measured separately. */
export function production(tree: Tree): readonly Source[] {
  return [...tree.values()].filter(({ path }) => !path.startsWith(KIT))
}

/** The conformance suites and everything else that is for tests. */
export function testingKit(tree: Tree): readonly Source[] {
  return [...tree.values()].filter(({ path }) => path.startsWith(KIT))
}

/** The file that a relative import means; undefined for packages. */
export function imported(tree: Tree, from: Source, specifier: string): Source | undefined {
  if (!specifier.startsWith('.')) return undefined
  return tree.get(posix.join(dirname(from.path), specifier))
}

/** The line of an offset, counted from 1. */
export function lineAt({ text }: Source, offset: number): number {
  return text.slice(0, offset).split('\n').length
}
