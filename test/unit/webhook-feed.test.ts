import { createHapax, defineMessage, type Hapax, type HapaxEvents, type Logger, Permanent, silentLogger } from 'hapax'
import { type MemoryTx, memory } from 'hapax/memory'
import {
  github,
  hmac,
  type Scheme,
  slack,
  standardWebhooks,
  stripe,
  type WebhookOptions,
  webhook,
} from 'hapax/webhooks'
import { describe, expect, it } from 'vitest'
import { LeapingClock } from '../../src/testing/clock.ts'
import { until } from '../../src/testing/wait.ts'
import { eventOf, forgeries, type Provider, providerOf, providers, requestOf } from '../support/webhook-providers.ts'

const Paid = defineMessage<{ readonly n?: number }>('paid')
const PROVIDER = providerOf('stripe')
const DAY_MS = 86_400_000

interface World {
  readonly hapax: Hapax<MemoryTx>
  readonly seen: unknown[]
  readonly heard: HapaxEvents['webhook'][]
  handler(request: Request): Promise<Response>
}

interface Given {
  readonly provider?: Provider
  readonly options?: WebhookOptions
  readonly logger?: Logger
  readonly handle?: (data: unknown) => void
  readonly consumer?: object
}

function world({ provider = PROVIDER, options = {}, logger = silentLogger, handle, consumer = {} }: Given = {}): World {
  const hapax = createHapax({ store: memory(), source: '/test', logger })
  const [seen, heard]: [unknown[], HapaxEvents['webhook'][]] = [[], []]
  const billing = hapax.consumer('billing', consumer).on(Paid, (data, { message }) => {
    handle?.(data)
    seen.push([message.id, message.source])
  })
  hapax.events.on('webhook', (event) => heard.push(event))
  const { handler } = billing.from(webhook(provider.scheme(provider.secrets[0]), options))
  return { hapax, seen, heard, handler }
}

const post = ({ handler }: World, id: string, provider = PROVIDER) => handler(requestOf(eventOf(provider, id)))
const direct: WebhookOptions = { receive: 'direct' }

async function rowsOf(hapax: Hapax<MemoryTx>): Promise<number> {
  const { consumers, failed } = await hapax.status({ exact: true })
  const waiting = consumers.reduce(
    (sum, each) => sum + each.waiting + each.retrying + each.held + (each.receipts ?? 0),
    0,
  )
  return waiting + failed.reduce((sum, { count }) => sum + count, 0)
}

describe.each(providers)('a webhook of $name', (provider) => {
  it('takes effect once, however often it comes', async () => {
    const there = world({ provider, options: direct })
    const answers = []
    for (const id of ['a', 'b', 'a', 'a']) answers.push(await post(there, id, provider))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    expect(await answers[0]?.text()).toBe('')
    expect(there.seen).toEqual([
      ['a', provider.scheme(provider.secrets[0]).name],
      ['b', provider.scheme(provider.secrets[0]).name],
    ])
    expect(there.heard.map(({ outcome }) => outcome)).toEqual(['processed', 'processed', 'duplicate', 'duplicate'])
    await there.hapax.close()
  })

  it('that was forged leaves nothing behind', async () => {
    const there = world({ provider, options: direct })
    for (const [forgery, sent] of forgeries(provider, 'evt_1')) {
      const response = await there.handler(requestOf(sent))
      expect({ forgery, status: response.status }).toEqual({
        forgery,
        status: expect.toSatisfy((is) => is === 400 || is === 401),
      })
      expect(response.headers.get('content-type')).toBe('application/problem+json')
      expect(await response.json()).toMatchObject({ status: response.status, code: expect.any(String) })
    }
    expect(there.seen).toEqual([])
    expect(await rowsOf(there.hapax)).toBe(0)
    expect(new Set(there.heard.map(({ outcome }) => outcome))).not.toContain('processed')
    await there.hapax.close()
  })
})

