import { createSocket } from 'node:dgram'
import { rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { WebhooksDestination } from '../../src/http/webhooks/outgoing/destination.ts'
import { askServers, type Resolve } from '../../src/http/webhooks/outgoing/names.ts'
import { type WebhooksOptions, webhooksSettings } from '../../src/http/webhooks/outgoing/options.ts'
import { endpointAt, outgoing, type Receiver, receiver } from '../support/receivers.ts'

const hasSix = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1'))

// Listens on all addresses of this machine: whatever way leads here, it is found out.
let canary: Receiver
let unix: Server
const unixPath = join(tmpdir(), `hapax-canary-${process.pid}.sock`)
let unixConnections = 0

beforeAll(async () => {
  canary = await receiver(undefined, { host: hasSix ? '::' : '0.0.0.0' })
  unix = createServer(() => {}).on('connection', () => {
    unixConnections += 1
  })
  await new Promise<void>((resolve) => unix.listen(unixPath, resolve))
})

afterAll(async () => {
  await canary[Symbol.asyncDispose]()
  await new Promise((resolve) => unix.close(resolve))
  rmSync(unixPath, { force: true })
})

/** The most that can be allowed without naming an exception: only the address decides. */
const OPEN: WebhooksOptions = { allowHttp: true, ports: 'all' }

function destination(options: WebhooksOptions = {}, resolve?: Resolve): WebhooksDestination {
  return new WebhooksDestination(webhooksSettings(options), resolve)
}

const names = (table: Record<string, readonly string[]>): Resolve => {
  return async (name) => table[name] ?? Promise.reject(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }))
}

/** Delivers to a URL, registers it as well, and says what became of both. Nothing may reach the canary. */
async function tried(
  to: WebhooksDestination,
  url: string,
): Promise<{ status: string; code: unknown; said: string | undefined }> {
  const before = canary.connections
  const said = await to.check(url)
  const outcome = await to.deliver(endpointAt(url), outgoing(), new AbortController().signal)
  expect([canary.connections - before, unixConnections]).toEqual([0, 0])
  const code = 'error' in outcome && 'code' in outcome.error ? outcome.error.code : undefined
  return { status: outcome.status, code, said }
}

/** Addresses that are written in the URL. PORT is that of the canary. */
const LITERALS: readonly string[] = [
  'http://127.0.0.1:PORT/',
  'https://127.0.0.1:PORT/',
  'http://127.1:PORT/',
  'http://127.0.1:PORT/',
  'http://2130706433:PORT/',
  'http://0x7f000001:PORT/',
  'http://0x7f.0.0.1:PORT/',
  'http://0x7F.0x0.0x0.0x1:PORT/',
  'http://0177.0.0.1:PORT/',
  'http://017700000001:PORT/',
  'http://0177.1:PORT/',
  'http://00000177.0.0.01:PORT/',
  'http://127.0.0.1.:PORT/',
  'http://127.1.:PORT/',
  'http://1%32%37.0.0.1:PORT/',
  'http://%31%32%37.1:PORT/',
  'http://１２７.０.０.１:PORT/',
  'http://①②⑦.⓪.⓪.①:PORT/',
  'http://127。0。0。1:PORT/',
  'http://127．0．0．1:PORT/',
  'http://127｡0｡0｡1:PORT/',
  'http://0:PORT/',
  'http://0.0.0.0:PORT/',
  'http://0x0:PORT/',
  'http://0.0:PORT/',
  'http://127.255.255.254:PORT/',
  'http://10.0.0.1:PORT/',
  'http://167772161:PORT/',
  'http://0xa000001:PORT/',
  'http://172.16.0.1:PORT/',
  'http://172.31.255.255:PORT/',
  'http://192.168.0.1:PORT/',
  'http://3232235521:PORT/',
  'http://169.254.169.254/latest/meta-data/',
  'http://2852039166/latest/meta-data/',
  'http://0xa9fea9fe/',
  'http://0251.0376.0251.0376/',
  'http://169.254.43518/',
  'http://169.16689662/',
  'http://100.100.100.200/',
  'http://192.0.0.192/',
  'http://168.63.129.16/',
  'http://198.18.0.1/',
  'http://192.0.2.1/',
  'http://203.0.113.9/',
  'http://224.0.0.1/',
  'http://240.0.0.1/',
  'http://255.255.255.255/',
  'http://[::]:PORT/',
  'http://[::1]:PORT/',
  'http://[0:0:0:0:0:0:0:1]:PORT/',
  'http://[0000:0000:0000:0000:0000:0000:0000:0001]:PORT/',
  'http://[::ffff:127.0.0.1]:PORT/',
  'http://[::ffff:7f00:1]:PORT/',
  'http://[0:0:0:0:0:ffff:7f00:0001]:PORT/',
  'http://[::FFFF:7F00:1]:PORT/',
  'http://[::ffff:a9fe:a9fe]/',
  'http://[::ffff:169.254.169.254]/',
  'http://[::ffff:8.8.8.8]/',
  'http://[::127.0.0.1]:PORT/',
  'http://[::7f00:1]:PORT/',
  'http://[::ffff:0:127.0.0.1]:PORT/',
  'http://[::ffff:0:7f00:1]:PORT/',
  'http://[64:ff9b::127.0.0.1]:PORT/',
  'http://[64:ff9b::a9fe:a9fe]/',
  'http://[64:ff9b:1::a9fe:a9fe]/',
  'http://[2002:7f00:1::]:PORT/',
  'http://[2002:a9fe:a9fe::]/',
  'http://[2001:0:7f00:1::]/',
  'http://[2001:0000:4136:e378:8000:63bf:3fff:fdd2]/',
  'http://[2001:10::1]/',
  'http://[2001:20::1]/',
  'http://[2001:db8::1]/',
  'http://[3fff::1]/',
  'http://[3ffe::1]/',
  'http://[fe80::1]:PORT/',
  'http://[fec0::1]/',
  'http://[fc00::1]/',
  'http://[fd00:ec2::254]/latest/meta-data/',
  'http://[fd20:ce::254]/',
  'http://[ff02::1]/',
  'http://[100::1]/',
  'http://[5f00::1]/',
  'http://[4000::1]/',
]

