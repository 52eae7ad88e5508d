import { defineMessage } from 'hapax'
import type { ConsoleOptions, Role } from 'hapax/console'
import type { Destination } from 'hapax/contracts'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ROUTES } from '../../src/console/routes/index.ts'
import { asRole, CANARY, type ConsoleWorld, consoleWorld, EXACT, posted } from '../support/console-world.ts'
import { durableStores, table } from '../support/databases.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

const Due = defineMessage<unknown>('scan.due')
const OPERATION = '01890000-0000-7000-8000-000000000001'

/** Every address that this world has something to say at. */
function addresses({ failedSeq, unknownSeq }: ConsoleWorld): readonly string[] {
  const plain = ROUTES.filter(({ method, path }) => method === 'GET' && !path.includes(':')).map(({ path }) => path)
  const places = ['inbox', 'outbox', 'failed', 'sent', 'receipts'].map((place) => `api/messages?place=${place}`)
  const lives = ['failed-1', 'retrying-1', 'unknown-1', 'p-1'].map((id) => `api/message?id=${id}&source=/shop&whole=1`)
  const rows = [failedSeq, unknownSeq].map((seq) => `api/failed/${seq}?whole=1`)
  return [...plain.filter((path) => path !== 'api/messages' && path !== 'api/message'), ...places, ...lives, ...rows]
}

