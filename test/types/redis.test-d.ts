// Checked by tsc, never run: what the compiler knows about a hapax on a store that only knows leases.
import { type ClaimConsumer, type ClaimHapax, createHapax, defineMessage, type Hapax, type Outcome } from 'hapax'
import { type MemoryTx, memory } from 'hapax/memory'
import { redis } from 'hapax/redis'
import { Cluster, Redis } from 'ioredis'
import { createClient, createCluster } from 'redis'
import { expectTypeOf } from 'vitest'

const Ping = defineMessage<{ readonly n: number }>('ping')

// The clients as they come.
redis({ client: new Redis() })
redis({ client: new Cluster([]) })
redis({ client: createClient() })
redis({ client: createCluster({ rootNodes: [] }) })
// @ts-expect-error: no client at all
redis({ client: { get: () => 1 } })

const hapax = createHapax({ store: redis({ url: 'redis://localhost' }), source: '/shop' })
expectTypeOf(hapax).toEqualTypeOf<ClaimHapax>()
expectTypeOf(createHapax({ store: memory(), source: '/shop' })).toEqualTypeOf<Hapax<MemoryTx, MemoryTx>>()

// @ts-expect-error: without transactions there is no such consumer
hapax.consumer('billing')
// @ts-expect-error: nothing is published
hapax.publish
// @ts-expect-error: nor in bulk
hapax.publishMany
// @ts-expect-error: there are no transactions
hapax.transaction
// @ts-expect-error: there are no tables
hapax.migrate
// @ts-expect-error: a failed message is not edited
hapax.failed.edit
// @ts-expect-error: without an inbox there is no order
hapax.leased('ordered', { order: 'wait' })
// @ts-expect-error: without transactions there is no isolation
hapax.leased('isolated', { isolation: 'serializable' })
// @ts-expect-error: there is nothing to deliver
createHapax({ store: redis({ url: 'redis://localhost' }), delivery: 'local' })

const sms = hapax.leased('sms', { leaseMs: 30_000 }).on(Ping, async (data, ctx) => {
  expectTypeOf(data.n).toEqualTypeOf<number>()
  expectTypeOf(await ctx.effect('send', async (key) => key.length)).toEqualTypeOf<number>()
  expectTypeOf(ctx.fence).toEqualTypeOf<number>()
  await ctx.note({ to: '+41' })
  // @ts-expect-error: there is no transaction
  ctx.tx
  // @ts-expect-error: nor one to complete
  ctx.complete
  // @ts-expect-error: nor one to publish in
  ctx.publish
})
expectTypeOf(sms).toEqualTypeOf<ClaimConsumer>()
expectTypeOf(sms.handle({ type: 'ping', source: '/s', id: '1' })).toEqualTypeOf<Promise<Outcome>>()
hapax.worker({ consume: [sms] })
// @ts-expect-error: there is no outbox to relay
hapax.worker({ consume: [sms], relay: undefined as never as object })

const whole = createHapax({ store: memory(), source: '/shop' })
// @ts-expect-error: a consumer of another kind of store
hapax.worker({ consume: [whole.leased('sms')] })
// @ts-expect-error: and the other way round
whole.worker({ consume: [sms] })
