import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createHapax, defineMessage } from 'hapax'
import { sqlite } from 'hapax/sqlite'

// A provider that sends every SMS it is asked for, and loses the reply of every other request. It honours
// Idempotency-Key: it sends nothing twice under one key.
const sent = new Map<string, number>()
let requests = 0
const provider = createServer((request, response: ServerResponse) => {
  const key = String(request.headers['idempotency-key'] ?? `none, request ${requests}`)
  if (!sent.has(key)) sent.set(key, sent.size + 1)
  if (requests++ % 2 === 0) response.destroy()
  else response.end(String(sent.get(key)))
}).listen(0, '127.0.0.1')
await once(provider, 'listening')
const url = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`

const send = async (to: string, headers: Record<string, string>): Promise<number> => {
  // A redirect would be a second request: if that one is refused, it says nothing about the first.
  const response = await fetch(url, { method: 'POST', headers, body: to, redirect: 'error' })
  return Number(await response.text())
}

// Without hapax: the reply is lost, the request is retried, and a second SMS is sent.
for (let attempt = 1; attempt <= 2; attempt++) {
  await send('+41 79 000 00 00', {}).catch(() => {})
}
console.log(`without hapax: 1 message, ${sent.size} SMS`) // 2 SMS

// With hapax: the call is recorded before it is made, and every attempt carries the same key.
sent.clear()
requests = 0
const hapax = createHapax({ store: sqlite({ path: 'sms.db' }), source: '/shop', delivery: 'local' })
await hapax.migrate()
const SmsRequested = defineMessage<{ to: string }>('sms.requested')

const sms = hapax.leased('sms', { retry: { minDelayMs: 10 } })
sms.on(SmsRequested, async ({ to }, ctx) => {
  const number = await ctx.effect('send', (key) => send(to, { 'Idempotency-Key': key }), {
    onUnknown: 'retry-same-key', // this provider honours the key; otherwise 'hold', and a person decides
  })
  ctx.complete((tx) => tx.query('insert into sent_sms (recipient, number) values (?, ?)', [to, number]))
})

await hapax.transaction(async (tx) => {
  await tx.query('create table if not exists sent_sms (recipient text not null, number integer not null)')
  await hapax.publish(tx, SmsRequested, { to: '+41 79 000 00 00' })
})

let settled = false
hapax.events.on('processed', () => {
  settled = true
})
const worker = hapax.worker({ consume: [sms] })
await worker.start()
while (!settled) await worker.drain()
console.log(`with hapax: 1 message, ${requests} requests, ${sent.size} SMS`) // 2 requests, 1 SMS

await worker.stop()
await hapax.close()
provider.close()
