// Runs an application of examples/apps on servers of its own: `npm run example -- hono-sqlite`. It is asked a few things, each twice, and then
// goes on until Ctrl-C; with --once, it ends.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type AppName, appPlace, exampleApps, sendOrder, sendPayment, startApp } from '../test/support/example-apps.ts'
import { serverVariables } from '../test/support/servers.ts'

const [name = '', ...options] = process.argv.slice(2)
process.exitCode = await main()

async function main(): Promise<number> {
  if (!isApp(name)) {
    console.error(`usage: npm run example -- <name> [--once]\n\n${Object.keys(exampleApps).join('\n')}`)
    return 2
  }
  const missing = exampleApps[name].some((server) => !process.env[serverVariables[server]])
  if (missing) return withServers(name)
  await run(name, options.includes('--once'))
  return 0
}

function isApp(name: string): name is AppName {
  return Object.hasOwn(exampleApps, name)
}

/** Runs this command again, with the servers of the application. */
async function withServers(app: AppName): Promise<number> {
  const servers: readonly string[] = exampleApps[app]
  const env = {
    ...process.env,
    HAPAX_TEST_STORES: servers.includes('postgres') ? 'postgres' : 'sqlite',
    HAPAX_TEST_BROKERS: servers.includes('rabbitmq') ? 'rabbitmq' : 'none',
  }
  const services = join(import.meta.dirname, 'services.ts')
  const again = [services, process.execPath, ...process.execArgv, import.meta.filename, app, ...options]
  const child = spawn(process.execPath, again, { stdio: 'inherit', env })
  // A terminal sends Ctrl-C to all of them; this process has to end last.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  const [code] = await once(child, 'exit')
  return typeof code === 'number' ? code : 1
}

async function run(app: AppName, endAtOnce: boolean): Promise<void> {
  await using place = await appPlace(app)
  const running = await startApp(place)
  console.log(`${app} listens on ${running.url}\n`)
  await showOrders(running.url)
  if (app === 'fastify-prisma') await showPayments(running.url)
  if (!endAtOnce) {
    console.log(`\ngoes on until Ctrl-C: curl ${running.url}/orders`)
    await Promise.race([running.ended, once(process, 'SIGINT'), once(process, 'SIGTERM')])
  }
  running.process.kill('SIGTERM')
  const { code, said } = await running.ended
  console.log(`\n${app} ended with ${code}`)
  if (code !== 0) throw new Error(said)
}

/** Two orders, each of them sent twice, as a client does that got no response the first time. */
async function showOrders(url: string): Promise<void> {
  for (const [key, order] of Object.entries({ k1: { item: 'book', amount: 30 }, k2: { item: 'lamp', amount: 55 } })) {
    for (const time of ['first', 'again']) {
      const response = await sendOrder(url, key, order)
      const how = response.headers.has('idempotent-replayed') ? 'the same response' : 'a new order'
      console.log(
        `POST /orders, Idempotency-Key: ${key} (${time}): ${response.status}, ${how}: ${await response.text()}`,
      )
    }
  }
  console.log('\nGET /orders')
  for (const order of await ordersOnce<{ invoices: number }>(url, (all) => all.every(({ invoices }) => invoices > 0)))
    console.log(order)
}

/** A payment of which Stripe tells twice. */
async function showPayments(url: string): Promise<void> {
  console.log()
  for (const time of ['first', 'again']) {
    const { status } = await sendPayment(url, 'evt_1', 1, 30)
    console.log(`POST /stripe, event evt_1 (${time}): ${status}`)
  }
  console.log('\nGET /orders')
  for (const order of await ordersOnce<{ paid: number }>(url, ([order]) => order !== undefined && order.paid > 0))
    console.log(order)
}

/** The orders, once they are as wanted. */
async function ordersOnce<Order>(url: string, wanted: (orders: Order[]) => boolean): Promise<Order[]> {
  for (;;) {
    const response = await fetch(`${url}/orders`)
    const orders = (await response.json()) as Order[]
    if (wanted(orders)) return orders
    await delay(50)
  }
}
