// Lets Node.js load the sources of an application as its compiler does: imports may omit the file extension, and TypeScript files with `import`
// are ES modules, whatever the type in package.json.

import { existsSync, readFileSync } from 'node:fs'
import module, { type LoadHookSync, type ResolveHookSync } from 'node:module'
import { fileURLToPath } from 'node:url'
import { compileFunction } from 'node:vm'
import { fieldOf } from '../base/index.ts'

let registered = false

/** Applies to all that is imported from now on, outside of node_modules. Bun and Deno find such files by themselves. */
export function loadSources(): void {
  if (registered || typeof module.registerHooks !== 'function') return
  registered = true
  module.registerHooks({ resolve, load })
}

const resolve: ResolveHookSync = (specifier, context, next) => {
  try {
    return next(specifier, context)
  } catch (error) {
    const found = isSource(context.parentURL) && isMissing(error) ? sourceOf(specifier, context.parentURL) : undefined
    if (found === undefined) throw error
    return next(found, context)
  }
}

const load: LoadHookSync = (url, context, next) => {
  const isModule = context.format === 'commonjs-typescript' && isSource(url) && isEsModule(url)
  return next(url, isModule ? { ...context, format: 'module-typescript' } : context)
}

function isSource(url: string | undefined): url is string {
  return url?.startsWith('file:') === true && !url.includes('/node_modules/')
}

function isMissing(error: unknown): boolean {
  return /^ERR_(MODULE_NOT_FOUND|UNSUPPORTED_DIR_IMPORT)$|^MODULE_NOT_FOUND$/.test(String(fieldOf(error, 'code')))
}

const ENDINGS = ['.ts', '.mts', '.js', '.mjs', '/index.ts', '/index.js']

/** The URL of a source file that is imported without its ending, or by the name of what it compiles to. */
function sourceOf(specifier: string, parent: string): string | undefined {
  if (!/^\.{0,2}\/|^\.{1,2}$|^file:/.test(specifier)) return undefined
  const { href } = new URL(specifier, parent)
  const compiled = href.replace(/\.(m?)js$/, '.$1ts')
  return [compiled, ...ENDINGS.map((ending) => href.replace(/\/$/, '') + ending)].find(
    (each) => each !== href && existsSync(fileURLToPath(each)),
  )
}

/** Whether Node.js cannot load a file as CommonJS, once its types and type imports are gone. */
function isEsModule(url: string): boolean {
  const code = withoutTypes(readFileSync(fileURLToPath(url), 'utf8'))
  return code !== undefined && !isCommonJs(code)
}

/** Undefined: Node.js cannot strip the types, and reports why when it loads the file. */
function withoutTypes(source: string): string | undefined {
  try {
    return module.stripTypeScriptTypes(source)
  } catch {
    return undefined
  }
}

function isCommonJs(code: string): boolean {
  try {
    compileFunction(code, ['exports', 'require', 'module', '__filename', '__dirname'])
    return true
  } catch {
    return false
  }
}
