import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { serve as serveHono } from '@hono/node-server'
import express from 'express'
import express4 from 'express4'
import fastify from 'fastify'
import { type FetchHandler, type MountOptions, toExpress, toFastify, toNode } from 'hapax/http'
import { Hono } from 'hono'
import Koa from 'koa'
import { root } from './pages.ts'

/** A server that hands every request to one handler. */
interface Mounted {
  /** Without a slash at its end. */
  readonly url: string
  /** Ends it with all its connections. */
  close(): Promise<void>
  /** Ends it as applications do: it takes no more requests, and responds to those that it has. */
  drain(): Promise<void>
}

/** A framework, and how a handler is mounted on it. */
export interface MountPlace {
  readonly name: string
  serve(handler: FetchHandler, options?: MountOptions): Promise<Mounted>
}

/** Where handlers are mounted by `toNode`, `toExpress` and `toFastify`. */
export const adapted: readonly MountPlace[] = [
  { name: 'node:http', serve: (handler, options) => listening(toNode(handler, options)) },
  { name: 'Express', serve: (handler, options) => listening(express().use(toExpress(handler, options))) },
  { name: 'Express 4', serve: (handler, options) => listening(express4().use(toExpress(handler, options))) },
  { name: 'Fastify', serve: onFastify },
  { name: 'Koa', serve: (handler, options) => listening(koa(toNode(handler, options)).callback()) },
]

const hono: MountPlace = {
  name: 'Hono',
  serve: async (handler) => {
    const app = new Hono().all('*', (c) => handler(c.req.raw))
    const server = await new Promise<Server>((resolve) => {
      const created = serveHono({ fetch: app.fetch, hostname: '127.0.0.1', port: 0, createServer }, () =>
        resolve(created as Server),
      )
    })
    return mounted(server)
  },
}

/** Starts in some ten seconds: the compiler of Next. All servers of a process share it. */
export const nextjs: MountPlace = {
  name: 'Next.js',
  serve: async (handler) => {
    starting ??= startNext()
    const serve = await starting
    let draining = false
    const server = await listening((req, res) => {
      // Next keeps connections alive that its server no longer wants.
      if (draining) res.setHeader('connection', 'close')
      current.run(handler, () => serve(req, res))
    })
    const drain = (): Promise<void> => {
      draining = true
      return server.drain()
    }
    return { ...server, drain }
  },
}

/** Everywhere a handler can be mounted. */
export const mounts: readonly MountPlace[] = [...adapted, hono, nextjs]

/** The same handler in front of the requests of a server. */
export async function listening(listener: RequestListener): Promise<Mounted> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return mounted(server)
}

/** A server that listens already. */
export function mounted(server: Server): Mounted {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  const close = async (): Promise<void> => {
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
  const drain = () => new Promise<void>((resolve) => void server.close(() => resolve()))
  return { url: `http://127.0.0.1:${address.port}`, close, drain }
}

async function onFastify(handler: FetchHandler, options?: MountOptions): Promise<Mounted> {
  const app = fastify()
  app.all('/*', toFastify(handler, options))
  await app.listen({ host: '127.0.0.1', port: 0 })
  return { ...mounted(app.server), drain: () => app.close() }
}

/** Koa with one function that responds by itself. */
function koa(serve: ReturnType<typeof toNode>): Koa {
  const app = new Koa()
  app.silent = true
  app.use((ctx) => {
    ctx.respond = false
    serve(ctx.req, ctx.res)
  })
  return app
}

/** The handler of the request at hand, for the route below, which Next compiles. */
const current = new AsyncLocalStorage<FetchHandler>()
Reflect.set(globalThis, Symbol.for('hapax.test.handler'), (request: Request) => current.getStore()?.(request))

const ROUTE = `
const serve = (request) => globalThis[Symbol.for('hapax.test.handler')](request)
export { serve as GET, serve as HEAD, serve as POST, serve as PUT, serve as PATCH, serve as DELETE }
`

let starting: Promise<RequestListener> | undefined

// Its types would change those of Node.js in every file of the project.
const require = createRequire(import.meta.url)

interface NextServer {
  prepare(): Promise<void>
  getRequestHandler(): RequestListener
}

/** The development server of Next with one route handler, in this process. */
async function startNext(): Promise<RequestListener> {
  const dir = mkdtempSync(join(tmpdir(), 'hapax-next-'))
  process.once('exit', () => rmSync(dir, { recursive: true, force: true }))
  mkdirSync(join(dir, 'app', '[[...path]]'), { recursive: true })
  writeFileSync(join(dir, 'app', '[[...path]]', 'route.js'), ROUTE)
  // The compiler reads nothing outside of its root, and the packages are outside of this directory.
  writeFileSync(join(dir, 'next.config.mjs'), `export default { turbopack: { root: '/' } }`)
  writeFileSync(join(dir, 'package.json'), '{ "private": true }')
  symlinkSync(join(root, 'node_modules'), join(dir, 'node_modules'))
  process.env['NEXT_TELEMETRY_DISABLED'] = '1'
  const next: (options: object) => NextServer = require('next')
  const app = next({ dev: true, turbopack: true, dir, quiet: true })
  await app.prepare()
  return app.getRequestHandler()
}