describe('a webhook', () => {
  it('is stored by default, and handled by a worker that is given the feed', async () => {
    const hapax = createHapax({ store: memory(), source: '/test', logger: silentLogger })
    const seen: string[] = []
    const billing = hapax.consumer('billing').on(Paid, (_, { message }) => void seen.push(message.id))
    const feed = billing.from(webhook({ verify: stripe(PROVIDER.secrets[0]) }))
    expect((await feed.handler(requestOf(eventOf(PROVIDER, 'a')))).status).toBe(200)
    expect((await feed.handler(requestOf(eventOf(PROVIDER, 'a')))).status).toBe(200)
    expect(seen).toEqual([])
    const worker = hapax.worker({ consume: [feed] })
    await worker.start()
    await worker.drain()
    expect(seen).toEqual(['a'])
    await hapax.close()
  })

  it('that is stored and served by nobody is warned about once', async () => {
    const lines: string[] = []
    const logger = { ...silentLogger, warn: (_: object, line: string) => void lines.push(line) }
    const there = world({ logger })
    for (const id of ['a', 'b']) await post(there, id)
    expect(lines.filter((line) => line.includes('no live worker'))).toHaveLength(1)
    await there.hapax.close()
  })

  it('whose handler fails is kept and responded to; with onError: rollback its provider sends it again', async () => {
    const failing = () => {
      throw new Error('not now')
    }
    const kept = world({ options: direct, handle: failing })
    expect((await post(kept, 'a')).status).toBe(200)
    const left = world({ options: direct, handle: failing, consumer: { onError: 'rollback' } })
    const response = await post(left, 'a')
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '5'])
    expect(await response.json()).toMatchObject({ code: 'unavailable' })
    expect([kept, left].map(({ heard }) => heard[0]?.outcome)).toEqual(['retrying', 'rolled-back'])
    expect([(await rowsOf(kept.hapax)) > 0, await rowsOf(left.hapax)]).toEqual([true, 0])
    await Promise.all([kept.hapax.close(), left.hapax.close()])
  })

  it('that failed for good is responded to, because it is kept', async () => {
    const there = world({
      options: direct,
      handle: () => {
        throw new Permanent('never')
      },
    })
    expect((await post(there, 'a')).status).toBe(200)
    expect(there.heard[0]?.outcome).toBe('failed')
    await there.hapax.close()
  })

  it('gets a 503 when hapax is closed, and its log names no secret', async () => {
    const logged: unknown[] = []
    const note = (...line: unknown[]) => void logged.push(line)
    const there = world({ logger: { debug: note, info: note, warn: note, error: note } })
    await there.hapax.close()
    const response = await post(there, 'a')
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '5'])
    expect(there.heard[0]?.outcome).toBe('unavailable')
    expect(JSON.stringify(logged)).not.toContain(PROVIDER.secrets[0])
  })

  it('is a POST', async () => {
    const there = world()
    const response = await there.handler(new Request('https://x.example', { method: 'GET' }))
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST'])
    await there.hapax.close()
  })

  it('that is too large is not read, and nothing of it is kept', async () => {
    const there = world({ options: { maxBodyBytes: 20 } })
    const response = await post(there, 'a')
    expect([response.status, there.heard[0]?.outcome, await rowsOf(there.hapax)]).toEqual([413, 'too-large', 0])
    await there.hapax.close()
  })

  it('that is too large only with its headers is not acknowledged: the end of it would be lost', async () => {
    const { url, headers, body } = eventOf(PROVIDER, 'a')
    const hapax = createHapax({ store: memory(), source: '/test', logger: silentLogger, maxMessageBytes: body.length })
    const { handler } = hapax.consumer('billing').from(webhook(PROVIDER.scheme(PROVIDER.secrets[0])))
    const response = await handler(requestOf({ url, headers, body }))
    expect([response.status, await rowsOf(hapax)]).toEqual([413, 0])
    await hapax.close()
  })

  it.each([
    ['async', async () => ({ kind: 'verified', id: 'a', type: 'paid' }), 'got a promise: it must not be async'],
    ['rejecting', () => Promise.reject(new Error('no')), 'got a promise'],
    ['silent', () => undefined, 'to return a verdict, got undefined'],
    [
      'throwing',
      () => {
        throw new Error('no key is loaded')
      },
      'no key is loaded',
    ],
  ])('of a scheme that is %s is refused, and the log says why', async (_, verify, why) => {
    const lines: unknown[] = []
    const logger = { ...silentLogger, warn: (fields: object) => void lines.push(fields) }
    const hapax = createHapax({ store: memory(), source: '/test', logger })
    const scheme: Scheme = { name: 'own', resendsForMs: 1_000, verify: verify as never }
    const { handler } = hapax.consumer('billing').from(webhook(scheme))
    const response = await handler(new Request('https://x.example', { method: 'POST', body: '{}' }))
    expect([response.status, await rowsOf(hapax)]).toEqual([401, 0])
    expect(JSON.stringify(await response.json())).not.toContain('key')
    expect(lines).toEqual([expect.objectContaining({ webhook: 'own', error: expect.stringContaining(why) })])
    await hapax.close()
  })

  it('whose body was read by something else gets a clear error', async () => {
    const there = world()
    const request = requestOf(eventOf(PROVIDER, 'a'))
    await request.text()
    const response = await there.handler(request)
    expect([response.status, there.heard[0]?.outcome]).toEqual([500, 'body-consumed'])
    expect(await response.json()).toMatchObject({
      code: 'body-consumed',
      detail: expect.stringContaining('body parsers'),
    })
    await there.hapax.close()
  })

  it('that ends in the middle gets a 400', async () => {
    const there = world()
    const body = new ReadableStream({ pull: (controller) => controller.error(new Error('gone')) })
    const request = new Request('https://x.example', { method: 'POST', body, duplex: 'half' })
    expect((await there.handler(request)).status).toBe(400)
    expect(there.heard[0]?.outcome).toBe('incomplete')
    await there.hapax.close()
  })

  it.each(['direct', 'store'] as const)(
    'that is authentic and no JSON is in the failed store (%s)',
    async (receive) => {
      const there = world({ options: { receive } })
      for (const bytes of ['{"id":', '\xff\xfe'].map((each) => Buffer.from(each, 'latin1'))) {
        const sent = PROVIDER.sign({
          id: 'a',
          type: 'paid',
          body: bytes,
          nowMs: Date.now(),
          secret: PROVIDER.secrets[0],
        })
        for (const _ of ['first', 'again']) expect((await there.handler(requestOf(sent))).status).toBe(200)
      }
      const failed = await there.hapax.failed.list({ consumer: 'billing' })
      expect(failed.map(({ reason, message, error }) => [reason, message.source, error.message.slice(0, 42)])).toEqual([
        ['undecodable', 'stripe', 'expected the webhook to be JSON in UTF-8: '],
        ['undecodable', 'stripe', 'expected the webhook to be JSON in UTF-8: '],
      ])
      expect(there.seen).toEqual([])
      await there.hapax.close()
    },
  )

  it('that an option cannot be applied to is in the failed store, with the reason', async () => {
    const key = () => {
      throw new TypeError('no such field')
    }
    const there = world({ options: { key } })
    expect((await post(there, 'a')).status).toBe(200)
    const [failed] = await there.hapax.failed.list({ consumer: 'billing' })
    expect(failed).toMatchObject({ message: { id: 'a' }, reason: 'undecodable' })
    await there.hapax.close()
  })

  it('has the id, the type, the key and the source that the options give it', async () => {
    const hapax = createHapax({ store: memory(), source: '/test', logger: silentLogger })
    const seen: unknown[] = []
    const billing = hapax.consumer('billing').on(defineMessage<object>('stripe:paid'), (_, { message }) => {
      const { id, source, key } = message
      seen.push({ id, source, key })
    })
    const field = (event: unknown, name: string): string => String(Reflect.get(Object(event), name))
    const feed = billing.from(
      webhook(stripe(PROVIDER.secrets[0]), {
        ...{ receive: 'direct', source: 'stripe/eu', type: (event) => `stripe:${field(event, 'type')}` },
        ...{ id: (event) => `own-${field(event, 'id')}`, key: (event) => field(event, 'n') },
      }),
    )
    await feed.handler(requestOf(eventOf(PROVIDER, 'a', { n: 7 })))
    expect(seen).toEqual([{ id: 'own-a', source: 'stripe/eu', key: '7' }])
    await hapax.close()
  })

  it('without an id of its own is known by its bytes', async () => {
    const there = world({ options: { ...direct, id: 'body-hash' } })
    const now = Date.now()
    for (const nowMs of [now, now + 1_000]) {
      await there.handler(requestOf(eventOf(PROVIDER, 'a', { nowMs })))
    }
    await there.handler(requestOf(eventOf(PROVIDER, 'a', { n: 2 })))
    expect(there.heard.map(({ outcome }) => outcome)).toEqual(['processed', 'duplicate', 'processed'])
    await there.hapax.close()
  })

  it('of Slack: the check of the address is answered after verification, and a retry is no duplicate', async () => {
    const provider = providerOf('slack')
    const there = world({ provider, options: direct })
    const body = Buffer.from(JSON.stringify({ type: 'url_verification', challenge: '3eZbrw1a' }))
    const sent = provider.sign({ id: '', type: '', body, nowMs: Date.now(), secret: provider.secrets[0] })
    const response = await there.handler(requestOf(sent))
    expect([response.status, await response.text()]).toEqual([200, '3eZbrw1a'])
    const forged = provider.sign({ id: '', type: '', body, nowMs: Date.now(), secret: provider.secrets[1] })
    expect((await there.handler(requestOf(forged))).status).toBe(401)
    expect(await rowsOf(there.hapax)).toBe(0)
    const retry = eventOf(provider, 'Ev1')
    const again = { ...retry, headers: { ...retry.headers, 'x-slack-retry-num': '1' } }
    expect((await there.handler(requestOf(again))).status).toBe(200)
    expect(there.seen).toEqual([['Ev1', 'slack']])
    await there.hapax.close()
  })

  it('form fields reach the handler as an object', async () => {
    const provider = providerOf('twilio (forms)')
    const got: unknown[] = []
    const there = world({ provider, options: direct, handle: (data) => void got.push(data) })
    await post(there, 'a', provider)
    expect(got).toEqual([{ EventType: 'paid', n: '1' }])
    await there.hapax.close()
  })
})

