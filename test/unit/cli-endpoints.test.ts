import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { webhooks } from '../../src/http/webhooks/index.ts'
import { createHapax, defineMessage, silentLogger } from '../../src/index.ts'
import { sqlite } from '../../src/stores/sqlite/index.ts'
import { type Around, cli, sharedDatabase } from '../support/cli.ts'

const shop = sharedDatabase(async (path) => {
  const hapax = createHapax({ store: sqlite({ path }), source: '/shop', logger: silentLogger })
  await hapax.migrate()
  await hapax.close()
})

const document = async (argv: string[], around: Around) => JSON.parse((await cli([...argv, '--json'], around)).stdout)
const URL_1 = 'https://203.0.114.7/hooks'

/** A receiver on this machine that answers with these statuses, one after the other, and then with 200. */
async function receiver(...statuses: number[]): Promise<{ url: string; ids: string[] }> {
  const ids: string[] = []
  const server = createServer((request, response) => {
    ids.push(String(request.headers['webhook-id']))
    request.resume().on('end', () => response.writeHead(statuses.shift() ?? 200).end('thanks'))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`, ids }
}

/** A receiver that ends every connection once it has read the request. */
async function silent(): Promise<{ url: string }> {
  const server = createServer((request) => void request.resume().on('end', () => request.socket.destroy()))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }
}

describe('endpoints', () => {
  it('are added, listed without their secrets, changed, disabled, enabled and removed', async () => {
    const around = shop.copy()
    expect((await cli(['endpoints', 'list'], around)).stdout).toMatch(/^no endpoints are registered; to add one: /)
    const dry = await cli(['endpoints', 'add', URL_1, '--dry-run'], around)
    expect(dry.stdout).toBe(`would add ${URL_1} to the relay default, for all types\n`)
    const added = await cli(
      ['endpoints', 'add', URL_1, '--id', 'ep_1', '--type', 'order.*', 'paid', '--about', 'ACME'],
      around,
    )
    expect(added.stdout).toMatch(/^added ep_1 to the relay default, for order\.\*, paid\nits secret.*: whsec_\S{40,}\n/)
    const [, secret = ''] = /(whsec_\S+)/.exec(added.stdout) ?? []
    const list = await cli(['endpoints', 'list'], around)
    expect(list.stdout).toMatch(/^ep_1 +default +enabled +order\.\*, paid +https:\S+ +whsec_…\S{4} +ACME$/m)
    expect(list.stdout).not.toContain(secret)
    expect(await document(['endpoints', 'list'], around)).toMatchObject({
      endpoints: [
        {
          id: 'ep_1',
          types: ['order.*', 'paid'],
          secrets: [{ hint: expect.stringMatching(/^whsec_….{4}$/), until: null }],
        },
      ],
      relays: [{ relay: 'default', outbox: 0, waiting: 0, retrying: 0, failed: 0 }],
    })
    expect((await cli(['endpoints', 'change', 'ep_1', '--type', 'all'], around)).stdout).toBe('changed types of ep_1\n')
    expect((await cli(['endpoints', 'disable', 'ep_1', '--dry-run'], around)).stdout).toMatch(/^would disable ep_1/)
    await cli(['endpoints', 'disable', 'ep_1', '--note', 'moving'], around)
    expect((await document(['endpoints', 'list'], around)).endpoints).toMatchObject([
      { enabled: false, reason: 'moving', types: 'all' },
    ])
    expect((await cli(['doctor'], around)).stdout).toMatch(/the only endpoint of the relay default is disabled/)
    expect((await cli(['endpoints', 'enable', 'ep_1'], around)).stdout).toMatch(
      /^enabled ep_1 .*\nto deliver what failed/,
    )
    expect(await cli(['endpoints', 'remove', 'ep_1'], around)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('--yes'),
    })
    expect((await cli(['endpoints', 'remove', 'ep_1', '--yes'], around)).stdout).toMatch(/^removed ep_1/)
    expect(await cli(['endpoints', 'remove', 'ep_1', '--yes'], around)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('(not-found)'),
    })
  })

  it('get a new secret beside the old one', async () => {
    const around = shop.copy()
    await cli(['endpoints', 'add', URL_1, '--id', 'ep_1'], around)
    const [{ secrets: before }] = (await document(['endpoints', 'list'], around)).endpoints
    const rotated = await cli(['endpoints', 'rotate', 'ep_1', '--grace', '2h'], around)
    expect(rotated.stdout).toMatch(
      /^the new secret of ep_1, which is not shown again: whsec_\S+\ndeliveries are signed with the old one as well until 20/,
    )
    const [{ secrets }] = (await document(['endpoints', 'list'], around)).endpoints
    expect(secrets).toMatchObject([{ until: null }, { hint: before[0].hint, until: expect.stringMatching(/^20/) }])
    await cli(['endpoints', 'rotate', 'ep_1', '--grace', '0s'], around)
    expect((await document(['endpoints', 'list'], around)).endpoints[0].secrets).toHaveLength(1)
  })

  it('with a key pair get no shared secret instead, which their receivers could not verify', async () => {
    const around = shop.copy()
    const key = (letter: string): string => `whsk_${Buffer.alloc(32, letter).toString('base64')}`
    await cli(['endpoints', 'add', URL_1, '--id', 'ep_1', '--secret', key('a')], around)
    expect((await cli(['endpoints', 'rotate', 'ep_1'], around)).stderr).toMatch(/expected secret to be given/)
    expect((await document(['endpoints', 'list'], around)).endpoints[0].secrets).toHaveLength(1)
    const rotated = await cli(['endpoints', 'rotate', 'ep_1', '--secret', key('b')], around)
    expect(rotated.stdout).toContain(key('b'))
    expect((await document(['endpoints', 'list'], around)).endpoints[0].secrets).toHaveLength(2)
  })

  it('are refused if their address may not be called, and so are mistakes', async () => {
    const around = shop.copy()
    const bad = async (...argv: string[]) => (await cli(['endpoints', ...argv], around)).stderr
    expect(await bad('add', 'https://127.0.0.1/')).toMatch(/expected url to be an address that may be called/)
    expect(await bad('add', 'https://127.0.0.1/', '--dry-run')).toMatch(/may not be called/)
    expect(await bad('add', 'ftp://example.com')).toMatch(/expected url/)
    expect(await bad('add', URL_1, '--type', 'a*')).toMatch(/expected types\[0\]/)
    expect(await bad('add', URL_1, '--id', 'a b')).toMatch(/expected id/)
    const secret = await bad('add', URL_1, '--secret', 'whsec_short')
    expect(secret).toMatch(/expected secret/)
    expect(secret).not.toContain('whsec_short')
    const unusable = [`whsk_${'A'.repeat(40)}`, `whsec_${'A'.repeat(42)}B`, `whsec_${'A'.repeat(41)}`]
    for (const each of unusable) expect(await bad('add', URL_1, '--secret', each)).toMatch(/expected secret/)
    expect(await bad('change', 'ep_1')).toMatch(/--url, --type or --about/)
    expect(await bad('test', 'ep_1')).toMatch(/there is no endpoint ep_1/)
    expect((await document(['endpoints', 'list'], around)).endpoints).toEqual([])
  })
})

describe('a configuration file', () => {
  it('has the webhooks() that endpoints are checked and tested with, and that a relay runs', async () => {
    const around = shop.copy()
    const { url, ids } = await receiver()
    const [driver, store] = ['http/webhooks', 'stores/sqlite'].map((name) =>
      pathToFileURL(join(import.meta.dirname, `../../src/${name}/index.ts`)),
    )
    writeFileSync(
      join(around.cwd, 'hapax.config.mjs'),
      `import { webhooks } from '${driver}'
import { sqlite } from '${store}'
export default {
  store: sqlite({ path: '${around.cwd}/shop.db' }),
  broker: webhooks({ allowHttp: true, allow: ['127.0.0.1'], ports: 'all' }),
}`,
    )
    const configured = { cwd: around.cwd, env: {} }
    expect(await cli(['endpoints', 'add', url, '--id', 'ep_1'], around)).toMatchObject({ exitCode: 0 })
    const direct = await cli(['endpoints', 'test', 'ep_1', '--store', `sqlite:${around.cwd}/shop.db`], {
      cwd: tmpdir(),
    })
    expect(direct).toMatchObject({ exitCode: 1, stdout: expect.stringMatching(/^not delivered after \d+ ms: /) })
    const tested = await cli(['endpoints', 'test', 'ep_1'], {
      ...configured,
      env: { HAPAX_STORE: `sqlite:${around.cwd}/shop.db` },
    })
    expect(tested).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^delivered with 200 in \d+ ms\nthe receiver said: thanks\n$/),
    })
    expect(ids).toHaveLength(1)
    const hapax = createHapax({
      store: sqlite({ path: `${around.cwd}/shop.db` }),
      source: '/shop',
      logger: silentLogger,
    })
    await hapax.transaction((tx) => hapax.publish(tx, defineMessage<object>('order.placed'), {}, { id: 'order-1' }))
    await hapax.close()
    let end: (name: 'SIGTERM') => void = () => {}
    const relay = cli(['relay'], { ...configured, onStart: (signal) => (end = signal) })
    await expect.poll(() => ids).toContain('order-1')
    end('SIGTERM')
    expect(await relay).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('-> webhooks') })
  })
})

describe('explain', () => {
  it('shows the deliveries of an event, by endpoint', async () => {
    const around = shop.copy()
    const [good, bad] = [await receiver(), await receiver(503, 410)]
    const store = sqlite({ path: `${around.cwd}/shop.db` })
    const hapax = createHapax({ store, source: '/shop', logger: silentLogger })
    const driver = webhooks({ allowHttp: true, allow: ['127.0.0.1'], ports: 'all', scheduleMs: [1, 1] })
    const worker = hapax.worker({ relay: driver, pollMs: 20, keepSentMs: 60_000 })
    await hapax.endpoints.add({ url: good.url, id: 'ep_good' })
    await hapax.endpoints.add({ url: bad.url, id: 'ep_bad' })
    await hapax.endpoints.add({ url: (await silent()).url, id: 'ep_silent' })
    expect(await hapax.endpoints.test('ep_good')).toMatchObject({
      delivered: true,
      code: 200,
      answer: 'thanks',
      error: null,
    })
    expect(await hapax.endpoints.test('ep_bad')).toMatchObject({ delivered: false, code: 503 })
    const Placed = defineMessage<{ n: number }>('order.placed')
    await hapax.transaction((tx) => hapax.publish(tx, Placed, { n: 1 }, { id: 'order-1' }))
    await worker.start()
    await expect.poll(() => hapax.failed.count()).toBe(2)
    await worker.drain()
    await hapax.close()
    expect(good.ids).toContain('order-1')
    const { stdout } = await cli(['explain', 'order-1', '--source', '/shop'], around)
    expect(stdout).toMatch(/^order-1 {2}order\.placed from \/shop$/m)
    expect(stdout).toMatch(/ sent +the relay default sent it/)
    expect(stdout).toMatch(
      / effect +delivered to ep_good \(http:\/\/127\.0\.0\.1:\d+\/hooks\) with 200 in \d+ ms after 1 attempt$/m,
    )
    expect(stdout).toMatch(/ failed +not delivered to ep_bad \(http:\S+\) after 1 attempt: endpoint-disabled/)
    expect(stdout).toMatch(/^For ep_bad .*, hapax does not retry it automatically\. To retry: /m)
    expect((await cli(['explain', 'order-1', '--scan'], around)).stdout).toContain('delivered to ep_good')
    expect(stdout).toMatch(
      / effect +3 attempts to deliver to ep_silent \(\S+\), it is unknown whether the last one arrived: /,
    )
    const seq = /failed retry (\S+)/.exec(stdout.split('\n').find((line) => line.startsWith('For ep_silent')) ?? '')
    const shown = await cli(['failed', 'show', seq?.[1] ?? ''], around)
    expect(shown.stdout).toMatch(/to retry it: +\S.* failed retry/)
    expect(shown.stdout).not.toContain('failed settle')
    expect((await cli(['doctor'], around)).stdout).toMatch(/1 messages of the relay default failed .*ep_bad \(gone\)/)
    expect((await cli(['status'], around)).stdout).toMatch(/^webhooks:default /m)
  })
})
