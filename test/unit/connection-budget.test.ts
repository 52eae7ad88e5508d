import { connectionBudget } from 'hapax'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type Borrowed, budgetOption, type Lender, type Purpose } from '../../src/base/index.ts'

interface Client {
  close: () => void
}

/** By the timer that the tests drive. */
const delay = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const FULL = new Error('too many clients')

/** Stores whose connections are counted. Each takes a moment to open and to close, as on a server. */
class Town {
  readonly budget: ReturnType<typeof connectionBudget>
  open = 0
  most = 0
  /** How many connections their server takes. */
  room = Number.POSITIVE_INFINITY

  constructor(max: number) {
    this.budget = connectionBudget(max)
  }

  store(isThere: () => boolean = () => true, server = 'one'): Lender<Client> {
    return (budgetOption(this.budget) as NonNullable<ReturnType<typeof budgetOption>>).lender<Client>({
      server,
      most: { handlers: 10, control: 2 },
      open: async () => {
        this.open += 1
        this.most = Math.max(this.most, this.open)
        await delay(1)
        const there = isThere()
        if (there && this.open <= this.room) return { close: () => {} }
        this.open -= 1
        throw there ? FULL : new Error('nobody is there')
      },
      isFull: (error) => error === FULL,
      end: async (client) => {
        await delay(1)
        client.close()
      },
      destroy: (client) => client.close(),
      onClosed: (client, closed) => {
        client.close = () => {
          client.close = () => {}
          this.open -= 1
          closed()
        }
      },
    })
  }
}

/** How many of so many requests are granted now. */
async function granted(store: Lender<Client>, purpose: Purpose, count: number): Promise<Borrowed<Client>[]> {
  const got: Borrowed<Client>[] = []
  for (let n = 0; n < count; n++) void store.borrow(purpose).then((each) => got.push(each))
  await vi.advanceTimersByTimeAsync(30)
  return got
}

/** What the promise resolves to, when as much time has passed as it needs. */
async function driven<T>(promise: Promise<T>): Promise<T> {
  let isSettled = false
  const settle = (): void => {
    isSettled = true
  }
  promise.then(settle, settle)
  while (!isSettled) await vi.advanceTimersByTimeAsync(1)
  return promise
}