describe('refused requests', () => {
  it('fill no log, and do not say what is wrong with a signature', async () => {
    const lines: unknown[] = []
    const there = world({
      logger: { ...silentLogger, warn: (fields: object, line: string) => void lines.push([fields, line]) },
    })
    const bodies = new Set<string>()
    for (let n = 0; n < 50; n++) {
      const sent = eventOf(PROVIDER, `evt_${n}`, { secret: 1 })
      bodies.add(await (await there.handler(requestOf(sent))).text())
    }
    expect(lines).toHaveLength(5)
    expect(bodies.size).toBe(1)
    expect(JSON.stringify([...bodies, ...lines])).not.toContain('whsec_')
    await there.hapax.close()
  })
})

describe('a consumer', () => {
  const made = (consumer: object = {}) => {
    const hapax = createHapax({ store: memory(), source: '/test', logger: silentLogger })
    return hapax.consumer('billing', consumer)
  }

  it('that forgets sooner than the provider stops sending is refused', () => {
    const secret = PROVIDER.secrets[0]
    expect(() => made({ retentionMs: 3 * DAY_MS - 1 }).from(webhook(stripe(secret)))).toThrow(
      expect.objectContaining({
        code: 'retention-too-short',
        message: expect.stringContaining('stripe may send an event again'),
      }),
    )
    expect(() => made({ retentionMs: 3 * DAY_MS }).from(webhook(stripe(secret)))).not.toThrow()
    expect(() =>
      made({ retentionMs: 'forever' }).from(webhook(stripe({ secrets: secret, resendsForMs: 30 * DAY_MS }))),
    ).not.toThrow()
    expect(() =>
      made({ retentionMs: 3 * DAY_MS }).from(webhook(github({ secrets: secret, resendsForMs: 7 * DAY_MS }))),
    ).toThrow('7 days')
    expect(() => made({ retentionMs: 75 * 3_600_000 }).from(webhook(standardWebhooks(btoa(secret))))).toThrow(
      '3.2 days',
    )
  })

  it('with order is fed by stored webhooks only', () => {
    const feed = (options: WebhookOptions) => made({ order: 'wait' }).from(webhook(slack(PROVIDER.secrets[0]), options))
    expect(() => feed({ receive: 'direct' })).toThrow(`expected receive to be 'store' with a consumer that has order`)
    expect(() => feed({})).not.toThrow()
  })

  it('takes no body that is larger than its messages may be', () => {
    const feed = () => made().from(webhook(slack(PROVIDER.secrets[0]), { maxBodyBytes: 2 * 1024 * 1024 }))
    expect(feed).toThrow('expected maxBodyBytes to be at most maxMessageBytes of hapax (1048576)')
  })

  it('reports for how long its webhooks may come again', async () => {
    const clock = new LeapingClock()
    const hapax = createHapax({ store: memory({ clock }), source: '/test', logger: silentLogger, clock })
    const billing = hapax.consumer('billing').on(Paid, () => {})
    billing.from(webhook(stripe(PROVIDER.secrets[0])))
    billing.from(webhook(slack(PROVIDER.secrets[0])))
    const heard: HapaxEvents['horizons'][] = []
    hapax.events.on('horizons', (event) => heard.push(event))
    const worker = hapax.worker({ consume: [billing] })
    await worker.start()
    await until(async () => {
      clock.leap(500)
      return heard.length > 0
    })
    expect(heard[0]?.horizons).toMatchObject([{ consumer: 'billing', redeliveryMs: 3 * DAY_MS }])
    await hapax.close()
  })
})

