// The files of the page, as the build has made them. The first page is a template: `{root}` in it becomes the relative address of the
// root of the console, so that it works under any path.

import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
}

interface StaticFile {
  readonly bytes: Buffer<ArrayBuffer>
  readonly type: string
  readonly etag: string
}

const NOT_BUILT = `<!doctype html>
<html lang="en" data-root="{root}"><meta charset="utf-8"><title>hapax</title>
<p>The page of the console has not been built. In a clone: <code>npm run build:console</code>.</p></html>
`

/** Bundlers take `new URL('./static/', import.meta.url)` for a file to bundle, and a folder is none. */
const FOLDER = join(dirname(fileURLToPath(import.meta.url)), 'static')

/** The files of the page. They are read once. */
export class StaticFiles {
  readonly #files: ReadonlyMap<string, StaticFile>
  readonly #index: string

  constructor(folder: string = FOLDER) {
    const names = existsSync(folder) ? readdirSync(folder) : []
    const served = names.filter((name) => name !== 'index.html' && Object.hasOwn(TYPES, extname(name)))
    this.#files = new Map(served.map((name) => [name, fileOf(name, readFileSync(join(folder, name)))]))
    this.#index = names.includes('index.html') ? readFileSync(join(folder, 'index.html'), 'utf8') : NOT_BUILT
  }

  has(name: string): boolean {
    return this.#files.has(name)
  }

  /** A file; a client that has this version is told so. */
  file(name: string, request: Request): Response | undefined {
    const found = this.#files.get(name)
    return found && answer(found, request)
  }

  /** The page, for an address from which the root is reached like this. */
  page(root: string, request: Request): Response {
    return answer(fileOf('index.html', Buffer.from(this.#index.replaceAll('{root}', () => escaped(root)))), request)
  }
}

/** In an attribute. Addresses have no quotation marks and no angle brackets. */
function escaped(address: string): string {
  return address.replaceAll('&', '&amp;')
}

function fileOf(name: string, bytes: Buffer<ArrayBuffer>): StaticFile {
  const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`
  return { bytes, type: TYPES[extname(name)] ?? 'application/octet-stream', etag }
}

function answer({ bytes, type, etag }: StaticFile, request: Request): Response {
  const headers = { etag, 'cache-control': 'private, no-cache', vary: 'Cookie, Authorization' }
  const known = request.headers
    .get('if-none-match')
    ?.split(',')
    .map((each) => each.trim().replace(/^W\//, ''))
  if (known?.includes(etag)) return new Response(null, { status: 304, headers })
  const body = request.method === 'HEAD' ? null : bytes
  return new Response(body, {
    headers: { ...headers, 'content-type': type, 'content-length': String(bytes.byteLength) },
  })
}
