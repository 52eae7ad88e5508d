import type { Declaration, ModuleExportName, Statement } from 'oxc-parser'
import { imported, type Source, type Tree } from './sources.ts'

/** A declaration and the file that has it. */
export interface Declared {
  readonly source: Source
  readonly declaration: Declaration
}

/** A name of another module. */
interface Foreign {
  readonly from: string
  readonly name: string
}

/** What a module declares, imports and exports. */
interface Names {
  readonly declarations: Map<string, Declaration>
  readonly imports: Map<string, Foreign>
  /** By exported name: the local name, or what is passed on from elsewhere; undefined: the module itself, or a default. */
  readonly exports: Map<string, string | Foreign | undefined>
  /** The modules of `export * from`. */
  readonly stars: string[]
}

const known = new WeakMap<Source, Names>()

function namesIn(source: Source): Names {
  const names = known.get(source) ?? { declarations: new Map(), imports: new Map(), exports: new Map(), stars: [] }
  if (!known.has(source)) for (const statement of source.program.body) note(names, statement)
  known.set(source, names)
  return names
}

function note(names: Names, statement: Statement): void {
  if (statement.type === 'ImportDeclaration') {
    for (const specifier of statement.specifiers) {
      if (specifier.type !== 'ImportSpecifier') continue
      names.imports.set(specifier.local.name, { from: statement.source.value, name: nameOf(specifier.imported) })
    }
  } else if (statement.type === 'ExportAllDeclaration') {
    if (statement.exported === null) names.stars.push(statement.source.value)
    else names.exports.set(nameOf(statement.exported), undefined)
  } else if (statement.type === 'ExportDefaultDeclaration') {
    names.exports.set('default', undefined)
  } else if (statement.type === 'ExportNamedDeclaration') {
    const from = statement.source?.value
    for (const { local, exported } of statement.specifiers) {
      names.exports.set(nameOf(exported), from === undefined ? nameOf(local) : { from, name: nameOf(local) })
    }
    if (statement.declaration !== null) noteDeclaration(names, statement.declaration, true)
  } else {
    noteDeclaration(names, statement, false)
  }
}

function noteDeclaration(names: Names, statement: Statement, exported: boolean): void {
  for (const [name, declaration] of declaredBy(statement)) {
    names.declarations.set(name, declaration)
    if (exported) names.exports.set(name, name)
  }
}

function declaredBy(statement: Statement): [string, Declaration][] {
  switch (statement.type) {
    case 'VariableDeclaration':
      return statement.declarations.flatMap(({ id }) => (id.type === 'Identifier' ? [[id.name, statement]] : []))
    case 'FunctionDeclaration':
    case 'TSDeclareFunction':
    case 'ClassDeclaration':
    case 'TSInterfaceDeclaration':
    case 'TSTypeAliasDeclaration':
    case 'TSEnumDeclaration':
      return statement.id === null ? [] : [[statement.id.name, statement]]
    default:
      return []
  }
}

function nameOf(node: ModuleExportName): string {
  return node.type === 'Literal' ? node.value : node.name
}

/** What other modules can import from this one, with `export *` resolved. */
export function exportedNames(tree: Tree, source: Source, seen: ReadonlySet<Source> = new Set()): ReadonlySet<string> {
  if (seen.has(source)) return new Set()
  const { exports, stars } = namesIn(source)
  const starred = stars.flatMap((star) => {
    const from = imported(tree, source, star)
    return from === undefined ? [] : [...exportedNames(tree, from, new Set([...seen, source]))]
  })
  return new Set([...exports.keys(), ...starred.filter((name) => name !== 'default')])
}

/** The declarations that a file has and exports, by name. What it passes on from other files is theirs. */
export function exportedDeclarations(source: Source): ReadonlyMap<string, Declaration> {
  const { declarations, exports } = namesIn(source)
  const found = new Map<string, Declaration>()
  for (const [name, local] of exports) {
    const declaration = typeof local === 'string' ? declarations.get(local) : undefined
    if (declaration !== undefined) found.set(name, declaration)
  }
  return found
}

/** The exported names that are declared in more than one of these files, with the files. */
export function twoMeanings(sources: readonly Source[]): ReadonlyMap<string, readonly string[]> {
  const places = new Map<string, string[]>()
  for (const source of sources) {
    for (const name of exportedDeclarations(source).keys()) {
      places.set(name, [...(places.get(name) ?? []), source.path])
    }
  }
  return new Map([...places].filter(([, paths]) => paths.length > 1).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** The declaration that a name means inside a file: its own, or one that it imports, through any number of re-exports. */
export function declared(tree: Tree, source: Source, name: string): Declared | undefined {
  const { declarations, imports } = namesIn(source)
  const own = declarations.get(name)
  if (own !== undefined) return { source, declaration: own }
  const foreign = imports.get(name)
  return foreign && declaredIn(tree, source, foreign, new Set())
}

function declaredIn(tree: Tree, importer: Source, foreign: Foreign, seen: Set<Source>): Declared | undefined {
  const source = imported(tree, importer, foreign.from)
  if (source === undefined || seen.has(source)) return undefined
  seen.add(source)
  const { exports, stars } = namesIn(source)
  const target = exports.get(foreign.name)
  if (typeof target === 'string') return declared(tree, source, target)
  if (target !== undefined) return declaredIn(tree, source, target, seen)
  for (const from of stars) {
    const found = declaredIn(tree, source, { from, name: foreign.name }, seen)
    if (found !== undefined) return found
  }
  return undefined
}