describe('webhook()', () => {
  it.each([
    ['nothing', () => webhook(undefined as never)],
    ['no scheme', () => webhook({} as never)],
    ['an unknown option', () => webhook(slack(PROVIDER.secrets[0]), { recieve: 'direct' } as never)],
    ['an unknown way', () => webhook(slack(PROVIDER.secrets[0]), { receive: 'later' as never })],
    ['an empty source', () => webhook(slack(PROVIDER.secrets[0]), { source: '' })],
    ['an id that is a text', () => webhook(slack(PROVIDER.secrets[0]), { id: 'x' as never })],
    ['a key that is no function', () => webhook(slack(PROVIDER.secrets[0]), { key: 'x' as never })],
    ['no size', () => webhook(slack(PROVIDER.secrets[0]), { maxBodyBytes: 0 })],
    [
      'hmac without resendsForMs',
      () => hmac({ secrets: PROVIDER.secrets[0], header: 'x', id: 'body-hash', type: 't' } as never),
    ],
    [
      'hmac with a header that is none',
      () => hmac({ secrets: PROVIDER.secrets[0], header: 'x y', id: 'body-hash', type: 't', resendsForMs: 1 }),
    ],
  ])('refuses %s', (_, make) => {
    expect(make).toThrow(/^expected /)
  })
})