/** What is no URL of a webhook, whatever it leads to. */
const FORMS: readonly string[] = [
  '',
  '/',
  '//127.0.0.1:PORT/',
  'hooks.test',
  'https://',
  'https:///path',
  'http://[fe80::1%25eth0]:PORT/',
  'http://[fe80::1%eth0]:PORT/',
  'http://[::1%lo]:PORT/',
  'http://[::1',
  'http://127.0.0.1:PORT:80/',
  'http://127.0.0.256:PORT/',
  'http://1.2.3.4.5/',
  'http://0x100000000/',
  'http://good.test:99999/',
  'http://good.test./',
  'http://localhost.:PORT/',
  'http://user@good.test/',
  'http://user:password@good.test/',
  'http://good.test@127.0.0.1:PORT/',
  'http://good.test:80@127.0.0.1:PORT/',
  'http://:password@good.test/',
  'http://good.test/#fragment',
  'http://good.test/#',
  'http://127.0.0.1:PORT#@good.test/',
  'http://127.0.0.1:PORT\\@good.test/',
  'http://good.test\\@127.0.0.1:PORT/',
  'http:\\\\127.0.0.1:PORT',
  ' http://good.test/',
  'http://good.test/ ',
  'http://good.test/a b',
  'http://good.test/\r\nHost: evil',
  'http://good\n.test/',
  'http://good\t.test/',
  'http://good.test\u0000.evil/',
  'http://good.test/\u2028',
  'http://good .test/',
  'http://good%00.test/',
  'http://good%2f.test/',
  `http://good.test/${'x'.repeat(2_048)}`,
  'ftp://good.test/',
  'ftp://127.0.0.1:PORT/',
  'file:///etc/passwd',
  'gopher://127.0.0.1:PORT/_GET',
  'dict://127.0.0.1:PORT/',
  'ldap://127.0.0.1:PORT/',
  'ws://127.0.0.1:PORT/',
  'wss://127.0.0.1:PORT/',
  'data:text/plain,hello',
  'blob:http://127.0.0.1:PORT/x',
  'javascript:alert(1)',
  'jar:http://127.0.0.1:PORT/!/',
  'http+unix://SOCKET/',
  'unix:SOCKET',
  'unix://SOCKET',
  'https:good.test/',
  'https:/good.test/',
  'https:////good.test/',
]

function filled(url: string): string {
  return url.replace('PORT', String(canary?.port)).replace('SOCKET', unixPath)
}

