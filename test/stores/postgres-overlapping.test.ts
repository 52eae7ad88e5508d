import { setTimeout as delay, setImmediate } from 'node:timers/promises'
import {
  type ConsumerOptions,
  createHapax,
  defineMessage,
  type HandlerContext,
  type HapaxOptions,
  silentLogger,
} from 'hapax'
import { type PgTx, postgres } from 'hapax/postgres'
import type pg from 'pg'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../src/testing/wait.ts'
import { pgPool } from '../support/pg-pool.ts'
import { seed, seeded } from '../support/seeded.ts'
import { requireServer } from '../support/servers.ts'

const connectionString = requireServer('postgres')
const admin = pgPool({ connectionString, max: 2 })
afterAll(() => admin.end())

type Tx = PgTx<pg.PoolClient>
type Context = HandlerContext<Tx>

const Work = defineMessage<{ n: number }>('work')
const Rare = defineMessage<{ n: number }>('rare')
const Done = defineMessage<{ n: number }>('done')
let opened = 0

const messages = (count: number, from = 0) =>
  Array.from({ length: count }, (_, index) => ({
    id: `m${from + index}`,
    source: '/s',
    type: 'work',
    data: { n: from + index },
  }))

/** How many handlers ran at the same time in one transaction, which has one signal. */
class Seen {
  calls = 0
  most = 0
  readonly #running = new Map<AbortSignal, number>()

