import { createServer, request as httpRequest, type RequestListener } from 'node:http'
import { serve as serveHono } from '@hono/node-server'
import { Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import express from 'express'
import express4 from 'express4'
import fastify from 'fastify'
import { createHapax, type Hapax, silentLogger } from 'hapax'
import { createConsole } from 'hapax/console'
import { type FetchHandler, toExpress, toFastify, toNode } from 'hapax/http'
import { type MemoryTx, memory } from 'hapax/memory'
import { HapaxConsoleModule, HapaxModule } from 'hapax/nestjs'
import { Hono } from 'hono'
import { describe, expect, it, onTestFinished } from 'vitest'
import { listening, mounted } from '../support/mounts.ts'

type Authorize = Parameters<typeof createConsole>[1]['authorize']

const PATHS = ['/', '/a', '/a/b'] as const
const authorize: Authorize = () => ({ actor: 'ada', role: 'operator' })

const madeHapax = (): Hapax<MemoryTx> => createHapax({ store: memory(), source: '/shop', logger: silentLogger })

/** Serves until the end of the test. */
async function served(listener: RequestListener): Promise<string> {
  const { url, close } = await listening(listener)
  onTestFinished(close)
  return url
}

/** Where a handler is mounted under a path, as the documentation of each framework has it. */
const PLACES: Readonly<Record<string, (handler: FetchHandler, path: string) => Promise<string>>> = {
  'node:http': (handler) => served(toNode(handler)),
  'Express 5': (handler, path) => served(express().use(path, toExpress(handler), express.json())),
  'Express 5, inside a router': (handler, path) =>
    served(express().use(path, express.Router().use('/', toExpress(handler)))),
  'Express 4': (handler, path) => served(express4().use(path, toExpress(handler), express4.json())),
  'Express 4, inside a router': (handler, path) =>
    served(express4().use(path, express4.Router().use('/', toExpress(handler)))),
  'Fastify 5': async (handler, path) => {
    const app = fastify()
    const base = path === '/' ? '' : path
    if (base !== '') app.all(base, toFastify(handler))
    app.all(`${base}/*`, toFastify(handler))
    await app.listen({ host: '127.0.0.1', port: 0 })
    const { url, close } = mounted(app.server)
    onTestFinished(close)
    return url
  },
  'Hono 4': (handler, path) =>
    onHono(new Hono().all(path, through(handler)).all(`${path}/*`.replace('//', '/'), through(handler))),
  'Hono 4, by mount, which strips the path': (handler, path) => onHono(new Hono().mount(path, handler)),
}

const through =
  (handler: FetchHandler) =>
  (c: { req: { raw: Request } }): Response | Promise<Response> =>
    handler(c.req.raw)

async function onHono(app: Hono): Promise<string> {
  const server = await new Promise<ReturnType<typeof createServer>>((resolve) => {
    const created = serveHono({ fetch: app.fetch, hostname: '127.0.0.1', port: 0, createServer }, () =>
      resolve(created as ReturnType<typeof createServer>),
    )
  })
  const { url, close } = mounted(server)
  onTestFinished(close)
  return url
}

/** A proxy in front of a server: what it is asked for under `prefix` becomes `target`. */
function proxied(upstream: string, prefix: string, target: string): Promise<string> {
  const { port } = new URL(upstream)
  return served((req, res) => {
    const path = (req.url ?? '/').replace(prefix, target) || '/'
    const headers = { ...req.headers, host: `127.0.0.1:${port}` }
    const onward = httpRequest({ port, host: '127.0.0.1', path, method: req.method, headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(res)
    })
    req.pipe(onward)
  })
}

/**
 * Uses a console as a browser does that only knows this address: by relative addresses from each page. `bare`: the address of the root
 * without the slash at its end is one of them.
 */
async function expectUsable(root: string, { bare = false }: { readonly bare?: boolean } = {}): Promise<void> {
  const pages = ['', 'failed', 'failed/1-1', 'messages?place=inbox'].map((page) => `${root}${page}`)
  const bares = bare ? [root.slice(0, -1), `${root.slice(0, -1)}?a=b`] : []
  for (const address of [...pages, ...bares]) {
    const response = await fetch(address, { redirect: 'error' })
    expect([address, response.status, response.headers.get('content-type')]).toEqual([
      address,
      200,
      'text/html; charset=utf-8',
    ])
    const html = await response.text()
    const base = new URL(
      /name="hapax-base" content="([^"]*)"|data-root="([^"]*)"/.exec(html)?.slice(1).find(Boolean) ?? 'none',
      response.url,
    )
    expect([address, base.href]).toEqual([address, root])
    for (const [, file = ''] of html.matchAll(/(?:src|href)="([^"]+)"/g)) {
      const found = await fetch(new URL(file, response.url))
      expect([file, found.status]).toEqual([file, 200])
      await found.arrayBuffer()
    }
  }
  const session = await fetch(`${root}api/session`)
  expect(await session.json()).toMatchObject({ actor: 'ada', role: 'operator' })
  const counted = await fetch(`${root}api/failed/count`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin', origin: new URL(root).origin },
    body: '{"where":{"scope":"billing"}}',
  })
  expect([counted.status, await counted.json()]).toEqual([200, { count: 0 }])
  expect((await fetch(`${root}api/nothing`)).status).toBe(404)
}

const slashed = (url: string, path: string): string => `${url}${path === '/' ? '' : path}/`

