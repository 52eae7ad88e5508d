// What tsconfig.json makes of the files of a project, with what it extends and the defaults of the installed TypeScript.

import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { fieldOf } from '../base/index.ts'

/** The settings that decide what init writes; in lower case. */
export interface Compiler {
  readonly major: number
  readonly minor: number
  readonly module: string
  readonly moduleResolution: string
  /** Whether a CommonJS file must be written with `require`. */
  readonly verbatim: boolean
  /** Whether imports may name a file by `.ts`. */
  readonly tsExtensions: boolean
  /** Whether the types of Node.js are there without being named. */
  readonly nodeTypes: boolean
  /** Whether a JavaScript file beside tsconfig.json would be compiled, which moves the output of all others. */
  readonly compilesRoot: boolean
}

/** Reads the settings of a project; `version` is the one of TypeScript, installed or asked for. */
export function readCompiler(directory: string, version: string | undefined): Compiler {
  const config = read(join(directory, 'tsconfig.json'), 0)
  const [major = NEWEST, minor = 0] = numbers(version)
  const module = word(config, 'module') ?? defaultModule(major, word(config, 'target'))
  const types = config['types']
  return {
    major,
    minor,
    module,
    moduleResolution: word(config, 'moduleResolution') ?? defaultResolution(major, module),
    verbatim: config['verbatimModuleSyntax'] === true,
    tsExtensions: config['allowImportingTsExtensions'] === true || config['rewriteRelativeImportExtensions'] === true,
    nodeTypes: Array.isArray(types) ? types.includes('node') : major < 6,
    compilesRoot:
      config['allowJs'] === true &&
      config['noEmit'] !== true &&
      ['include', 'files', 'rootDir'].every((name) => config[name] === undefined),
  }
}

/** For projects that do not say which TypeScript they use. */
const NEWEST = 7

/** The major and the minor version, as far as a version or a range names them. */
function numbers(version = ''): readonly (number | undefined)[] {
  const parts = /(\d+)(?:\.(\d+))?/.exec(version)?.slice(1) ?? []
  return parts.map((each: string | undefined) => (each === undefined ? undefined : Number(each)))
}

/** All settings of a file, and beside them its lists of files: those of the file itself win. */
type Settings = Readonly<Record<string, unknown>>

function read(file: string, depth: number): Settings {
  if (!existsSync(file) || depth > 10) return {}
  const config = parsed(readFileSync(file, 'utf8'))
  const bases = [fieldOf(config, 'extends') ?? []].flat().flatMap((name) => baseFile(String(name), file) ?? [])
  const inherited = bases.map((base) => read(base, depth + 1))
  const lists = ['include', 'files'].flatMap((name) => {
    const list = fieldOf(config, name)
    return list === undefined ? [] : [[name, list] as const]
  })
  return Object.assign({}, ...inherited, fieldOf(config, 'compilerOptions'), Object.fromEntries(lists))
}

/** A file, with or without its ending, or one of a package. */
function baseFile(name: string, from: string): string | undefined {
  const names = [name, `${name}.json`, `${name}/tsconfig.json`]
  if (/^\.{0,2}\//.test(name)) {
    return names.map((each) => resolve(dirname(from), each)).find((each) => each.endsWith('.json') && existsSync(each))
  }
  const places = createRequire(from).resolve.paths(name) ?? []
  return places
    .flatMap((place) => names.map((each) => join(place, each)))
    .find((each) => each.endsWith('.json') && existsSync(each))
}

/** JSON with comments and trailing commas; a file that cannot be read says nothing. */
function parsed(text: string): unknown {
  const plain = text
    .replace(/^\uFEFF/, '')
    .replaceAll(/("(?:\\.|[^"\\])*")|\/\/[^\n]*|\/\*[\s\S]*?\*\//g, (_, string) => string ?? '')
    .replaceAll(/("(?:\\.|[^"\\])*")|,(?=\s*[}\]])/g, (_, string) => string ?? '')
  try {
    return JSON.parse(plain)
  } catch {
    return undefined
  }
}

function word(config: Settings, name: string): string | undefined {
  const value = config[name]
  return typeof value === 'string' ? value.toLowerCase() : undefined
}

function defaultModule(major: number, target: string | undefined): string {
  if (major >= 6) return 'esnext'
  return target === undefined || target === 'es3' || target === 'es5' ? 'commonjs' : 'es2015'
}

function defaultResolution(major: number, module: string): string {
  if (/^node/.test(module)) return module
  if (major >= 6 || module === 'preserve') return 'bundler'
  return module === 'commonjs' ? 'node10' : 'classic'
}
