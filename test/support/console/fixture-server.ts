import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { root } from '../pages.ts'
import { answers, type Texts } from './fixtures.ts'

const CSP = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
  'report-uri /csp-report',
].join('; ')

const TYPES: Readonly<Record<string, string>> = {
  js: 'text/javascript',
  css: 'text/css',
  svg: 'image/svg+xml',
  html: 'text/html; charset=utf-8',
}

/** A server that answers with fixtures, under the strictest policy, and keeps what browsers report. */
export interface FixtureServer {
  readonly url: string
  readonly reports: string[]
  readonly server: Server
}

/** Serves the built page with answers whose texts the test chooses. */
export async function fixtureServer(text: Texts, rows = 8): Promise<FixtureServer> {
  // Made anew for each question, so that each has texts of its own.
  const known = (): ReturnType<typeof answers> => answers(text, rows)
  const reports: string[] = []
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? '/', 'http://localhost').pathname.slice(1)
    if (path === 'csp-report') {
      request.setEncoding('utf8').on('data', (chunk) => reports.push(chunk))
      response.writeHead(204).end()
      return
    }
    const api = path.startsWith('api/') ? path.slice(4) : undefined
    const answer = api === undefined ? undefined : [...known()].find(([pattern]) => pattern.test(api))?.[1]
    if (api !== undefined) {
      response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' })
      response.end(JSON.stringify(answer?.(api) ?? { title: 'Not found', status: 404, code: 'not-found', detail: api }))
      return
    }
    const file = /^[\w-]+\.(js|css|svg)$/.test(path) ? path : 'index.html'
    const body = readFileSync(join(root, 'src', 'console', 'static', file))
    response.writeHead(200, {
      'content-type': TYPES[file.split('.').at(-1) ?? ''] ?? '',
      'content-security-policy': CSP,
    })
    response.end(file === 'index.html' ? body.toString().replaceAll('{root}', '/') : body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, reports, server }
}
