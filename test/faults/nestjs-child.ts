import { setTimeout as delay } from 'node:timers/promises'
import { Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { createHapax, defineMessage, type HandlerContext, silentLogger } from 'hapax'
import { HapaxModule, OnMessage } from 'hapax/nestjs'
import { rabbitmq } from 'hapax/rabbitmq'
import { endWithParent, job, say } from '../support/child.ts'
import { insertEffect, openStore, type Place, type RigTx } from '../support/databases.ts'
import { provided } from '../support/nest.ts'

/** A Nest application that bills orders until it gets a SIGTERM. */
export interface NestJob {
  readonly place: Place
  /** The queue of RabbitMQ that it reads; without one, orders come by local delivery. */
  readonly from?: { readonly url: string; readonly exchange: string; readonly queue: string }
  readonly shutdownMs: number
  /** The id of an order whose handler never ends, and does not listen. */
  readonly stuck?: string
}

const { place, from, shutdownMs, stuck } = job<NestJob>()
const Order = defineMessage<{ id: string }>('order')
endWithParent()

class Billing {
  async onOrder({ id }: { id: string }, ctx: HandlerContext<RigTx>): Promise<void> {
    await ctx.tx.query(insertEffect(place, 'billing', id))
    await delay(Math.random() * 30)
    if (id !== stuck) return
    await say({ said: 'stuck' })
    await new Promise(() => {})
  }
}
provided(Billing, { methods: { onOrder: [OnMessage(Order, { consumer: 'billing' })] } })

const hapax = createHapax({ store: await openStore(place), source: '/nest', delivery: 'local', logger: silentLogger })
const queue = from && rabbitmq({ url: from.url }).queue(from.queue, { bind: { exchange: from.exchange } })
const consumers = { billing: { ...(queue && { from: queue }), group: { size: 5 }, timeoutMs: 120_000 } }

class App {}
Module({ imports: [HapaxModule.forRoot({ hapax, consumers, shutdownMs })], providers: [Billing] })(App)

const app = await NestFactory.createApplicationContext(App, { logger: ['error'] })
app.enableShutdownHooks()
await say({ said: 'started' })
