import { expect, it } from 'vitest'
import { directoryIn, javascript, nodeOf, nodeVersions, packed, Service } from './app.ts'

/** A service that stops as the documentation says, and whose handler takes longer than it has. */
const service = `
import { createHapax, defineMessage } from 'hapax'
import { sqlite } from 'hapax/sqlite'

const hapax = createHapax({ store: sqlite({ path: 'shop.db' }), source: '/shop', delivery: 'local' })
await hapax.migrate()
await hapax.transaction((tx) => tx.query('create table if not exists invoices (order_id text)'))
const OrderPlaced = defineMessage('order.placed')
const billing = hapax.consumer('billing')
billing.on(OrderPlaced, async (order, ctx) => {
  await ctx.tx.query('insert into invoices values (?)', [order.orderId])
  console.log('handling')
  if (process.argv[2] === 'slow') await new Promise((resolve) => setTimeout(resolve, 300_000))
})
const worker = hapax.worker({ consume: [billing] })
await worker.start()
process.once('SIGTERM', async () => {
  await worker.stop({ deadlineMs: 1_000 })
  process.exit()
})
if (process.argv[2] === 'slow') await hapax.transaction((tx) => hapax.publish(tx, OrderPlaced, { orderId: 'A1' }))
else {
  await worker.drain()
  const { rows } = await hapax.transaction((tx) => tx.query('select * from invoices'))
  console.log(rows.length + ' invoice')
  await hapax.close()
}
`

it.for(nodeVersions)(
  'a stop in a slow handler ends the process in time, and the next one does the work once, on Node.js %s',
  async (version, context) => {
    const told = packed(context)
    const cwd = directoryIn(told.project)
    const start = (...args: string[]) =>
      new Service(nodeOf(told, version), ['--no-warnings', javascript(cwd, service), ...args], { cwd })
    const slow = start('slow')
    await slow.printed('handling')
    slow.kill('SIGTERM')
    expect((await slow.ended).code).toBe(0)
    const next = await start().ended
    expect(next.stdout).toBe('handling\n1 invoice\n')
    expect(next.code).toBe(0)
  },
)
