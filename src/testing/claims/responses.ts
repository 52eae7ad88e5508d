import assert from 'node:assert/strict'
import type { Claimed, ClaimStore, StoredResponse } from '../../contracts/index.ts'
import { messageKey } from '../../message/index.ts'
import { until } from '../wait.ts'
import type { ClaimCase } from './index.ts'
import { assertKind, type ClaimWorld, ERROR, stored } from './world.ts'

type Case = Omit<ClaimCase<ClaimWorld>, 'topic'>

const DAY_MS = 86_400_000

function response(body: Uint8Array | string, more: Partial<StoredResponse> = {}): StoredResponse {
  const headers = [
    ['content-type', 'text/plain'],
    ['x-sign', '\u00fc "quoted" \\'],
  ] as const
  return { status: 201, headers, body: Buffer.from(body), ...more }
}

/** A claim that ended with a response; undefined: with none. */
function responseOf(claimed: Claimed): StoredResponse | undefined {
  assertKind(claimed, 'taken')
  return claimed.kind === 'taken' ? claimed.receipt.response : undefined
}

function assertSame(found: StoredResponse | undefined, expected: StoredResponse): void {
  assert.ok(found !== undefined, 'expected a response')
  assert.deepEqual([found.status, found.headers], [expected.status, expected.headers])
  assert.ok(Buffer.from(found.body).equals(expected.body), 'expected the same bytes')
}

/** Claims a request of a principal. */
async function request(store: ClaimStore, principal: string, findableMs: number): Promise<Claimed> {
  const source = `POST /orders ~${principal}`
  const message = stored('k', { source, messageKey: messageKey(source, 'k'), type: 'http.request' })
  const options = { token: crypto.randomUUID(), leaseMs: 60_000, alone: true, findableMs }
  const [claimed] = await store.claims.claim('http:orders', [message], options)
  assert.ok(claimed !== undefined)
  return claimed
}

const bodies: Readonly<Record<string, Uint8Array | string>> = {
  'all byte values': Uint8Array.from({ length: 256 }, (_, at) => at),
  nothing: '',
  'text with lines, a mark of its order and characters of four bytes': '\ufeff{"a":"\u{1f600}"}\n\r\n\u0000',
  'a part of a larger buffer': new Uint8Array([1, 2, 200, 4]).subarray(1, 3),
  '1 MiB of text': 'x'.repeat(2 ** 20),
  '1 MiB of bytes': new Uint8Array(2 ** 20).fill(0xff),
}

