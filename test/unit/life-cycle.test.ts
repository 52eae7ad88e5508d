import { createHapax, defineMessage, type Hapax, silentLogger } from 'hapax'
import type { Delivery, OpenOptions, Reader, Subscription } from 'hapax/contracts'
import { type MemoryTx, memory } from 'hapax/memory'
import { describe, expect, it, vi } from 'vitest'
import { detached, systemClock, systemRandom } from '../../src/base/index.ts'
import { LeapingClock } from '../../src/testing/clock.ts'
import { until } from '../../src/testing/wait.ts'
import { LifeCycle, type WorkerSteps } from '../../src/worker/life-cycle.ts'

const Ping = defineMessage<unknown>('ping')

async function open(): Promise<Hapax<MemoryTx>> {
  const hapax = createHapax({ store: memory(), source: '/test', logger: silentLogger })
  await hapax.migrate()
  return hapax
}

/** A subscription that opens when the test says so, or fails to. */
class Gate implements Subscription {
  readonly name = 'gate'
  readonly features = { ordersKeys: true, marksRedelivered: true, horizonMs: undefined, limitsRejects: true }
  readonly asked: PromiseWithResolvers<OpenOptions> = Promise.withResolvers()
  readonly opening: PromiseWithResolvers<void> = Promise.withResolvers()
  readonly closed: PromiseWithResolvers<void> = Promise.withResolvers()

  async open(options: OpenOptions): Promise<Reader> {
    this.asked.resolve(options)
    await this.opening.promise
    return { horizonMs: undefined, pause: async () => {}, close: async () => this.closed.resolve() }
  }
}

function delivery(id: string, said: string[]): Delivery {
  const arrival = {
    body: Buffer.from('1'),
    contentType: 'application/json',
    attributes: { specversion: '1.0', id, source: '/sender', type: 'ping' },
    headers: {},
    properties: {},
    redelivered: false,
    refused: undefined,
  }
  return {
    arrival,
    bytes: 1,
    ack: () => said.push(`${id} ack`),
    retry: () => said.push(`${id} again`),
    reject: () => said.push(`${id} reject`),
  }
}

function lifeCycle(steps: Partial<WorkerSteps>): LifeCycle {
  return new LifeCycle({
    clock: systemClock,
    random: systemRandom,
    detached,
    prepare: async () => [],
    started: () => {},
    round: async () => ({ drained: true, restMs: 60_000 }),
    halt: async () => {},
    running: () => [],
    stopped: () => {},
    report: () => {},
    recovered: () => {},
    ...steps,
  })
}

describe('a worker that is stopped while it starts', () => {
  it('closes a subscription that opens afterwards', async () => {
    const hapax = await open()
    const gate = new Gate()
    const billing = hapax.consumer('billing').on(Ping, () => {})
    const worker = hapax.worker({ consume: [billing.from(gate)] })
    const starting = expect(worker.start()).rejects.toMatchObject({ code: 'closed' })
    await gate.asked.promise
    await worker.stop({ deadlineMs: 0 })
    await starting
    gate.opening.resolve()
    await gate.closed.promise
    await hapax.close()
  })

  it('does not wait for a database that does not answer, and leaves what it joined when it did', async () => {
    const joining = Promise.withResolvers<readonly []>()
    const left = vi.fn(async () => {})
    const life = lifeCycle({ prepare: () => joining.promise, left })
    const starting = expect(life.start()).rejects.toMatchObject({ code: 'closed' })
    await life.stop({ deadlineMs: 0 })
    await starting
    left.mockClear()
    joining.resolve([])
    await expect.poll(() => left.mock.calls.length).toBe(1)
    expect(life.isRunning).toBe(false)
  })

  it('is not started again beside the stop', async () => {
    const first = Promise.withResolvers<never>()
    const prepare = vi.fn(async () => first.promise)
    const life = lifeCycle({ prepare })
    const again = life.start().catch(() => life.start())
    const stopping = life.stop({})
    first.reject(new Error('the database is away'))
    await expect(again).rejects.toMatchObject({ code: 'already-started' })
    await stopping
    expect(prepare).toHaveBeenCalledOnce()
  })
})

