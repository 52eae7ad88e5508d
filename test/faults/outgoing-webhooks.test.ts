import { createHash } from 'node:crypto'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { Webhook } from 'standardwebhooks'
import { describe, expect, it } from 'vitest'
import { Child } from '../support/child.ts'
import { durableStores, makePlace, openStore, table } from '../support/databases.ts'
import { receiver } from '../support/receivers.ts'
import { oneInTest } from '../support/runs.ts'
import type { WebhooksJob } from './outgoing-webhooks-child.ts'

const ENDPOINTS = ['ep_a', 'ep_b', 'ep_c']
const KEYS = 3
const EVENTS = 30
const Counted = defineMessage<{ n: number }>('counted', { key: ({ n }) => `k${n % KEYS}` })

/** What one endpoint got, in the order of arrival. */
interface Got {
  readonly endpoint: string
  readonly id: string
  readonly hash: string
}

describe.each(oneInTest(durableStores(), 'postgres'))('%s: outgoing webhooks', (store) => {
  it('C1 D6: a worker killed between spread and confirm, before a response and after it: every endpoint gets every event, in order', async () => {
    await using checker = await makePlace(store)
    const hapax = createHapax({ store: await openStore(checker.place), source: '/shop', logger: silentLogger })
    const secrets = new Map<string, string>()
    const got: Got[] = []
    const failures: unknown[] = []
    let child: Child<object> | undefined
    /** How the process that runs now is to end. */
    let end: 'before confirm' | 'before response' | 'after response' | 'when told' = 'before confirm'
    const start = (): Child<object> => {
      const job: WebhooksJob = { place: checker.place, diesBeforeConfirm: end === 'before confirm' }
      return new Child(new URL('./outgoing-webhooks-child.ts', import.meta.url), job, 170_000)
    }
    await using receivers = await receiver(({ headers, url = '' }, response) => {
      const [body, endpoint] = [receivers.got.at(-1)?.body ?? Buffer.of(), url.slice(1)]
      const id = String(headers['webhook-id'])
      try {
        new Webhook(secrets.get(endpoint) ?? '').verify(body, headers as Record<string, string>)
      } catch (error) {
        failures.push(error)
      }
      const again = got.some((each) => each.endpoint === endpoint && each.id === id)
      got.push({ endpoint, id, hash: createHash('sha256').update(body).digest('hex') })
      if (end === 'before response' && got.length >= 20) child?.kill('SIGKILL')
      // Each third delivery to one of them fails at first.
      const status = endpoint === 'ep_b' && !again && got.length % 3 === 0 ? 503 : 204
      response.writeHead(status).end(() => {
        // Before it can write down that the delivery arrived.
        if (end === 'after response' && got.length >= 50) child?.kill('SIGKILL')
      })
    })
    for (const id of ENDPOINTS) {
      const { secret } = await hapax.endpoints.add({ id, url: `http://127.0.0.1:${receivers.port}/${id}` })
      secrets.set(id, secret)
    }
    const ids = Array.from({ length: EVENTS }, (_, n) => String(n))
    for (const id of ids) {
      await hapax.transaction((tx) => hapax.publish(tx, Counted, { n: Number(id) }, { id }))
    }
    for (end of ['before confirm', 'before response', 'after response'] as const) {
      child = start()
      expect(await child.ended).toMatchObject({ signal: 'SIGKILL' })
    }
    end = 'when told'
    child = start()
    await child.next()
    const waiting = async (name: 'inbox' | 'outbox' | 'failed'): Promise<number> =>
      (await checker.query(`select id from ${table(checker.place, name)}`)).length
    await expect.poll(async () => (await waiting('outbox')) + (await waiting('inbox')), { timeout: 100_000 }).toBe(0)
    child.tell({ stop: true })
    expect(await child.ended).toMatchObject({ code: 0, errors: '' })

    expect([failures, await waiting('failed')]).toEqual([[], 0])
    for (const endpoint of ENDPOINTS) {
      const own = got.filter((each) => each.endpoint === endpoint)
      const firsts = [...new Set(own.map(({ id }) => Number(id)))]
      expect(firsts.toSorted((a, b) => a - b).map(String)).toEqual(ids)
      for (let key = 0; key < KEYS; key++) {
        const ofKey = firsts.filter((n) => n % KEYS === key)
        expect(ofKey).toEqual(ofKey.toSorted((a, b) => a - b))
      }
      // What comes again is the same, byte for byte.
      expect(new Set(own.map(({ id, hash }) => `${id} ${hash}`)).size).toBe(EVENTS)
    }
    expect(got.length).toBeGreaterThan(ENDPOINTS.length * EVENTS)
    await hapax.close()
  })
})