  get running(): number {
    return [...this.#running.values()].reduce((sum, count) => sum + count, 0)
  }

  begin({ signal }: Context): () => void {
    const change = (by: number): number => {
      const now = (this.#running.get(signal) ?? 0) + by
      this.#running.set(signal, now)
      return now
    }
    this.calls += 1
    this.most = Math.max(this.most, change(1))
    return () => void change(-1)
  }
}

async function setUp(options: Partial<HapaxOptions<Tx, Tx>> = {}) {
  const schema = `overlapping_${process.pid}_${++opened}`
  await admin.query(`create schema ${schema};
    create table ${schema}.log (seq bigserial primary key, label text not null);
    create table ${schema}.counter (value numeric not null);
    insert into ${schema}.counter values (0)`)
  const pool = pgPool({ connectionString, max: 4 })
  onTestFinished(async () => {
    await pool.end()
    await admin.query(`drop schema ${schema} cascade`)
  })
  const store = postgres({ pool, schema })
  const hapax = createHapax({ store, source: '/test', logger: silentLogger, ...options })
  await hapax.migrate()
  const seen = new Seen()
  const consumer = (handler: (ctx: Context, n: number) => Promise<unknown>, more: ConsumerOptions = {}) =>
    hapax.consumer('c', { group: { size: 100 }, ...more }).on(Work, async ({ n }, ctx) => {
      const ended = seen.begin(ctx)
      try {
        await handler(ctx, n)
      } finally {
        ended()
      }
    })
  return {
    schema,
    hapax,
    consumer,
    seen,
    log: async (): Promise<string[]> =>
      (await admin.query(`select label from ${schema}.log order by seq`)).rows.map(({ label }) => label),
    value: async (): Promise<number> =>
      Number((await admin.query(`select value from ${schema}.counter`)).rows[0].value),
    insert: `insert into ${schema}.log (label) values ($1)`,
    read: `select value from ${schema}.counter`,
    write: `update ${schema}.counter set value = $1`,
    change: `update ${schema}.counter set value = mod(value * 31 + $1, 1000003)`,
  }
}

const labels = (count: number): readonly string[] => Array.from({ length: count }, (_, n) => `${n}`)

describe('handlers of a group', () => {
  it('overlap if they send all they have at once, and their statements come in the order of the messages', async () => {
    const { consumer, seen, log, insert } = await setUp()
    const outcomes = await consumer(({ tx }, n) => tx.query(insert, [n])).handleMany(messages(50))
    expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(['processed']))
    expect(await log()).toEqual(labels(50))
    expect([seen.calls, seen.most, seen.running]).toEqual([50, 47, 0])
  })

  it('overlap in groups that nobody asked for', async () => {
    const { consumer, seen, log, insert } = await setUp()
    const reader = consumer(({ tx }, n) => tx.query(insert, [n]), { group: {} })
    let sent = 0
    // How soon groups grow depends on how quick the database is.
    await until(async () => {
      await reader.handleMany(messages(100, sent))
      sent += 100
      return seen.most > 1
    }, 'handlers that overlap')
    expect((await log()).sort()).toEqual([...labels(sent)].sort())
    expect(seen.calls).toBe(sent)
  })

  it('do not overlap with together: false, nor with a concurrency of 1', async () => {
    for (const options of [{ group: { size: 50, together: false } }, { concurrency: 1 }]) {
      const { consumer, seen, insert } = await setUp()
      await consumer(({ tx }, n) => tx.query(insert, [n]), options).handleMany(messages(50))
      expect(seen.most).toBe(1)
    }
  })

  it('that read in order to write do so one after the other', async () => {
    const { consumer, seen, value, read, write } = await setUp()
    const add = async ({ tx }: Context): Promise<void> => {
      const { rows } = await tx.query<{ value: string }>(read)
      await tx.query(write, [Number(rows[0]?.value) + 1])
    }
    const reader = consumer(add)
    await reader.handleMany(messages(20))
    expect(await value()).toBe(20)
    expect(seen.most).toBe(1)
  })

  it('that read in order to write lose updates with together: true', async () => {
    const { consumer, value, read, write } = await setUp()
    const add = async ({ tx }: Context): Promise<void> => {
      const { rows } = await tx.query<{ value: string }>(read)
      await tx.query(write, [Number(rows[0]?.value) + 1])
    }
    await consumer(add, { group: { size: 20, together: true } }).handleMany(messages(20))
    expect(await value()).toBeLessThan(20)
  })

  it('run again one after the other if one of them sends something late, and that handler from then on', async () => {
    const { consumer, seen, log, value, insert, read, write } = await setUp()
    const reader = consumer(async ({ tx }, n) => {
      await tx.query(insert, [n])
      if (n !== 10) return
      const { rows } = await tx.query<{ value: string }>(read)
      await tx.query(write, [Number(rows[0]?.value) + 1])
    })
    const outcomes = await reader.handleMany(messages(30))
    expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(['processed']))
    expect(await log()).toEqual(labels(30))
    expect(await value()).toBe(1)
    expect(seen.calls).toBe(60)
    seen.most = 0
    await reader.handleMany(messages(20, 100))
    expect(seen.most).toBe(1)
  })

  it('do not overlap if they wait for something else, or use the client itself', async () => {
    const { consumer, seen, log, insert } = await setUp()
    await consumer(async ({ tx }, n) => {
      await tx.query(insert, [n])
      await delay(1)
    }).handleMany(messages(10))
    expect(seen.most).toBe(1)
    const second = await setUp()
    await second.consumer(({ tx }, n) => tx.client.query(second.insert, [n])).handleMany(messages(10))
    expect(second.seen.most).toBe(1)
    for (const each of [log, second.log]) expect(await each()).toEqual(labels(10))
  })

  it('run again one after the other if one uses the client itself while others overlap', async () => {
    const { consumer, seen, log, insert } = await setUp()
    const reader = consumer(async ({ tx }, n) => {
      await tx.query(insert, [n])
      if (n === 10) await tx.client.query(insert, ['client'])
    })
    await reader.handleMany(messages(20))
    expect(await log()).toEqual([...labels(11), 'client', ...labels(20).slice(11)])
    expect(seen.calls).toBe(40)
  })

  it('keep the others when one of them fails', async () => {
    const { consumer, hapax, seen, log, insert } = await setUp()
    const reader = consumer(
      async ({ tx }, n) => {
        await tx.query(insert, [n])
        if (n === 12) throw new Error('twelve')
        if (n === 15) throw new Error('fifteen')
      },
      { retry: { attempts: 1 } },
    )
    const outcomes = await reader.handleMany(messages(20))
    expect(outcomes.map(({ status }) => status)).toEqual(
      labels(20).map((n) => (n === '12' || n === '15' ? 'failed' : 'processed')),
    )
    expect((await hapax.failed.list()).map(({ error }) => error.message).sort()).toEqual(['fifteen', 'twelve'])
    expect((await log()).toSorted()).toEqual(
      labels(20)
        .filter((n) => n !== '12' && n !== '15')
        .toSorted(),
    )
    expect(seen.running).toBe(0)
  })

  it('publish in the order of the messages, with ctx.publish and with their own transaction', async () => {
    for (const delivery of ['relay', 'local'] as const) {
      const { schema, hapax, consumer, seen, insert } = await setUp({ delivery })
      hapax.consumer('done', { receive: 'store' }).on(Done, () => {})
      const reader = consumer(async ({ tx, publish }, n) => {
        await tx.query(insert, [n])
        // Some need more moments than others.
        for (let time = 0; time < (n * 7) % 5; time++) await null
        if (n % 2 === 0) await publish(Done, { n })
        else await hapax.publish(tx, Done, { n })
      })
      await reader.handleMany(messages(40))
      const table = delivery === 'relay' ? 'outbox' : 'inbox'
      const { rows } = await admin.query(`select data from ${schema}.${table} order by seq`)
      expect(rows.map(({ data }) => JSON.parse(data.toString()).n)).toEqual(labels(40).map(Number))
      expect(seen.most).toBeGreaterThan(1)
    }
  })

  it('that publish at once do so in the order of the messages', async () => {
    const { schema, hapax, consumer, seen, log, insert } = await setUp()
    const reader = consumer(async ({ tx, publish }, n) => {
      await tx.query(insert, [n])
      if (n >= 10) await publish(Done, { n }, { now: true })
      else await hapax.publish(tx, Done, { n })
    })
    await reader.handleMany(messages(20))
    const { rows } = await admin.query(`select data from ${schema}.outbox order by seq`)
    const written = rows.map(({ data }) => JSON.parse(data.toString()).n)
    // What is published at once is written before what is not.
    expect(written).toEqual([...labels(20).slice(10), ...labels(10)].map(Number))
    expect(await log()).toEqual(labels(20))
    expect(seen.calls).toBe(40)
  })
})

