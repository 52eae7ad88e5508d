import { classesIn } from './classes.ts'
import { contractsOf } from './contracts.ts'
import { type Casts, castsIn, countLines, folders, functions, type Long, sumLines } from './lines.ts'
import { exportedNames, twoMeanings } from './names.ts'
import { production, type Source, type Tree, testingKit } from './sources.ts'
import type { Walks } from './walks.ts'

/** One measured figure. */
export interface Figure {
  readonly name: string
  /** Undefined if it could not be measured, which also misses the target. */
  readonly value: number | undefined
  /** What the value belongs to: the folder, the interface. */
  readonly of?: string
  /** Undefined if it is only shown. */
  readonly target?: Target
  /** The places that make up the value, for improving it. */
  readonly details: readonly string[]
}

/** The least or the most that a figure should be. */
export type Target = { readonly atMost: number } | { readonly atLeast: number } | { readonly below: number }

const MOST_FILES = 16
const MOST_METHODS = 9
const MOST_METHODS_IN_ALL = 45
const LEAST_COMMENTS = 0.2
/** The lines when the sources were still in one folder: the same promises should take fewer. */
const LINES_BEFORE = 42_666

/** Whether a figure reaches its target; one without a target always does. */
export function isMet({ value, target }: Figure): boolean {
  if (target === undefined) return true
  if (value === undefined) return false
  if ('atLeast' in target) return value >= target.atLeast
  return 'below' in target ? value < target.below : value <= target.atMost
}

/** The figures that are read from the sources alone. */
export function sourceFigures(tree: Tree): readonly Figure[] {
  const sources = production(tree)
  return [
    folderFigure('files in the largest folder', sources),
    folderFigure('the same in the testing kit', testingKit(tree)),
    ...contractFigures(tree, sources),
    exportFigure(tree),
    ...castFigures(sources),
    ...lineFigures(sources),
    ...classFigures(sources),
    ...longestFigures(sources),
    meaningFigure(sources),
  ]
}

/** How many files one message touches. */
export function walkFigures(walks: Walks | Error): readonly Figure[] {
  const figure = (name: string, key: keyof Walks, atMost: number): Figure => {
    const target = { atMost }
    if (walks instanceof Error) return { name, value: undefined, of: walks.message, target, details: [] }
    return { name, value: walks[key].length, target, details: walks[key].map((path) => `src/${path}`) }
  }
  return [
    figure('files touched by a direct delivery', 'direct', 18),
    figure('files touched from publish to broker', 'publish', 28),
    figure('files touched by a stored delivery', 'stored', 28),
  ]
}

function folderFigure(name: string, sources: readonly Source[]): Figure {
  const [largest, ...others] = folders(sources)
  if (largest === undefined) return { name, value: 0, details: [] }
  const details = [largest, ...others]
    .filter(({ files }) => files > MOST_FILES)
    .map(({ path, files }) => `${files}  ${path}`)
  return { name, value: largest.files, of: largest.path, target: { atMost: MOST_FILES }, details }
}

function contractFigures(tree: Tree, sources: readonly Source[]): readonly Figure[] {
  const { found, missing, interfaces } = contractsOf(tree, sources)
  const largest = interfaces[0]
  return [
    {
      name: 'methods of the largest interface of a contract',
      value: largest?.methods,
      ...(largest && { of: largest.name }),
      target: { atMost: MOST_METHODS },
      details: interfaces.map(({ name, methods }) => `${methods}  ${name}`),
    },
    ...found.map(({ name, path, methods, parts }) => ({
      name: `methods of ${name} in all`,
      value: methods,
      of: `largest part ${parts[0]?.name} with ${parts[0]?.methods}`,
      target: { atMost: MOST_METHODS_IN_ALL },
      details: [path, ...parts.map((part) => `${part.methods}  ${part.name}`)],
    })),
    ...missing.map((name) => ({
      name: `methods of ${name} in all`,
      value: undefined,
      of: 'no such interface is exported: was it renamed?',
      target: { atMost: MOST_METHODS_IN_ALL },
      details: [],
    })),
  ]
}

