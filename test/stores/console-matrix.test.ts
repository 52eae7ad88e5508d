import type { Role } from 'hapax/console'
import { describe, expect, it } from 'vitest'
import { ROLES } from '../../src/console/options.ts'
import type { Route } from '../../src/console/route.ts'
import { ROUTES } from '../../src/console/routes/index.ts'
import { asRole, type ConsoleWorld, consoleWorld, posted } from '../support/console-world.ts'
import { durableStores } from '../support/databases.ts'

const OPERATION = '01890000-0000-7000-8000-000000000000'

/** A good value for every field of every route, by name. A field that is missing here fails the test. */
function fineValues({ failedSeq, sentSeq }: ConsoleWorld, { path }: Route): Readonly<Record<string, unknown>> {
  const seq = path.includes('/sent/') ? sentSeq : failedSeq
  return {
    ...{ seq, id: OPERATION, name: 'billing', scope: 'billing', origin: 'inbox', key: 'order-17', place: 'inbox' },
    ...{
      type: 'order.placed',
      state: path.endsWith('settle') ? 'done' : path.includes('effects') ? 'unknown' : 'held',
    },
    ...{ source: '/shop', since: '2026-01-01T00:00:00Z', until: '2100-01-01T00:00:00Z', reason: 'permanent' },
    ...{ errorHash: 'abc', actor: 'ada', action: 'retry', cursor: undefined, limit: '10', whole: '1', scan: '1' },
    ...{ where: { scope: 'billing' }, all: undefined, kind: 'retry', perSecond: 5, effect: 'send', result: undefined },
    ...{ data: '{}', note: 'because', effectsChecked: true },
  }
}

interface Call {
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
}

/** A request that the route takes. */
function fineCall(world: ConsoleWorld, route: Route): Call {
  const values = fineValues(world, route)
  const fineValue = (name: string): unknown => {
    if (!(name in values)) throw new Error(`the test has no value for ${name} of ${route.path}`)
    return values[name]
  }
  const path = route.path.replaceAll(/:(\w+)/g, (_, name: string) => encodeURIComponent(String(fineValue(name))))
  const given = route.takes.filter((name) => fineValue(name) !== undefined)
  const body = Object.fromEntries(given.map((name) => [name, fineValue(name)]))
  if (route.method === 'POST') return { path, body }
  const query = new URLSearchParams(given.map((name): [string, string] => [name, String(body[name])]))
  return { path: `${path}?${query}`, body: {} }
}

function sent(route: Route, { body }: Call, headers: Record<string, string> = {}): RequestInit {
  return route.method === 'POST' ? posted(body, headers) : { headers }
}

const lower = (role: Role): readonly Role[] => ROLES.slice(0, ROLES.indexOf(role))

const FOREIGN = { origin: 'https://evil.test' }
const FORM = 'application/x-www-form-urlencoded'