describe('a hostile URL', () => {
  it('is one of more than a hundred', () => expect(new Set([...LITERALS, ...FORMS]).size).toBeGreaterThan(130))

  test.for(LITERALS)('%s is refused for good', async (url) => {
    const outcome = await tried(destination(OPEN, names({})), filled(url))
    expect(outcome).toEqual({
      status: 'refused',
      code: 'forbidden-url',
      said: expect.stringMatching(/^expected the url of a webhook to /),
    })
  })

  test.for(FORMS)('%j is refused for good', async (url) => {
    const outcome = await tried(destination(OPEN, names({ 'good.test': ['93.184.216.34'] })), filled(url))
    expect(outcome).toEqual({
      status: 'refused',
      code: 'forbidden-url',
      said: expect.stringMatching(/^expected the url of a webhook to /),
    })
  })

  test.for([
    ['http://good.test/', 'begin with https://, got http:'],
    ['https://good.test:8443/', 'have a port that is allowed (443), got 8443'],
    ['https://good.test:22/', 'have a port that is allowed (443), got 22'],
    ['https://good.test:80/', 'have a port that is allowed (443), got 80'],
  ])('%s needs an option', async ([url = '', said]) => {
    expect(await tried(destination({}, names({})), url)).toMatchObject({
      status: 'refused',
      said: `expected the url of a webhook to ${said}`,
    })
  })

  it('never means a socket in the file system', async () => {
    for (const url of ['http://unix:SOCKET:/path', 'http://unix/SOCKET', 'http://SOCKET/']) {
      expect(await tried(destination(OPEN, names({})), filled(url))).toMatchObject({
        status: expect.stringMatching(/failed|refused/),
      })
    }
  })

  it('is refused where it is no text at all', async () => {
    for (const url of [undefined, null, 7, {}, new URL('https://good.test')]) {
      expect(await tried(destination(), url as unknown as string)).toMatchObject({ status: 'refused' })
    }
  })
})

describe('a name', () => {
  const FORBIDDEN = { status: 'failed', code: 'forbidden-address', said: expect.stringContaining('may not be sent') }

  test.for([
    ['to this machine', ['127.0.0.1']],
    ['to this machine by IPv6', ['::1']],
    ['to this machine as a mapped address', ['::ffff:127.0.0.1']],
    ['to no address', ['0.0.0.0']],
    ['to no address of IPv6', ['::']],
    ['to a private address', ['10.0.0.1']],
    ['to metadata', ['169.254.169.254']],
    ['to metadata through NAT64', ['64:ff9b::a9fe:a9fe']],
    ['to metadata through 6to4', ['2002:a9fe:a9fe::']],
    ['to metadata by IPv6', ['fd00:ec2::254']],
    ['with a zone', ['fe80::1%lo']],
    ['to a public address first, and a private one second', ['93.184.216.34', '127.0.0.1']],
    ['to a private address behind many others', [...Array<string>(50).fill('93.184.216.34'), '127.0.0.1']],
    ['to a public address of IPv4, and this machine by IPv6', ['93.184.216.34', '::1']],
    ['to what is no address', ['localhost']],
    ['to an address in octal digits', ['0177.0.0.1']],
  ] as const)('that leads %s is refused', async ([, addresses]) => {
    const to = destination(OPEN, names({ 'hooks.test': addresses }))
    for (const scheme of ['http', 'https']) {
      expect(await tried(to, `${scheme}://hooks.test:${canary.port}/`)).toEqual(FORBIDDEN)
    }
  })

  it('of this machine is refused, as the machine itself resolves it', async () => {
    for (const host of ['localhost', 'a.localhost', 'LOCALHOST', 'loc%61lhost', 'ｌｏｃａｌｈｏｓｔ', 'ⓛocalhost']) {
      const { status } = await tried(destination(OPEN), `http://${host}:${canary.port}/`)
      expect(status).toBe('failed')
    }
    // With an exception for another place, the machine is asked as well.
    const { code } = await tried(destination({ ...OPEN, allow: ['10.9.8.0/24'] }), `http://localhost:${canary.port}/`)
    expect(code).toBe('forbidden-address')
  })

  it('is asked for once, so that it cannot lead elsewhere between the check and the connection', async () => {
    const asked: string[] = []
    const rebinding: Resolve = async (name) => {
      asked.push(name)
      return asked.length % 2 === 1 ? ['203.0.113.1'] : ['127.0.0.1']
    }
    // Documentation addresses lead nowhere, so that the first connection fails in any case.
    const to = destination({ ...OPEN, timeoutMs: 1_500, allow: ['203.0.113.0/24'] }, rebinding)
    const before = canary.connections
    const outcome = await to.deliver(
      endpointAt(`http://hooks.test:${canary.port}/`),
      outgoing(),
      AbortSignal.timeout(30_000),
    )
    expect(outcome).toMatchObject({ status: 'failed', error: { code: 'endpoint-unavailable' } })
    expect(asked).toEqual(['hooks.test'])
    expect(canary.connections).toBe(before)
  })

  it('that leads to this machine after a delivery is refused, whatever connection the receiver would keep', async () => {
    const addresses = ['127.0.0.2']
    const to = destination({ ...OPEN, allow: ['127.0.0.2'] }, names({ 'hooks.test': addresses }))
    const url = `http://hooks.test:${canary.port}/`
    const first = await to.deliver(endpointAt(url), outgoing(), new AbortController().signal)
    expect(first).toMatchObject({ status: 'delivered', code: 200, answer: 'thanks' })
    expect(canary.got.at(-1)?.headers).toMatchObject({ host: `hooks.test:${canary.port}`, connection: 'close' })
    addresses[0] = '127.0.0.1'
    expect(await tried(to, url)).toEqual(FORBIDDEN)
  })

  it.skipIf(!hasSix)(
    'is connected to by its second address if the first one does not respond (needs IPv6)',
    async () => {
      const to = destination(
        { ...OPEN, allow: ['127.0.0.0/8', '::1'] },
        // The receiver listens on the second one only.
        names({ 'hooks.test': ['127.0.0.1', '::1'] }),
      )
      const one = await receiver(undefined, { host: '::1' })
      try {
        const outcome = await to.deliver(
          endpointAt(`http://hooks.test:${one.port}/`),
          outgoing(),
          new AbortController().signal,
        )
        expect(outcome).toMatchObject({ status: 'delivered' })
      } finally {
        await one[Symbol.asyncDispose]()
      }
    },
  )
})

