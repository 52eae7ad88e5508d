import type { Declaration, Expression, PropertyKey, TSSignature, TSType, TSTypeName } from 'oxc-parser'
import { type Declared, declared, exportedDeclarations } from './names.ts'
import type { Source, Tree } from './sources.ts'

const CONTRACTS = ['Store', 'Dialect', 'Connection', 'Destination', 'Subscription', 'ClaimStore']

/** An interface and how many methods it has, with those that it inherits. */
interface Part {
  readonly name: string
  readonly methods: number
}

/** A contract between hapax and its drivers. */
interface Contract {
  readonly name: string
  readonly path: string
  /** Its own methods and those of its parts. */
  readonly methods: number
  /** The contract itself and the interfaces of its properties, the largest first. */
  readonly parts: readonly Part[]
}

/** The contracts that were found. */
export interface Contracts {
  readonly found: readonly Contract[]
  /** Contracts that no file exports: renamed, and no longer measured. */
  readonly missing: readonly string[]
  /** Every exported interface with methods in the files of the contracts, the largest first. */
  readonly interfaces: readonly Part[]
}

/** Finds the contracts by their names, wherever they are declared, and counts their methods. */
export function contractsOf(tree: Tree, sources: readonly Source[]): Contracts {
  const look: Look = { tree, visited: new Set() }
  const found = CONTRACTS.flatMap((name) =>
    exported(sources, name)
      .map((at) => contractOf(look, name, at))
      .filter(({ methods }) => methods > 0),
  )
  const missing = CONTRACTS.filter((contract) => !found.some(({ name }) => name === contract))
  return { found, missing, interfaces: interfacesOf(look) }
}

/** Where declarations are looked up, and the files that they were found in. */
interface Look {
  readonly tree: Tree
  readonly visited: Set<Source>
}

/** A member that is not a method: its type, and the file that declares it. */
interface Property {
  readonly type: TSType
  readonly source: Source
}

type Members = ReadonlyMap<string, 'method' | Property>

const NONE: Members = new Map()

function exported(sources: readonly Source[], name: string): readonly Declared[] {
  return sources.flatMap((source) => {
    const declaration = exportedDeclarations(source).get(name)
    return declaration === undefined ? [] : [{ source, declaration }]
  })
}

function contractOf(look: Look, name: string, at: Declared): Contract {
  const parts = new Map<string, number>()
  addPart(look, name, membersOf(look, at, new Set()), parts)
  return {
    name,
    path: at.source.path,
    methods: [...parts.values()].reduce((sum, methods) => sum + methods, 0),
    parts: largestFirst(
      [...parts].map(([part, count]) => ({ name: part, methods: count })).filter((part) => part.methods > 0),
    ),
  }
}

/** Adds an interface and what its properties lead to, each once; also those without methods, which may lead to themselves. */
function addPart(look: Look, name: string, members: Members, parts: Map<string, number>): void {
  if (parts.has(name)) return
  parts.set(name, countMethods(members))
  for (const [key, member] of members) {
    if (member === 'method') continue
    const partName = declaredName(look, member) ?? `${name}.${key}`
    addPart(look, partName, membersOfType(look, member, new Set()), parts)
  }
}

/** The name of the interface that a property has as its type; undefined for a type that is written where it is used. */
function declaredName({ tree }: Look, { type, source }: Property): string | undefined {
  const name = type.type === 'TSTypeReference' ? referenceName(type.typeName) : undefined
  const at = name === undefined ? undefined : declared(tree, source, name)
  return at && 'id' in at.declaration && at.declaration.id?.type === 'Identifier' ? at.declaration.id.name : undefined
}

function interfacesOf({ tree, visited }: Look): readonly Part[] {
  const all = [...visited].flatMap((source) =>
    [...exportedDeclarations(source)]
      .filter(([, { type }]) => type === 'TSInterfaceDeclaration')
      .map(([name, declaration]) => {
        const members = membersOf({ tree, visited: new Set() }, { source, declaration }, new Set())
        return { name, methods: countMethods(members) }
      }),
  )
  return largestFirst(all.filter(({ methods }) => methods > 0))
}

function countMethods(members: Members): number {
  return [...members.values()].filter((member) => member === 'method').length
}

function largestFirst(parts: readonly Part[]): readonly Part[] {
  return parts.toSorted((a, b) => b.methods - a.methods || (a.name < b.name ? -1 : 1))
}

/** The members of a declared type, with those that it inherits. */
function membersOf(look: Look, { source, declaration }: Declared, seen: ReadonlySet<Declaration>): Members {
  if (seen.has(declaration)) return NONE
  const nowSeen = new Set([...seen, declaration])
  if (declaration.type === 'TSTypeAliasDeclaration') {
    look.visited.add(source)
    return membersOfType(look, { source, type: declaration.typeAnnotation }, nowSeen)
  }
  if (declaration.type !== 'TSInterfaceDeclaration') return NONE
  look.visited.add(source)
  const inherited = declaration.extends.map(({ expression, typeArguments }) =>
    membersOfReference(look, source, referenceName(expression), typeArguments?.params ?? [], nowSeen),
  )
  return merged([...inherited, membersOfSignatures(source, declaration.body.body)])
}

function membersOfType(look: Look, { type, source }: Property, seen: ReadonlySet<Declaration>): Members {
  switch (type.type) {
    case 'TSTypeLiteral':
      return membersOfSignatures(source, type.members)
    case 'TSIntersectionType':
    case 'TSUnionType':
      return merged(type.types.map((each) => membersOfType(look, { type: each, source }, seen)))
    case 'TSTypeReference': {
      const args = type.typeArguments?.params ?? []
      return membersOfReference(look, source, referenceName(type.typeName), args, seen)
    }
    default:
      return NONE
  }
}

function membersOfReference(
  look: Look,
  source: Source,
  name: string | undefined,
  [first, second]: readonly TSType[],
  seen: ReadonlySet<Declaration>,
): Members {
  if (name === undefined) return NONE
  const at = declared(look.tree, source, name)
  if (at !== undefined) return membersOf(look, at, seen)
  if (first === undefined || !/^(Pick|Omit|Readonly|Partial|Required)$/.test(name)) return NONE
  const members = membersOfType(look, { type: first, source }, seen)
  if (second === undefined) return members
  const keys = literals(second)
  return new Map([...members].filter(([key]) => keys.has(key) === (name === 'Pick')))
}

function membersOfSignatures(source: Source, signatures: readonly TSSignature[]): Members {
  const members = new Map<string, 'method' | Property>()
  for (const signature of signatures) {
    if (signature.type === 'TSMethodSignature') members.set(keyName(signature.key), 'method')
    if (signature.type !== 'TSPropertySignature' || signature.typeAnnotation === null) continue
    const type = signature.typeAnnotation.typeAnnotation
    members.set(keyName(signature.key), type.type === 'TSFunctionType' ? 'method' : { type, source })
  }
  return members
}

function merged(all: readonly Members[]): Members {
  return new Map(all.flatMap((members) => [...members]))
}

/** The texts of a union of string literals. */
function literals(type: TSType): ReadonlySet<string> {
  const types = type.type === 'TSUnionType' ? type.types : [type]
  return new Set(
    types.flatMap((each) =>
      each.type === 'TSLiteralType' && 'value' in each.literal ? [`${each.literal.value}`] : [],
    ),
  )
}

function keyName(key: PropertyKey): string {
  if (key.type === 'Identifier') return key.name
  return key.type === 'Literal' ? `${key.value}` : `at ${key.start}`
}

function referenceName(node: Expression | TSTypeName): string | undefined {
  return node.type === 'Identifier' ? node.name : undefined
}
