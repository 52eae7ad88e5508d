import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { type Between, callOverlapping, type Step } from '../../src/consumer/overlapping.ts'
import { Pace } from '../../src/consumer/pace.ts'
import type { Reach, View, Views } from '../../src/contracts/connection.ts'
import { OUT_OF_TURN } from '../../src/transaction/index.ts'

const SIMPLE = { atOnce: 1, sent: 1, lingered: false, untracked: false }

function paced(calls: number, pace: Pace = new Pace()): Pace {
  for (let call = 0; call < calls; call++) pace.observe(SIMPLE)
  return pace
}

describe('Pace', () => {
  it('lets calls overlap after three that were simple', () => {
    expect([2, 3].map((calls) => paced(calls).mayOverlap)).toEqual([false, true])
  })

  it('begins again after a call that was not', () => {
    for (const other of [{ sent: 2 }, { lingered: true }, { untracked: true, sent: 0, atOnce: 0 }]) {
      const pace = paced(2)
      pace.observe({ ...SIMPLE, ...other })
      expect(paced(2, pace).mayOverlap).toBe(false)
      expect(paced(1, pace).mayOverlap).toBe(true)
    }
  })

  it('learns nothing from a call that sent nothing', () => {
    const pace = paced(2)
    pace.observe({ ...SIMPLE, sent: 0, atOnce: 0, lingered: true })
    expect(pace.mayOverlap).toBe(false)
    expect(paced(1, pace).mayOverlap).toBe(true)
  })

  it('asks for ten times as many after each that was not simple while calls overlapped', () => {
    const pace = paced(3)
    pace.stumble()
    expect([paced(29, pace).mayOverlap, paced(1, pace).mayOverlap]).toEqual([false, true])
    pace.stumble()
    expect([paced(299, pace).mayOverlap, paced(1, pace).mayOverlap]).toEqual([false, true])
  })
})

/** Views that write down what was sent, and answer in the next moment. */
class FakeViews implements Views<string> {
  readonly sent: string[] = []
  disordered: View<string> | undefined
  #last = -1
  #made = 0
  #open = 0
  readonly #idle: (() => void)[] = []

  answered(): Promise<void> | undefined {
    return this.#open === 0 ? undefined : new Promise((resolve) => void this.#idle.push(resolve))
  }