function exportFigure(tree: Tree): Figure {
  const root = tree.get('src/index.ts')
  const names = root && [...exportedNames(tree, root)].sort()
  return { name: 'names exported from the root', value: names?.length, target: { atMost: 90 }, details: names ?? [] }
}

function castFigures(sources: readonly Source[]): readonly Figure[] {
  const counts = sources.map((source) => ({ path: source.path, ...castsIn(source) }))
  const sum = (key: keyof Casts): number => counts.reduce((total, count) => total + count[key].length, 0)
  const list = (key: keyof Casts): readonly string[] =>
    counts
      .filter((count) => count[key].length > 0)
      .sort((a, b) => b[key].length - a[key].length)
      .map((count) => `${count[key].length}  ${count.path}: ${count[key].join(', ')}`)
  const { total, blank } = sumLines(sources)
  return [
    {
      name: 'casts per 1,000 lines',
      value: rounded((sum('casts') * 1000) / Math.max(1, total - blank), 1),
      of: `${sum('casts')} in all`,
      target: { atMost: 4 },
      details: list('casts'),
    },
    { name: 'non-null assertions (x!)', value: sum('nonNull'), details: list('nonNull') },
  ]
}

function lineFigures(sources: readonly Source[]): readonly Figure[] {
  const { total, blank, comment, code } = sumLines(sources)
  const files = sources.map((source) => ({ path: source.path, ...countLines(source) }))
  const details = files
    .filter(({ comment, code }) => code >= 40 && comment / code < LEAST_COMMENTS)
    .sort((a, b) => a.comment / a.code - b.comment / b.code)
    .map((file) => `${rounded(file.comment / file.code, 2).toFixed(2)}  ${file.path}`)
  return [
    {
      name: 'comment lines per code line',
      value: rounded(comment / Math.max(1, code), 2),
      of: `${comment} and ${code}`,
      target: { atLeast: LEAST_COMMENTS },
      details,
    },
    {
      name: 'lines without the testing kit',
      value: total,
      of: `${total - blank} not blank, ${sources.length} files`,
      target: { below: LINES_BEFORE },
      details: [],
    },
  ]
}

function classFigures(sources: readonly Source[]): readonly Figure[] {
  const classes = sources.map(classesIn)
  const all = classes.reduce((sum, each) => sum + each.all, 0)
  const stateless = classes.flatMap((each) => each.stateless)
  return [{ name: 'classes without mutable state', value: stateless.length, of: `of ${all}`, details: stateless }]
}

function longestFigures(sources: readonly Source[]): readonly Figure[] {
  const files = sources.map(({ path, lines }) => ({ place: path, lines: lines.length }))
  return [
    longest('lines of the longest file', files),
    longest('lines of the longest function', sources.flatMap(functions)),
  ]
}

function longest(name: string, places: readonly Long[]): Figure {
  const sorted = places.toSorted((a, b) => b.lines - a.lines).slice(0, 10)
  const first = sorted[0]
  return {
    name,
    value: first?.lines ?? 0,
    ...(first && { of: first.place }),
    details: sorted.map(({ place, lines }) => `${lines}  ${place}`),
  }
}

function meaningFigure(sources: readonly Source[]): Figure {
  const names = [...twoMeanings(sources)]
  // What `rows.ts` of one driver exports, `rows.ts` of the next may export too: that is one meaning.
  const shared = names.filter(([, paths]) => areSiblings(paths))
  const different = names.filter((name) => !shared.includes(name))
  return {
    name: 'exported names with two meanings',
    value: different.length,
    of: `${shared.length} more in the same file of sibling folders`,
    details: [...different, ...shared].map(([name, paths]) => `${name}: ${paths.join(', ')}`),
  }
}

/** Whether paths differ in the name of one folder alone: `src/stores/mysql/rows.ts`, `src/stores/sqlite/rows.ts`. */
function areSiblings(paths: readonly string[]): boolean {
  const split = paths.map((path) => path.split('/'))
  const [first = []] = split
  const different = first.flatMap((name, at) => (split.some((names) => names[at] !== name) ? [at] : []))
  return (
    split.every(({ length }) => length === first.length) && different.length === 1 && different[0] !== first.length - 1
  )
}

function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits))
}
