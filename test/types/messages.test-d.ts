// Checked by tsc, never run: what the compiler knows about messages, handlers and transactions.
import { type } from 'arktype'
import { createHapax, defineMessage, type HandlerContext, type MessageType, type Outcome, type Published } from 'hapax'
import { type MemoryTx, memory } from 'hapax/memory'
import { type PgClient, type PgPoolClient, type PgTx, postgres } from 'hapax/postgres'
import { type SqliteTx, sqlite } from 'hapax/sqlite'
import pg from 'pg'
import * as v from 'valibot'
import { z } from 'zod'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
function same<A, B>(_equal: Equal<A, B>): void {}
function fits<T>(_value: T): void {}

interface Input {
  at: string
  note?: string | undefined
}
interface Output {
  at: Date
  note?: string | undefined
}

const Zod = defineMessage('a', {
  schema: z.object({ at: z.string().transform((at) => new Date(at)), note: z.string().optional() }),
})
const Valibot = defineMessage('b', {
  schema: v.object({
    at: v.pipe(
      v.string(),
      v.transform((at) => new Date(at)),
    ),
  }),
})
const Arktype = defineMessage('c', { schema: type({ at: type('string').pipe((at) => new Date(at)) }) })
const Plain = defineMessage<Input>('d', { key: (data) => data.at })
const Untyped = defineMessage('e')

same<typeof Zod, MessageType<Input, Output>>(true)
same<typeof Valibot, MessageType<{ at: string }, { at: Date }>>(true)
same<typeof Arktype, MessageType<{ at: string }, { at: Date }>>(true)
same<typeof Plain, MessageType<Input, Input>>(true)
same<typeof Untyped, MessageType<unknown, unknown>>(true)

defineMessage('k', {
  schema: z.object({ at: z.coerce.number() }),
  // The key is computed from the input.
  key: (data) => {
    same<typeof data, { at: unknown }>(true)
    return String(data.at)
  },
})
// @ts-expect-error a key is a text
defineMessage<Input>('k', { key: () => 7 })
// @ts-expect-error this is no schema
defineMessage('k', { schema: { parse: () => 1 } })

const pool = new pg.Pool()
const hapax = createHapax({ store: postgres({ pool }), source: '/s' })
const billing = hapax.consumer('billing')

billing.on(Zod, (data, ctx) => {
  same<typeof data, Output>(true)
  fits<PgTx<pg.PoolClient>>(ctx.tx)
  // @ts-expect-error a transaction of pg is none of SQLite
  fits<SqliteTx>(ctx.tx)
  same<typeof ctx.signal, AbortSignal>(true)
  same<typeof ctx.attempt, number>(true)
})
billing.on(Valibot, async ({ at }, { tx, publish, message }) => {
  same<typeof at, Date>(true)
  same<typeof message.data, unknown>(true)
  const { rows, rowCount } = await tx.query<{ n: number }>('select 1 as n', [at])
  same<typeof rows, { n: number }[]>(true)
  same<typeof rowCount, number | null>(true)
  await tx.client.query('select 1')
  same<Awaited<ReturnType<typeof publish>>, Published>(true)
  await publish(Zod, { at: 'now' }, { id: 'a', delayMs: 5 })
  // @ts-expect-error what is published is the input
  await publish(Zod, { at: new Date() })
  // @ts-expect-error there is no such option
  await publish(Zod, { at: 'now' }, { delay: 5 })
})
billing.onMany(Arktype, (items, ctx) => {
  same<(typeof items)[number]['data'], { at: Date }>(true)
  // @ts-expect-error a group has no single message
  ctx.message
})
// @ts-expect-error the handler takes the output, a date
billing.on(Zod, (data: Input) => data)
// @ts-expect-error there is no such option
hapax.consumer('x', { timeout: 5 })
// @ts-expect-error there is no such isolation level
hapax.consumer('x', { isolation: 'read uncommitted' })

const wrapped = billing.wrap(Plain, (data) => {
  same<typeof data, Input>(true)
})
same<ReturnType<typeof wrapped>, Promise<Outcome>>(true)

async function publishing(client: pg.PoolClient, other: SqliteTx): Promise<void> {
  await hapax.publish(client, Zod, { at: 'now' })
  await hapax.transaction(async (tx) => {
    fits<PgTx<pg.PoolClient>>(tx)
    await hapax.publish(tx, Zod, { at: 'now' })
    await hapax.publishMany(tx, [Zod.of({ at: 'now' }), Plain.of({ at: 'now' })])
    // @ts-expect-error what is published is the input
    await hapax.publish(tx, Valibot, { at: new Date() })
    // @ts-expect-error data is missing
    await hapax.publish(tx, Zod)
    // @ts-expect-error drafts are made by of()
    await hapax.publishMany(tx, [{ at: 'now' }])
    // @ts-expect-error this is neither a transaction nor a message type
    await hapax.publish({ at: 'now' }, Zod, { at: 'now' })
  })
  await hapax.transaction(async () => {
    same<Published, Awaited<ReturnType<typeof hapax.publish>>>(true)
    await hapax.publish(Zod, { at: 'now' })
    await hapax.publish(Untyped, 7, { id: 'a', delayMs: 5 })
    await hapax.publishMany([Zod.of({ at: 'now' }), Plain.of({ at: 'now' })])
    // @ts-expect-error what is published is the input
    await hapax.publish(Zod, { at: new Date() })
    // @ts-expect-error data is missing
    await hapax.publish(Zod)
    // @ts-expect-error drafts are made by of()
    await hapax.publishMany([{ at: 'now' }])
  })
  const value = await hapax.transaction(async () => 7)
  same<typeof value, number>(true)
  const onSqlite = createHapax({ store: sqlite({ path: 'x' }), source: '/s' })
  // @ts-expect-error a client of pg is no transaction of SQLite
  await onSqlite.publish(client, Zod, { at: 'now' })
  await onSqlite.publish(other, Zod, { at: 'now' })
}

const onUrl = createHapax({ store: postgres({ url: 'postgres://db' }), source: '/s' })
onUrl.consumer('a').on(Plain, (_data, ctx) => same<typeof ctx, HandlerContext<PgTx<PgPoolClient>>>(true))
createHapax({ store: memory(), source: '/s' })
  .consumer('a')
  .on(Plain, (_data, { tx }) => same<typeof tx, MemoryTx>(true))

// @ts-expect-error a hapax has a source
createHapax({ store: memory() })
// @ts-expect-error a worker has consumers of its own kind of transaction
createHapax({ store: memory(), source: '/s' }).worker({ consume: [billing] })

/** The smallest client that can be published with. */
const own: PgClient = { query: async () => ({ rows: [], rowCount: 0 }) }
void hapax.publish(own, Plain, { at: 'now' })
void publishing

declare const anything: unknown
// @ts-expect-error: what is published has the type of the message, and is not of any type
void hapax.transaction((tx) => hapax.publish(tx, Plain, anything))
// @ts-expect-error: the same in the current transaction
void hapax.publish(Plain, anything)