describe.for(durableStores())('the console on %s', (store) => {
  it('shows nothing of payloads, headers and stacks to who may not see them', async () => {
    const world = await consoleWorld(store)
    const [viewer, operator, strict] = [
      asRole(world, 'viewer'),
      asRole(world, 'operator'),
      asRole(world, 'operator', { payloads: 'admin' }),
    ]
    const seen: Record<'viewer' | 'operator' | 'strict', string> = { viewer: '', operator: '', strict: '' }
    for (const path of addresses(world)) {
      const answers = await Promise.all([viewer(path), operator(path), strict(path)])
      expect([path, ...answers.map(({ status }) => status)]).toEqual([path, 200, 200, 200])
      const [forViewer, forOperator, forStrict] = await Promise.all(answers.map((each) => each.text()))
      seen.viewer += forViewer
      seen.operator += forOperator
      seen.strict += forStrict
    }
    expect([seen.viewer.includes(CANARY), seen.strict.includes(CANARY), seen.operator.includes(CANARY)]).toEqual([
      false,
      false,
      true,
    ])
    // A header that proves who somebody is, is shown to nobody.
    expect(seen.operator).not.toContain(`Bearer ${CANARY}`)
    expect(seen.operator).toContain(`blue-${CANARY}`)
  })

  it('shows a payload digit for digit, and replaces it byte for byte', async () => {
    const world = await consoleWorld(store)
    const admin = asRole(world, 'admin')
    const { payload } = await jsonOf(admin(`api/failed/${world.failedSeq}`))
    expect(payload).toMatchObject({ text: EXACT, encoding: 'text', whole: true, redacted: false, bytes: EXACT.length })
    const data = EXACT.replace('12345678901234567890', '98765432109876543210')
    const { id } = await jsonOf(admin(`api/failed/${world.failedSeq}/edit`, posted({ data, note: 'a typing error' })))
    const [row] = (await world.hapax.messages.list({ origin: 'inbox', scope: 'billing', id: String(id) })).rows
    const stored = await world.hapax.messages.get('inbox', row?.seq ?? '')
    expect(Buffer.from(stored?.message.data ?? []).toString()).toBe(data)
    const audit = await jsonOf(admin('api/audit?action=edit'))
    expect(audit['rows']).toMatchObject([{ actor: 'a admin', note: 'a typing error' }])
  })

  it('refuses an edit that is no JSON where the message has JSON, and one of who does not see the payload as it is', async () => {
    const world = await consoleWorld(store)
    const edit = `api/failed/${world.failedSeq}/edit`
    const redact: ConsoleOptions['redact'] = ({ headers }) => ({ headers, data: Buffer.from('{"card":"***"}') })
    const redacting = asRole(world, 'admin', { redact })
    const { payload } = await jsonOf(redacting(`api/failed/${world.failedSeq}`))
    expect(payload).toMatchObject({ text: '{"card":"***"}', redacted: true })
    const before = await world.rows()
    expect((await asRole(world, 'admin')(edit, posted({ data: '{"amount":' }))).status).toBe(422)
    expect((await redacting(edit, posted({ data: '{"card":"***"}' }))).status).toBe(403)
    expect(await world.rows()).toBe(before)
  })

  it.for<[action: string, role: Role, path: (world: ConsoleWorld) => string, body: object]>([
    ['retry', 'operator', ({ failedSeq }) => `api/failed/${failedSeq}/retry`, {}],
    ['discard', 'operator', ({ failedSeq }) => `api/failed/${failedSeq}/discard`, {}],
    ['note', 'operator', ({ failedSeq }) => `api/failed/${failedSeq}/note`, {}],
    [
      'settle',
      'admin',
      ({ unknownSeq }) => `api/failed/${unknownSeq}/settle`,
      { effect: 'send', state: 'done', result: '{"id":1}' },
    ],
    ['settle', 'admin', ({ unknownSeq }) => `api/failed/${unknownSeq}/settle`, { effect: 'send', state: 'retry' }],
    ['retry', 'operator', ({ retryingSeq }) => `api/messages/inbox/${retryingSeq}/retry`, {}],
    ['republish', 'operator', ({ sentSeq }) => `api/sent/${sentSeq}/republish`, {}],
    ['release', 'operator', () => 'api/keys/release', { origin: 'inbox', scope: 'shipping', key: 'order-17' }],
    ['pause', 'operator', () => 'api/consumers/billing/pause', {}],
    ['pause', 'operator', () => 'api/relays/partners/pause', {}],
    ['begin', 'operator', () => 'api/operations', { kind: 'retry', where: { scope: 'billing' }, id: OPERATION }],
    ['begin', 'admin', () => 'api/operations', { kind: 'discard', where: { scope: 'billing' }, id: OPERATION }],
  ])('lets a person %s as %s, once, and writes down who and why', async ([action, role, pathOf, body]) => {
    const world = await consoleWorld(store)
    const path = pathOf(world)
    const note = `because of ${action}`
    const done = await asRole(world, role)(path, posted({ ...body, note }))
    expect([path, done.status, await done.text()]).toEqual([path, 200, expect.any(String)])
    const { rows } = await world.hapax.audit.list()
    expect(rows).toContainEqual(
      expect.objectContaining({ action, actor: `a ${role}`, note: expect.stringContaining(note) }),
    )
    // The second of two people is told. An operation of the same id is the same one, and a note may be followed by another.
    const again = await asRole(world, role)(path, posted({ ...body, note }))
    expect([path, again.status]).toEqual([
      path,
      ['begin', 'note', 'republish'].includes(action) ? 200 : again.status === 409 ? 409 : 404,
    ])
  })

  it('makes messages due that wait for their next attempt, those that match and no others', async () => {
    const world = await consoleWorld(store)
    const operator = asRole(world, 'operator')
    const retried = (where: object) => jsonOf(operator('api/messages/retry', posted({ origin: 'inbox', ...where })))
    expect(await retried({ scope: 'shipping' })).toEqual({ done: 0, stopped: false })
    expect(await retried({ scope: 'billing' })).toEqual({ done: 1, stopped: false })
    const [row] = (await world.hapax.messages.list({ origin: 'inbox', scope: 'billing' })).rows
    expect(row?.dueAt.getTime()).toBeLessThan(Date.now() + 60_000)
    expect(await retried({})).toMatchObject({ done: 0 })
    expect((await asRole(world, 'viewer')('api/messages/retry', posted({ origin: 'inbox' }))).status).toBe(403)
  })

  it('retries and edits a message whose effects may be partly committed only once a person has checked them', async () => {
    const world = await consoleWorld(store)
    const failed = table(world.checker.place, 'failed')
    await world.checker.query(`update ${failed} set reason = 'broken-atomicity' where consumer = 'billing'`)
    const before = await world.rows()
    const admin = asRole(world, 'admin')
    const retry = `api/failed/${world.failedSeq}/retry`
    for (const [path, body] of [
      [retry, {}],
      [`api/failed/${world.failedSeq}/edit`, { data: '{"n":1}' }],
    ] as const) {
      const refused = await admin(path, posted(body))
      expect([refused.status, await refused.json()]).toEqual([
        409,
        expect.objectContaining({ code: 'effects-unchecked' }),
      ])
    }
    expect((await admin(retry, posted({ effectsChecked: 'yes' }))).status).toBe(400)
    expect(await world.rows()).toBe(before)
    const many = { kind: 'retry', where: { scope: 'billing' } }
    const left = await jsonOf(admin('api/operations', posted(many)))
    await expect
      .poll(async () => jsonOf(admin(`api/operations/${left['id']}`)))
      .toMatchObject({ state: 'done', done: 0, errors: 1, error: { code: 'effects-unchecked' } })
    const taken = await jsonOf(admin('api/operations', posted({ ...many, effectsChecked: true, note: 'seen' })))
    await expect
      .poll(async () => jsonOf(admin(`api/operations/${taken['id']}`)))
      .toMatchObject({ state: 'done', done: 1, errors: 0, note: 'effects checked: seen' })
  })

  it('shows a call whose result could not be stored, and its message is retried with a given result', async () => {
    const world = await consoleWorld(store)
    const calls: string[] = []
    const results: unknown[] = []
    const scans = world.hapax.leased('scans')
    scans.on(Due, async (_, ctx) => {
      const scan = await ctx.effect('scan', async (key) => {
        calls.push(key)
        return 'x'.repeat(2_000_000)
      })
      results.push(scan)
    })
    await scans.handle({ source: '/shop', type: 'scan.due', id: 'scan-1', data: {} })
    const [found] = await world.hapax.failed.list({ consumer: 'scans' })
    const [key] = calls
    for (const role of ['viewer', 'admin'] as const) {
      const effects = [expect.objectContaining({ name: 'scan', state: 'done', resultLost: true, key })]
      expect(await jsonOf(asRole(world, role)(`api/failed/${found?.seq}`))).toMatchObject({ effects })
    }
    const settled = { effect: 'scan', state: 'done', result: '{"pages":2}' }
    await jsonOf(asRole(world, 'admin')(`api/failed/${found?.seq}/settle`, posted(settled)))
    const worker = world.hapax.worker({ consume: [scans] })
    await worker.start()
    await worker.drain()
    await worker.stop()
    expect([calls.length, results]).toEqual([1, [{ pages: 2 }]])
  })

  it('carries an operation out where no worker is alive, and says how far it is', async () => {
    const world = await consoleWorld(store)
    const operator = asRole(world, 'operator')
    const begun = await jsonOf(
      operator('api/operations', posted({ kind: 'retry', where: { scope: 'billing' }, perSecond: 100 })),
    )
    expect(begun).toMatchObject({ kind: 'retry', total: 1, actor: 'a operator', where: { scope: 'billing' } })
    await expect
      .poll(async () => jsonOf(operator(`api/operations/${begun['id']}`)))
      .toMatchObject({ state: 'done', done: 1, errors: 0 })
    expect(await world.hapax.failed.count({ consumer: 'billing' })).toBe(0)
  })

  it('shows how many messages a relay sends again, and why', async () => {
    const world = await consoleWorld(store)
    const { hapax } = world
    const error = new Error('NO_ROUTE')
    const refusing: Destination = {
      name: 'a partner',
      features: { keepsOrder: false },
      prepare: async () => {},
      publish: (messages, _, settle) => {
        for (const index of messages.keys()) settle(index, { status: 'failed', error })
      },
      close: async () => {},
    }
    const worker = hapax.worker({ relays: { partners: refusing } })
    await worker.start()
    onTestFinished(() => worker.stop())
    await hapax.transaction((tx) => hapax.publish(tx, Due, {}, { relay: 'partners' }))
    const viewer = asRole(world, 'viewer')
    await expect
      .poll(async () => (await jsonOf(viewer('api/overview')))['relays'], { timeout: 20_000 })
      .toContainEqual(
        expect.objectContaining({
          name: 'partners',
          waiting: 1,
          retrying: 1,
          workers: 1,
          error: expect.objectContaining({ message: 'NO_ROUTE' }),
        }),
      )
  })

  it('says in one sentence why a message waits', async () => {
    const world = await consoleWorld(store)
    const life = await jsonOf(asRole(world, 'viewer')('api/message?id=p-2&source=/shop'))
    expect(life['waiting']).toMatchObject([
      { scope: 'shipping', origin: 'inbox', why: expect.stringMatching(/order-17.*\.$/) },
    ])
  })
})