describe.for(Object.entries(PLACES))('%s', ([name, serve]) => {
  it.for(PATHS)('serves the console under %s', async (path) => {
    const hapax = madeHapax()
    onTestFinished(() => hapax.close())
    const { handler } = createConsole(hapax, { authorize })
    const url = await serve(handler, path)
    // Where the path is stripped, nobody can know that the slash at the end of the address is missing.
    await expectUsable(slashed(url, path), { bare: path !== '/' && !name.includes('strips') })
  })
})

it('names no other address in its page than the one that was asked for, whatever that is', async () => {
  const hapax = madeHapax()
  onTestFinished(() => hapax.close())
  const { handler } = createConsole(hapax, { authorize })
  for (const path of ['/a&lt;b', "/a$&b$'", '/%22onload=%22x', '/ops;jsessionid=1']) {
    const html = await (await handler(new Request(`http://a.example${path}`))).text()
    const [, content = ''] = /name="hapax-base" content="([^"]*)"/.exec(html) ?? []
    expect(new URL(content.replaceAll('&amp;', '&'), `http://a.example${path}`).pathname).toBe(`${path}/`)
    expect(content).not.toMatch(/&(?!amp;)/)
  }
})

it('serves the console below a path that begins like its calls, without being told', async () => {
  const hapax = madeHapax()
  onTestFinished(() => hapax.close())
  const { handler } = createConsole(hapax, { authorize })
  await expectUsable(`${await served(express().use('/api/ops', toExpress(handler)))}/api/ops/`)
})

describe.for([undefined, '/a/b'] as const)('behind a proxy, with the base path %s', (basePath) => {
  const behind = async (prefix: string, target: string, path: string): Promise<string> => {
    const hapax = madeHapax()
    onTestFinished(() => hapax.close())
    const { handler } = createConsole(hapax, { authorize, ...(basePath !== undefined && { basePath }) })
    const upstream = await served(express().use(path, toExpress(handler)))
    return `${await proxied(upstream, prefix, target)}${prefix}/`
  }

  it('that strips the prefix', async () => {
    await expectUsable(await behind('/ops/hapax', '', '/'))
  })

  it('that does not strip it', async () => {
    await expectUsable(await behind('/a/b', '/a/b', '/a/b'))
  })
})

it.for([undefined, '/ops'] as const)(
  'serves the console where a framework redirects to the address with a slash at its end, with the base path %s',
  async (basePath) => {
    const hapax = madeHapax()
    onTestFinished(() => hapax.close())
    const { handler } = createConsole(hapax, { authorize, ...(basePath !== undefined && { basePath }) })
    // As Next does with trailingSlash: not for what looks like a file.
    const slashing = express().use((req, res, next) => {
      const { pathname, search } = new URL(req.url, 'http://localhost')
      if (/\/$|\.\w+$/.test(pathname)) next()
      else res.redirect(308, `${pathname}/${search}`)
    })
    const root = `${await served(slashing.use(toNode(handler)))}/ops/`
    for (const page of ['', 'failed', 'failed/1-1', 'messages?place=inbox']) {
      const response = await fetch(`${root}${page}`)
      const [, base = 'none'] = /name="hapax-base" content="([^"]*)"/.exec(await response.text()) ?? []
      expect([page, response.status, new URL(base, response.url).href]).toEqual([page, 200, root])
    }
    const session = await fetch(`${root}api/session`)
    expect([session.redirected, await session.json()]).toMatchObject([true, { actor: 'ada', role: 'operator' }])
    const headers = { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' }
    for (const [path, answer] of [
      ['api/failed/count', { count: 0 }],
      ['api/messages/inbox/1-1/retry', { code: 'not-found' }],
    ] as const) {
      const body = path.endsWith('count') ? '{"where":{"scope":"billing"}}' : '{}'
      const posted = await fetch(`${root}${path}`, { method: 'POST', headers, body })
      expect([path, await posted.json()]).toMatchObject([path, answer])
    }
  },
)

describe('NestJS', () => {
  it.for(['/hapax', '/a/b'])(
    'serves the console under %s, before the body parser, and ends it with the application',
    async (basePath) => {
      const hapax = madeHapax()
      class App {}
      const imports = [
        HapaxModule.forRoot({ hapax, worker: false }),
        HapaxConsoleModule.forRoot(basePath === '/hapax' ? { authorize } : { authorize, basePath }),
      ]
      Module({ imports })(App)
      const app = await NestFactory.create(App, { logger: false })
      app.setGlobalPrefix('v1')
      await app.listen(0, '127.0.0.1')
      onTestFinished(() => app.close())
      await expectUsable(`${await app.getUrl()}${basePath}/`)
    },
  )

  it('lets a factory make the options of what is injected', async () => {
    class People {
      readonly known = authorize
    }
    class App {}
    class PeopleModule {}
    Module({ providers: [People], exports: [People] })(PeopleModule)
    const useFactory = (people: People): { authorize: Authorize } => ({ authorize: people.known })
    const consoles = HapaxConsoleModule.forRootAsync({ imports: [PeopleModule], inject: [People], useFactory })
    Module({ imports: [HapaxModule.forRoot({ hapax: madeHapax(), worker: false }), consoles] })(App)
    const app = await NestFactory.create(App, { logger: false })
    await app.listen(0, '127.0.0.1')
    onTestFinished(() => app.close())
    expect((await fetch(`${await app.getUrl()}/hapax/api/session`)).status).toBe(200)
  })
})