describe('a worker of which one subscription does not open', () => {
  it('gives back what the others have delivered, and lets running handlers finish', async () => {
    const hapax = await open()
    const [first, second] = [new Gate(), new Gate()]
    const began = Promise.withResolvers<void>()
    const end = Promise.withResolvers<void>()
    const billing = hapax.consumer('billing', { concurrency: 1 }).on(Ping, () => {
      began.resolve()
      return end.promise
    })
    const worker = hapax.worker({ consume: [billing.from(first), billing.from(second)] })
    const starting = expect(worker.start()).rejects.toThrow('refused')
    first.opening.resolve()
    const { receive } = await first.asked.promise
    await second.asked.promise
    const said: string[] = []
    receive([delivery('running', said), delivery('waiting', said)])
    await began.promise
    second.opening.reject(new Error('refused'))
    await expect.poll(() => said).toEqual(['waiting again'])
    end.resolve()
    await starting
    await first.closed.promise
    expect(said).toEqual(['waiting again', 'running ack'])
    await hapax.close()
  })
})

describe('drain', () => {
  it('refuses a worker that was not started, or whose start failed', async () => {
    const life = lifeCycle({ prepare: () => Promise.reject(new Error('away')) })
    await expect(life.drain()).rejects.toMatchObject({ code: 'not-started' })
    await expect(life.start()).rejects.toThrow('away')
    await expect(life.drain()).rejects.toMatchObject({ code: 'not-started' })
  })

  it('waits for a start that is under way', async () => {
    const prepared = Promise.withResolvers<[]>()
    const rounds: boolean[] = []
    const life = lifeCycle({
      prepare: () => prepared.promise,
      round: async (asking) => {
        rounds.push(asking)
        return { drained: asking, restMs: 1 }
      },
    })
    const started = life.start()
    const drained = life.drain()
    prepared.resolve([])
    await Promise.all([started, drained])
    expect(rounds).toContain(true)
    await life.stop({})
  })

  it('fails with a start that fails', async () => {
    const life = lifeCycle({ prepare: () => Promise.reject(new Error('away')) })
    const [started, drained] = await Promise.allSettled([life.start(), life.drain()])
    expect(started).toMatchObject({ status: 'rejected', reason: { message: 'away' } })
    expect(drained).toEqual(started)
  })

  it('resolves when the worker has stopped', async () => {
    const never = lifeCycle({})
    await never.stop({})
    await never.drain()
    const life = lifeCycle({})
    await life.start()
    await life.stop({})
    await life.drain()
  })

  it('ends with a stop that does not wait for the round', async () => {
    const clock = new LeapingClock()
    const asked = Promise.withResolvers<void>()
    const round = Promise.withResolvers<{ drained: false; restMs: number }>()
    const life = lifeCycle({
      clock,
      round: (asking) => {
        if (asking) asked.resolve()
        return asking ? round.promise : Promise.resolve({ drained: false, restMs: 1 })
      },
    })
    await life.start()
    const drained = life.drain()
    await asked.promise
    let stopped = false
    const stopping = life.stop({ deadlineMs: 0 }).then(() => {
      stopped = true
    })
    // What is aborted gets some time to record that.
    await until(() => {
      clock.leap(1_000)
      return stopped
    })
    await stopping
    round.resolve({ drained: false, restMs: 1 })
    await drained
  })
})

describe('a worker whose store was away', () => {
  it('says once that it has recovered', async () => {
    const said: string[] = []
    const rounds = [true, false, false, true, true]
    const life = lifeCycle({
      round: async () => {
        if (rounds.shift() === false) throw new Error('away')
        return { drained: rounds.length === 0, restMs: 1 }
      },
      report: () => said.push('error'),
      recovered: () => said.push('recovered'),
    })
    await life.start()
    await life.drain()
    await life.stop({})
    expect(said).toEqual(['error', 'error', 'recovered'])
  })
})