  next(): View<string> & { send(text: string): Promise<void> } {
    const place = this.#made++
    const view = {
      tx: `${place}`,
      sent: 0,
      reach: 'none' as Reach,
      assertAwaited: () => {},
      send: async (text: string) => {
        if (place < this.#last) this.disordered ??= view
        if (this.disordered) throw new Error('out of turn')
        this.#last = place
        view.sent += 1
        this.sent.push(text)
        this.#open += 1
        await setImmediate()
        this.#open -= 1
        if (this.#open === 0) for (const resolve of this.#idle.splice(0)) resolve()
      },
    }
    return view
  }
}

const NO_BORDERS: Between = { border: () => Promise.reject(new Error('a border')) }

type Sending = ReturnType<FakeViews['next']>

/** Calls these handlers, after three calls each that were simple. */
async function called(
  handlers: readonly ((view: Sending) => unknown)[],
  apart = false,
  keys: readonly string[] = [],
): Promise<readonly string[]> {
  const handler = {}
  const views = new FakeViews()
  const simple = (view: Sending): Promise<void> => view.send('')
  const step = (call: (view: Sending) => unknown, index: number): Step<string> => {
    return { handler, apart, key: keys[index] ?? null, prepare: () => undefined, call: (view) => call(view as Sending) }
  }
  await callOverlapping([simple, simple, simple].map(step), views, NO_BORDERS)
  const own = new FakeViews()
  try {
    await callOverlapping(handlers.map(step), own, NO_BORDERS)
  } catch (error) {
    return [...own.sent, `${error === OUT_OF_TURN ? 'out of turn' : (error as Error).message}`]
  }
  return own.sent
}

describe('callOverlapping', () => {
  const tracing = (log: string[]) => (name: string) => async (view: Sending) => {
    log.push(`> ${name}`)
    await view.send(name)
    log.push(`< ${name}`)
  }

  it('calls the next handler while the one before waits for the database', async () => {
    const log: string[] = []
    const trace = tracing(log)
    expect(await called(['a', 'b', 'c'].map(trace))).toEqual(['a', 'b', 'c'])
    expect(log).toEqual(['> a', '> b', '> c', '< a', '< b', '< c'])
  })

  it('calls handlers that stand apart, and those that have shown nothing yet, one after the other', async () => {
    const log: string[] = []
    const trace = tracing(log)
    await called(['a', 'b'].map(trace), true)
    await callOverlapping(
      ['c', 'd'].map((name) => ({
        handler: {},
        apart: false,
        key: null,
        prepare: () => undefined,
        call: (view: View<string>) => trace(name)(view as Sending),
      })),
      new FakeViews(),
      NO_BORDERS,
    )
    expect(log.join(' ')).toBe('> a < a > b < b > c < c > d < d')
  })

  it('calls the handlers of one key one after the other', async () => {
    const log: string[] = []
    const trace = tracing(log)
    await called(['a', 'b', 'c', 'd'].map(trace), false, ['x', 'y', 'x', 'z'])
    expect(log.join(' ')).toBe('> a > b < a < b > c > d < c < d')
  })

  it('waits for a handler that has sent nothing when its call returns', async () => {
    const log: string[] = []
    const trace = tracing(log)
    const late = async (view: Sending): Promise<void> => {
      await setImmediate()
      await trace('b')(view)
    }
    expect(await called([trace('a'), late, trace('c')])).toEqual(['a', 'b', 'c'])
    expect(log).toEqual(['> a', '< a', '> b', '< b', '> c', '< c'])
  })

  it('throws OUT_OF_TURN for a handler that sends after a later one, whatever becomes of its error', async () => {
    const twice = async (view: Sending): Promise<void> => {
      await view.send('a')
      await view.send('a again').catch(() => {})
    }
    expect(await called([twice, (view) => view.send('b')])).toEqual(['a', 'b', 'out of turn'])
  })

  it('lets the last one send more', async () => {
    const twice = async (view: Sending): Promise<void> => {
      await view.send('b')
      await view.send('b again')
    }
    expect(await called([(view) => view.send('a'), twice])).toEqual(['a', 'b', 'b again'])
  })

  it('throws the error of the first message that failed, when all calls have ended, and calls no others', async () => {
    let open = 0
    const failing = (name: string, times: number) => async (view: Sending) => {
      open += 1
      await view.send(name)
      for (let time = 0; time < times; time++) await setImmediate()
      open -= 1
      throw new Error(`${name} failed`)
    }
    const atOnce = (): never => {
      throw new Error('c failed')
    }
    const never = (view: Sending): Promise<void> => view.send('d')
    expect(await called([failing('a', 3), failing('b', 0), atOnce, never])).toEqual(['a', 'b', 'a failed'])
    expect(open).toBe(0)
  })

  it('no longer overlaps handlers that wait for something else', async () => {
    const handler = {}
    let running = 0
    let most = 0
    const lingering = async (view: Sending): Promise<void> => {
      most = Math.max(most, ++running)
      await view.send('')
      await setImmediate()
      await setImmediate()
      running -= 1
    }
    const steps = Array.from({ length: 6 }, () => {
      return {
        handler,
        apart: false,
        key: null,
        prepare: () => undefined,
        call: (view: View<string>) => lingering(view as Sending),
      }
    })
    await callOverlapping(steps, new FakeViews(), NO_BORDERS)
    expect(most).toBe(1)
  })
})

describe('borders between handlers', () => {
  /** The statements and borders of a run of these handlers, each of which may overlap. */
  async function traced(handlers: readonly ((view: Sending) => unknown)[]): Promise<readonly string[]> {
    const views = new FakeViews()
    const border = async (): Promise<void> => void views.sent.push('|')
    const known = handlers.map(() => ({}))
    const step = (call: (view: Sending) => unknown, index: number): Step<string> => {
      const handler = known[index % known.length] as object
      return { handler, apart: false, key: null, prepare: () => undefined, call: (view) => call(view as Sending) }
    }
    const simple = [...handlers, ...handlers, ...handlers].map(() => (view: Sending) => view.send(''))
    await callOverlapping(simple.map(step), new FakeViews(), NO_BORDERS)
    for (let times = 1; ; times++) {
      try {
        await callOverlapping(handlers.map(step), views, { border })
        return views.sent
      } catch (error) {
        views.sent.push(error === OUT_OF_TURN ? 'again' : 'failed')
        if (error !== OUT_OF_TURN || times === 3) return views.sent
      }
    }
  }

  const plain = (name: string) => (view: Sending) => view.send(name)
  const reaching = (name: string, reach: Reach) => (view: Sending) => {
    Object.assign(view, { reach })
    return view.send(name)
  }

  it('follow a handler that names a savepoint, and the next handler waits for its end', async () => {
    const sent = await traced([plain('a'), reaching('b', 'savepoints'), plain('c'), plain('d')])
    expect(sent.join(' ')).toBe('a b | c d')
  })

  it('surround a handler whose statements cannot be observed, once that is known', async () => {
    const sent = await traced([plain('a'), plain('b'), reaching('c', 'unseen'), plain('d')])
    expect(sent.join(' ')).toBe('a b c again a b | c | d')
  })

  it('do not protect against a handler that names the savepoint of hapax: the group fails', async () => {
    expect((await traced([plain('a'), reaching('b', 'guard'), plain('c')])).join(' ')).toBe('a b failed')
  })
})
