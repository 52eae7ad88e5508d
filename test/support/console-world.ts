import { createHapax, defineMessage, type Hapax, Permanent, silentLogger } from 'hapax'
import type { ConsoleOptions, Role } from 'hapax/console'
import { createConsole } from 'hapax/console'
import type { Destination } from 'hapax/contracts'
import { onTestFinished } from 'vitest'
import { answering } from '../../src/testing/promised.ts'
import { type Checker, type DurableStore, makePlace, type OpenOptions, openStore, type RigTx } from './databases.ts'

/** What nobody without the right to it may ever see. */
export const CANARY = 'canary-4711'

/** Larger than any number of JavaScript. */
export const EXACT = `{"amount":12345678901234567890, "rate":1.10,"card":"${CANARY}"}`

/** A database with every kind of row, and a console on it. */
export interface ConsoleWorld {
  readonly hapax: Hapax<RigTx>
  readonly checker: Checker
  /** The failed message of billing, whose payload is `EXACT`. */
  readonly failedSeq: string
  /** The failed message of sms, with an unknown effect. */
  readonly unknownSeq: string
  /** The message of billing that waits for its next attempt. */
  readonly retryingSeq: string
  readonly sentSeq: string
  /** Another hapax on the same place, by another way. */
  through(url: string): Promise<Hapax<RigTx>>
  /** All rows of all tables, as one text. */
  rows(): Promise<string>
}

const Placed = defineMessage<unknown>('order.placed')
const Packed = defineMessage<unknown>('parcel.packed', { key: () => 'order-17' })

/** Opens a place with every kind of row. No worker runs in it. */
export async function consoleWorld(store: DurableStore, options: OpenOptions = {}): Promise<ConsoleWorld> {
  const checker = await makePlace(store)
  onTestFinished(() => checker[Symbol.asyncDispose]())
  const open = async (how: OpenOptions): Promise<Hapax<RigTx>> => {
    const made = createHapax({ store: await openStore(checker.place, how), source: '/shop', logger: silentLogger })
    onTestFinished(() => made.close())
    return made
  }
  const hapax = await open(options)
  await fill(hapax)
  const failed = await hapax.failed.list()
  const seqFor = (consumer: string): string => failed.find((each) => each.consumer === consumer)?.seq ?? ''
  const [sent] = await hapax.sent.list()
  const [retrying] = await hapax.messages.retries({ origin: 'inbox' })
  return {
    hapax,
    checker,
    failedSeq: seqFor('billing'),
    unknownSeq: seqFor('sms'),
    retryingSeq: retrying?.seq ?? '',
    sentSeq: sent?.seq ?? '',
    through: (url) => open({ url, max: 2 }),
    rows: () => allRows(checker),
  }
}

async function fill(hapax: Hapax<RigTx>): Promise<void> {
  const billing = hapax.consumer('billing', { retry: { minDelayMs: 600_000 } })
  billing.on(Placed, async (data) => {
    if (data instanceof Object && 'retrying' in data) throw new Error('the tax service did not answer')
    const error = new Permanent('no such card')
    error.stack = `Permanent: no such card\n    at pay (/app/${CANARY}.ts:1:1)`
    throw error
  })
  const sms = hapax.leased('sms')
  sms.on(Placed, async (_, ctx) => void (await ctx.effect('send', () => Promise.reject(new Error('timeout')))))
  const shipping = hapax.consumer('shipping', { receive: 'store', order: 'wait' })
  shipping.on(Packed, async () => {
    throw new Permanent('no such street')
  })
  const placed = { source: '/shop', type: Placed.type }
  const headers = { authorization: `Bearer ${CANARY}`, tenant: `blue-${CANARY}` }
  const datacontenttype = 'application/json'
  await billing.handle({ ...placed, id: 'failed-1', headers, datacontenttype, data: Buffer.from(EXACT) })
  await billing.handle({ ...placed, id: 'retrying-1', data: { retrying: CANARY } })
  await sms.handle({ ...placed, id: 'unknown-1', data: { text: CANARY } })
  for (const id of ['p-1', 'p-2']) {
    await shipping.handle({ source: '/shop', type: Packed.type, id, key: 'order-17', data: { card: CANARY } })
  }
  await hapax.transaction(async (tx) => {
    await hapax.publish(tx, Placed, { card: CANARY }, { relay: 'partners' })
    await hapax.publish(tx, Placed, { card: CANARY }, { relay: 'default' })
  })
  const worker = hapax.worker({ consume: [shipping], relays: { partners: confirming }, keepSentMs: 3_600_000 })
  await worker.start()
  await worker.drain()
  await worker.stop()
}

const confirming: Destination = {
  name: 'a partner',
  features: { keepsOrder: false },
  prepare: async () => {},
  publish: answering(() => ({ status: 'confirmed' })),
  close: async () => {},
}

const TABLES = {
  postgres: ({ schema }) =>
    `select table_schema || '.' || table_name as name from information_schema.tables where table_schema = '${schema}'`,
  mysql: () => 'select table_name as name from information_schema.tables where table_schema = database()',
  sqlite: () => `select name from sqlite_master where type = 'table' and name not like 'sqlite_%'`,
} satisfies Record<DurableStore, (place: Checker['place']) => string>

async function allRows(checker: Checker): Promise<string> {
  const tables = await checker.query(TABLES[checker.place.store](checker.place))
  const names = tables.map(({ name }) => String(name)).sort()
  const found: string[] = []
  for (const name of names) {
    const rows = (await checker.query(`select * from ${name}`)).map((row) => JSON.stringify(row, withBigInts)).sort()
    found.push(`${name}:`, ...rows)
  }
  return found.join('\n')
}

const withBigInts = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? String(value) : value)

/** Answers of a console on this world to somebody of this role. */
export function asRole(
  { hapax }: { readonly hapax: Parameters<typeof createConsole>[0] },
  role: Role | null,
  options: Partial<ConsoleOptions> = {},
): (path: string, init?: RequestInit) => Promise<Response> {
  const authorize = (): ReturnType<ConsoleOptions['authorize']> => (role === null ? null : { actor: `a ${role}`, role })
  const { handler, close } = createConsole(hapax, { authorize, basePath: '/', ...options })
  onTestFinished(close)
  return (path, init) => handler(new Request(`http://console.test/${path}`, init))
}

/** A change as the page sends it. */
export function posted(body: unknown, headers: Record<string, string> = {}): RequestInit {
  const own = { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin', origin: 'http://console.test' }
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return { method: 'POST', headers: { ...own, ...headers }, body: text }
}
