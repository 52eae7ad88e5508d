// Runs the applications of examples/apps: for `npm run example`, and for their tests.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { createHmac, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as delay } from 'node:timers/promises'
import { connect } from 'amqplib'
import pg from 'pg'
import { generateExample } from './prisma/generate.ts'
import { requireServer } from './servers.ts'

const folder = join(import.meta.dirname, '..', '..', 'examples', 'apps')

/** The applications, and the servers that each of them needs. */
export const exampleApps = {
  'hono-sqlite': [],
  'express-drizzle': ['postgres', 'rabbitmq'],
  'fastify-prisma': ['postgres'],
  'nestjs-typeorm': ['postgres', 'rabbitmq'],
} as const satisfies Record<string, readonly ('postgres' | 'rabbitmq')[]>

export type AppName = keyof typeof exampleApps

const webhookSecret = 'whsec_0123456789abcdef'

type Rows = readonly Readonly<Record<string, unknown>>[]

/** A database and an exchange for one application, which are removed in the end, and a plain connection to look at them. */
export interface AppPlace extends AsyncDisposable {
  readonly app: AppName
  readonly directory: string
  readonly env: Readonly<Record<string, string>>
  query(text: string): Promise<Rows>
  /** Lets nobody else write into a table until it is released. On SQLite, `orders` stands for the whole file, and `invoices` for nothing. */
  hold(table: Table): Promise<Hold>
  /** Waits until so many transactions wait for a table; on SQLite, which does not tell, not at all. */
  untilHeld(table: Table, count: number): Promise<void>
}

type Table = 'orders' | 'invoices'

interface Hold {
  release(): Promise<void>
}

