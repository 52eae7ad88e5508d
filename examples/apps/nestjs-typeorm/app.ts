// A shop on NestJS, TypeORM, PostgreSQL and RabbitMQ. Node.js cannot run decorators: `tsc -p .` compiles this into dist.
import 'reflect-metadata'
import { Body, Controller, Get, Inject, Injectable, Module, Post, UnprocessableEntityException } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import type { Request } from 'express'
import { defineMessage, type HandlerContext } from 'hapax'
import type { HttpContext } from 'hapax/contracts'
import { HapaxModule, Idempotent, IdempotentContext, OnMessage } from 'hapax/nestjs'
import { postgres } from 'hapax/postgres'
import { rabbitmq } from 'hapax/rabbitmq'
import { fromTypeorm } from 'hapax/typeorm'
import { Column, DataSource, Entity, type EntityManager, PrimaryGeneratedColumn } from 'typeorm'

@Entity('orders')
class Order {
  @PrimaryGeneratedColumn()
  id!: number

  @Column('text', { nullable: true })
  buyer!: string | null

  @Column('text')
  item!: string

  @Column('integer')
  amount!: number
}

@Entity('invoices')
class Invoice {
  @PrimaryGeneratedColumn()
  id!: number

  @Column('integer', { name: 'order_id' })
  orderId!: number

  @Column('integer')
  amount!: number
}

interface Placed {
  readonly id: number
  readonly amount: number
}
const OrderPlaced = defineMessage<Placed>('order.placed', { key: (order) => String(order.id) })

@Injectable()
class Billing {
  // ctx.tx is an entity manager. The invoice and the receipt of the message commit in its transaction: a message that RabbitMQ
  // delivers again writes no second invoice.
  @OnMessage(OrderPlaced, { consumer: 'billing' })
  async onOrder(order: Placed, ctx: HandlerContext<EntityManager>): Promise<void> {
    await ctx.tx.insert(Invoice, { orderId: order.id, amount: order.amount })
  }
}

@Controller('orders')
class Orders {
  constructor(@Inject(DataSource) private readonly dataSource: DataSource) {}

  // The order, its message and the response commit together: a request that comes again gets the same response.
  // A shop with logins returns the id of the user here.
  @Post()
  @Idempotent({ scope: 'orders', principal: (request: Request) => request.get('x-user') })
  async place(
    @Body() order: { item?: unknown; amount?: unknown } | undefined,
    @IdempotentContext() ctx: HttpContext<EntityManager>,
  ): Promise<object> {
    const { item, amount } = order ?? {}
    if (typeof item !== 'string' || typeof amount !== 'number') {
      throw new UnprocessableEntityException('expected an item and an amount')
    }
    const { id } = await ctx.tx.save(Order, { buyer: ctx.principal ?? null, item, amount })
    await ctx.publish(OrderPlaced, { id, amount })
    return { id, item, amount }
  }

  @Get()
  list(): Promise<unknown> {
    return this.dataSource.query(`select o.id, o.item, o.amount, count(i.id)::int as invoices
      from orders o left join invoices i on i.order_id = o.id group by o.id order by o.id`)
  }
}

@Module({
  providers: [
    {
      provide: DataSource,
      useFactory: () =>
        new DataSource({
          type: 'postgres',
          url: process.env['DATABASE_URL'] ?? 'postgres://localhost/shop',
          poolSize: 20,
          entities: [Order, Invoice],
          synchronize: true, // in a project of your own: migrations. `hapax migrate --print --format typeorm` writes one
        }).initialize(),
    },
  ],
  exports: [DataSource],
})
class Database {
  constructor(@Inject(DataSource) private readonly dataSource: DataSource) {}

  // Not in onModuleDestroy: handlers are still running there.
  async onApplicationShutdown(): Promise<void> {
    await this.dataSource.destroy()
  }
}

const exchange = process.env['EXCHANGE'] ?? 'shop'
const rabbit = rabbitmq({ url: process.env['RABBITMQ_URL'] ?? 'amqp://localhost' })

@Module({
  imports: [
    Database,
    HapaxModule.forRootAsync({
      imports: [Database],
      inject: [DataSource],
      useFactory: (dataSource: DataSource) => ({
        store: postgres(fromTypeorm(dataSource)),
        source: '/shop',
        migrate: true,
        worker: { relay: rabbit.exchange(exchange) },
        consumers: { billing: { from: rabbit.queue(`${exchange}.billing`, { bind: { exchange } }) } },
      }),
    }),
  ],
  controllers: [Orders],
  providers: [Billing],
})
class App {}

const app = await NestFactory.create(App, { logger: ['error', 'warn'] })
app.enableShutdownHooks([], { useProcessExit: true })
await app.listen(process.env['PORT'] ?? 3000)
console.log(`listening on ${(await app.getUrl()).replace('[::1]', 'localhost')}`)
