import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fieldOf } from '../base/index.ts'
import { toNode } from '../http/node/index.ts'
import { CliError } from './io/errors.ts'

/** Where to listen. */
export interface Address {
  readonly host: string
  readonly port: number
}

/** Reads `9464`, `:9464`, `127.0.0.1:9464` or `[::1]:9464`; undefined if it is none of these. Without a host, it is this machine only. */
export function addressOf(text: string): Address | undefined {
  const [, bracketed, plain, digits] = /^(?:(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]*)):)?(\d{1,5})$/i.exec(text) ?? []
  const port = Number(digits)
  if (digits === undefined || port > 65_535) return undefined
  return { host: bracketed || plain || '127.0.0.1', port }
}

/** An address as it would be typed. */
export function shown({ host, port }: Address): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** Listens, and serves `/metrics` by this handler. */
export async function listening(
  address: Address,
  handler: (request: Request) => Response,
): Promise<{ readonly address: Address; close(): void }> {
  const server = createServer(toNode((request) => routed(request, handler)))
  await bound(server, address)
  // Asking for port 0 gets a free one.
  const { port } = infoOf(server)
  const close = (): void => {
    server.close()
    server.closeAllConnections()
  }
  return { address: { host: address.host, port }, close }
}

/** Resolves when the server listens. */
export function bound(server: Server, address: Address): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => reject(refusal(address, error)))
    server.listen(address, resolve)
  })
}

/** The port that it got, and more. */
export function infoOf(server: Server): AddressInfo {
  const info = server.address()
  if (info === null || typeof info === 'string') throw new Error('the server has no port')
  return info
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another process uses this port',
  EADDRNOTAVAIL: 'this machine has no such address',
  EACCES: 'this user may not use this port',
  ENOTFOUND: 'there is no host of this name',
  EAI_AGAIN: 'there is no host of this name',
}

function refusal(address: Address, error: Error): CliError {
  const reason = REASONS[String(fieldOf(error, 'code'))] ?? error.message
  return new CliError('listen', `cannot listen on ${shown(address)}: ${reason}`)
}

const INDEX = 'hapax exports metrics at /metrics\n'

function routed(request: Request, handler: (request: Request) => Response): Response {
  const { pathname } = new URL(request.url)
  const { method } = request
  const isRead = method === 'GET' || method === 'HEAD'
  if (pathname === '/metrics' && isRead) return handler(request)
  if (pathname !== '/metrics' && pathname !== '/' && pathname !== '/healthz')
    return text('There is only /metrics.\n', 404)
  if (!isRead) return new Response('Only GET and HEAD are allowed.\n', { status: 405, headers: { allow: 'GET, HEAD' } })
  return text(pathname === '/' ? INDEX : 'ok\n')
}

function text(body: string, status = 200): Response {
  return new Response(body, { status, headers: { 'content-type': 'text/plain; charset=utf-8' } })
}
