import { createHapax, silentLogger } from 'hapax'
import { createConsole } from 'hapax/console'
import { memory } from 'hapax/memory'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { settingsOf } from '../../src/console/options.ts'
import { ROUTES } from '../../src/console/routes/index.ts'
import { accountsOf, type StandaloneOptions, standaloneConsole } from '../../src/console/standalone/index.ts'

const ORIGIN = 'http://127.0.0.1:4000'

function opened({ audit, ...options }: Partial<StandaloneOptions> & { audit?: () => Promise<void> } = {}) {
  const hapax = createHapax({ store: memory(), source: '/shop', logger: silentLogger })
  if (audit !== undefined) hapax.audit.record = audit
  onTestFinished(() => hapax.close())
  const person = { actor: 'ada', role: 'admin' } as const
  const hosts = ['127.0.0.1:4000', 'localhost:4000', 'ops.test']
  const { handler, token } = standaloneConsole(hapax, { hosts, person, readOnly: false, name: 'shop', ...options })
  const at = (path: string, init?: RequestInit, origin = ORIGIN): Promise<Response> =>
    handler(new Request(`${origin}/${path}`, init))
  const visits = async () =>
    (await hapax.audit.list()).rows.map(({ action, actor, note }) => [action, actor, note]).reverse()
  return { at, token, visits }
}

