import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, type TestContext } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { temporaryDirectory } from '../support/cli.ts'
import { npmInstall, orSkip } from '../support/registry.ts'
import { nodeOf, nodeVersions, packed, run, tsc } from './app.ts'

const { devDependencies } = manifest

/** The oldest release that the range of peers names, and the one that the other tests run on. */
const versions = {
  // Early releases of platform-fastify 11 ask for Nest 10.
  '11.0': { nest: '11.0.0', terminus: '11.0.0', more: {} },
  '12': {
    nest: devDependencies['@nestjs/core'],
    terminus: devDependencies['@nestjs/terminus'],
    more: { '@nestjs/platform-fastify': '^12.3.0' },
  },
} as const

/** A project of Nest, into which hapax is installed from the tarball. */
async function project(context: TestContext, line: keyof typeof versions): Promise<string> {
  const { nest, terminus, more } = versions[line]
  const directory = temporaryDirectory()
  const dependencies = {
    '@nestjs/common': nest,
    '@nestjs/core': nest,
    '@nestjs/platform-express': nest,
    ...more,
    '@nestjs/terminus': terminus,
    'class-transformer': devDependencies['class-transformer'],
    'class-validator': devDependencies['class-validator'],
    'reflect-metadata': devDependencies['reflect-metadata'],
    rxjs: devDependencies.rxjs,
    typescript: devDependencies.typescript,
    '@types/node': devDependencies['@types/node'],
    // The types of platform-express need them.
    '@types/express': devDependencies['@types/express'],
  }
  writeFileSync(join(directory, 'package.json'), JSON.stringify({ private: true, type: 'module', dependencies }))
  const install = async (): Promise<void> => {
    await npmInstall(directory)
    await npmInstall(directory, packed(context).tarball)
  }
  await orSkip(install(), context.skip)
  return directory
}

