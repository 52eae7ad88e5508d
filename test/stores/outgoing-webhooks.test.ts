import type { Hapax, Store } from 'hapax'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { webhooks } from 'hapax/webhooks'
import { Webhook } from 'standardwebhooks'
import { describe, expect, it, onTestFinished } from 'vitest'
import { makePlace, openStore } from '../support/databases.ts'
import { type Receiver, receiver } from '../support/receivers.ts'
import { type StoreName, testStores } from '../support/servers.ts'

const Placed = defineMessage<{ n: number }>('order.placed')
const LOCAL = { allow: ['127.0.0.1'], allowHttp: true, ports: 'all' } as const

async function opened(name: StoreName): Promise<Store<unknown>> {
  if (name === 'memory') return memory()
  const checker = await makePlace(name)
  onTestFinished(() => checker[Symbol.asyncDispose]())
  return openStore(checker.place)
}

async function shop(name: StoreName): Promise<Hapax<unknown>> {
  const hapax = createHapax({ store: await opened(name), source: '/shop', logger: silentLogger })
  onTestFinished(() => hapax.close())
  return hapax
}

/** Whether the library of Standard Webhooks accepts the last delivery under this secret. */
function accepts({ got }: Receiver, secret: string): boolean {
  const { body, headers } = got.at(-1) ?? { body: '', headers: {} }
  try {
    new Webhook(secret).verify(body, headers)
    return true
  } catch {
    return false
  }
}

describe.each(testStores())('%s: outgoing webhooks', (name) => {
  it('are signed with the old and the new secret during the grace of a rotation, and then with the new one alone', async () => {
    const hapax = await shop(name)
    await using receivers = await receiver()
    const worker = hapax.worker({ relay: webhooks(LOCAL), pollMs: 20 })
    await worker.start()
    const { id, secret: first } = await hapax.endpoints.add({ url: `http://127.0.0.1:${receivers.port}/` })
    const deliver = async (): Promise<void> => {
      await hapax.transaction((tx) => hapax.publish(tx, Placed, { n: 1 }))
      await worker.drain()
    }
    await deliver()
    expect(accepts(receivers, first)).toBe(true)
    const { secret: second } = await hapax.endpoints.rotate(id)
    // What a worker knows of an endpoint is a second old at most.
    await expect
      .poll(async () => {
        await deliver()
        return accepts(receivers, second)
      })
      .toBe(true)
    expect(accepts(receivers, first)).toBe(true)
    const { secret: third } = await hapax.endpoints.rotate(id, { graceMs: 0 })
    await expect
      .poll(async () => {
        await deliver()
        return accepts(receivers, third)
      })
      .toBe(true)
    expect([accepts(receivers, first), accepts(receivers, second)]).toEqual([false, false])
    expect(new Set(receivers.got.map(({ headers }) => headers['webhook-id'])).size).toBe(receivers.got.length)
  })

  it('are tried out by a test event, which passes the outbox and what waits', async () => {
    const hapax = await shop(name)
    await using receivers = await receiver((_, response) => void response.writeHead(418).end('a teapot'))
    const through = webhooks(LOCAL)
    const url = `http://127.0.0.1:${receivers.port}/`
    const { id, secret } = await hapax.endpoints.add({ url, relay: 'partners' }, { through })
    await hapax.transaction((tx) => hapax.publish(tx, Placed, { n: 1 }, { relay: 'partners' }))
    const tested = await hapax.endpoints.test(id, { through })
    expect(tested).toMatchObject({ delivered: false, code: 418, answer: 'a teapot' })
    expect(accepts(receivers, secret)).toBe(true)
    expect(JSON.parse(String(receivers.got[0]?.body))).toMatchObject({ type: 'hapax.test', data: { endpoint: id } })
    const { relays, consumers } = await hapax.status()
    expect([relays.map(({ waiting }) => waiting), consumers]).toEqual([[1], []])
    await expect(hapax.endpoints.test(id)).rejects.toMatchObject({ code: 'invalid-option' })
    await expect(hapax.endpoints.add({ url: 'https://10.0.0.1/' }, { through })).rejects.toMatchObject({
      code: 'invalid-option',
    })
  })
})