/** Responses to requests, which are kept with the receipts. */
export const responses: readonly Case[] = [
  ...Object.entries(bodies).map(
    ([what, body]): Case => ({
      name: `a response whose body is ${what} comes with the receipt, as it was`,
      run: async (world) => {
        const lease = await world.lease('a')
        const sent = response(body)
        const settled = await world.store.claims.settle([{ ...lease, response: sent }], DAY_MS)
        assert.deepEqual([...settled], [lease.seq])
        for (let time = 0; time < 2; time++) assertSame(responseOf(await world.claim('a')), sent)
      },
    }),
  ),
  {
    name: 'B17: settled again, after its answer was lost, a request keeps the response that it has',
    run: async (world) => {
      const lease = await world.lease('a')
      const first = response('first')
      await world.store.claims.settle([{ ...lease, response: first }], DAY_MS)
      const again = await world.store.claims.settle([{ ...lease, response: response('second') }], DAY_MS)
      assert.deepEqual([...again], [lease.seq])
      assertSame(responseOf(await world.claim('a')), first)
    },
  },
  {
    name: 'B4: a process that has lost its lease writes no response',
    run: async (world) => {
      const lost = await world.lease('a', { leaseMs: 1 })
      const lease = await world.lease('a')
      const late = { ...lost, response: response('late') }
      assert.deepEqual([...(await world.store.claims.settle([late], DAY_MS))], [])
      assertKind(await world.claim('a'), 'busy')
      await world.store.claims.settle([{ ...lease, response: response('mine') }], DAY_MS)
      assert.deepEqual([...(await world.store.claims.settle([late], DAY_MS))], [])
      assertSame(responseOf(await world.claim('a')), response('mine'))
    },
  },
  {
    name: 'requests and messages are settled by one call, each request with its own response',
    run: async (world) => {
      const leases = await Promise.all(['a', 'b', 'c', 'd'].map((id) => world.lease(id)))
      const finished = leases.map((lease, at) => (at % 2 === 0 ? { ...lease, response: response(`${at}`) } : lease))
      const settled = await world.store.claims.settle(finished, DAY_MS)
      assert.deepEqual([...settled].sort(), leases.map(({ seq }) => seq).sort())
      assertSame(responseOf(await world.claim('a')), response('0'))
      assert.equal(responseOf(await world.claim('b')), undefined)
      assertSame(responseOf(await world.claim('c')), response('2'))
      assert.equal(responseOf(await world.claim('d')), undefined)
    },
  },
  {
    name: 'a response expires with its receipt and its journal, by the clock of the store; then the key is free',
    run: async (world) => {
      const lease = await world.lease('a')
      await world.store.journal.begin(lease, 60_000, { consumer: 'sms', messageKey: '', name: 'send' }, false)
      await world.store.claims.settle([{ ...lease, response: response('short') }], 1)
      let claimed: Claimed | undefined
      await until(async () => {
        claimed = await world.claim('a')
        return claimed.kind === 'ours'
      })
      assert.ok(claimed?.kind === 'ours')
      assert.deepEqual([claimed.attempts, claimed.lease.fence], [0, 1])
      assert.deepEqual(await world.journal('a'), [])
    },
  },
  {
    name: 'other consumers, and other senders with the same id, do not find it',
    run: async (world) => {
      const { claims } = world.store
      const lease = await world.lease('a')
      await claims.settle([{ ...lease, response: response('secret') }], DAY_MS)
      const options = { leaseMs: 60_000, alone: true }
      const [consumer] = await claims.claim('other', [stored('a')], { token: crypto.randomUUID(), ...options })
      const key = messageKey('/other', 'a')
      const sender = stored('a', { source: '/other', messageKey: key })
      const [other] = await claims.claim('sms', [sender], { token: crypto.randomUUID(), ...options })
      assert.deepEqual([consumer?.kind, other?.kind], ['ours', 'ours'])
    },
  },
  {
    name: 'where payloads have to agree, another one under the same key is told so, whatever became of the first',
    run: async (world) => {
      const { claims } = world.store
      const other = stored('a', { fingerprint: 'another' })
      const told = async (): Promise<readonly unknown[]> => {
        const options = { token: crypto.randomUUID(), leaseMs: 60_000, alone: true, strict: true }
        const [claimed] = await claims.claim('sms', [other], options)
        return claimed?.kind === 'taken' ? [claimed.receipt.fingerprint, claimed.receipt.response] : [claimed?.kind]
      }
      const first = [stored('a').fingerprint, undefined]
      const lease = await world.lease('a', { strict: true })
      assert.deepEqual(await told(), first)
      await claims.release(lease, { attempts: 1, delayMs: 0, error: ERROR })
      assert.deepEqual(await told(), first)
      const again = await world.lease('a', { strict: true })
      assert.equal(again.fence, 2)
      await claims.settle([{ ...again, response: response('first') }], DAY_MS)
      assert.deepEqual(await told(), first)
      assertSame(responseOf(await world.claim('a', { strict: true })), response('first'))
    },
  },
  {
    name: 'what was released to be forgotten is forgotten with its journal, unless it is claimed before',
    run: async (world) => {
      const { claims, journal } = world.store
      const released = { attempts: 1, delayMs: 0, error: ERROR }
      const gone = await world.lease('gone')
      await journal.begin(gone, 60_000, { consumer: 'sms', messageKey: '', name: 'send' }, false)
      await claims.release(gone, { ...released, forgetMs: 1 })
      await until(async () => (await world.places('gone')).length === 0)
      let forgetMs = 1_000
      let lease = await world.lease('back')
      // Where the process stood still for longer, it was forgotten before: then with more time.
      for (; lease.fence === 1; forgetMs *= 2) {
        await claims.release(lease, { ...released, forgetMs })
        lease = await world.lease('back')
      }
      assert.equal(lease.fence, 2)
      const marker = await world.lease('marker')
      await claims.release(marker, { ...released, forgetMs })
      await until(async () => (await world.places('marker')).length === 0)
      assert.deepEqual([...(await claims.renew([lease], 60_000))], [lease.seq])
      assert.equal((await world.journal('back')).length, 0)
    },
  },
  {
    name: 'requests of many principals are found by the key that they sent, and by the source of one of them',
    run: async (world) => {
      const { store } = world
      const found = async (source?: string): Promise<readonly string[]> =>
        (await store.admin.trace('k', source))
          .map((each) => `${'consumer' in each && each.consumer} ${each.source} ${each.where}`)
          .sort()
      for (const principal of ['ann', 'bob']) {
        const claimed = await request(store, principal, DAY_MS)
        assert.ok(claimed.kind === 'ours')
        if (principal === 'ann') await store.claims.settle([{ ...claimed.lease, response: response('') }], DAY_MS)
      }
      await until(async () => (await found()).length === 3)
      const ann = ['http:orders POST /orders ~ann receipt']
      const bob = ['http:orders POST /orders ~bob claim', 'http:orders POST /orders ~bob receipt']
      assert.deepEqual(await found(), [...ann, ...bob])
      assert.deepEqual(await found('POST /orders ~ann'), ann)
      const { consumers } = await store.admin.status()
      assert.deepEqual(
        consumers.map(({ consumer }) => consumer),
        ['http:orders'],
      )
    },
  },
]
