// Savepoints of handlers in a group, in every spelling, and in large numbers.
import { type ConsumerOptions, createHapax, defineMessage, type HandlerContext, silentLogger } from 'hapax'
import { describe, expect, test } from 'vitest'
import {
  type Checker,
  countEffects,
  type DurableStore,
  durableStores,
  insertEffect,
  makePlace,
  openStore,
  type RigTx,
} from '../support/databases.ts'

const Work = defineMessage<{ n: number }>('work')

type Context = HandlerContext<RigTx>
/** The actions of a handler; `effect` is a statement that writes one row. */
type Habit = (ctx: Context, effect: string) => Promise<unknown>

const plain: Habit = ({ tx }, effect) => tx.query(effect)
const leaves: Habit = async ({ tx }, effect) => {
  await tx.query('savepoint s')
  await tx.query(effect)
}

/** Runs a statement through the client of the transaction. */
async function byClient({ tx: { client } }: Pick<Context, 'tx'>, text: string): Promise<void> {
  const { exec, query } = client as { exec?: (text: string) => unknown; query?: (text: string) => unknown }
  await (exec === undefined ? query?.call(client, text) : exec.call(client, text))
}

const spelled: Readonly<Record<DurableStore, readonly string[]>> = {
  postgres: [
    'rollback to s',
    '/* a comment */ RollBack -- and another\n to savepoint "s"',
    'select 1; rollback transaction to s',
    'select 1 /* release */; /* nothing */ ROLLBACK\nTO\nS',
  ],
  mysql: [
    'rollback to s',
    '# a comment\nRollBack /* and another */ to savepoint `s`',
    '/*!50000rollback to s*/',
    'begin not atomic declare x int; set x = 1; rollback to s; end',
    "execute immediate concat('roll', 'back to s')",
    'call goes_back()',
  ],
  sqlite: ['rollback to s', '/* a comment */ RollBack -- and another\n to "s"', 'ROLLBACK\nTRANSACTION TO s'],
}

/** Other names for the savepoint of hapax. */
const guards: Readonly<Record<DurableStore, readonly string[]>> = {
  postgres: ['"hapax"', 'U&"h\\0061pax"', `u&"h!0061pax" uescape '!'`],
  mysql: ['`HAPAX`', 'hápax', '`h\u0101pAX`'],
  sqlite: ['[Hapax]', "'hapax'"],
}

/** Statements that roll back a whole transaction. */
const ends: Readonly<Record<DurableStore, readonly string[]>> = {
  postgres: ['rollback', 'abort', '/* a comment */ Abort work'],
  mysql: ['rollback', "execute immediate concat('roll', 'back')"],
  sqlite: ['rollback'],
}

/** Runs messages with these habits in groups of this size, and returns the status and the number of rows of each. */
async function run(
  checker: Checker,
  habits: readonly Habit[],
  name: string,
  options: ConsumerOptions,
): Promise<readonly string[]> {
  const store = await openStore(checker.place, { max: 2 })
  const hapax = createHapax({ store, source: '/test', logger: silentLogger })
  const consumer = hapax.consumer(name, options).on(Work, async ({ n }, ctx) => {
    await habits[n]?.(ctx, insertEffect(checker.place, name, `m${n}`))
  })
  const messages = habits.map((_, n) => ({ id: `m${n}`, source: '/sender', type: Work.type, data: { n } }))
  const outcomes = await consumer.handleMany(messages)
  await hapax.close()
  const effects = await countEffects(checker)
  return outcomes.map(({ status }, n) => `m${n} ${status} ${effects.get(`${name} m${n}`) ?? 0}`)
}

const ALONE = { group: { size: 1 } }

