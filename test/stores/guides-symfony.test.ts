import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Channel, connect } from 'amqplib'
import { createHapax, defineMessage, type Handler, type Hapax, silentLogger } from 'hapax'
import type { Destination, EncodeFunction } from 'hapax/contracts'
import { type PgClient, type PgTx, postgres } from 'hapax/postgres'
import { type Rabbitmq, rabbitmq } from 'hapax/rabbitmq'
import { createConnection } from 'mysql2/promise'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { cli } from '../support/cli.ts'
import { delivered, mappings, migrated, takeOver, takeOvers, uuid } from '../support/guides.ts'
import { ownDatabase } from '../support/migration-tools.ts'
import { blocksOf } from '../support/pages.ts'
import { requireServer, testBrokers, testStores } from '../support/servers.ts'
import { Messenger, messenger, noSymfony, type Order } from '../support/symfony/messenger.ts'

const page = 'docs/beside-symfony.md'
const run = promisify(execFile)
const PLACED = 'App\\Message\\OrderPlaced'
const Placed = defineMessage<Order>(PLACED)

const order = (eventId: string, orderId = `order-${eventId}`): Order => ({ eventId, orderId, amount: 42 })
const orders = (count: number): Order[] => Array.from({ length: count }, (_, n) => order(uuid(n)))

describe.runIf(testStores().includes('mysql'))('processed ids', () => {
  const [texts, binary] = takeOvers(page)
  const Any = defineMessage<unknown>('order.placed')

  it.for([
    {
      name: 'of a table with texts',
      command: texts,
      table: `create table processed_messages (message_id varchar(100) not null primary key, status varchar(20) not null)`,
      rows: `insert into processed_messages values ('${uuid(1)}', 'processed'), ('${uuid(2)}', 'failed')`,
    },
    {
      name: 'of a table with binary(16)',
      command: binary,
      table: `create table message_broker_deduplication (message_id binary(16) not null primary key, message_name varchar(255) not null,
        processed_at datetime not null)`,
      rows: `insert into message_broker_deduplication values (unhex('${uuid(1).replaceAll('-', '')}'), 'order.placed', now())`,
    },
  ])('are duplicates after the import: $name', async ({ command = expect.fail(), table, rows }) => {
    await using database = await ownDatabase('mysql')
    expect((await cli(['migrate', '--store', database.url])).exitCode).toBe(0)
    const connection = await createConnection(database.url)
    try {
      await connection.query(table)
      await connection.query(rows)
      const ask = async (sql: string): Promise<object[]> => Object(await connection.query(sql))[0]
      expect(await takeOver(database, ask, command)).toContain('imported 1 receipt for billing')
      const outcomes = await delivered(database.url, Any, '/shop-php', [uuid(1), uuid(2)])
      expect(outcomes).toEqual(['duplicate', 'processed'])
    } finally {
      await connection.end()
    }
  })
})

/** The `encode` of each destination on the page. */
function encoders(): EncodeFunction[] {
  const codes = blocksOf(page).filter(({ code }) => /^rabbit\.exchange/m.test(code))
  return codes.map(({ code }) => {
    const text = code.replace(/^rabbit\.exchange/m, 'return rabbit.exchange')
    const destination: { encode: EncodeFunction } = new Function('rabbit', text)({
      exchange: (_: string, made: object) => made,
    })
    return destination.encode
  })
}

