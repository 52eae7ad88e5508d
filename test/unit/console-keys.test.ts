import { createHapax, silentLogger } from 'hapax'
import { memory } from 'hapax/memory'
import { expect, it, onTestFinished } from 'vitest'
import { asRole } from '../support/console-world.ts'

/** A secret: anyone who knows it can request the response. */
const KEY = 'key-of-a-client-4711'

it('a viewer never sees the key of an HTTP request, on any page; an operator does', async () => {
  const hapax = createHapax({ store: memory(), source: '/shop', logger: silentLogger })
  onTestFinished(() => hapax.close())
  const orders = hapax.http('orders', { principal: () => 'ada', mode: 'leased' }).handler(async (_, ctx) => {
    await ctx.effect('pay', () => Promise.reject(new Error('reset')))
    return new Response('paid')
  })
  const headers = { 'idempotency-key': KEY, 'content-type': 'application/json' }
  await orders(new Request('http://shop.test/orders', { method: 'POST', headers, body: '{}' }))
  const [failed] = await hapax.failed.list()
  expect(failed).toMatchObject({ message: { id: KEY }, reason: 'unknown-effect' })
  await hapax.failed.note(failed?.seq ?? '', { actor: 'ada', note: 'the bank looks for it' })

  const [viewer, operator] = [asRole({ hapax }, 'viewer'), asRole({ hapax }, 'operator')]
  const pages = [
    'api/audit?limit=10',
    'api/failed?limit=10',
    'api/failed/groups',
    `api/failed/${failed?.seq}`,
    'api/effects?state=unknown',
    'api/messages?place=inbox',
    'api/messages?place=receipts&scope=http:orders',
  ]
  const shown: string[] = []
  for (const page of pages) {
    const [theirs, whole] = await Promise.all([viewer(page), operator(page)])
    expect([theirs.status, whole.status], page).toEqual([200, 200])
    expect(await theirs.text(), page).not.toContain(KEY)
    if ((await whole.text()).includes(KEY)) shown.push(page)
  }
  expect(shown).toEqual(
    expect.arrayContaining(['api/audit?limit=10', 'api/failed?limit=10', `api/failed/${failed?.seq}`]),
  )
})