/** An application as people write it, on either platform: it handles a message and requests, and ends by a signal. */
const app = `
import 'reflect-metadata'
import { Body, Controller, type CanActivate, type ExecutionContext, Get, Injectable, Module, type OnApplicationShutdown, Post, UseGuards, ValidationPipe } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus'
import { IsString } from 'class-validator'
import { createHapax, defineMessage, type HandlerContext, type Hapax, silentLogger } from 'hapax'
import type { HttpContext } from 'hapax/contracts'
import { HapaxConsoleModule, HapaxHealth, HapaxModule, HapaxRunner, Idempotent, IdempotentContext, InjectHapax, OnMessage } from 'hapax/nestjs'
import { sqlite, type SqliteTx } from 'hapax/sqlite'

class Order {
  @IsString()
  orderId!: string
}
const OrderPlaced = defineMessage<Order>('order.placed')
const Shipped = defineMessage<Order>('order.shipped')

@Injectable()
class Numbers {
  of({ orderId }: Order): string {
    return 'no. ' + orderId
  }
}

@Injectable()
class Guard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return context.getType<string>() === 'hapax'
  }
}

@Injectable()
class Billing implements OnApplicationShutdown {
  constructor(private readonly numbers: Numbers) {}

  @OnMessage(OrderPlaced, { consumer: 'billing' })
  @OnMessage(Shipped, { consumer: 'billing' })
  @UseGuards(Guard)
  async onOrder(order: Order, ctx: HandlerContext<SqliteTx>): Promise<void> {
    await ctx.tx.query('insert into invoices values (?)', [this.numbers.of(order)])
  }

  onApplicationShutdown(signal?: string): void {
    console.log('ends by ' + signal)
  }
}

@Controller('orders')
class Orders {
  constructor(@InjectHapax() private readonly hapax: Hapax<SqliteTx>, private readonly health: HealthCheckService, private readonly indicator: HapaxHealth) {}

  @Post()
  @Idempotent({ scope: 'orders', principal: (request: { headers: { authorization?: string } }) => request.headers.authorization })
  async place(@Body() order: Order, @IdempotentContext() ctx: HttpContext<SqliteTx>): Promise<object> {
    await ctx.tx.query('insert into orders values (?)', [order.orderId])
    await this.hapax.publish(OrderPlaced, order)
    return { placed: order.orderId, by: ctx.principal }
  }

  @Get('health')
  @HealthCheck()
  check() {
    return this.health.check([() => this.indicator.check('hapax')])
  }
}

@Module({
  imports: [
    TerminusModule,
    HapaxModule.forRootAsync({
      useFactory: () => ({ hapax: createHapax({ store: sqlite({ path: ':memory:' }), source: '/shop', delivery: 'local', logger: silentLogger }), migrate: true }),
    }),
    HapaxConsoleModule.forRoot({
      authorize: (request) => (request.headers.get('authorization') === 'ada' ? { actor: 'ada', role: 'operator' } : null),
    }),
  ],
  controllers: [Orders],
  providers: [Billing, Numbers],
})
class App {}

async function main(): Promise<void> {
  // As the e2e test of a new project does before each of its cases.
  await (await (await NestFactory.create(App, { logger: false })).init()).close()
  const adapter = process.argv[2] === 'fastify' ? new FastifyAdapter() : new ExpressAdapter()
  const nest = await NestFactory.create(App, adapter, { logger: ['error', 'warn'] })
  const runner = nest.get(HapaxRunner)
  const hapax = nest.get<Hapax<SqliteTx>>(Symbol.for('hapax:default'))
  await hapax.transaction(async (tx) => {
    await tx.query('create table orders (id text)')
    await tx.query('create table invoices (id text)')
  })
  nest.useGlobalPipes(new ValidationPipe())
  nest.enableShutdownHooks()
  await nest.listen(0, '127.0.0.1')
  const url = (await nest.getUrl()) + '/orders'
  const headers = { 'content-type': 'application/json', 'idempotency-key': 'k1', authorization: 'alice' }
  for (const body of ['{"orderId":"A1"}', '{"orderId":"A1"}', '{"orderId":"A2"}']) {
    const response = await fetch(url, { method: 'POST', headers, body })
    console.log(response.status, response.headers.get('idempotent-replayed'), await response.text())
  }
  const message = { id: 'm1', source: '/warehouse', type: 'order.shipped', data: { orderId: 'S1' } }
  console.log((await runner.consumer('billing').handle(message)).status, (await runner.consumer('billing').handle(message)).status)
  console.log((await runner.consumer('billing').handle({ ...message, id: 'm2', data: { orderId: 7 } })).error?.message)
  await runner.worker?.drain()
  for (const table of ['orders', 'invoices']) {
    const { rows } = await hapax.transaction((tx) => tx.query('select id from ' + table + ' order by id'))
    console.log(rows.map((row) => String(row['id'])).join(', '))
  }
  const health = await (await fetch(url + '/health')).text()
  console.log(health.includes('"hapax":{"status":"up"') ? 'up' : health)
  const ops = (path: string, authorization: string, options = {}): Promise<Response> =>
    fetch(url.replace('orders', 'hapax/') + path, { ...options, headers: { ...headers, authorization, 'sec-fetch-site': 'same-origin' } })
  const { actor } = await (await ops('api/session', 'ada')).json() as { actor: string }
  const counted = await ops('api/failed/count', 'ada', { method: 'POST', body: '{"where":{},"all":true}' })
  console.log((await ops('', 'ada')).status, actor, (await ops('', 'eve')).status, await counted.text())
  process.kill(process.pid, 'SIGTERM')
}
void main()
`

const PRINTED = `ends by undefined
201 null {"placed":"A1","by":"alice"}
201 true {"placed":"A1","by":"alice"}
422 null {"type":"about:blank","title
processed duplicate
Bad Request Exception: orderId must be a string
A1
no. A1, no. S1
up
200 ada 404 {"count":1}
ends by SIGTERM
`

