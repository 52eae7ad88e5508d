import { posix } from 'node:path'
import { parseAst } from 'vitest/node'

// The arrows: core <- drivers, testing <- applications. Siblings never import each other.
const driverFolders = ['stores', 'brokers', 'connections', 'http', 'telemetry']
const applicationFolders = ['nestjs', 'cli', 'console']
const staticPackages: Record<string, string[]> = { cli: ['commander'] }

interface Import {
  specifier: string
  line: number
  /** `type` vanishes when types are stripped; `lazy` is an import() expression. */
  kind: 'value' | 'type' | 'lazy'
}

/** Says, one sentence each, which imports of a source file its place in the tree does not allow. */
export function violations(path: string, source: string): string[] {
  const unit = unitOf(path)
  if (unit === undefined)
    return [`${placeOf(path)} has no place in the layout: move it to core/ or to the driver that needs it`]
  return importsOf(source).flatMap((found) => {
    const reason = objection(path, unit, found)
    return reason === undefined ? [] : [`${path}:${found.line} imports '${found.specifier}': ${reason}`]
  })
}

function objection(path: string, unit: string, { specifier, kind }: Import): string | undefined {
  if (specifier.startsWith('node:')) return undefined
  if (!specifier.startsWith('.')) return packageObjection(unit, specifier, kind)
  const target = posix.join(posix.dirname(path), specifier)
  if (!target.startsWith('src/')) return 'it leaves src/'
  return arrowObjection(unit, unitOf(target) ?? target)
}

function packageObjection(unit: string, specifier: string, kind: Import['kind']): string | undefined {
  if (specifier === 'hapax' || specifier.startsWith('hapax/')) return 'the sources import each other by relative path'
  if (unit === 'core' || unit === 'index') return arrowObjection(unit, specifier)
  if (kind !== 'value' || staticPackages[unit]?.includes(specifier)) return undefined
  return "client libraries are the user's, so use import type, or import() where it is used"
}

function arrowObjection(from: string, to: string): string | undefined {
  if (to === 'core' || to === from || applicationFolders.includes(from)) return undefined
  if (from === 'core') return 'core imports only node: and core'
  if (from === 'index') return 'src/index.ts imports only core'
  return `${from} never imports a sibling or what is built on it, only core`
}

/** The part of the tree that may import itself: `core`, `stores/postgres`, `testing`, `cli`, `index`. */
function unitOf(path: string): string | undefined {
  const [, folder = '', child = ''] = path.split('/')
  if (path === 'src/index.ts') return 'index'
  if (driverFolders.includes(folder)) return `${folder}/${posix.parse(child).name}`
  if (['core', 'testing', ...applicationFolders].includes(folder)) return folder
  return undefined
}

function placeOf(path: string): string {
  const [, folder, child] = path.split('/')
  return child === undefined ? path : `src/${folder}/`
}

function importsOf(source: string): Import[] {
  const found: Import[] = []
  visit(parseAst(source, { lang: 'ts' }), (node) => {
    const specifier = node.source?.value
    const kind = kindOf(node)
    if (typeof specifier !== 'string' || kind === undefined) return
    found.push({ specifier, kind, line: source.slice(0, node.start).split('\n').length })
  })
  return found
}

interface SyntaxNode {
  type: string
  start: number
  source?: { value?: unknown } | null
  importKind?: string
  exportKind?: string
}

function kindOf(node: SyntaxNode): Import['kind'] | undefined {
  switch (node.type) {
    case 'ImportDeclaration':
    case 'ExportAllDeclaration':
    case 'ExportNamedDeclaration':
      return (node.importKind ?? node.exportKind) === 'type' ? 'type' : 'value'
    case 'ImportExpression':
      return 'lazy'
    case 'TSImportType':
      return 'type'
    default:
      return undefined
  }
}

function visit(value: unknown, see: (node: SyntaxNode) => void): void {
  if (typeof value !== 'object' || value === null) return
  if ('type' in value && 'start' in value) see(value as SyntaxNode)
  for (const child of Object.values(value)) visit(child, see)
}
