import { dirname } from 'node:path'
import { type ArrowFunctionExpression, type Function as FunctionNode, type Node, type Span, Visitor } from 'oxc-parser'
import { lineAt, type Source } from './sources.ts'

/** How many files a folder has, without those of its folders. */
export interface Folder {
  readonly path: string
  readonly files: number
}

/** The folders of these files, the fullest first. */
export function folders(sources: readonly Source[]): readonly Folder[] {
  const counts = new Map<string, number>()
  for (const { path } of sources) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1)
  return [...counts].map(([path, files]) => ({ path, files })).sort((a, b) => b.files - a.files)
}

/** The lines of a file by kind. */
export interface Lines {
  readonly total: number
  readonly blank: number
  /** Lines that hold a comment and nothing else. */
  readonly comment: number
  /** All others. */
  readonly code: number
}

/** Sorts the lines of a file. A blank line inside a comment is blank. */
export function countLines(source: Source): Lines {
  const withoutComments = source.comments.reduceRight(
    (text, { start, end }) => text.slice(0, start) + text.slice(start, end).replaceAll(/[^\n]/g, ' ') + text.slice(end),
    source.text,
  )
  const code = withoutComments.split('\n').filter((line) => line.trim() !== '').length
  const blank = source.lines.filter((line) => line.trim() === '').length
  const total = source.lines.length
  return { total, blank, code, comment: total - blank - code }
}

/** The lines of several files together. */
export function sumLines(sources: readonly Source[]): Lines {
  return sources.map(countLines).reduce(
    (sum, { total, blank, comment, code }) => ({
      total: sum.total + total,
      blank: sum.blank + blank,
      comment: sum.comment + comment,
      code: sum.code + code,
    }),
    { total: 0, blank: 0, comment: 0, code: 0 },
  )
}

/** Where a file overrules the type checker, by line. */
export interface Casts {
  /** `x as T` and `<T>x`; `as const` does not count. */
  readonly casts: readonly number[]
  /** `x!`, which is counted separately. */
  readonly nonNull: readonly number[]
}

/** Finds the casts of a file. */
export function castsIn(source: Source): Casts {
  const casts: number[] = []
  const nonNull: number[] = []
  new Visitor({
    TSAsExpression({ typeAnnotation: type, end }) {
      const isConst =
        type.type === 'TSTypeReference' && type.typeName.type === 'Identifier' && type.typeName.name === 'const'
      if (!isConst) casts.push(lineAt(source, end))
    },
    TSTypeAssertion({ start }) {
      casts.push(lineAt(source, start))
    },
    TSNonNullExpression({ end }) {
      nonNull.push(lineAt(source, end))
    },
  }).visit(source.program)
  return { casts, nonNull }
}

/** A function or a file, and how many lines it takes. */
export interface Long {
  readonly place: string
  readonly lines: number
}

/** The functions and methods of a file, each with its name and the line where it begins. */
export function functions(source: Source): readonly Long[] {
  const found: Long[] = []
  const names = new Map<Node, string>()
  const name = (value: Node | null, { start, end }: Span): void => {
    if (value !== null) names.set(value, source.text.slice(start, end))
  }
  const add = (node: FunctionNode | ArrowFunctionExpression): void => {
    const first = lineAt(source, node.start)
    const called = node.id?.name ?? names.get(node) ?? 'a function'
    found.push({ place: `${called} (${source.path}:${first})`, lines: lineAt(source, node.end) - first + 1 })
  }
  new Visitor({
    MethodDefinition: ({ key, value }) => name(value, key),
    VariableDeclarator: ({ id, init }) => name(init, id),
    Property: ({ key, value }) => name(value, key),
    FunctionDeclaration: add,
    FunctionExpression: add,
    ArrowFunctionExpression: add,
  }).visit(source.program)
  return found
}