/** What one message does: statements that are sent together, then something to wait for; several times. */
interface Phase {
  readonly statements: readonly ('log' | 'change' | 'read')[]
  readonly wait: 'nothing' | 'moment' | 'turn' | 'time'
}

function program(random: () => number, simple: number): readonly Phase[] {
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T
  const statements = (): Phase['statements'] =>
    Array.from({ length: 1 + Math.floor(random() * 3) }, () => pick(['log', 'change', 'read'] as const))
  if (random() < simple) return [{ statements: statements(), wait: pick(['nothing', 'moment'] as const) }]
  return Array.from({ length: 1 + Math.floor(random() * 3) }, () => ({
    statements: random() < 0.2 ? [] : statements(),
    wait: pick(['nothing', 'moment', 'turn', 'time'] as const),
  }))
}

describe('random handlers', () => {
  it(`that overlap leave what they leave one after the other (seed ${seed})`, async () => {
    const random = seeded(seed)
    const { hapax, seen, log, value, insert, read, change } = await setUp()
    const programs: { readonly type: 'work' | 'rare'; readonly phases: readonly Phase[] }[] = []
    const expected = { log: [] as string[], value: 0 }
    const run = async ({ n }: { n: number }, ctx: Context): Promise<void> => {
      const { tx } = ctx
      const ended = seen.begin(ctx)
      let last = 0
      for (const { statements, wait } of programs[n]?.phases ?? []) {
        const before = last
        const answers = await Promise.all(
          statements.map((statement) => {
            if (statement === 'log') return tx.query(insert, [`${n} ${before}`])
            return statement === 'change' ? tx.query(change, [n]) : tx.query<{ value: string }>(read)
          }),
        )
        for (const { rows } of answers) last = Number(rows[0]?.['value'] ?? last)
        if (wait === 'moment') await null
        if (wait === 'turn') await setImmediate()
        if (wait === 'time') await delay(1)
      }
      ended()
    }
    /** The same, one after the other. */
    const model = (n: number, phases: readonly Phase[]): void => {
      let last = 0
      for (const { statements } of phases) {
        const before = last
        for (const statement of statements) {
          if (statement === 'log') expected.log.push(`${n} ${before}`)
          else if (statement === 'change') expected.value = (expected.value * 31 + n) % 1_000_003
          else last = expected.value
        }
      }
    }
    const consumer = hapax
      .consumer('c', { group: { size: 25 } })
      .on(Work, run)
      .on(Rare, run)
    for (let round = 0; round < 20; round++) {
      const group = Array.from({ length: 25 }, () => {
        const type = random() < 0.7 ? ('work' as const) : ('rare' as const)
        const n = programs.length
        programs.push({ type, phases: program(random, type === 'work' ? 0.99 : 0.6) })
        model(n, programs[n]?.phases ?? [])
        return { id: `m${n}`, source: '/s', type, data: { n } }
      })
      const outcomes = await consumer.handleMany(group)
      expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(['processed']))
      expect(await log()).toEqual(expected.log)
      expect(await value()).toBe(expected.value)
    }
    // Some did overlap.
    expect(seen.most).toBeGreaterThan(1)
  })
})