describe.for(durableStores().filter((store) => store !== 'sqlite'))('the console, while %s is stopped', (store) => {
  it('says so within 3 seconds, has the last good answer, and recovers', async () => {
    const world = await consoleWorld(store)
    const proxy = await TcpProxy.open(store, world.checker.place.url)
    onTestFinished(() => proxy[Symbol.asyncDispose]())
    const viewer = asRole({ hapax: await world.through(proxy.url) }, 'viewer')
    const good = await jsonOf(viewer('api/failed/groups'))
    await proxy.refuse()
    for (const path of ['api/failed/groups', 'api/keys']) {
      const spent = awake()
      const response = await viewer(path)
      expect([path, response.status, spent() < 3_000]).toEqual([path, 503, true])
      const problem = JSON.parse(await response.text())
      expect(problem.last?.answer).toEqual(path === 'api/keys' ? undefined : good)
      expect(problem.detail).toMatch(/\w/)
    }
    await proxy.accept()
    await expect.poll(async () => (await viewer('api/failed/groups')).status).toBe(200)
  })

  it('says so within 3 seconds where it does not answer at all', async () => {
    const world = await consoleWorld(store)
    const proxy = await TcpProxy.open(store, world.checker.place.url)
    onTestFinished(() => proxy[Symbol.asyncDispose]())
    const viewer = asRole({ hapax: await world.through(proxy.url) }, 'viewer')
    expect((await viewer('api/keys')).status).toBe(200)
    const held = proxy.arm('hold', /./)
    const spent = awake()
    const answers = await Promise.all(
      ['api/keys', 'api/failed', 'api/overview', 'api/keys'].map((path) => viewer(path)),
    )
    expect(answers.map(({ status }) => status)).toContain(503)
    expect(spent()).toBeLessThan(3_000)
    await held
    proxy.cut()
    await expect.poll(async () => (await viewer('api/keys')).status).toBe(200)
  })
})

/** Milliseconds in which this process ran: a standstill counts as a tenth of a second, however long it was. */
function awake(): () => number {
  let tenths = 0
  const timer = setInterval(() => {
    tenths += 1
  }, 100)
  onTestFinished(() => clearInterval(timer))
  return () => tenths * 100
}

async function jsonOf(response: Promise<Response>): Promise<Record<string, unknown>> {
  const found = await response
  const text = await found.text()
  expect([found.status, text]).toEqual([200, text])
  return JSON.parse(text)
}
