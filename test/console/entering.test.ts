import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createConsole } from 'hapax/console'
import { toNode } from 'hapax/node'
import { afterAll, describe, expect, test } from 'vitest'
import { accountsOf, standaloneConsole } from '../../src/console/standalone/index.ts'
import { closeBrowser, openTab, withoutBrowser } from '../support/console/browser.ts'
import { fill, openWorld } from '../support/console/world.ts'
import { durableStores, makePlace } from '../support/databases.ts'
import { root } from '../support/pages.ts'

afterAll(closeBrowser)

describe.skipIf(withoutBrowser || !durableStores().includes('sqlite'))('the console in a browser', () => {
  test('of hapax console is entered once by the address that it prints', async () => {
    await using checker = await makePlace('sqlite')
    const main = join(root, 'src', 'cli', 'main.ts')
    const options = ['--conditions=hapax-source', '--no-warnings']
    const child = spawn(process.execPath, [...options, main, 'console', '--store', `sqlite:${checker.place.url}`])
    try {
      const address = await printed(child)
      await using tab = await openTab('')
      // A page that is not let in is open already, as after a restart: only the fragment of the new address differs.
      await tab.page.goto(new URL('/', address).href)
      await tab.page.getByText('signed-out').waitFor()
      await tab.page.goto(address)
      await tab.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
      expect(tab.page.url()).not.toContain('token')
      await tab.page.reload()
      await tab.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
      await using another = await openTab('')
      await another.page.goto(address)
      await another.page.getByText('This token was used before').waitFor()
      await tab.page.getByRole('button', { name: 'Sign out' }).click()
      await tab.page.getByText('You are signed out.').waitFor()
      await tab.page.reload()
      await tab.page.getByText('signed-out').waitFor()
      expect([...tab.complaints, ...another.complaints]).toEqual([])
    } finally {
      child.kill('SIGTERM')
      await once(child, 'exit')
    }
  })

  test('is left by somebody with a password, who is asked for it again', async () => {
    await using world = await openWorld('sqlite', { working: false })
    const accounts = accountsOf('ada:viewer:correct horse battery')
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
    const person = { actor: 'nobody', role: 'viewer' } as const
    const own = { hosts: [host], person, readOnly: false, name: 'shop', accounts }
    server.on('request', toNode(standaloneConsole(world.hapax, own).handler))
    await using tab = await openTab(`http://${host}/`)
    const { page } = tab
    await tab.context.setHTTPCredentials({ username: 'ada', password: 'correct horse battery' })
    await page.goto('')
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByText('You are signed out.').waitFor()
    // The browser still knows the password, and the server does not take it.
    expect(await page.evaluate(`fetch('/api/session').then((reply) => reply.status)`)).toBe(401)
    await page.getByRole('link', { name: 'Sign in again' }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    const { rows } = await world.hapax.audit.list()
    expect(rows.map(({ action, actor }) => `${actor} ${action}`)).toEqual([
      'ada sign-in',
      'ada sign-out',
      'ada sign-in',
    ])
    expect(tab.complaints).toEqual([])
    server.closeAllConnections()
    server.close()
  })

  test.for([
    { at: '/', basePath: undefined, strips: false },
    { at: '/a/', basePath: '/a', strips: false },
    { at: '/a/b/', basePath: undefined, strips: false },
    { at: '/a/b/', basePath: '/a/b', strips: true },
    { at: '/a/b/', basePath: undefined, strips: true },
  ])('works under $at (base path $basePath, stripped: $strips)', async ({ at, basePath, strips }) => {
    await using world = await openWorld('sqlite')
    await fill(world, 1)
    const ops = createConsole(world.hapax, {
      authorize: () => ({ actor: 'ada', role: 'admin' }),
      ...(basePath !== undefined && { basePath }),
    })
    const handler = toNode(ops.handler)
    const server = createServer((request, response) => {
      if (strips) request.url = request.url?.replace(at, '/') ?? ''
      handler(request, response)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    await using tab = await openTab(`${origin}${at}`)
    const { page } = tab
    await page.goto('')
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    await page.getByRole('navigation').getByRole('link', { name: 'Failed' }).click()
    await page.getByText('the order has no customer').first().waitFor()
    expect(new URL(page.url()).pathname).toBe(`${at}failed`)
    await page
      .getByRole('link', { name: /^Messages like/ })
      .first()
      .click()
    await page.getByRole('cell').getByRole('link').first().click()
    await page.getByRole('heading', { level: 1, name: 'Failed message' }).waitFor()
    // A page of its own, loaded from where it is.
    await page.reload()
    await page.getByRole('button', { name: 'Retry …' }).waitFor()
    await page.goBack()
    await page.getByRole('heading', { level: 1, name: 'Failed messages' }).waitFor()
    server.closeAllConnections()
    server.close()
    expect(tab.complaints).toEqual([])
  })
})

/** The address that a console prints. */
async function printed(child: ReturnType<typeof spawn>): Promise<string> {
  let said = ''
  return await new Promise((resolve, reject) => {
    const hear = (chunk: Buffer): void => {
      said += chunk
      const found = /http:\/\/\S+#token=\S+/.exec(said)
      if (found !== null) resolve(found[0])
    }
    child.stdout?.on('data', hear)
    child.stderr?.on('data', hear)
    child.on('exit', () => reject(new Error(`it ended: ${said}`)))
  })
}
