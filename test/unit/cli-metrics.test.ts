import { once } from 'node:events'
import { createServer } from 'node:net'
import { describe, expect, it } from 'vitest'
import type { EndSignal } from '../../src/cli/io/io.ts'
import { addressOf, shown } from '../../src/cli/metrics-server.ts'
import { cli, type Ran, sharedDatabase, temporaryDirectory } from '../support/cli.ts'

const shop = sharedDatabase()

/** Runs `hapax metrics --listen` while `work` scrapes it, and stops it. */
async function serving(argv: readonly string[], work: (base: string) => Promise<void>): Promise<Ran> {
  const listening = Promise.withResolvers<string>()
  let stop: (signal: EndSignal) => void = () => {}
  const running = cli(['metrics', '--listen', '127.0.0.1:0', ...argv], {
    cwd: shop.cwd(),
    onStart: (signal) => {
      stop = signal
    },
    onError: (text) => {
      const base = /http:\/\/127\.0\.0\.1:\d+/.exec(text)?.[0]
      if (base !== undefined) listening.resolve(base)
    },
  })
  const base = await Promise.race([listening.promise, running.then(({ stderr }) => Promise.reject(new Error(stderr)))])
  try {
    await work(base)
  } finally {
    stop('SIGTERM')
  }
  return running
}

const get = (url: string, method = 'GET'): Promise<Response> => fetch(url, { method, redirect: 'error' })

describe('hapax metrics', () => {
  it('prints the state of the database once', async () => {
    const { exitCode, stdout, stderr } = await cli(['metrics', '--store', 'sqlite:shop.db'], { cwd: shop.cwd() })
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(stdout).toContain('hapax_store_up 1\n')
    expect(stdout).toMatch(/^hapax_inbox_messages\{consumer=".*",state="waiting"\} \d+$/m)
    expect(stdout).toMatch(/^hapax_workers\{state="alive"\} \d+$/m)
    expect(stdout).not.toContain('_total')
  })

  it('serves it until it is told to stop', async () => {
    const { exitCode, stderr } = await serving(['--store', 'sqlite:shop.db'], async (base) => {
      // A look for which this process stood still too long is given up, and repeated later.
      await expect.poll(async () => (await get(`${base}/metrics`)).text()).toContain('hapax_store_up 1\n')
      const scraped = await get(`${base}/metrics`)
      expect(scraped.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
      const text = await scraped.text()
      expect(text).toContain('hapax_store_up 1\n')
      expect(text).toMatch(/^hapax_state_age_seconds /m)
      expect(text).not.toContain('_total')
      expect(await (await get(`${base}/`)).text()).toContain('/metrics')
      expect(await (await get(`${base}/healthz?deep`)).text()).toBe('ok\n')
      expect((await get(`${base}/other`)).status).toBe(404)
      expect((await get(`${base}/metrics`, 'POST')).status).toBe(405)
      expect((await get(`${base}/healthz`, 'POST')).status).toBe(405)
      const head = await get(`${base}/metrics`, 'HEAD')
      expect([head.status, await head.text()]).toEqual([200, ''])
    })
    expect(exitCode).toBe(0)
    expect(stderr).toContain('SIGTERM: stopping')
  })

  it('says what is wrong with an address, in one line', async () => {
    const store = ['--store', 'sqlite:shop.db']
    for (const wrong of ['x', '127.0.0.1', '127.0.0.1:70000', 'http://localhost:9464', ':', '::1:9464']) {
      const { exitCode, stderr } = await cli(['metrics', '--listen', wrong, ...store], { cwd: shop.cwd() })
      expect(exitCode).toBe(2)
      expect(stderr).toContain('expected an address such as 127.0.0.1:9464')
    }
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const { port } = taken.address() as { port: number }
    const busy = await cli(['metrics', '--listen', `127.0.0.1:${port}`, ...store], { cwd: shop.cwd() })
    taken.close()
    expect(busy).toMatchObject({ exitCode: 1, stdout: '' })
    expect(busy.stderr).toBe(`hapax: cannot listen on 127.0.0.1:${port}: another process uses this port (listen)\n`)
    const foreign = await cli(['metrics', '--listen', '203.0.113.1:9464', ...store], { cwd: shop.cwd() })
    expect(foreign.stderr).toBe('hapax: cannot listen on 203.0.113.1:9464: this machine has no such address (listen)\n')
  })

  it('says that there is no such database, and that metrics are text', async () => {
    const cwd = temporaryDirectory()
    for (const more of [[], ['--listen', '0']]) {
      const { exitCode, stderr } = await cli(['metrics', '--store', 'sqlite:none.db', ...more], { cwd })
      expect(exitCode).toBe(1)
      expect(stderr).toContain('there is no database sqlite:none.db')
    }
    const json = await cli(['metrics', '--store', 'sqlite:shop.db', '--json'], { cwd: shop.cwd() })
    expect(json).toMatchObject({ exitCode: 2, stdout: '' })
    expect(json.stderr).toContain('hapax status --json')
  })

  it('listens on this machine unless it is told otherwise', () => {
    expect(addressOf('9464')).toEqual({ host: '127.0.0.1', port: 9464 })
    expect(addressOf(':9464')).toEqual({ host: '127.0.0.1', port: 9464 })
    expect(addressOf('0.0.0.0:9464')).toEqual({ host: '0.0.0.0', port: 9464 })
    expect(addressOf('localhost:1')).toEqual({ host: 'localhost', port: 1 })
    const v6 = addressOf('[::1]:9464')
    expect([v6, v6 && shown(v6)]).toEqual([{ host: '::1', port: 9464 }, '[::1]:9464'])
  })
})