// A stall of the machine would put real timers into another order.
beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('a connection budget', () => {
  it('gives a busy store half, the next ones half of the rest, and the last place to one that has none', async () => {
    const town = new Town(12)
    const stores = [town.store(), town.store(), town.store(), town.store()]
    const shares: number[] = []
    for (const store of stores) shares.push((await granted(store, 'handlers', 10)).length)
    // 12 less a quarter for control work.
    expect(shares).toEqual([5, 2, 1, 1])
  })

  it('lets workers take no more at once than their store can have', async () => {
    const shares = { 4: 1, 5: 2, 8: 3, 12: 5, 40: 10 }
    for (const [max, share] of Object.entries(shares)) {
      const town = new Town(Number(max))
      const got = (await granted(town.store(), 'handlers', 40)).length
      expect(got).toBe(share)
      const budget = town.budget
      const stores = [
        postgres({ url: 'postgres://localhost/x', budget }),
        mysql({ url: 'mysql://localhost/x', budget }),
      ]
      for (const { features } of stores) expect(features.pool).toEqual({ max: got, control: 0 })
    }
  })

  it('keeps places for control work while handlers hold all that they may have', async () => {
    const town = new Town(8)
    const stores = Array.from({ length: 6 }, () => town.store())
    for (const store of stores) await granted(store, 'handlers', 3)
    expect(town.budget.busy).toBe(6)
    const late = town.store()
    const [control] = await granted(late, 'control', 1)
    expect(control).toBeDefined()
    const more = await granted(late, 'control', 1)
    expect(more).toEqual([])
    expect(await granted(town.store(), 'control', 1)).toHaveLength(1)
  })

  it('closes idle connections of other stores for one that needs a place, and never has more than it may', async () => {
    const town = new Town(4)
    const stores = Array.from({ length: 30 }, () => town.store())
    const work = stores.map(async (store) => {
      for (let n = 0; n < 5; n++) {
        const borrowed = await store.borrow(n % 2 === 0 ? 'handlers' : 'control')
        expect(town.open).toBeLessThanOrEqual(4)
        await delay(1)
        borrowed.giveBack(n === 3)
      }
    })
    await driven(Promise.all(work))
    expect(town.most).toBe(4)
    await driven(Promise.all(stores.map((store) => store.close())))
    expect(town.budget).toMatchObject({ open: 0, busy: 0, waiting: 0 })
    expect(town.open).toBe(0)
  })

  it('tries one connection at a time to a store that is away, fails all that wait for it, and forgets that when it is back', async () => {
    const town = new Town(8)
    let there = false
    let tries = 0
    const away = town.store(() => {
      tries += 1
      return there
    })
    const failed = await driven(Promise.allSettled(Array.from({ length: 20 }, () => away.borrow('handlers'))))
    expect(failed.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 'rejected'))
    expect(tries).toBe(1)
    expect(town.budget).toMatchObject({ open: 0, busy: 0, waiting: 0 })
    there = true
    expect(await granted(away, 'handlers', 10)).toHaveLength(3)
  })

  it('waits while the server has no connections left, and knows why', async () => {
    const town = new Town(8)
    town.room = 0
    const store = town.store()
    const waiting = Promise.all([store.borrow('handlers'), store.borrow('control')])
    await vi.waitFor(() => expect(store.shortage?.message).toMatch(/no connections left \(too many clients\): raise/))
    expect(town.budget).toMatchObject({ open: 0, busy: 0, waiting: 2 })
    town.room = 2
    const got = await driven(waiting)
    expect(store.shortage).toBeUndefined()
    for (const each of got) each.giveBack(false)
  })

  it('gives up an idle connection for a store that meets a full server', async () => {
    const town = new Town(8)
    town.room = 1
    const [one, other] = [town.store(), town.store()]
    const first = await driven(one.borrow('handlers'))
    first.giveBack(false)
    const second = await driven(other.borrow('handlers'))
    second.giveBack(false)
    expect(town.budget.open).toBe(1)
  })

  it('keeps idle connections to other servers than the full one', async () => {
    const town = new Town(8)
    const elsewhere = town.store(undefined, 'another')
    const idle = await driven(elsewhere.borrow('handlers'))
    idle.giveBack(false)
    town.room = 0
    const store = town.store()
    const outcome = Promise.allSettled([store.borrow('handlers')])
    await vi.advanceTimersByTimeAsync(5_000)
    expect(town.budget).toMatchObject({ open: 1, waiting: 1 })
    await driven(store.close())
    await outcome
  })

  it('fails what has waited for a full server for a minute, unless the store got a connection meanwhile', async () => {
    const town = new Town(8)
    town.room = 1
    const store = town.store()
    const first = await driven(store.borrow('handlers'))
    const second = store.borrow('handlers')
    await vi.advanceTimersByTimeAsync(1)
    const third = store.borrow('handlers')
    const outcome = Promise.allSettled([third])
    await vi.advanceTimersByTimeAsync(50_000)
    first.giveBack(false)
    await second
    await vi.advanceTimersByTimeAsync(50_000)
    expect(town.budget.waiting).toBe(1)
    await vi.advanceTimersByTimeAsync(12_000)
    expect(await outcome).toMatchObject([{ status: 'rejected', reason: { cause: FULL } }])
  })

  it('fails what waits for a full server when its store is closed', async () => {
    const town = new Town(8)
    town.room = 0
    const store = town.store()
    const outcome = Promise.allSettled([store.borrow('handlers')])
    await vi.waitFor(() => expect(store.shortage).toBeDefined())
    await driven(store.close())
    expect(await outcome).toMatchObject([{ status: 'rejected', reason: { code: 'closed' } }])
  })

  it('refuses what is no budget, one that is too small, and one beside a pool', () => {
    expect(() => connectionBudget(3)).toThrow('expected the connection budget to be at least 4 connections, got 3')
    expect(() => connectionBudget(Number.NaN)).toThrow('expected the connection budget to be a positive integer')
    expect(() => postgres({ url: 'postgres://localhost/x', budget: { max: 8 } as never })).toThrow(
      'expected budget to be what connectionBudget() returned',
    )
    const pool = { connect: () => {}, getConnection: () => {} } as never
    expect(() => postgres({ pool, budget: connectionBudget(8) } as never)).toThrow('a url beside a budget')
    expect(() => mysql({ pool, database: 'x', budget: connectionBudget(8) } as never)).toThrow('a url beside a budget')
  })
})
