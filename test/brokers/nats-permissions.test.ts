import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isHapaxError } from 'hapax'
import type { Confirmation } from 'hapax/contracts'
import { type Nats, nats } from 'hapax/nats'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Listener } from '../../src/testing/broker/listener.ts'
import { message, publish, publishAgain } from '../../src/testing/broker/world.ts'
import { until } from '../../src/testing/wait.ts'
import { PATIENT } from '../support/nats-place.ts'
import { noPrivateServer, type PrivateServer, privateServer } from '../support/private-server.ts'

const absent = noPrivateServer('nats')

// Whoever has no login may do anything.
const SETTINGS = `
no_auth_user: anybody
authorization { users = [
  { user: anybody, password: anything },
  { user: shop, password: "p@ss:word", permissions: { publish: { allow: ">", deny: "shop.secret" } } },
  { user: reader, password: reads,
    permissions: { publish: [ "$JS.API.>", "$JS.ACK.>" ], subscribe: "_INBOX.>" } },
  { user: mute, password: says,
    permissions: { publish: [ "$JS.API.>" ], subscribe: "_INBOX.>" } },
  { user: least, password: needs,
    permissions: { publish: [ "$JS.API.CONSUMER.MSG.NEXT.SHOP.audit", "$JS.ACK.SHOP.audit.>" ], subscribe: "_INBOX.>" } },
  { user: sender, password: sends, permissions: { publish: [ "shop.>" ], subscribe: "_INBOX.>" } }
] }`

async function guardedServer(): Promise<PrivateServer> {
  const folder = await mkdtemp(join(tmpdir(), 'hapax-nats-'))
  try {
    await writeFile(join(folder, 'nats.conf'), SETTINGS)
    // The server runs under an account of its own.
    await chmod(folder, 0o755)
    return await privateServer('nats', { args: ['--config', join(folder, 'nats.conf')] })
  } finally {
    await rm(folder, { recursive: true })
  }
}

describe.skipIf(absent)('a server of NATS that wants to know who comes', () => {
  let server: PrivateServer
  beforeAll(async () => {
    server = await guardedServer()
    const anybody = nats({ url: server.url, ...PATIENT }).stream('SHOP')
    await publishAgain(anybody, ['first'])
    await anybody.close()
  })
  afterAll(() => server?.[Symbol.asyncDispose]())

  const as = (login: string): Nats => nats({ url: server.url.replace('//', `//${login}@`), ...PATIENT })

  it('takes the login of the URL, and says which message it does not allow', async () => {
    const shop = as('shop:p%40ss%3Aword').stream('SHOP')
    const sent = await publish(shop, [message('a'), message('b', { type: 'secret' }), message('c')])
    await shop.close()
    expect(sent.map(({ status }) => status)).toEqual(['confirmed', 'failed', 'confirmed'])
    expect(errorOf(sent[1]).message).toMatch(/shop\.secret/)
    expect(isHapaxError(errorOf(sent[1]), 'broker-refused')).toBe(true)
  })

  it('refuses a wrong password, which is not shown', async () => {
    const stranger = as('shop:wrong').stream('SHOP')
    const [sent] = await publish(stranger, [message('d')])
    await stranger.close()
    expect(sent?.status).toBe('unavailable')
    expect(isHapaxError(errorOf(sent), 'broker-refused')).toBe(true)
    expect(`${stranger.name} ${errorOf(sent).message}`).not.toMatch(/wrong|p@ss/)
  })

  it('need not let a reader hear what it says to everybody', async () => {
    const listener = await Listener.open(as('reader:reads').consumer('billing', { stream: 'SHOP' }), PREFETCH)
    const [first] = await listener.take(1)
    first?.ack()
    await listener.close()
    expect(listener.reports).toEqual([])
  })

  it('need not allow more than to send, or to ask and to ack, where nothing is declared', async () => {
    const sender = as('sender:sends').stream('SHOP', { declare: 'none' })
    await publishAgain(sender, ['last'])
    await sender.close()
    const made = await Listener.open(as('reader:reads').consumer('audit', { stream: 'SHOP' }), PREFETCH)
    await made.close()
    const least = as('least:needs').consumer('audit', { stream: 'SHOP', declare: 'none' })
    const listener = await Listener.open(least, PREFETCH, (received) => received.ack())
    await listener.takeAllOf(['first', 'last'])
    await listener.close()
    expect(listener.reports).toEqual([])
  })

  it('is reported when it does not allow to ack', async () => {
    const listener = await Listener.open(as('mute:says').consumer('stock', { stream: 'SHOP' }), PREFETCH)
    const [first] = await listener.take(1)
    first?.ack()
    await until(() => listener.reports.length > 0, 'it is reported')
    await listener.close()
    expect(listener.reports[0]?.code).toBe('broker-refused')
    expect(listener.reports[0]?.message).toContain('$JS.ACK.SHOP.stock')
  })
})

const PREFETCH = { messages: 1, bytes: 1e6 }

function errorOf(confirmation: Confirmation | undefined): Error {
  if (confirmation === undefined || confirmation.status === 'confirmed') throw new Error('expected an error')
  return confirmation.error
}