describe('exceptions', () => {
  const url = (host: string): string => `http://${host}:${canary.port}/hook?x=1`
  const deliver = (options: WebhooksOptions, host: string, table = {}): Promise<{ status: string }> =>
    destination({ ...OPEN, ...options }, names(table)).deliver(
      endpointAt(url(host)),
      outgoing(),
      new AbortController().signal,
    )

  it('of a block allow its addresses, and no others', async () => {
    expect(await deliver({ allow: ['127.0.0.0/30'] }, '127.0.0.2')).toMatchObject({ status: 'delivered' })
    expect(await deliver({ allow: ['127.0.0.0/30'] }, '127.0.0.4')).toMatchObject({ status: 'refused' })
    expect(await deliver({ allow: ['127.0.0.0/30'] }, '[::ffff:127.0.0.2]')).toMatchObject({ status: 'refused' })
    expect(await deliver({ allow: ['127.0.0.1'] }, 'a.test', { 'a.test': ['127.0.0.1'] })).toMatchObject({
      status: 'delivered',
    })
    expect(await deliver({ allow: ['127.0.0.1'] }, 'a.test', { 'a.test': ['127.0.0.1', '127.0.0.2'] })).toMatchObject({
      status: 'failed',
    })
  })

  it('of a host allow this name, and no others', async () => {
    const table = {
      'hooks.internal': ['127.0.0.1'],
      'a.hooks.internal': ['127.0.0.1'],
      'xhooks.internal': ['127.0.0.1'],
    }
    expect(await deliver({ allow: ['Hooks.internal'] }, 'hooks.INTERNAL', table)).toMatchObject({ status: 'delivered' })
    expect(await deliver({ allow: ['hooks.internal'] }, 'a.hooks.internal', table)).toMatchObject({ status: 'failed' })
    expect(await deliver({ allow: ['hooks.internal'] }, 'xhooks.internal', table)).toMatchObject({ status: 'failed' })
    expect(await deliver({ allow: ['hooks.internal'] }, '127.0.0.1', table)).toMatchObject({ status: 'refused' })
  })

  it('of a host ask the machine for its addresses', async () => {
    const to = destination({ ...OPEN, allow: ['localhost'] })
    expect(await to.check(url('localhost'))).toBeUndefined()
    expect(await to.deliver(endpointAt(url('localhost')), outgoing(), new AbortController().signal)).toMatchObject({
      status: 'delivered',
    })
  })

  it('are overruled by what is denied', async () => {
    expect(await deliver({ allow: ['127.0.0.0/8'], deny: ['127.0.0.1'] }, '127.0.0.1')).toMatchObject({
      status: 'refused',
    })
    expect(await deliver({ allow: ['127.0.0.0/8'], deny: ['127.0.0.1'] }, '127.0.0.2')).toMatchObject({
      status: 'delivered',
    })
    const table = { 'hooks.internal': ['127.0.0.1'] }
    expect(await deliver({ allow: ['hooks.internal'], deny: ['127.0.0.1'] }, 'hooks.internal', table)).toMatchObject({
      status: 'failed',
    })
    expect(await deliver({ allow: ['127.0.0.1'], deny: ['hooks.internal'] }, 'hooks.internal', table)).toMatchObject({
      status: 'refused',
    })
    const mapped = { 'hooks.internal': ['::ffff:127.0.0.1'] }
    expect(await deliver({ allow: ['hooks.internal'], deny: ['127.0.0.1'] }, 'hooks.internal', mapped)).toMatchObject({
      status: 'failed',
      error: { code: 'forbidden-address' },
    })
    expect(await destination({ deny: ['8.8.8.0/24'] }).check('https://8.8.8.8/')).toContain('may be sent')
  })
})

