import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createHapax, type Hapax, silentLogger } from 'hapax'
import { describe, expect, it, vi } from 'vitest'
import { Child } from '../support/child.ts'
import {
  asText,
  type Checker,
  countEffects,
  type DurableStore,
  durableStores,
  insertEffect,
  makePlace,
  openStore,
  type RigTx,
  table,
} from '../support/databases.ts'
import { inThisRun, oneInTest } from '../support/runs.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import type { HttpJob, HttpReport } from './http-child.ts'

const PROGRAM = new URL('./http-child.ts', import.meta.url)
// Some start several processes, one after the other.
vi.setConfig({ testTimeout: 240_000 })

/** A server process that is killed when the test ends. */
class Server implements AsyncDisposable {
  readonly child: Child<HttpReport>
  url = ''

  private constructor(job: HttpJob) {
    this.child = new Child<HttpReport>(PROGRAM, job, 240_000)
  }

  static async start(job: HttpJob): Promise<Server> {
    const server = new Server(job)
    const said = await server.child.next()
    if (said.said !== 'listening') throw new Error('expected the server to listen')
    server.url = said.url
    return server
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL')
    await this.child.ended
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
  }
}

/** What a client got. */
interface Answer {
  readonly status: number
  readonly body: string
  readonly replayed: boolean
  readonly retryAfter: string | null
}

function request(url: string, id: string): Request {
  return new Request(url, {
    method: 'POST',
    headers: { 'idempotency-key': `key-${id}`, 'content-type': 'application/json' },
    body: JSON.stringify({ id }),
  })
}

async function read(response: Response): Promise<Answer> {
  const { status, headers } = response
  return {
    status,
    body: await response.text(),
    replayed: headers.get('idempotent-replayed') === 'true',
    retryAfter: headers.get('retry-after'),
  }
}

const post = async (url: string, id: string): Promise<Answer> => read(await fetch(request(url, id)))

