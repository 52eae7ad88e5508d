import { createHmac } from 'node:crypto'
import { createServer } from 'node:http'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { toNode } from 'hapax/node'
import { sqlite } from 'hapax/sqlite'
import { stripe, webhook } from 'hapax/webhooks'

const hapax = createHapax({ store: sqlite({ path: 'webhooks.db' }), source: '/shop', logger: silentLogger })
await hapax.migrate()

// Once: the payment, its receipt and what is published commit together.
const InvoicePaid = defineMessage<{ data: { object: { id: string; amount_paid: number } } }>('invoice.paid')
const billing = hapax.consumer('billing', { unknown: 'ignore' }).on(InvoicePaid, async ({ data }, ctx) => {
  await ctx.tx.query('create table if not exists payments (invoice text, amount integer)')
  await ctx.tx.query('insert into payments values (?, ?)', [data.object.id, data.object.amount_paid])
})

// During a rotation: stripe({ secrets: [current, previous] }).
const secret = process.env['STRIPE_WEBHOOK_SECRET'] ?? 'whsec_example_0123456789'
const payments = billing.from(webhook(stripe(secret)))

const worker = hapax.worker({ consume: [payments] })
await worker.start()
const server = createServer(toNode(payments.handler))
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

// From here on, what Stripe does: it sends the event again until it gets a 2xx, and sometimes after that.
const address = server.address()
const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/stripe`
const event = { id: 'evt_1', type: 'invoice.paid', data: { object: { id: 'in_1', amount_paid: 4200 } } }
const body = JSON.stringify(event)

async function send(signedWith: string): Promise<number> {
  const time = Math.floor(Date.now() / 1_000)
  const signature = createHmac('sha256', signedWith).update(`${time}.${body}`).digest('hex')
  const headers = { 'content-type': 'application/json', 'stripe-signature': `t=${time},v1=${signature}` }
  return (await fetch(url, { method: 'POST', headers, body, redirect: 'manual' })).status
}

console.log(await Promise.all([send(secret), send(secret), send(secret)])) // [ 200, 200, 200 ]
console.log(await send('whsec_of_somebody_else')) // 401

await worker.drain()
const paid = await hapax.transaction((tx) => tx.query('select invoice, amount from payments'))
console.log(paid.rows.length) // 1

server.close()
await worker.stop()
await hapax.close()