const SAME = { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' }

function login(token: unknown, headers: Record<string, string> = SAME): RequestInit {
  return { method: 'POST', headers, body: JSON.stringify({ token }) }
}

const cookieOf = (response: Response): string => response.headers.get('set-cookie') ?? ''
const pairOf = (cookie: string): string => cookie.split(';')[0] ?? ''

describe('the one-time token', () => {
  it('is exchanged for a cookie once', async () => {
    const { at, token } = opened()
    const given = token()
    expect((await at('api/session')).status).toBe(401)
    const entered = await at('api/login', login(given))
    expect(entered.status).toBe(200)
    expect(cookieOf(entered)).toMatch(
      /^hapax-console-4000=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/,
    )
    const again = await at('api/login', login(given))
    expect([again.status, again.headers.get('set-cookie')]).toEqual([401, null])
    const session = await at('api/session', { headers: { cookie: `other=1; ${pairOf(cookieOf(entered))}` } })
    expect(await session.json()).toMatchObject({ actor: 'ada', role: 'admin' })
  })

  it('is of no use after ten minutes, nor is the cookie after twelve hours', async () => {
    let now = 0
    const { at, token } = opened({ now: () => now })
    const [late, early] = [token(), token()]
    now = 10 * 60_000 - 1
    const cookie = pairOf(cookieOf(await at('api/login', login(early))))
    now += 1
    expect((await at('api/login', login(late))).status).toBe(401)
    expect((await at('api/session', { headers: { cookie } })).status).toBe(200)
    now += 12 * 3_600_000
    expect((await at('api/session', { headers: { cookie } })).status).toBe(401)
  })

  it.for<[name: string, status: number, init: (token: string) => RequestInit, origin?: string]>([
    ['another host', 421, (token) => login(token), 'http://evil.test:4000'],
    ['another port of the same host', 421, (token) => login(token), 'http://127.0.0.1:4001'],
    ['a page of another origin', 403, (token) => login(token, { ...SAME, 'sec-fetch-site': 'cross-site' })],
    ['a page of another port', 403, (token) => login(token, { ...SAME, 'sec-fetch-site': 'same-site' })],
    ['nowhere', 403, (token) => login(token, { 'content-type': 'application/json' })],
    ['a form', 415, (token) => login(token, { ...SAME, 'content-type': 'text/plain' })],
    ['a link', 405, () => ({})],
  ])('is not exchanged for a request from %s', async ([, status, init, origin]) => {
    const { at, token } = opened()
    const given = token()
    const response = await at('api/login', init(given), origin)
    expect([response.status, response.headers.get('set-cookie')]).toEqual([status, null])
    // It was not used up: a page of an attacker must not keep its owner out.
    expect((await at('api/login', login(given))).status).toBe(200)
  })

  it.for([undefined, null, 1, '', 'x', ['x'], { $ne: '' }, 'é'.repeat(9_000)])('is not %j', async (token) => {
    expect((await opened().at('api/login', login(token))).status).toBe(401)
  })

  it('becomes a cookie that only this host gets, where the console is reached by https', async () => {
    const { at, token } = opened()
    const entered = await at('api/login', login(token()), 'https://ops.test')
    expect(cookieOf(entered)).toMatch(
      /^__Host-hapax-console=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200; Secure$/,
    )
  })

  it('is not needed to see the page, which shows nothing by itself', async () => {
    const { at } = opened()
    const page = await at('failed')
    expect([page.status, page.headers.get('content-security-policy')]).toEqual([
      200,
      expect.stringContaining("default-src 'none'"),
    ])
  })
})

describe('signing out', () => {
  const OUT: RequestInit = { method: 'POST', headers: SAME, body: '{}' }

  it('ends the session of the one-time token, and both ends are in the audit', async () => {
    const { at, token, visits } = opened()
    const cookie = pairOf(cookieOf(await at('api/login', login(token()))))
    const another = pairOf(cookieOf(await at('api/login', login(token()))))
    expect(await (await at('api/session', { headers: { cookie } })).json()).toMatchObject({ signOut: 'token' })
    const left = await at('api/logout', { ...OUT, headers: { ...SAME, cookie } })
    expect([left.status, cookieOf(left)]).toEqual([
      200,
      'hapax-console-4000=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0',
    ])
    expect((await at('api/session', { headers: { cookie } })).status).toBe(401)
    expect((await at('api/session', { headers: { cookie: another } })).status).toBe(200)
    const entered = ['sign-in', 'ada', 'by the one-time token']
    expect(await visits()).toEqual([entered, entered, ['sign-out', 'ada', null]])
  })

  it('makes a browser that keeps the password ask for it again', async () => {
    const accounts = accountsOf('ada:operator:correct horse battery')
    const { at, visits } = opened({ accounts })
    const authorization = `Basic ${Buffer.from('ada:correct horse battery').toString('base64')}`
    for (const path of ['', 'api/session', 'api/keys']) {
      expect((await at(path, { headers: { authorization } })).status).toBe(200)
    }
    expect(await (await at('api/session', { headers: { authorization } })).json()).toMatchObject({
      signOut: 'password',
    })
    const left = await at('api/logout', { ...OUT, headers: { ...SAME, authorization } })
    const cookie = pairOf(cookieOf(left))
    expect([left.status, cookie]).toEqual([200, 'hapax-signed-out-4000=1'])
    // A request in the background asks nobody.
    const polled = await at('api/session', { headers: { authorization, cookie } })
    expect([polled.status, polled.headers.get('www-authenticate')]).toEqual([401, null])
    const page = await at('', { headers: { authorization, cookie } })
    const asked = pairOf(cookieOf(page))
    expect([page.status, page.headers.get('www-authenticate'), asked]).toEqual([
      401,
      expect.stringContaining('Basic'),
      'hapax-signed-out-4000=2',
    ])
    const wrong = `Basic ${Buffer.from('ada:wrong').toString('base64')}`
    for (const headers of [{ cookie: asked }, { cookie: asked, authorization: wrong }]) {
      expect((await at('failed?scope=a', { headers })).status).toBe(401)
    }
    const back = await at('failed?scope=a', { headers: { authorization, cookie: asked } })
    expect([back.status, back.headers.get('location'), cookieOf(back)]).toEqual([
      303,
      './failed?scope=a',
      expect.stringContaining('hapax-signed-out-4000=; '),
    ])
    expect((await at('', { headers: { authorization } })).status).toBe(200)
    const entered = ['sign-in', 'ada', 'by password']
    expect(await visits()).toEqual([entered, ['sign-out', 'ada', null], entered])
  })

  it('of one browser leaves the others of the same person as they are', async () => {
    const accounts = accountsOf('ada:operator:correct horse battery')
    const { at, visits } = opened({ accounts, now: () => 0 })
    const authorization = `Basic ${Buffer.from('ada:correct horse battery').toString('base64')}`
    const wrong = `Basic ${Buffer.from('ada:wrong').toString('base64')}`
    const another = async () => (await at('api/session', { headers: { authorization } })).status
    expect(await another()).toBe(200)
    expect((await at('api/logout', { ...OUT, headers: { ...SAME, authorization } })).status).toBe(200)
    // Its credentials were accepted before: guesses of others do not keep it out.
    for (let n = 0; n < 10; n++) await at('api/session', { headers: { authorization: wrong } })
    expect((await at('api/session', { headers: { authorization: wrong } })).status).toBe(429)
    expect(await another()).toBe(200)
    expect((await visits()).map(([action]) => action)).toEqual(['sign-in', 'sign-out'])
  })

  it.for<[name: string, status: number, init: RequestInit]>([
    ['a page of another origin', 403, { ...OUT, headers: { ...SAME, 'sec-fetch-site': 'cross-site' } }],
    ['a link', 405, {}],
  ])('is not done for %s', async ([, status, init]) => {
    const { at, token } = opened()
    const cookie = pairOf(cookieOf(await at('api/login', login(token()))))
    const refused = await at('api/logout', { ...init, headers: { ...Object(init.headers), cookie } })
    expect([refused.status, refused.headers.get('set-cookie')]).toEqual([status, null])
    expect((await at('api/session', { headers: { cookie } })).status).toBe(200)
  })

  it('is not offered to programs, and not where the application signs people in', async () => {
    const bearer = 'b'.repeat(32)
    const { at, visits } = opened({ bearer })
    const headers = { authorization: `Bearer ${bearer}` }
    expect(await (await at('api/session', { headers })).json()).toMatchObject({ signOut: null })
    expect(await visits()).toEqual([['sign-in', 'ada', 'by the bearer token']])
  })

  it('does not depend on an audit that can be written', async () => {
    const warn = vi.fn()
    const { at, token } = opened({ warn, audit: () => Promise.reject(new Error('permission denied')) })
    const entered = await at('api/login', login(token()))
    expect(entered.status).toBe(200)
    expect(warn.mock.calls).toEqual([['the audit could not be written: permission denied']])
  })
})

describe('guessing', () => {
  const accounts = accountsOf('ada:operator:correct horse battery\nbob:viewer:pass:word:with:colons')
  const basic = (name: string, password: string): RequestInit => ({
    headers: { authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}` },
  })
  const ada = basic('ada', 'correct horse battery')
  const bob = basic('bob', 'pass:word:with:colons')

  it('is limited to ten wrong passwords and then one every six seconds, and every checked one is logged', async () => {
    let now = 1_000
    const warn = vi.fn()
    const { at } = opened({ accounts, now: () => now, warn })
    const statuses = async (init: RequestInit, times: number): Promise<readonly number[]> => {
      const found: number[] = []
      for (let n = 0; n < times; n++) found.push((await at('api/session', init)).status)
      return found
    }
    expect(await statuses(ada, 1)).toEqual([200])
    expect(new Set(await statuses(basic('ada', 'wrong'), 10))).toEqual(new Set([401]))
    expect(new Set(await statuses(basic('ada', 'wrong too'), 5_000))).toEqual(new Set([429]))
    expect(warn).toHaveBeenCalledTimes(10)
    // A user who signed in before continues; everyone else waits, even with the right password, which may be a guess.
    expect(await statuses(ada, 1)).toEqual([200])
    const late = await at('api/session', bob)
    expect([late.status, late.headers.get('retry-after')]).toEqual([429, '6'])
    now += 6_000
    expect(await statuses(bob, 1)).toEqual([200])
    expect(await statuses(basic('ada', 'wrong'), 2)).toEqual([401, 429])
    now += 3_600_000
    expect(await statuses(basic('ada', 'wrong'), 11)).toEqual([...Array(10).fill(401), 429])
  })

  it('is limited for bearer tokens as well, and does not affect requests without credentials', async () => {
    const { at, token } = opened({ bearer: 'x'.repeat(32), now: () => 0 })
    const guess = { headers: { authorization: 'Bearer wrong' } }
    for (let n = 0; n < 10; n++) expect((await at('api/session', guess)).status).toBe(401)
    expect((await at('api/session', guess)).status).toBe(429)
    expect((await at('api/login', login(token()))).status).toBe(200)
  })
})

describe('with passwords', () => {
  const accounts = accountsOf('# people\nada:operator:correct horse battery\n\nbob:viewer:pass:word:with:colons\n')
  const basic = (name: string, password: string): RequestInit => ({
    headers: { authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}` },
  })

  it('people are who the file says', async () => {
    const { at } = opened({ accounts })
    const ada = await at('api/session', basic('ada', 'correct horse battery'))
    const bob = await at('api/session', basic('bob', 'pass:word:with:colons'))
    expect([await ada.json(), await bob.json()]).toMatchObject([
      { actor: 'ada', role: 'operator' },
      { actor: 'bob', role: 'viewer' },
    ])
  })

  it.for([basic('ada', 'wrong'), basic('bob', 'correct horse battery'), basic('', ''), {}])(
    'others are asked for theirs: %j',
    async (init) => {
      const { at, token } = opened({ accounts })
      for (const path of ['', 'api/session', 'app.js']) {
        const response = await at(path, init)
        expect([path, response.status, response.headers.get('www-authenticate')]).toEqual([
          path,
          401,
          'Basic realm="hapax", charset="UTF-8"',
        ])
      }
      expect((await at('api/login', login(token()))).status).toBe(401)
    },
  )

  it.for(['', 'ada:operator', 'ada:root:correct horse battery', 'ada:admin:short', ':admin:correct horse battery'])(
    'a file with %j is refused, without its password',
    (text) => {
      expect(() => accountsOf(text)).toThrow(/^expected (line 1|the file of --auth) to be/)
      expect(() => accountsOf(text)).not.toThrow('correct horse')
    },
  )
})