/** The handler that keeps one list with Symfony. */
function sharingHandler(): Handler<Order, PgTx> {
  const code = blocksOf(page).find((block) => block.code.includes('[ctx.message.id]'))?.code ?? ''
  const text = code.replaceAll(/^import.*$/gm, '').replaceAll(/defineMessage<.*?>\(/g, 'defineMessage(')
  const found: Handler<Order, PgTx>[] = []
  const billing = { on: (_: unknown, handler: Handler<Order, PgTx>) => void found.push(handler) }
  new Function('billing', 'defineMessage', text)(billing, defineMessage)
  return found[0] ?? expect.fail('the page has a handler')
}

interface Shop {
  readonly hapax: Hapax<PgTx, PgClient>
  readonly rabbit: Rabbitmq
  readonly channel: Channel
  readonly database: { readonly url: string; readonly project: string }
  /** The name of a queue and of its exchange, both as Symfony declares them. */
  readonly queue: string
  rows(sql: string): Promise<Record<string, unknown>[]>
}

/** A database with the tables of both, and a queue that Symfony has declared. */
async function openShop(): Promise<Shop> {
  const { database, client } = await migrated()
  await client.query(`create table processed_messages (message_id text primary key);
    create table invoices (order_id text not null, amount integer not null)`)
  const url = requireServer('rabbitmq')
  const connection = await connect(url)
  const channel = await connection.createChannel()
  const queue = `symfony-${randomUUID()}`
  await messenger('work', { queue, url: database.url })
  const store = postgres({ url: database.url })
  const hapax = createHapax({ store, source: '/shop', logger: silentLogger })
  onTestFinished(async () => {
    await hapax.close()
    for (const name of [queue, `${queue}-failed`]) {
      await channel.deleteQueue(name)
      await channel.deleteExchange(name)
    }
    await channel.deleteExchange(`${queue}-delays`)
    await connection.close()
  })
  const rows = async (sql: string) => (await client.query(sql)).rows
  return { hapax, rabbit: rabbitmq({ url }), channel, database, queue, rows }
}

/** Counts what becomes of messages. */
function outcomesOf({ hapax }: Shop): { processed: string[]; duplicate: string[]; failed: string[] } {
  const outcomes = { processed: [] as string[], duplicate: [] as string[], failed: [] as string[] }
  for (const name of ['processed', 'duplicate', 'failed'] as const) {
    hapax.events.on(name, ({ message }) => void outcomes[name].push(message.id))
  }
  return outcomes
}

const left = async ({ channel }: Shop, queue: string): Promise<number> => (await channel.checkQueue(queue)).messageCount

const missing = noSymfony ?? (testBrokers().includes('rabbitmq') ? undefined : 'RabbitMQ is left out')

describe.skipIf(missing !== undefined)(
  `beside Symfony Messenger${missing === undefined ? '' : ` (${missing})`}`,
  () => {
    const [byData, byStamp] = mappings(page)

    it.for([
      { name: 'in the data', idFrom: 'data', mapping: byData },
      { name: 'in a stamp', idFrom: 'stamp', mapping: byStamp },
      { name: 'in the property', idFrom: 'property', mapping: { ...byData, id: { property: 'messageId' } } },
    ] as const)('what Symfony sends is processed once, with its id $name', async ({ idFrom, mapping }) => {
      const shop = await openShop()
      const { hapax, rabbit, queue } = shop
      const outcomes = outcomesOf(shop)
      const taken: unknown[] = []
      const billing = hapax.consumer('billing').on(Placed, ({ orderId }, { message: { source, id } }) => {
        taken.push([source, id, orderId])
      })
      const worker = hapax.worker({ consume: [billing.from(rabbit.queue(queue, { declare: 'check' }), mapping)] })
      await worker.start()
      const job = { queue, idFrom, orders: [order('e-1'), order('e-2')] }
      await messenger('send', job)
      await messenger('send', job)
      await expect.poll(() => outcomes.duplicate.toSorted(), { timeout: 30_000 }).toEqual(['e-1', 'e-2'])
      expect(taken.toSorted()).toEqual([
        ['/shop-php', 'e-1', 'order-e-1'],
        ['/shop-php', 'e-2', 'order-e-2'],
      ])
      await worker.stop()
    })

    it('what Symfony retried keeps its type in the header, and an edit mends what was mapped by the routing key', async () => {
      const shop = await openShop()
      const { hapax, rabbit, queue, database } = shop
      await messenger('send', { queue, orders: [order('e-1', 'bad'), order('e-2', 'bad')] })
      // Each fails once, and waits in Symfony's delay queue for its retry.
      const failing = await messenger('work', { queue, url: database.url, delayMs: 500, until: 2 })
      expect(failing.all('failing')).toEqual(['e-1', 'e-2'])
      await expect.poll(() => left(shop, queue), { timeout: 30_000 }).toBe(2)

      const outcomes = outcomesOf(shop)
      const types: string[] = []
      const billing = hapax.consumer('billing').on(Placed, (_, { message }) => void types.push(message.type))
      const wrong = { ...byData, type: { property: 'routingKey' } }
      const mistaken = hapax.worker({ consume: [billing.from(rabbit.queue(queue, { declare: 'check' }), wrong)] })
      await mistaken.start()
      await expect.poll(() => outcomes.failed.toSorted(), { timeout: 30_000 }).toEqual(['e-1', 'e-2'])
      for (const { seq, message } of await hapax.failed.list()) {
        expect(message.type).toBe(queue)
        const edit = ['failed', 'edit', seq, '--type', PLACED, '--store', database.url]
        expect(await cli(edit)).toMatchObject({ exitCode: 0 })
      }
      await expect.poll(() => types, { timeout: 30_000 }).toEqual([PLACED, PLACED])
      await mistaken.stop()
    })

    it('what Symfony retried is processed with the mapping of the page', async () => {
      const shop = await openShop()
      const { hapax, rabbit, queue, database } = shop
      await messenger('send', { queue, orders: [order('e-1', 'bad')] })
      await messenger('work', { queue, url: database.url, delayMs: 500, until: 1 })
      const outcomes = outcomesOf(shop)
      const billing = hapax.consumer('billing').on(Placed, () => {})
      const worker = hapax.worker({ consume: [billing.from(rabbit.queue(queue, { declare: 'check' }), byData)] })
      await worker.start()
      await expect.poll(() => outcomes.processed, { timeout: 30_000 }).toEqual(['e-1'])
      await worker.stop()
    })

    it('CloudEvents in front of a queue of Symfony are lost and end its worker', async () => {
      const shop = await openShop()
      const { rabbit, queue, database } = shop
      await publish(shop, rabbit.exchange(queue, { declare: 'check' }), [order('e-1')])
      const { code, errors } = await new Messenger('work', { queue, url: database.url }).ended
      expect(code).not.toBe(0)
      expect(errors).toContain('MessageDecodingFailedException')
      expect(await left(shop, queue)).toBe(0)
      expect(await shop.rows('select * from invoices')).toEqual([])
    })

    it('plain JSON is decoded by name, and processed as often as it comes', async () => {
      const shop = await openShop()
      const { rabbit, queue, database } = shop
      const plain = rabbit.exchange(queue, { declare: 'check', encode: 'plain-json' })
      await publish(shop, plain, [order('e-1'), order('e-1')])
      const worker = await messenger('work', { queue, url: database.url, idFrom: 'stamp', name: 'order.placed' })
      expect(worker.all('handled')).toEqual(['e-1', 'e-1'])
    })

    it.for([
      { name: 'Symfony', encode: encoders()[0], job: {} },
      { name: 'freyr/message-broker', encode: encoders()[1], job: { name: 'order.placed' } },
    ])('what hapax sends by the encoder for $name is processed once', async ({ encode = expect.fail(), job }) => {
      const shop = await openShop()
      const { rabbit, queue, database } = shop
      const sent = [order('e-1'), order('e-2'), order('e-3', 'bad')]
      for (let times = 0; times < 2; times += 1) {
        await publish(shop, rabbit.exchange(queue, { declare: 'check', encode }), sent)
      }
      const worker = new Messenger('work', { queue, url: database.url, idFrom: 'stamp', until: 'stopped', ...job })
      await expect.poll(() => left(shop, `${queue}-failed`), { timeout: 30_000 }).toBeGreaterThan(0)
      await expect.poll(() => worker.all('duplicate').toSorted(), { timeout: 30_000 }).toEqual(['e-1', 'e-2'])
      expect(worker.all('handled').toSorted()).toEqual(['e-1', 'e-2'])
      worker.kill()
      await worker.ended
    })

    it('what lies in the failure transport is processed once, however often it is moved', async () => {
      const shop = await openShop()
      const { hapax, database } = shop
      const given = [order('e-1'), order('e-2')]
      const encoded = (await messenger('encode', { orders: given })).said
      await shop.rows(`create table messenger_messages (id bigserial primary key, body text not null, headers text not null,
      queue_name varchar(190) not null, created_at timestamp not null, available_at timestamp not null, delivered_at timestamp)`)
      const client = new pg.Client(database.url)
      await client.connect()
      const insert = `insert into messenger_messages (body, headers, queue_name, created_at, available_at)
      values ($1, $2, $3, now(), now())`
      for (const queue of ['failed', 'failed', 'default']) {
        for (const { body, headers } of encoded) await client.query(insert, [body, JSON.stringify(headers), queue])
      }
      await client.end()
      const program = blocksOf(page).find(({ code }) => code.includes('messenger_messages'))?.code ?? ''
      writeFileSync(join(database.project, 'move.ts'), program)
      const args = ['--conditions=hapax-source', '--no-warnings', 'move.ts']
      const options = { cwd: database.project, env: { ...process.env, DATABASE_URL: database.url } }
      for (let times = 0; times < 2; times += 1) await run(process.execPath, args, options)
      const taken: string[] = []
      const billing = hapax.consumer('billing').on(Placed, ({ orderId }) => void taken.push(orderId))
      const worker = hapax.worker({ consume: [billing] })
      await worker.start()
      await worker.drain()
      expect(taken.toSorted()).toEqual(['order-e-1', 'order-e-2'])
      expect(await shop.rows('select distinct queue_name from messenger_messages')).toEqual([{ queue_name: 'default' }])
      await worker.stop()
    })

    it('both work on one queue and one database, each message takes effect once, and Symfony goes on alone', async () => {
      const shop = await openShop()
      const { hapax, rabbit, queue, database } = shop
      const outcomes = outcomesOf(shop)
      const billing = hapax.consumer('billing').on(Placed, sharingHandler())
      const source = billing.from(rabbit.queue(queue, { declare: 'check' }), { ...byData, prefetch: 1 })
      const worker = hapax.worker({ consume: [source] })
      const given = orders(60)
      await messenger('send', { queue, orders: given })
      await messenger('send', { queue, orders: given })
      const php = new Messenger('work', { queue, url: database.url, until: 'stopped' })
      await expect.poll(() => php.all('handled').length, { timeout: 30_000 }).toBeGreaterThan(0)
      await worker.start()
      await expect.poll(() => left(shop, queue), { timeout: 30_000 }).toBe(0)
      // Killed at whatever moment: what it had in hand comes back.
      php.kill()
      await php.ended
      const invoices = async (): Promise<number> => (await shop.rows('select order_id from invoices')).length
      await expect.poll(invoices, { timeout: 30_000 }).toBe(given.length)
      await worker.drain()
      await worker.stop()
      expect(outcomes.failed).toEqual([])

      await messenger('send', { queue, orders: [...given, order('new')] })
      const alone = await messenger('work', { queue, url: database.url })
      expect(alone.all('handled')).toEqual(['new'])
      const [{ most } = { most: 0 }] = await shop.rows(
        'select max(n)::int as most from (select count(*) as n from invoices group by order_id) as counted',
      )
      expect([await invoices(), most]).toEqual([given.length + 1, 1])
    })
  },
)

/** Publishes through the outbox, under the ids of the orders, and waits until the broker has them. */
async function publish({ database }: Shop, relay: Destination, given: readonly Order[]): Promise<void> {
  const Sent = defineMessage<Order>('order.placed')
  const hapax = createHapax({ store: postgres({ url: database.url }), source: '/shop', logger: silentLogger })
  const worker = hapax.worker({ relay })
  await hapax.transaction(async (tx) => {
    for (const each of given) await hapax.publish(tx, Sent, each, { id: each.eventId })
  })
  await worker.start()
  await worker.drain()
  await worker.stop()
  await hapax.close()
}
