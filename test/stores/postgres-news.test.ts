import { randomBytes } from 'node:crypto'
import { createHapax, defineMessage, type Hapax, type Logger, silentLogger } from 'hapax'
import type { Clock } from 'hapax/contracts'
import { type PgTx, postgres } from 'hapax/postgres'

import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../src/testing/wait.ts'
import { pgPool } from '../support/pg-pool.ts'
import { requireServer, serverVariables } from '../support/servers.ts'

const Thing = defineMessage<{ n: number }>('thing.done')
const url = requireServer('postgres')
const admin = pgPool({ connectionString: url, max: 3 })
const schema = `news_${randomBytes(6).toString('hex')}`
/** A clock on which no time passes: a worker looks once, and then only when it is woken. */
const stopped: Clock = { now: () => Date.now(), monotonic: () => performance.now(), after: () => () => {} }

type AnyHapax = Hapax<PgTx, unknown>

beforeAll(async () => {
  await postgres({ pool: admin, schema }).schema.migrate()
})

afterAll(async () => {
  await admin.query(`drop schema ${schema} cascade`)
  await admin.end()
})

/** A hapax as another process has it. */
function opened(
  options: Parameters<typeof postgres>[0] = { url, schema },
  { clock, logger = silentLogger }: { clock?: Clock; logger?: Logger } = {},
): AnyHapax {
  const store = postgres(options)
  const timed = clock === undefined ? {} : { clock }
  const hapax = createHapax({ store, source: '/news', delivery: 'local', logger, ...timed }) as unknown as AnyHapax
  onTestFinished(() => hapax.close())
  return hapax
}

/** A worker in what may be another process, and what it handled. */
async function working(hapax: AnyHapax, options: { pollMs?: number } = {}): Promise<readonly number[]> {
  const handled: number[] = []
  const consumer = hapax.consumer('billing').on(Thing, ({ n }) => void handled.push(n))
  await hapax.worker({ consume: [consumer], ...options }).start()
  return handled
}

const publish = (hapax: AnyHapax, n: number) => hapax.transaction((tx) => hapax.publish(tx, Thing, { n }))

/** The backends that listen for these tables. */
async function listeners(): Promise<readonly number[]> {
  const { rows } = await admin.query<{ pid: number }>(
    `select pid from pg_stat_activity where application_name = 'hapax listener' and query = $1`,
    [`listen "hapax ${schema}"`],
  )
  return rows.map(({ pid }) => pid)
}

const listening = (): Promise<void> => until(async () => (await listeners()).length === 1, 'a listener')

describe('a worker that does not look by itself', () => {
  it('handles at once what another process publishes', async () => {
    const handled = await working(opened(undefined, { clock: stopped }))
    await listening()
    const publisher = opened()
    for (const n of [1, 2, 3]) {
      await publish(publisher, n)
      await until(() => handled.includes(n), 'a message of another process')
    }
  })

  it('handles at once what another process publishes through a pool of its own', async () => {
    const handled = await working(opened({ pool: poolOf(4), control: { url }, schema }, { clock: stopped }))
    await listening()
    await publish(opened({ pool: poolOf(2), schema }), 4)
    await until(() => handled.includes(4), 'a message of another process')
  })

  it('listens again after its connection was ended, and looks for what it has missed', async () => {
    const handled = await working(opened(undefined, { clock: stopped }))
    await listening()
    const [before] = await listeners()
    await admin.query('select pg_terminate_backend($1)', [before])
    // Committed while nobody listens, or just after somebody does again: both have to be handled.
    await publish(opened(), 5)
    await until(() => handled.includes(5), 'what was published meanwhile')
    // The old one may take a while to end.
    await until(async () => {
      const now = await listeners()
      return now.length === 1 && now[0] !== before
    }, 'another listener')
    await publish(opened(), 6)
    await until(() => handled.includes(6), 'what was published afterwards')
  })

  it('ends its connection when it stops', async () => {
    const hapax = opened()
    await working(hapax)
    await listening()
    await hapax.close()
    await until(async () => (await listeners()).length === 0, 'the end of the listener')
  })
})

it('with listen: false nobody listens, and workers poll', async () => {
  const handled = await working(opened({ url, schema, listen: false }), { pollMs: 50 })
  await publish(opened({ url, schema, listen: false }), 7)
  await until(() => handled.includes(7), 'what was published')
  expect(await listeners()).toEqual([])
})

it('the pool of the user lends no connection to listen on', async () => {
  const pool = poolOf(4)
  const said = new Lines()
  const handled = await working(opened({ pool, schema }, { logger: said.logger }), { pollMs: 50 })
  await publish(opened(), 8)
  await until(() => handled.includes(8), 'what was published')
  expect(await listeners()).toEqual([])
  expect(said.lines).toContain('no notifications from other processes: the worker only polls')
})

const bouncer = process.env[serverVariables.pgbouncer]

it.skipIf(!bouncer)('behind PgBouncer nobody listens on a connection of others, and workers poll', async () => {
  const said = new Lines()
  const handled = await working(opened({ url: bouncer, schema }, { logger: said.logger }), { pollMs: 50 })
  await publish(opened({ url: bouncer, schema }), 9)
  await until(() => handled.includes(9), 'what was published')
  await until(() => said.lines.includes('no notifications from other processes: the worker only polls'), 'the reason')
  expect(await listeners()).toEqual([])
})

function poolOf(max: number): pg.Pool {
  const pool = pgPool({ connectionString: url, max })
  onTestFinished(() => pool.end())
  return pool
}

/** What a logger was told. */
class Lines {
  readonly lines: string[] = []
  readonly logger: Logger = {
    debug: (_fields, text) => void this.lines.push(String(text)),
    info: () => {},
    warn: () => {},
    error: () => {},
  }
}
