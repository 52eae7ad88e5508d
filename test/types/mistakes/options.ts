// Every line that ends with a comment is a mistake, and no other: test/unit/snippets.test.ts compares this with what the compiler says.
// `unknown: x` is an option that does not exist, and `wrong: x` one of a wrong type.
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { createHapax, defineMessage } from 'hapax'
import { fromDrizzle } from 'hapax/drizzle'
import { kafka } from 'hapax/kafka'
import { memory } from 'hapax/memory'
import { mysql } from 'hapax/mysql'
import { nats } from 'hapax/nats'
import { postgres } from 'hapax/postgres'
import { rabbitmq } from 'hapax/rabbitmq'
import { redis } from 'hapax/redis'
import { redisStreams } from 'hapax/redis-streams'
import { sqlite } from 'hapax/sqlite'
import pg from 'pg'
import { z } from 'zod'

const url = process.env['DATABASE_URL']
const source = '/shop'
const pool = new pg.Pool()

createHapax({
  store: postgres({ url }),
  source,
  delivry: 'local', // unknown: delivry
})
createHapax({
  store: redis({ url }),
  maxMessageByte: 1, // unknown: maxMessageByte
})
createHapax({
  store: memory(),
  source,
  maxMessageBytes: '1 MB', // wrong: string
})
createHapax({
  store: 'postgres://localhost/shop', // wrong: string
  source,
})
postgres({
  url: 'postgres://localhost/shop',
  maxx: 5, // unknown: maxx
})
postgres({
  pool,
  shema: 'hapax', // unknown: shema
})
postgres({
  urll: 'postgres://localhost/shop', // unknown: urll
})
postgres(fromDrizzle(drizzle(pool), sql), {
  shema: 'hapax', // unknown: shema
})
mysql({
  url,
  prefixx: 'a', // unknown: prefixx
})
sqlite({
  path: 'shop.db',
  prefixx: 'a', // unknown: prefixx
})
redis({
  url,
  timeout: 1, // unknown: timeout
})
const rabbit = rabbitmq({
  url,
  heartbeat: 1, // unknown: heartbeat
})
rabbit.exchange('shop', {
  typ: 'topic', // unknown: typ
})
rabbit.queue('billing', {
  bindd: { exchange: 'shop' }, // unknown: bindd
})
nats({
  url,
  timeout: 1, // unknown: timeout
})
kafka({
  url,
  clientID: 'shop', // unknown: clientID
})
redisStreams({
  url,
  timeout: 1, // unknown: timeout
})

const hapax = createHapax({ store: sqlite({ path: 'shop.db' }), source })
const billing = hapax.consumer('billing', {
  concurency: 3, // unknown: concurency
})
hapax.consumer('stock', {
  retry: {
    attempt: 3, // unknown: attempt
  },
})
hapax.leased('mail', {
  lease: 3, // unknown: lease
})
const worker = hapax.worker({
  consume: [billing],
  poll: 3, // unknown: poll
})
await worker.stop({
  deadline: 3, // unknown: deadline
})
const Order = defineMessage<{ id: string }>('order.placed', {
  keys: ['id'], // unknown: keys
})
defineMessage('order.sent', {
  relais: 'partners', // unknown: relais
})
defineMessage('order.paid', {
  schema: z.object({ id: z.string() }),
  keys: ['id'], // unknown: keys
})
billing.from(rabbit.queue('billing'), {
  prefech: 5, // unknown: prefech
})
billing.on(Order, () => {}, {
  retries: {}, // unknown: retries
})
await hapax.transaction(async (tx) => {
  await hapax.publish(
    tx,
    Order,
    { id: 'a' },
    {
      dealyMs: 5, // unknown: dealyMs
    },
  )
})
await hapax.transaction(async (tx) => {
  await hapax.publish(Order, {
    idd: 'a', // unknown: idd
  })
  await hapax.publish(
    Order,
    { id: 'a' },
    {
      dealyMs: 5, // unknown: dealyMs
    },
  )
  await hapax.publish(tx, Order, {
    id: 5, // wrong: number
  })
})
await hapax.cleanup({
  consumers: 'billing', // unknown: consumers
})
