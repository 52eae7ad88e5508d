import { createHapax, defineMessage, Permanent, silentLogger } from 'hapax'
import type { Role } from 'hapax/console'
import { memory } from 'hapax/memory'
import { expect, it, onTestFinished, vi } from 'vitest'
import { Trail } from '../../src/console/trail.ts'
import { asRole } from '../support/console-world.ts'

const Placed = defineMessage<unknown>('order.placed')

async function failing() {
  const hapax = createHapax({ store: memory(), source: '/shop', logger: silentLogger })
  onTestFinished(() => hapax.close())
  const billing = hapax.consumer('billing').on(Placed, () => Promise.reject(new Permanent('no such card')))
  await billing.handle({ id: 'a', source: '/shop', type: Placed.type, data: { card: 1 } })
  const [failed] = await hapax.failed.list()
  const looks = async () => (await hapax.audit.list({ action: 'look' })).rows
  return { hapax, paths: [`api/failed/${failed?.seq}`, 'api/message?id=a&source=/shop'], looks }
}

it('a look at a payload is in the audit, once however often the page asks', async () => {
  const { hapax, paths, looks } = await failing()
  const operator = asRole({ hapax }, 'operator')
  for (const path of [...paths, ...paths, 'api/failed', 'api/overview']) expect((await operator(path)).status).toBe(200)
  const about = { action: 'look', actor: 'a operator', source: '/shop', id: 'a', type: 'order.placed' }
  expect(await looks()).toMatchObject([about, { ...about, origin: 'inbox', scope: 'billing' }])
})

it.for<[role: Role, options: object]>([
  ['viewer', {}],
  ['operator', { payloads: 'admin' }],
])('a page of a %s who sees no payload is no look', async ([role, options]) => {
  const { hapax, paths, looks } = await failing()
  const person = asRole({ hapax }, role, options)
  for (const path of paths) expect((await person(path)).status).toBe(200)
  expect(await looks()).toEqual([])
})

it('where the audit cannot be written, the payload is shown and the error is reported', async () => {
  const { hapax, paths } = await failing()
  hapax.audit.record = () => Promise.reject(new Error('permission denied'))
  const onError = vi.fn()
  const operator = asRole({ hapax }, 'operator', { onError })
  for (const path of [...paths, ...paths]) expect(Object(await (await operator(path)).json()).payload).not.toBeNull()
  expect(onError.mock.calls.map(([{ message }]) => message)).toEqual(['permission denied', 'permission denied'])
})

it('a look that could not be written is tried again after a minute, one that was written after an hour', async () => {
  let now = 0
  const record = vi.fn(async () => {})
  const report = vi.fn()
  const trail = new Trail({ audit: { list: vi.fn(), record } }, report, () => now)
  const look = () => trail.look('ada', { source: '/shop', id: 'a' })
  record.mockRejectedValueOnce(new Error('permission denied'))
  await look()
  now += 59_000
  await look()
  expect([record.mock.calls.length, report.mock.calls.length]).toEqual([1, 1])
  now += 1_000
  await look()
  now += 3_599_000
  await look()
  expect(record).toHaveBeenCalledTimes(2)
  now += 1_000
  await look()
  expect([record.mock.calls.length, report.mock.calls.length]).toEqual([3, 1])
})