describe('with a bearer token', () => {
  const bearer = 'b'.repeat(32)

  it('programs need no origin for changes, and pages of others are refused all the same', async () => {
    const { at } = opened({ bearer })
    const authorization = `Bearer ${bearer}`
    const count = (headers: Record<string, string>): RequestInit => ({
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json', ...headers },
      body: '{"where":{"scope":"billing"}}',
    })
    expect((await at('api/failed/count', count({}))).status).toBe(200)
    expect((await at('api/failed/count', count({ 'sec-fetch-site': 'cross-site' }))).status).toBe(403)
    expect((await at('api/failed/count', count({ authorization: `${authorization}x` }))).status).toBe(401)
    expect((await opened().at('api/session', { headers: { authorization: 'Bearer ' } })).status).toBe(401)
  })
})

describe('createConsole', () => {
  const hapax = createHapax({ store: memory(), source: '/shop', logger: silentLogger })
  const asked = async (authorize: unknown): Promise<[number, string, unknown[]]> => {
    const errors: unknown[] = []
    const { handler } = createConsole(hapax, {
      authorize: authorize as () => null,
      onError: (error) => errors.push(error),
    })
    const response = await handler(new Request('http://x/api/session'))
    return [response.status, await response.text(), errors]
  }

  it('refuses to be created without authorize', () => {
    expect(() => createConsole(hapax, {} as never)).toThrow('expected authorize to be a function')
    expect(() => createConsole(hapax, { authorize: true } as never)).toThrow('expected authorize to be a function')
  })

  it.for<[name: string, authorize: () => unknown]>([
    ['undefined', () => undefined],
    ['true', () => true],
    ['a role that does not exist', () => ({ actor: 'ada', role: 'root' })],
    ['no actor', () => ({ role: 'admin' })],
    ['an empty actor', () => ({ actor: '', role: 'admin' })],
    [
      'a throw',
      () => {
        throw new Error('secret of the application')
      },
    ],
    ['a rejection', () => Promise.reject(new Error('secret of the application'))],
  ])('answers by 500 without details, and tells the application, where authorize returns %s', async ([, authorize]) => {
    const [status, text, errors] = await asked(authorize)
    expect([status, errors.length]).toEqual([500, 1])
    expect(text).not.toContain('secret')
  })

  it('shows nothing at all to nobody: pages, files and answers are 404', async () => {
    const { handler } = createConsole(hapax, { authorize: async () => null, basePath: '/ops' })
    for (const path of ['', '/', '/app.js', '/failed', '/api/session', '/api/login']) {
      const response = await handler(new Request(`http://x/ops${path}`))
      expect([path, response.status]).toEqual([path, 404])
    }
  })

  it.for(['/', '/a', '/api', '/failed', '/%2f'])(
    'looks at a few ends of an address only, whoever sends it: %s thousands of times',
    async (part) => {
      const { handler } = createConsole(hapax, { authorize: async () => null })
      const address = `http://x/ops${part.repeat(16_000 / part.length)}`
      await handler(new Request('http://x/ops'))
      const took: number[] = []
      // The shortest is what it takes: during another one, the garbage of other tests in this process may be collected.
      for (let time = 0; time < 3; time++) {
        const began = process.cpuUsage()
        expect((await handler(new Request(address))).status).toBe(404)
        const { user, system } = process.cpuUsage(began)
        took.push((user + system) / 1_000)
      }
      // All ends of it took several seconds of the processor, during which nothing else was answered.
      expect(Math.min(...took)).toBeLessThan(500)
    },
  )

  it('puts two questions to the database at a time, also those that are sent by POST', async () => {
    const own = createHapax({ store: memory(), source: '/shop', logger: silentLogger })
    const count = vi.spyOn(own.failed, 'count').mockImplementation(() => new Promise(() => {}))
    const { handler } = createConsole(own, { authorize: () => ({ actor: 'eve', role: 'viewer' }), readOnly: true })
    const posted = (index: number): Promise<Response> => {
      const body = JSON.stringify({ where: { scope: `billing-${index}` } })
      return handler(new Request('http://x/api/failed/count', { method: 'POST', headers: SAME, body }))
    }
    const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => posted(index)))
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 503))
    expect(count).toHaveBeenCalledTimes(2)
  })

  it('says that there are more groups than it shows', async () => {
    const own = createHapax({ store: memory(), source: '/shop', logger: silentLogger })
    const consumer = own.consumer('billing', { unknown: 'fail' })
    const { handler } = createConsole(own, { authorize: () => ({ actor: 'ada', role: 'viewer' }) })
    const groups = async (): Promise<[shown: number, more: boolean]> => {
      const found = Object(await (await handler(new Request('http://x/api/failed/groups'))).json())
      return [found.groups.length, found.more]
    }
    const fail = (type: number) => consumer.handle({ source: '/shop', id: `${type}`, type: `t-${type}`, data: {} })
    for (let type = 0; type < 200; type++) await fail(type)
    expect(await groups()).toEqual([200, false])
    await fail(200)
    expect(await groups()).toEqual([200, true])
  })

  it('keeps no payloads of lists, which no list shows', async () => {
    const own = createHapax({ store: memory(), source: '/shop', logger: silentLogger })
    const consumer = own.consumer('billing', { unknown: 'fail' })
    await consumer.handle({ source: '/shop', id: '1', type: 'order.placed', data: { text: 'x'.repeat(10_000) } })
    const route = ROUTES.find(({ path }) => path === 'api/failed')
    if (route?.method !== 'GET') throw new Error('there is no such route')
    const settings = settingsOf({ authorize: () => null })
    const rows = await route.question(own, {}, {}, settings).load()
    expect(rows).toMatchObject([{ message: { id: '1', data: new Uint8Array() } }])
  })

  it('answers nothing once it is closed', async () => {
    const opened = createConsole(hapax, { authorize: () => ({ actor: 'ada', role: 'admin' }) })
    await opened.close()
    expect((await opened.handler(new Request('http://x/'))).status).toBe(503)
  })
})