describe('registration', () => {
  const to = destination({}, names({ 'hooks.test': ['93.184.216.34'], 'inside.test': ['10.0.0.1'] }))

  it('accepts what may be called, without calling it', async () => {
    expect(await to.check('https://hooks.test/path?query')).toBeUndefined()
    expect(await to.check('https://93.184.216.34/')).toBeUndefined()
    expect(await to.check('https://[2606:4700::1]/')).toBeUndefined()
  })

  it('says in one sentence what is wrong, and nothing about our network', async () => {
    expect(await to.check('https://inside.test/')).toBe(
      'the name of the host leads to an address to which webhooks may not be sent',
    )
    expect(await to.check('https://nowhere.test/')).toBe('the name of the host has no address')
    expect(await to.check('https://10.0.0.1/')).toBe(
      'expected the url of a webhook to name a host to which webhooks may be sent, got 10.0.0.1',
    )
  })

  it('accepts a name about which the name servers say nothing', async () => {
    const silent = destination({}, () => Promise.reject(Object.assign(new Error('x'), { code: 'ETIMEOUT' })))
    expect(await silent.check('https://hooks.test/')).toBeUndefined()
  })
})

describe('name servers', () => {
  /** Answers questions about addresses from a table: A by its four bytes, nothing else. Other names do not exist. */
  async function nameServer(table: Record<string, string>): Promise<AsyncDisposable & { address: string }> {
    const socket = createSocket('udp4')
    socket.on('message', (question, { port, address }) => {
      const end = question.indexOf(0, 12)
      const name = labels(question.subarray(12, end))
      const found = question.readUInt16BE(end + 1) === 1 ? table[name] : undefined
      if (name === 'silent.test') return
      const header = Buffer.from(question.subarray(0, 12))
      header.writeUInt16BE(name in table ? 0x8180 : 0x8183, 2)
      header.writeUInt16BE(found === undefined ? 0 : 1, 6)
      header.writeUInt32BE(0, 8)
      const answer =
        found === undefined ? [] : [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...found.split('.').map(Number)]
      socket.send(Buffer.concat([header, question.subarray(12, end + 5), Buffer.from(answer)]), port, address)
    })
    await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve))
    return { address: `127.0.0.1:${socket.address().port}`, [Symbol.asyncDispose]: async () => void socket.close() }
  }

  function labels(bytes: Buffer): string {
    const found: string[] = []
    for (let at = 0; at < bytes.length; at += 1 + (bytes[at] ?? 0))
      found.push(bytes.toString('latin1', at + 1, at + 1 + (bytes[at] ?? 0)))
    return found.join('.').toLowerCase()
  }

  it('are asked directly, and may not answer', async () => {
    await using server = await nameServer({ 'hooks.test': '127.0.0.1', 'empty.test': '' })
    const ask = (name: string, signal = new AbortController().signal): Promise<readonly string[]> =>
      askServers(name, signal, [server.address])
    expect(await ask('hooks.test')).toEqual(['127.0.0.1'])
    await expect(ask('nowhere.test')).rejects.toMatchObject({ code: 'ENOTFOUND' })
    await expect(ask('silent.test', AbortSignal.timeout(100))).rejects.toMatchObject({ code: 'ECANCELLED' })
    await expect(ask('hooks.test', AbortSignal.abort())).rejects.toThrow()
  })

  it('that cannot be reached are no receiver that refuses the connection', async () => {
    const gone = await nameServer({})
    await gone[Symbol.asyncDispose]()
    const to = destination({}, (name, signal) => askServers(name, signal, [gone.address]))
    expect(await to.check('https://hooks.test/')).toBeUndefined()
    expect(await to.deliver(endpointAt('https://hooks.test/'), outgoing(), new AbortController().signal)).toMatchObject(
      {
        status: 'failed',
        error: { code: 'endpoint-unavailable', message: 'the name of the host could not be resolved' },
      },
    )
  })
})
