import { connect } from 'node:net'
import { connect as amqp } from 'amqplib'
import { describe, expect, it, onTestFinished } from 'vitest'
import {
  type AppName,
  type AppPlace,
  appPlace,
  exampleApps,
  type PlacedOrder,
  type RunningApp,
  sendOrder,
  sendPayment,
  startApp,
} from '../support/example-apps.ts'
import { inThisRun } from '../support/runs.ts'
import { requireServer, testBrokers, testStores } from '../support/servers.ts'

/** What the applications promise on SIGTERM, and ten seconds to close what they opened. */
const DEADLINE_MS = 30_000

const chosen: readonly string[] = [...testStores(), ...testBrokers()]
const names = Object.keys(exampleApps) as AppName[]
const possible = names.filter((name) =>
  exampleApps[name].length === 0 ? chosen.includes('sqlite') : exampleApps[name].every((each) => chosen.includes(each)),
)

/** Starts an application, and makes sure that it ends with the test. */
async function started(place: AppPlace): Promise<RunningApp> {
  const running = await startApp(place)
  onTestFinished(() => void running.process.kill('SIGKILL'))
  return running
}

/** Sends SIGTERM, and SIGKILL at the deadline: whoever got that did not end in time. */
function terminate({ process, ended }: RunningApp): RunningApp['ended'] {
  process.kill('SIGTERM')
  const deadline = setTimeout(() => process.kill('SIGKILL'), DEADLINE_MS)
  return ended.finally(() => clearTimeout(deadline))
}

/** The invoices of each order, by a plain client. */
async function invoices(place: AppPlace): Promise<Record<string, number>> {
  const rows = await place.query(
    'select o.item, count(i.order_id) as invoices from orders o left join invoices i on i.order_id = o.id group by o.id, o.item',
  )
  const found: Record<string, number> = {}
  for (const { item, invoices } of rows) {
    // Two orders of one item would be hidden by one entry.
    expect(found).not.toHaveProperty(String(item))
    found[String(item)] = Number(invoices)
  }
  return found
}

const once = (items: readonly string[]) => Object.fromEntries(items.map((item) => [item, 1]))

/** Each item is ordered under its own key. */
const order = (url: string, item: string): Promise<Response> => sendOrder(url, `key of ${item}`, { item, amount: 30 })

async function accepted(response: Response): Promise<PlacedOrder> {
  expect(response.status).toBe(201)
  return (await response.json()) as PlacedOrder
}

/** Whether nobody listens any more. */
function refusesConnections({ url }: RunningApp): Promise<boolean> {
  const { hostname: host, port } = new URL(url)
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port) })
    socket.on('error', () => resolve(true))
    socket.on('connect', () => {
      socket.destroy()
      resolve(false)
    })
  })
}

const ordered = (app: RunningApp, items: readonly string[]): Promise<PlacedOrder[]> =>
  Promise.all(items.map(async (item) => accepted(await order(app.url, item))))

/** A queue that gets a copy of everything that an application sends. */
async function copies(place: AppPlace) {
  const connection = await amqp(requireServer('rabbitmq'))
  const channel = await connection.createConfirmChannel()
  const exchange = String(place.env['EXCHANGE'])
  const { queue } = await channel.assertQueue('', { exclusive: true })
  await channel.bindQueue(queue, exchange, '#')
  onTestFinished(() => connection.close())
  return {
    count: async () => (await channel.checkQueue(queue)).messageCount,
    waiting: async () => (await channel.checkQueue(`${exchange}.billing`)).messageCount,
    sendAgain: async () => {
      const message = await channel.get(queue, { noAck: true })
      if (message === false) throw new Error('there is no copy')
      const { content, fields, properties } = message
      channel.publish(exchange, fields.routingKey, content, properties)
      await channel.waitForConfirms()
    },
  }
}

const inTest: AppName = 'hono-sqlite'