/** Sends it again while it is refused, as clients do. */
async function insist(url: () => string, id: string): Promise<Answer> {
  for (;;) {
    const answer = await post(url(), id).catch(() => undefined)
    if (answer !== undefined && answer.status < 400) return answer
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** Each took effect once, its message was published once, and nothing else is there. */
async function expectOnce(checker: Checker, ids: readonly string[]): Promise<void> {
  expect(await countEffects(checker)).toEqual(new Map(ids.map((id) => [`orders ${id}`, 1])))
  const published = await checker.query(`select data from ${table(checker.place, 'outbox')}`)
  const bodies = published.map(({ data }) => JSON.parse(asText(data)).id).sort()
  expect(bodies).toEqual([...ids].sort())
  expect(await checker.query(`select * from ${table(checker.place, 'failed')}`)).toEqual([])
}

describe.each(oneInTest(durableStores(), 'postgres'))('%s: HTTP requests', (store) => {
  it.each(['in-handler', 'before-commit'] as const)(
    'A1: killed %s, a request takes effect by its retry',
    async (stops) => {
      await using checker = await makePlace(store)
      await using first = await Server.start({ place: checker.place, stops })
      const lost = post(first.url, 'a')
      lost.catch(() => {})
      expect(await first.child.next()).toEqual({ said: 'stopped' })
      await first.kill()
      await expect(lost).rejects.toThrow()
      expect(await countEffects(checker)).toEqual(new Map())
      await using second = await Server.start({ place: checker.place })
      const answer = await insist(() => second.url, 'a')
      expect(answer).toMatchObject({ status: 201, replayed: false })
      expect(await post(second.url, 'a')).toEqual({ ...answer, replayed: true })
      await expectOnce(checker, ['a'])
    },
  )

  it('A1: killed after the commit and before the answer, the retry gets the answer of the first', async () => {
    await using checker = await makePlace(store)
    await using first = await Server.start({ place: checker.place, stops: 'before-answer' })
    const { pid } = first.child
    post(first.url, 'a').catch(() => {})
    expect(await first.child.next()).toEqual({ said: 'stopped' })
    await first.kill()
    await using second = await Server.start({ place: checker.place })
    const answer = await post(second.url, 'a')
    expect(answer).toMatchObject({ status: 201, replayed: true })
    expect(JSON.parse(answer.body)).toEqual({ id: 'a', process: pid })
    await expectOnce(checker, ['a'])
  })

  it.each([0, 30_000])('500 equal requests to three processes take effect once (waitMs %s)', async (waitMs) => {
    await using checker = await makePlace(store)
    const job = { place: checker.place, waitMs }
    await using one = await Server.start(job)
    await using two = await Server.start(job)
    await using three = await Server.start(job)
    const urls = [one.url, two.url, three.url]
    const answers = await Promise.all(Array.from({ length: 500 }, (_, n) => post(String(urls[n % 3]), 'a')))
    const ran = answers.filter(({ status, replayed }) => status === 201 && !replayed)
    expect(ran).toHaveLength(1)
    const bodies = new Set(answers.filter(({ status }) => status === 201).map(({ body }) => body))
    expect([...bodies]).toEqual([ran[0]?.body])
    const refused = answers.filter(({ status }) => status !== 201)
    // With a single writer, a request of another process waits for the writer, and then finds the response.
    for (const { status, retryAfter } of refused) expect([status, retryAfter]).toEqual([409, '1'])
    if (waitMs > 0) expect(refused).toEqual([])
    await expectOnce(checker, ['a'])
  })

  it('A2: whenever servers are killed, each request takes effect once, and has one answer', async () => {
    await using checker = await makePlace(store)
    const ids = Array.from({ length: 60 }, (_, n) => `r${n}`)
    let server = await Server.start({ place: checker.place })
    let done = false
    const killing = (async () => {
      for (let kills = 0; kills < 4 && !done; kills++) {
        await new Promise((resolve) => setTimeout(resolve, 100 + 150 * Math.random()))
        await server.kill()
        server = await Server.start({ place: checker.place })
      }
    })()
    try {
      const answers = new Map<string, Set<string>>(ids.map((id) => [id, new Set()]))
      const lanes = Array.from({ length: 10 }, async (_, lane) => {
        for (const id of ids.filter((_, n) => n % 10 === lane)) {
          // Two clients have the same key, as after a time-out.
          const both = await Promise.all([insist(() => server.url, id), insist(() => server.url, id)])
          for (const { body } of both) answers.get(id)?.add(body)
        }
      })
      await Promise.all(lanes)
      done = true
      await killing
      for (const id of ids) answers.get(id)?.add((await insist(() => server.url, id)).body)
      expect([...answers].filter(([, bodies]) => bodies.size !== 1)).toEqual([])
      await expectOnce(checker, ids)
    } finally {
      done = true
      await killing.catch(() => {})
      await server.kill()
    }
  })
})

/** A hapax behind a proxy, whose requests write one effect each. */
async function openRig(store: DurableStore) {
  const checker = await makePlace(store)
  const proxy = await TcpProxy.open(store, checker.place.url)
  const hapax: Hapax<RigTx> = createHapax({
    store: await openStore(checker.place, { url: proxy.url }),
    source: '/http',
    logger: silentLogger,
  })
  const calls: string[] = []
  const during: { run: (call: number) => unknown } = { run: () => {} }
  const orders = hapax.http('orders', { principal: 'none' }).handler(async (incoming, ctx) => {
    const { id } = (await incoming.json()) as { id: string }
    calls.push(id)
    await ctx.tx.query(insertEffect(checker.place, 'orders', id))
    await during.run(calls.filter((each) => each === id).length)
    return Response.json({ id, call: calls.length }, { status: 201 })
  })
  const send = async (id: string): Promise<Answer> => read(await orders(request('http://shop.test/orders', id)))
  return {
    ...{ checker, proxy, calls, during, send },
    [Symbol.asyncDispose]: async () => {
      await hapax.close()
      await proxy[Symbol.asyncDispose]()
      await checker[Symbol.asyncDispose]()
    },
  }
}

const linked = oneInTest(
  durableStores().filter((store) => store !== 'sqlite'),
  'postgres',
)

describe.each(linked)('%s: the link is cut at COMMIT of a request', (store) => {
  it.each([
    ['drop', 'before it arrives', 2],
    ['swallow', 'before its reply arrives', 1],
  ] as const)('%s: cut %s, it takes effect once and has its answer', async (fault, _, calls) => {
    await using rig = await openRig(store)
    rig.during.run = (call) => void (call === 1 && rig.proxy.arm(fault))
    for (let n = 0; n < 10; n++) {
      const id = `a${n}`
      const answer = await rig.send(id)
      expect(answer).toMatchObject({ status: 201, replayed: false })
      expect(rig.calls.filter((each) => each === id)).toHaveLength(calls)
      expect(await rig.send(id)).toEqual({ ...answer, replayed: true })
    }
    expect([...(await countEffects(rig.checker)).values()]).toEqual(Array(10).fill(1))
  })

  it.each([
    ['drop', false],
    ['swallow', true],
  ] as const)(
    '%s: while the database stays away the answer is 503; the retry finds out (committed: %s)',
    async (fault, committed) => {
      await using rig = await openRig(store)
      rig.during.run = (call) => {
        if (call === 1) void rig.proxy.arm(fault).then(() => rig.proxy.refuse())
      }
      const unknown = await rig.send('a')
      expect(unknown).toMatchObject({ status: 503, replayed: false, retryAfter: expect.stringMatching(/^[1-9]\d*$/) })
      expect(JSON.parse(unknown.body)).toMatchObject({ code: 'outcome-unknown' })
      await rig.proxy.accept()
      const answer = await rig.send('a')
      expect(answer).toMatchObject({ status: 201, replayed: committed })
      expect(rig.calls).toHaveLength(committed ? 1 : 2)
      expect(await rig.send('a')).toEqual({ ...answer, replayed: true })
      expect(await countEffects(rig.checker)).toEqual(new Map([['orders a', 1]]))
    },
  )
})

/** A provider that counts the calls it gets, by key. */
async function openProvider() {
  const calls = new Map<string, number>()
  const server = createServer((incoming, outgoing) => {
    let body = ''
    incoming.on('data', (chunk) => {
      body += chunk
    })
    incoming.on('end', () => {
      const { id } = JSON.parse(body)
      calls.set(id, (calls.get(id) ?? 0) + 1)
      outgoing.end('{}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    calls,
    url: `http://127.0.0.1:${port}/`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

describe.each(inThisRun(durableStores(), (store) => store === 'postgres'))('%s: leased requests', (store) => {
  it.each([
    ['in-handler', 'before its call'],
    ['before-commit', 'after its call'],
    ['before-answer', 'before its answer'],
  ] as const)('B1: killed %s (%s), the provider is called once and the retry gets the answer', async (stops, _) => {
    await using checker = await makePlace(store)
    await using provider = await openProvider()
    const job = { place: checker.place, mode: 'leased', provider: provider.url, leaseMs: 500 } as const
    await using first = await Server.start({ ...job, stops })
    post(first.url, 'a').catch(() => {})
    expect(await first.child.next()).toEqual({ said: 'stopped' })
    await first.kill()
    await using second = await Server.start(job)
    const answer = await insist(() => second.url, 'a')
    expect(answer).toMatchObject({ status: 201, replayed: stops === 'before-answer' })
    expect(await post(second.url, 'a')).toEqual({ ...answer, replayed: true })
    expect(provider.calls).toEqual(new Map([['a', 1]]))
    expect(await countEffects(checker)).toEqual(new Map([['orders a', 1]]))
  })
})
