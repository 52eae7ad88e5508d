import { posix } from 'node:path'
import { parseAst } from 'vitest/node'

// The layers, lowest first: each imports those before it. ARCHITECTURE.md shows the same picture.
const layers: readonly string[] = [
  'base',
  'web',
  'message',
  'contracts',
  'transaction',
  'consumer',
  'leased',
  'requests',
  'endpoints',
  'worker',
  'admin',
  'claims',
]
const driverFolders = ['stores', 'brokers', 'connections', 'http', 'telemetry']
/** What drivers build on, beside what they share with others of their kind. */
const driverLayers = ['base', 'web', 'message', 'contracts']
const kits: Record<string, readonly string[]> = {
  stores: ['stores/sql'],
  brokers: ['brokers/kit'],
  connections: ['stores/sql', 'connections/kit'],
  telemetry: ['telemetry/metrics'],
}
const applicationFolders = ['nestjs', 'lambda', 'testkit', 'conformance', 'cli', 'console']
/** What `nestjs` is written with: the public interface, what its testing module runs on, and the console with what mounts it. */
const nestjs = ['base', 'web', 'message', 'contracts', 'index', 'stores/memory', 'http/node', 'console']
/** What the console is written with: the public interface, what its tools return, and what a worker says of itself in its row. */
const consoleUnits = ['base', 'web', 'message', 'contracts', 'worker', 'admin', 'index', 'hapax']
// The API of OpenTelemetry is all that its own entry point is for, and has to be the same one that the application imports.
const staticPackages: Record<string, string[]> = {
  cli: ['commander'],
  // Decorators and modules are applied when the file is loaded; Nest is all that this entry point is for.
  nestjs: ['@nestjs/common', '@nestjs/core', 'rxjs'],
  'telemetry/opentelemetry': ['@opentelemetry/api'],
}

/** What browsers get. It shares with the server only the types of what they say to each other. */
const PAGE = 'console/page'
const AGREED = 'src/console/api.ts'
const pagePackages = ['preact', '@preact/signals', 'uplot']

interface Import {
  specifier: string
  line: number
  /** `type` vanishes when types are stripped; `lazy` is an import() expression. */
  kind: 'value' | 'type' | 'lazy'
}

/** Lists, in one sentence each, the imports of a source file that its place in the tree does not allow. */
export function violations(path: string, source: string): string[] {
  const unit = unitOf(path)
  if (unit === undefined) return [`${placeOf(path)} has no place in the layout: see ARCHITECTURE.md`]
  return importsOf(path, source).flatMap((found) => {
    const reason = objection(path, unit, found)
    return reason === undefined ? [] : [`${path}:${found.line} imports '${found.specifier}': ${reason}`]
  })
}

function objection(path: string, unit: string, { specifier, kind }: Import): string | undefined {
  if (specifier.startsWith('node:')) return undefined
  if (!specifier.startsWith('.')) return packageObjection(unit, specifier, kind)
  const target = posix.join(posix.dirname(path), specifier)
  if (!target.startsWith('src/')) return 'it leaves src/'
  const to = unitOf(target)
  if (to === unit) return undefined
  if (unit === PAGE) return target === AGREED && kind === 'type' ? undefined : `${PAGE} imports types of ${AGREED} only`
  if (to === PAGE) return `${PAGE} is for browsers`
  return to === undefined
    ? `${target} has no place in the layout`
    : (arrowObjection(unit, to) ?? doorObjection(to, target))
}

function packageObjection(unit: string, specifier: string, kind: Import['kind']): string | undefined {
  if (specifier === 'hapax' || specifier.startsWith('hapax/')) return 'the sources import each other by relative path'
  if (unit === PAGE) {
    return pagePackages.some((name) => specifier === name || specifier.startsWith(`${name}/`))
      ? undefined
      : `${PAGE} is built of ${pagePackages.join(', ')} and nothing else`
  }
  if (isLayer(unit) || unit === 'hapax' || unit === 'index') return `${unit} imports only node: and the layers below it`
  if (kind !== 'value' || staticPackages[unit]?.includes(specifier)) return undefined
  return "client libraries are the user's, so use import type, or import() where it is used"
}

function arrowObjection(from: string, to: string): string | undefined {
  if (from === 'nestjs') return nestjs.includes(to) ? undefined : `nestjs imports only ${listed(nestjs)}`
  if (from === 'console') return consoleUnits.includes(to) ? undefined : `console imports only ${listed(consoleUnits)}`
  if (from === 'lambda') return driverLayers.includes(to) ? undefined : `lambda imports only ${listed(driverLayers)}`
  if (applicationFolders.includes(from)) return undefined
  if (isLayer(from)) return below(from).includes(to) ? undefined : `${from} imports only ${listed(below(from))}`
  if (from === 'index' || from === 'hapax' || from === 'testing') {
    return isLayer(to) || to === 'hapax' ? undefined : `${from} imports only the layers and hapax.ts`
  }
  const [folder = ''] = from.split('/')
  const allowed = [...driverLayers, ...(kits[folder] ?? []).filter((kit) => kit !== from)]
  return allowed.includes(to) ? undefined : `${from} imports only ${listed(allowed)}`
}

/** Every unit is entered by its index.ts. */
function doorObjection(to: string, target: string): string | undefined {
  if (to === 'index' || to === 'hapax' || posix.basename(target) === 'index.ts' || to.startsWith('connections/'))
    return undefined
  return `${to} is entered by its index.ts`
}

function isLayer(unit: string): boolean {
  return layers.includes(unit)
}

function below(layer: string): string[] {
  return layers.slice(0, layers.indexOf(layer))
}

function listed(units: readonly string[]): string {
  return ['node:', ...units].join(', ')
}

/** The part of the tree that may import itself: `base`, `stores/postgres`, `testing`, `cli`, `hapax`, `index`. */
function unitOf(path: string): string | undefined {
  const [, folder = '', child = ''] = path.split('/')
  if (path === 'src/index.ts') return 'index'
  if (path === 'src/hapax.ts' || path === 'src/public.ts') return 'hapax'
  if (path.startsWith(`src/${PAGE}/`)) return PAGE
  if (driverFolders.includes(folder)) return `${folder}/${posix.parse(child).name}`
  if (isLayer(folder) || folder === 'testing' || applicationFolders.includes(folder)) return folder
  return undefined
}

function placeOf(path: string): string {
  const [, folder, child] = path.split('/')
  return child === undefined ? path : `src/${folder}/`
}

function importsOf(path: string, source: string): Import[] {
  const found: Import[] = []
  visit(parseAst(source, { lang: path.endsWith('x') ? 'tsx' : 'ts' }), (node) => {
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