/** What is wrong with each of these requests is not the fault of the person, who may do everything. */
function wrongly(route: Route, call: Call): readonly [name: string, path: string, init: RequestInit][] {
  const { path, body } = call
  const sites = ['cross-site', 'same-site'].map((site): [string, string, RequestInit] => [
    site,
    path,
    sent(route, call, { 'sec-fetch-site': site, ...FOREIGN }),
  ])
  const both: [string, string, RequestInit][] = [
    ...sites,
    [
      'an origin of another port',
      path,
      sent(route, call, { 'sec-fetch-site': 'none', origin: 'http://console.test:81' }),
    ],
    ['the origin null', path, sent(route, call, { 'sec-fetch-site': 'none', origin: 'null' })],
    ...['PUT', 'DELETE', 'PATCH'].map((method): [string, string, RequestInit] => [method, path, { method }]),
    ['a path with dots', path.replace('api/', 'api/%2e%2e%2fapi%2f'), sent(route, call)],
  ]
  if (route.method === 'GET') {
    return [
      ...both,
      ['POST for GET', path, posted({})],
      ['an unknown name', `${path}&__proto__=1`, {}],
      ['a name twice', `${path}&x=1&x=2`, {}],
    ]
  }
  const { origin: _, 'sec-fetch-site': __, ...bare } = Object(posted(body).headers)
  return [
    ...both,
    ...['GET', 'HEAD']
      .filter(() => !ROUTES.some((each) => each.method === 'GET' && each.path === route.path))
      .map((method): [string, string, RequestInit] => [`${method} for POST`, path, { method }]),
    ['no origin at all', path, { ...posted(body), headers: bare }],
    ['a form', path, posted(new URLSearchParams({ note: 'x' }).toString(), { 'content-type': FORM })],
    ['plain text', path, posted(body, { 'content-type': 'text/plain' })],
    ['another charset', path, posted(body, { 'content-type': 'application/json; charset=utf-16' })],
    ['a large body', path, posted(`{"note":"${'x'.repeat(route.large ? 9_000_000 : 1_100_000)}"}`)],
    ['no JSON', path, posted('{')],
    ...['null', '[]', '"x"', '1', '', '[{"note":"x"}]'].map((text): [string, string, RequestInit] => [
      `the body ${text}`,
      path,
      posted(text),
    ]),
    ['an unknown field', path, posted({ ...body, more: 1 })],
    ['__proto__', path, posted(`{"__proto__":{"role":"admin"},${JSON.stringify(body).slice(1)}`)],
    ['constructor', path, posted({ ...body, constructor: 'x' })],
    ...route.path
      .split('/')
      .filter((part) => part.startsWith(':'))
      .map((part): [string, string, RequestInit] => [
        'a part of the path in the body',
        path,
        posted({ ...body, [part.slice(1)]: 'x' }),
      ]),
  ]
}

/** Values that no field takes. */
const NO_VALUES: readonly unknown[] = [
  null,
  0,
  -1,
  1e300,
  false,
  '',
  'x'.repeat(10_000),
  '\ud800',
  ['a'],
  { toString: 'x' },
  [[]],
  { $ne: null },
]

/** Texts that some fields take; where they select rows, they select none. */
const ODD_TEXTS: readonly string[] = [
  '../../etc/passwd',
  '__proto__',
  `x'; drop table victims; --`,
  'a\0b',
  '1e3',
  '%00',
  '\u202e',
]

/** Fields whose texts are anything that a person writes. */
const FREE: readonly string[] = ['note', 'data', 'result']

/** The routes that change what their fields select, as lists do: odd texts select nothing. */
const SELECTING: readonly string[] = ['api/messages/retry']

const CHANGING = ROUTES.filter((route) => route.method === 'POST')