describe.each(inThisRun(possible, (name) => name === inTest))('%s', (name) => {
  it('takes an order that is sent several times once', async () => {
    await using place = await appPlace(name)
    const app = await started(place)
    const first = await accepted(await order(app.url, 'book'))
    const second = await order(app.url, 'book')
    expect(second.headers.get('idempotent-replayed')).toBe('true')
    expect(await accepted(second)).toEqual(first)
    const together = await Promise.all(Array.from({ length: 5 }, () => order(app.url, 'lamp')))
    for (const { status } of together) expect([201, 409]).toContain(status)
    expect((await sendOrder(app.url, 'key of book', { item: 'lamp', amount: 30 })).status).toBe(422)
    expect((await sendOrder(app.url, 'key', { item: 'lamp', amount: Number.NaN })).status).toBe(422)
    await expect.poll(() => invoices(place)).toEqual(once(['book', 'lamp']))
    expect(await terminate(app)).toMatchObject({ code: 0 })
    expect(await invoices(place)).toEqual(once(['book', 'lamp']))
  })

  it('finishes what runs on SIGTERM, and what is sent again to the next process takes effect once', async () => {
    await using place = await appPlace(name)
    const app = await started(place)
    const billing = await place.hold('invoices')
    const early = await ordered(app, ['a', 'b', 'c'])
    await place.untilHeld('invoices', 1)
    const ordering = await place.hold('orders')
    const late = ['d', 'e', 'f'].map((item) => order(app.url, item))
    const responses = Promise.allSettled(late)
    await place.untilHeld('orders', 3)

    const ended = terminate(app)
    await expect.poll(() => refusesConnections(app)).toBe(true)
    await billing.release()
    await ordering.release()
    expect(await ended).toMatchObject({ code: 0 })
    for (const each of await responses) {
      if (each.status === 'fulfilled') early.push(await accepted(each.value))
      // SQLite does not tell whether a request waits: it may have come too late.
      else expect(name).toBe('hono-sqlite')
    }

    const next = await started(place)
    const again = await ordered(next, ['a', 'b', 'c', 'd', 'e', 'f'])
    expect(again).toEqual(expect.arrayContaining(early))
    await expect.poll(() => invoices(place)).toEqual(once(['a', 'b', 'c', 'd', 'e', 'f']))
    expect(await terminate(next)).toMatchObject({ code: 0 })
    expect(await invoices(place)).toEqual(once(['a', 'b', 'c', 'd', 'e', 'f']))
  })
})

describe.each(inThisRun(possible, (name) => name === inTest).filter(usesRabbitmq))('%s', (name) => {
  it('sends one message for an order that is placed twice, and bills one that RabbitMQ delivers three times once', async () => {
    await using place = await appPlace(name)
    const app = await started(place)
    const sent = await copies(place)
    await ordered(app, ['book'])
    await ordered(app, ['book'])
    await expect.poll(() => invoices(place)).toEqual(once(['book']))
    expect(await sent.count()).toBe(1)
    await sent.sendAgain()
    await sent.sendAgain() // the copy of the copy
    await expect.poll(sent.waiting).toBe(0)
    // A copy that was fetched and not begun goes back to the queue.
    expect(await terminate(app)).toMatchObject({ code: 0 })
    expect(await invoices(place)).toEqual(once(['book']))
  })
})

describe.runIf(inThisRun(possible, (name) => name === inTest).includes('fastify-prisma'))('webhooks', () => {
  it('a payment that Stripe tells about several times counts once', async () => {
    await using place = await appPlace('fastify-prisma')
    const app = await started(place)
    const paid = async () => (await place.query('select paid from invoices')).map((row) => row['paid'])
    const [book] = await ordered(app, ['book'])
    const id = Number(book?.id)
    await expect.poll(() => invoices(place)).toEqual(once(['book']))
    const payments = await Promise.all(['evt_1', 'evt_1', 'evt_1'].map((event) => sendPayment(app.url, event, id, 10)))
    // A copy that comes while another one is being stored may be asked to come again.
    for (const { status } of payments) expect([200, 503]).toContain(status)
    expect((await sendPayment(app.url, 'evt_1', id, 10)).status).toBe(200)
    expect((await sendPayment(app.url, 'evt_2', id, 20)).status).toBe(200)
    expect((await sendPayment(app.url, 'evt_3', id, 40, 'whsec_of_somebody_else')).status).toBe(401)
    await expect.poll(paid).toEqual([30])
    expect(await terminate(app)).toMatchObject({ code: 0 })
    expect(await paid()).toEqual([30])
  })
})

function usesRabbitmq(name: AppName): boolean {
  const servers: readonly string[] = exampleApps[name]
  return servers.includes('rabbitmq')
}