describe.for(durableStores())('%s', (store) => {
  test.for(spelled[store].flatMap((text) => [['query', text] as const, ['client', text] as const]))(
    'A17: a handler of a group cannot roll back to the savepoint of another one by %s: %s',
    async ([way, text]) => {
      await using checker = await makePlace(store)
      if (store === 'mysql') await checker.query('create procedure goes_back() rollback to s')
      const back: Habit = async (ctx, effect) => {
        await (way === 'query' ? ctx.tx.query(text) : byClient(ctx, text))
        await ctx.tx.query(effect)
      }
      const expected = ['m0 processed 1', 'm1 retrying 0', 'm2 processed 1', 'm3 processed 1', 'm4 retrying 0']
      const habits = [leaves, back, plain, leaves, back]
      expect(await run(checker, habits, 'alone', ALONE)).toEqual(expected)
      expect(await run(checker, habits, 'grouped', { group: { size: 5 } })).toEqual(expected)
      expect(await run(checker, habits, 'pairs', { group: { size: 2 } })).toEqual(expected)
    },
  )

  test('A17: a handler of a group cannot undo others by the savepoint of hapax, nor by a client that it has kept', async () => {
    await using checker = await makePlace(store)
    let kept: Pick<Context, 'tx'> | undefined
    const keeps: Habit = async ({ tx }, effect) => {
      kept = { tx: { query: () => Promise.reject(new Error('not this')), client: tx.client } }
      await tx.query(effect)
    }
    const home: Habit = async ({ tx }, effect) => {
      await byClient(kept ?? { tx }, 'rollback to savepoint hapax')
      await tx.query(effect)
    }
    const shadows: Habit = async ({ tx }, effect) => {
      await tx.query('savepoint s')
      await tx.query('savepoint Hapax')
      await tx.query(effect)
    }
    const back: Habit = async ({ tx }) => tx.query('rollback to savepoint s')
    const all = [plain, keeps, plain, home, plain, plain, home]
    const expected = all.map((_, n) => `m${n} processed 1`)
    expect(await run(checker, all, 'grouped', { group: { size: 7 } })).toEqual(expected)
    const some = [plain, shadows, back, plain]
    expect(await run(checker, some, 'shadowed', { group: { size: 4 } })).toEqual(
      await run(checker, some, 'alone', ALONE),
    )
  })

  test.for(guards[store])(
    'A17: a handler of a group cannot undo others by the savepoint of hapax in another spelling: %s',
    async (name) => {
      await using checker = await makePlace(store)
      const shadows: Habit = async ({ tx }, effect) => {
        await tx.query('savepoint s')
        await tx.query(effect)
        await tx.query(`savepoint ${name}`)
      }
      const home: Habit = async ({ tx }, effect) => {
        await tx.query(`rollback to savepoint ${name}`)
        await tx.query(effect)
      }
      const back: Habit = async ({ tx }, effect) => {
        await tx.query('rollback to savepoint s')
        await tx.query(effect)
      }
      for (const [n, habits] of [
        [plain, home, plain],
        [plain, shadows, back],
        [shadows, plain, home],
      ].entries()) {
        const alone = await run(checker, habits, `alone ${n}`, ALONE)
        expect(await run(checker, habits, `grouped ${n}`, { group: { size: 3 } })).toEqual(alone)
      }
    },
  )

  test.for(ends[store])(
    'A17: a handler of a group that ends the transaction does not double the effects of others: %s',
    async (text) => {
      await using checker = await makePlace(store)
      const end: Habit = async ({ tx }, effect) => {
        await tx.query(text)
        await tx.query(effect)
      }
      const habits = [plain, end, plain, plain]
      const results = await run(checker, habits, 'grouped', { group: { size: 4 } })
      expect(results.toSpliced(1, 1)).toEqual(['m0 processed 1', 'm2 processed 1', 'm3 processed 1'])
      expect(results[1]).toMatch(/^m1 failed/)
    },
  )

  test('A17: 600 messages in groups of 50, whose handlers leave savepoints and roll back to them, each have the rows they would have alone', async () => {
    await using checker = await makePlace(store)
    const hidden: Habit = async (ctx, effect) => {
      await byClient(ctx, 'savepoint s')
      await ctx.tx.query(effect)
    }
    /** The insert and its savepoint come after a statement that may throw. */
    const tries =
      (isValid: boolean): Habit =>
      async ({ tx }, effect) => {
        try {
          if (!isValid) throw new Error('not valid')
          await tx.query('savepoint s')
          await tx.query(effect)
        } catch {
          await tx.query('rollback to savepoint s')
          await tx.query(effect)
        }
      }
    const undoes: Habit = async ({ tx }, effect) => {
      await tx.query('savepoint s')
      await tx.query(effect)
      await tx.query('rollback to savepoint s')
      await tx.query(effect)
    }
    const usual = [plain, plain, leaves, hidden, tries(true), undoes]
    const habits = Array.from({ length: 600 }, (_, n) => (random(n) < 0.01 ? tries(false) : (pick(usual, n) ?? plain)))
    const alone = await run(checker, habits, 'alone', ALONE)
    expect(await run(checker, habits, 'grouped', { group: { size: 50 } })).toEqual(alone)
    expect(await run(checker, habits, 'by default', {})).toEqual(alone)
    expect(alone.filter((each) => each.endsWith('processed 1')).length).toBeGreaterThan(580)
  })
})

/** The same each time. */
function random(n: number): number {
  const x = Math.sin(n + 1) * 10_000
  return x - Math.floor(x)
}

function pick<T>(values: readonly T[], n: number): T | undefined {
  return values[Math.floor(random(1_000 + n) * values.length)]
}
