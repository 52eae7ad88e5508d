import { type Class, type ClassElement, type Node, type PropertyKey, Visitor, visitorKeys } from 'oxc-parser'
import { lineAt, type Source } from './sources.ts'

/** The classes of a file, and those of them that could be functions. */
export interface Classes {
  readonly all: number
  /** Classes without a base class whose fields never change once they are constructed, with their places. */
  readonly stateless: readonly string[]
}

/** Finds the classes without mutable state. A class with a base class is none: what it inherits is not looked at. */
export function classesIn(source: Source): Classes {
  const classes: Class[] = []
  const add = (node: Class): void => {
    classes.push(node)
  }
  new Visitor({ ClassDeclaration: add, ClassExpression: add }).visit(source.program)
  const stateless = classes.filter((node) => node.superClass === null && !hasState(node))
  return {
    all: classes.length,
    stateless: stateless.map((node) => `${node.id?.name ?? 'a class'} (${source.path}:${lineAt(source, node.start)})`),
  }
}

function hasState({ body }: Class): boolean {
  const changed = new Set<string>()
  for (const element of body.body) noteAssignments(element, changed)
  return body.body.some((element) => {
    if (element.type === 'AccessorProperty') return !element.static
    if (element.type !== 'PropertyDefinition' || element.static) return false
    const name = fieldName(element.key)
    const isOpen = element.key.type !== 'PrivateIdentifier' && element.accessibility !== 'private' && !element.readonly
    return isOpen || name === undefined || changed.has(name) || isCollection(element.value)
  })
}

/** A collection that the class creates itself is meant to be filled. */
function isCollection(value: Node | null): boolean {
  if (value === null) return false
  if (value.type === 'ArrayExpression') return value.elements.length === 0
  if (value.type === 'ObjectExpression') return value.properties.length === 0
  return (
    value.type === 'NewExpression' &&
    value.callee.type === 'Identifier' &&
    /^(Weak)?(Map|Set)$|^Array$/.test(value.callee.name)
  )
}

/** Notes the fields that are assigned after construction; a function inside the constructor is assumed to run later. */
function noteAssignments(element: ClassElement, changed: Set<string>): void {
  const isConstructor = element.type === 'MethodDefinition' && element.kind === 'constructor'
  if (isConstructor) walk(element.value, changed, true)
  else walk(element, changed, false)
}

function walk(node: Node, changed: Set<string>, constructing: boolean): void {
  if (!constructing) for (const target of targets(node)) noteTarget(target, changed)
  for (const child of children(node)) {
    const later = child.type === 'ArrowFunctionExpression' || child.type === 'FunctionExpression'
    walk(child, changed, constructing && !later)
  }
}

function targets(node: Node): readonly Node[] {
  if (node.type === 'AssignmentExpression' || node.type === 'ForOfStatement') return [node.left]
  if (node.type === 'UpdateExpression') return [node.argument]
  return node.type === 'UnaryExpression' && node.operator === 'delete' ? [node.argument] : []
}

/** `this.x`, also inside a pattern like `[this.x, this.y]`. */
function noteTarget(target: Node, changed: Set<string>): void {
  if (target.type === 'MemberExpression') {
    const name = target.object.type === 'ThisExpression' && !target.computed ? fieldName(target.property) : undefined
    if (name !== undefined) changed.add(name)
  } else {
    for (const child of children(target)) noteTarget(child, changed)
  }
}

function fieldName(key: PropertyKey): string | undefined {
  if (key.type === 'PrivateIdentifier') return `#${key.name}`
  return key.type === 'Identifier' ? key.name : undefined
}

function children(node: Node): readonly Node[] {
  const values: unknown[] = (visitorKeys[node.type] ?? []).flatMap((key) => Reflect.get(node, key))
  return values.filter(isNode)
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value
}