export async function appPlace(app: AppName): Promise<AppPlace> {
  const servers: readonly string[] = exampleApps[app]
  const directory = mkdtempSync(join(tmpdir(), `hapax-example-`))
  const name = `example_${randomBytes(5).toString('hex')}`
  const database = servers.includes('postgres') ? await onPostgres(name) : onSqlite(join(directory, 'shop.db'))
  const broker = servers.includes('rabbitmq') ? onRabbitmq(name) : undefined
  return {
    app,
    directory,
    env: { ...database.env, ...broker?.env, STRIPE_WEBHOOK_SECRET: webhookSecret },
    query: database.query,
    hold: database.hold,
    untilHeld: database.untilHeld,
    [Symbol.asyncDispose]: async () => {
      await database.remove()
      await broker?.remove()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

function onSqlite(path: string) {
  const query = async (text: string): Promise<Rows> => {
    const database = new DatabaseSync(path, { timeout: 30_000 })
    try {
      return database.prepare(text).all()
    } finally {
      database.close()
    }
  }
  const hold = async (table: Table): Promise<Hold> => {
    if (table === 'invoices') return { release: async () => {} }
    const database = new DatabaseSync(path, { timeout: 30_000 })
    database.exec('begin immediate')
    return { release: async () => database.close() }
  }
  return { env: { DATABASE_PATH: path }, query, hold, untilHeld: async () => {}, remove: async () => {} }
}

async function onPostgres(name: string) {
  const server = requireServer('postgres')
  await onServer(server, `create database ${name}`)
  // The role of the tests is called as the schema of hapax: `create table` would find another schema once that is there.
  await onServer(server, `alter database ${name} set search_path = public`)
  const url = new URL(server)
  url.pathname = `/${name}`
  return {
    env: { DATABASE_URL: url.href },
    query: (text: string) => onServer(url.href, text),
    hold: async (table: Table): Promise<Hold> => {
      const client = new pg.Client({ connectionString: url.href })
      await client.connect()
      await client.query(`begin; lock table ${table} in exclusive mode`)
      return { release: () => client.end() }
    },
    untilHeld: async (table: Table, count: number) => {
      const text = `select 1 from pg_locks where not granted and relation = '${table}'::regclass`
      while ((await onServer(url.href, text)).length < count) await delay(20)
    },
    remove: async () => void (await onServer(server, `drop database ${name} with (force)`)),
  }
}

async function onServer(connectionString: string, text: string): Promise<Rows> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

function onRabbitmq(name: string) {
  const url = requireServer('rabbitmq')
  const remove = async (): Promise<void> => {
    const connection = await connect(url)
    const channel = await connection.createChannel()
    await channel.deleteQueue(`${name}.billing`)
    await channel.deleteExchange(name)
    await connection.close()
  }
  return { env: { RABBITMQ_URL: url, EXCHANGE: name }, remove }
}

/** How an application ended. */
interface AppEnding {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly said: string
}

/** An application that listens. */
export interface RunningApp {
  readonly url: string
  readonly process: ChildProcess
  readonly ended: Promise<AppEnding>
}

/** What was prepared in this process. */
const ready = new Set<AppName>()

/** Generates or compiles what an application needs, and returns the file to run. */
function prepared(app: AppName): string {
  if (app === 'fastify-prisma') generateExample()
  if (app === 'nestjs-typeorm' && !ready.has(app)) compile(app)
  ready.add(app)
  return app === 'nestjs-typeorm' ? 'dist/app.js' : 'app.ts'
}

function compile(app: AppName): void {
  const tsc = join(folder, '..', '..', 'node_modules', '.bin', 'tsc')
  // Its own file alone: with what it imports, the sources of hapax would be compiled as well.
  const args = ['--project', join(folder, app), '--noCheck', '--noResolve']
  const { status, stdout } = spawnSync(tsc, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${app} cannot be compiled\n${stdout}`)
}

/** Starts an application on a free port, and waits until it listens. */
export async function startApp({ app, directory, env }: AppPlace): Promise<RunningApp> {
  const program = join(folder, app, prepared(app))
  const args = ['--conditions=hapax-source', '--disable-warning=ExperimentalWarning', program]
  const child = spawn(process.execPath, args, { cwd: directory, env: { ...process.env, ...env, PORT: '0' } })
  let said = ''
  const { promise: listening, resolve, reject } = Promise.withResolvers<string>()
  const hear = (chunk: Buffer): void => {
    said += chunk.toString()
    const url = /listening on (http:\S+)/.exec(said)?.[1]
    if (url !== undefined) resolve(url)
  }
  child.stdout.on('data', hear)
  child.stderr.on('data', hear)
  const ended = new Promise<AppEnding>((ending) => {
    child.on('close', (code, signal) => {
      ending({ code, signal, said })
      reject(new Error(`${app} ended before it listened\n${said}`))
    })
  })
  return { url: await listening, process: child, ended }
}

/** What an application says of an order. */
export interface PlacedOrder {
  readonly id: number
  readonly item: string
  readonly amount: number
}

/** Sends an order, as a client that knows about keys does. */
export function sendOrder(url: string, key: string, order: { item: string; amount: number }): Promise<Response> {
  const headers = { 'content-type': 'application/json', 'idempotency-key': key, 'x-user': 'ann' }
  return fetch(`${url}/orders`, { method: 'POST', headers, body: JSON.stringify(order) })
}

/** Sends an event about a payment, as Stripe does. */
export function sendPayment(
  url: string,
  id: string,
  order: number,
  amount: number,
  secret = webhookSecret,
): Promise<Response> {
  const object = { amount_received: amount, metadata: { order: String(order) } }
  const body = JSON.stringify({ id, type: 'payment_intent.succeeded', data: { object } })
  const time = Math.floor(Date.now() / 1_000)
  const signature = createHmac('sha256', secret).update(`${time}.${body}`).digest('hex')
  const headers = { 'content-type': 'application/json', 'stripe-signature': `t=${time},v1=${signature}` }
  return fetch(`${url}/stripe`, { method: 'POST', headers, body })
}