/** The same decorator where TypeScript leaves decorators to the language. */
const standard = `
import 'reflect-metadata'
import { Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { createHapax, defineMessage, type HandlerContext } from 'hapax'
import { HapaxModule, HapaxRunner, OnMessage } from 'hapax/nestjs'
import { memory, type MemoryTx } from 'hapax/memory'

const OrderPlaced = defineMessage<{ orderId: string }>('order.placed')

class Billing {
  @OnMessage(OrderPlaced, { consumer: 'billing' })
  async onOrder({ orderId }: { orderId: string }, ctx: HandlerContext<MemoryTx>): Promise<void> {
    console.log(orderId, ctx.attempt)
  }
}
class App {}
Module({ imports: [HapaxModule.forRoot({ hapax: createHapax({ store: memory(), source: '/shop' }) })], providers: [Billing] })(App)
const app = await NestFactory.createApplicationContext(App, { logger: false })
const message = { id: 'm1', source: '/shop', type: 'order.placed', data: { orderId: 'A1' } }
console.log((await app.get(HapaxRunner).consumer('billing').handle(message)).status)
await app.close()
`

/** Methods that do not fit, each with what the compiler says of it. */
const mistakes = `
import { defineMessage, type HandlerContext } from 'hapax'
import { OnMessage } from 'hapax/nestjs'
const OrderPlaced = defineMessage<{ orderId: string }>('order.placed')
export class Billing {
  @OnMessage(OrderPlaced, { consumer: 'billing' })
  wrongData(_: { amount: number }): void {}
  @OnMessage(OrderPlaced, { consumer: 'billing' })
  wrongContext(_: { orderId: string }, __: { nothing: true }): void {}
  @OnMessage(OrderPlaced, {})
  noConsumer(): void {}
  @OnMessage(OrderPlaced, { consumer: 'billing' })
  right(_: { orderId: string }, __: HandlerContext<{ query(text: string): void }>): void {}
}
`

const LEGACY = { experimentalDecorators: true, emitDecoratorMetadata: true }

describe.for(['11.0', '12'] as const)('NestJS %s', (line) => {
  it('an application with decorators type-checks, starts, handles and ends', async (context) => {
    const directory = await project(context, line)
    const told = packed(context)
    const compile = (name: string, type: string, text: string, options: object): Promise<void> => {
      mkdirSync(join(directory, name))
      writeFileSync(join(directory, name, 'package.json'), JSON.stringify({ type }))
      writeFileSync(join(directory, name, 'app.ts'), text)
      return tsc(directory, join(directory, name), { module: 'nodenext', outDir: 'out', rootDir: '.', ...options })
    }
    const text =
      line === '12' ? app : app.replace(/^import .*platform-fastify'$/m, 'const FastifyAdapter = ExpressAdapter')
    for (const [name, type] of [
      ['esm', 'module'],
      ['cjs', 'commonjs'],
    ] as const) {
      await compile(name, type, text, LEGACY)
      for (const [version, platform] of [
        [nodeVersions[0], 'express'],
        [nodeVersions.at(-1) ?? '', 'fastify'],
      ] as const) {
        const start = { cwd: join(directory, name) }
        const { stdout, stderr } = await run(nodeOf(told, version), ['--no-warnings', 'out/app.js', platform], start)
        expect([name, platform, stderr]).toEqual([name, platform, ''])
        expect(stdout.replace(/^422 .*/m, (line) => line.slice(0, 37))).toBe(PRINTED)
      }
    }
    await compile('standard', 'module', standard, {})
    const { stdout, stderr } = await run(nodeOf(told, nodeVersions[0]), ['--no-warnings', 'out/app.js'], {
      cwd: join(directory, 'standard'),
    })
    expect([stdout, stderr]).toEqual(['A1 1\nprocessed\n', ''])
    const said = await compile('mistakes', 'module', mistakes, LEGACY).catch((error: Error) => error.message)
    const lines = [...String(said).matchAll(/^app\.ts\((\d+),/gm)].map(([, number]) => Number(number))
    expect(lines).toEqual([6, 8, 10])
  }, 600_000)
})
