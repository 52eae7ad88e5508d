import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { asError, fieldOf, messageOf } from '../base/index.ts'
import { type Compiler, readCompiler } from './compiler.ts'
import { CliError } from './io/errors.ts'

/** What source files of a project are: TypeScript, or JavaScript with `import` or with `require`. */
export type Language = 'ts' | 'esm' | 'cjs'

/** The languages, for options. */
export const LANGUAGES: readonly Language[] = ['ts', 'esm', 'cjs']

/** What a project says of itself. */
export interface Project {
  readonly directory: string
  readonly name: string | undefined
  /** The packages that it names, in any of its lists, with their ranges. */
  readonly packages: ReadonlyMap<string, string>
  readonly language: Language
  /** What its `.js` and `.ts` files are, by the type in package.json; without one, by what the compiler makes of them. */
  readonly modules: 'esm' | 'cjs'
  /** What tsconfig.json says; undefined without one, where Node.js runs the sources. */
  readonly compiler: Compiler | undefined
  /** Whether it is the root of a monorepo. */
  readonly isWorkspace: boolean
}

const LISTS = ['dependencies', 'devDependencies', 'peerDependencies', 'optionalDependencies']

/** Reads the package.json of a directory; undefined if there is none. */
export function readProject(directory: string): Project | undefined {
  const file = join(directory, 'package.json')
  if (!existsSync(file)) return undefined
  const manifest = parsed(file)
  const packages = new Map(LISTS.flatMap((list) => entriesOf(fieldOf(manifest, list))))
  const compiler = existsSync(join(directory, 'tsconfig.json'))
    ? readCompiler(directory, installedVersion(directory, 'typescript') ?? packages.get('typescript'))
    : undefined
  const modules = modulesOf(fieldOf(manifest, 'type'), compiler)
  const name = fieldOf(manifest, 'name')
  return {
    directory,
    name: typeof name === 'string' ? name : undefined,
    packages,
    language: compiler !== undefined || packages.has('typescript') ? 'ts' : modules === 'esm' ? 'esm' : 'cjs',
    modules,
    compiler,
    isWorkspace: fieldOf(manifest, 'workspaces') !== undefined || existsSync(join(directory, 'pnpm-workspace.yaml')),
  }
}

/** The version of a package that is installed here or further up; undefined if it is not. */
export function installedVersion(directory: string, name: string): string | undefined {
  for (let place = directory; ; place = dirname(place)) {
    const file = join(place, 'node_modules', name, 'package.json')
    if (existsSync(file)) {
      const version = fieldOf(parsed(file), 'version')
      return typeof version === 'string' ? version : undefined
    }
    if (dirname(place) === place) return undefined
  }
}

/** Without a type, Node.js looks into a file; settings of the compiler for bundlers make it an ES module, most others CommonJS. */
function modulesOf(type: unknown, compiler: Compiler | undefined): Project['modules'] {
  const isEsm = type === undefined ? /^(?:es|preserve)/.test(compiler?.module ?? '') : type === 'module'
  return isEsm ? 'esm' : 'cjs'
}

function parsed(file: string): unknown {
  try {
    // Some editors begin a file with a byte order mark, which npm takes as well.
    return JSON.parse(readFileSync(file, 'utf8').replace(/^\uFEFF/, ''))
  } catch (error) {
    throw new CliError('config', `${file} could not be read: ${messageOf(asError(error))}`)
  }
}

function entriesOf(value: unknown): [string, string][] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).map(([name, range]) => [name, String(range)])
}