describe.for(durableStores())('the routes of the console on %s', (store) => {
  it('have a role and a path of their own', () => {
    for (const { role, path } of ROUTES) expect([path, ROLES.includes(role)]).toEqual([path, true])
    const names = ROUTES.map(({ method, path }) => `${method} ${path}`)
    expect(new Set(names).size).toBe(names.length)
    // Whoever adds one that a viewer may POST has to think about it.
    expect(CHANGING.filter(({ role }) => role === 'viewer').map(({ path }) => path)).toEqual(['api/failed/count'])
  })

  it('refuse everybody who may not use them, and change no row', async () => {
    const world = await consoleWorld(store)
    const before = await world.rows()
    for (const route of ROUTES) {
      const call = fineCall(world, route)
      const init = sent(route, call)
      const refusals: [status: number, response: Response][] = [[404, await asRole(world, null)(call.path, init)]]
      for (const role of lower(route.role)) refusals.push([403, await asRole(world, role)(call.path, init)])
      refusals.push([421, await asRole(world, 'admin', { allowedHosts: ['other.test'] })(call.path, init)])
      if (route.method === 'POST' && !route.harmless) {
        refusals.push([403, await asRole(world, 'admin', { readOnly: true })(call.path, init)])
      }
      for (const [status, response] of refusals) expect([route.path, response.status]).toEqual([route.path, status])
    }
    expect(await world.rows()).toBe(before)
  })

  it('look at the role before the body, and again at what exactly is to be done', async () => {
    const world = await consoleWorld(store)
    const before = await world.rows()
    for (const route of CHANGING) {
      for (const role of lower(route.role)) {
        const { status } = await asRole(world, role)(fineCall(world, route).path, posted('no JSON'))
        expect([route.path, role, status]).toEqual([route.path, role, 403])
      }
    }
    // Beginning an operation is for operators, unless it discards.
    for (const choice of [{ where: { scope: 'billing' } }, { all: true }]) {
      const { status } = await asRole(world, 'operator')('api/operations', posted({ kind: 'discard', ...choice }))
      expect(status).toBe(403)
    }
    expect(await world.rows()).toBe(before)
  })

  it('refuse requests of other origins, methods, types and sizes, and change no row', async () => {
    const world = await consoleWorld(store)
    const before = await world.rows()
    const admin = asRole(world, 'admin')
    for (const route of ROUTES) {
      for (const [name, path, init] of wrongly(route, fineCall(world, route))) {
        const { status } = await admin(path, init)
        expect([route.path, name, status >= 400 && status < 500, status]).toEqual([route.path, name, true, status])
        // By its size, before it is looked into.
        if (name === 'a large body') expect([route.path, status]).toEqual([route.path, 413])
      }
    }
    expect(await world.rows()).toBe(before)
  })

  it('refuse hostile values in every field, and change no row', async () => {
    const world = await consoleWorld(store)
    const before = await world.rows()
    const admin = asRole(world, 'admin')
    for (const route of CHANGING) {
      const { path, body } = fineCall(world, route)
      for (const name of route.takes) {
        const odd = FREE.includes(name) || route.harmless ? [] : ODD_TEXTS
        // A payload may be any text; whether it is JSON is looked at where the message has JSON.
        const others =
          name === 'data' ? NO_VALUES.filter((each) => typeof each !== 'string' || !each.isWellFormed()) : NO_VALUES
        for (const value of [...others, ...odd]) {
          const { status } = await admin(path, posted({ ...body, [name]: value }))
          const least = SELECTING.includes(route.path) && typeof value === 'string' && odd.includes(value) ? 200 : 400
          expect([route.path, name, value, status >= least && status < 500, status]).toEqual([
            route.path,
            name,
            value,
            true,
            status,
          ])
        }
      }
    }
    expect(await world.rows()).toBe(before)
  })

  it('answer hostile queries and paths by 200 or 4xx, and change no row', async () => {
    const world = await consoleWorld(store)
    const before = await world.rows()
    const admin = asRole(world, 'admin')
    const texts = [
      ...ODD_TEXTS,
      ...NO_VALUES.map((each) => JSON.stringify(each)),
      'é'.repeat(3_000),
      '9'.repeat(400),
      '-1',
      '0',
      '1.5',
    ]
    for (const route of ROUTES.filter(({ method }) => method === 'GET')) {
      const { path } = fineCall(world, route)
      for (const name of route.takes) {
        for (const value of texts) {
          const url = new URL(path, 'http://console.test/')
          url.searchParams.set(name, value)
          const { status } = await admin(url.href.slice('http://console.test/'.length))
          expect([url.pathname, name, value, status]).toEqual([url.pathname, name, value, status < 500 ? status : 400])
        }
      }
    }
    for (const route of ROUTES.filter(({ path }) => /:(seq|id)/.test(path))) {
      for (const value of texts) {
        const call = fineCall(world, route)
        const path = route.path.replace(/:\w+/, encodeURIComponent(value.toWellFormed()))
        const { status } = await admin(path, sent(route, call))
        expect([route.path, value, status >= 400 && status < 500, status]).toEqual([route.path, value, true, status])
      }
    }
    expect(await world.rows()).toBe(before)
  })
})
