import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { heading, percentile, reportValue } from './measure.ts'
import type { Bench, Part } from './part.ts'
import { Counted, rig } from './rig.ts'

export const engine: Part = {
  name: 'engine',
  about: 'latency, and the cost of an idle worker, on PostgreSQL',
  needs: ['postgres'],
  run,
}

async function run(bench: Bench): Promise<void> {
  heading('Engine on PostgreSQL')
  await latency(bench)
  await idle(bench)
}

/** One message at a time, from the call of the transaction that publishes it to the commit of its effect. */
async function latency(bench: Bench): Promise<void> {
  const { hapax, consumer, close } = await rig(bench.url('postgres'), 'bench_latency')
  const worker = hapax.worker({ consume: [consumer] })
  await worker.start()
  let arrived = (): void => {}
  hapax.events.on('processed', () => arrived())
  const times: number[] = []
  for (let number = 0; number < bench.size(520, 120); number++) {
    await delay(5 + Math.random() * 25)
    const { promise, resolve } = Promise.withResolvers<number>()
    arrived = () => resolve(performance.now())
    const begun = performance.now()
    await hapax.transaction((tx) => hapax.publish(tx, Counted, number))
    times.push((await promise) - begun)
  }
  await worker.stop()
  const counted = times.slice(20)
  const name = 'latency from publish to commit of the effect'
  reportValue(`${name}, p50`, percentile(counted, 0.5), 'ms', { aim: { of: 'hapax', most: 4 } })
  reportValue(`${name}, p99`, percentile(counted, 0.99), 'ms', { aim: { of: 'hapax', most: 10 } })
  await close()
}

/** What a worker asks of the database when there is nothing to do. */
async function idle(bench: Bench): Promise<void> {
  let queries = 0
  class CountingClient extends pg.Client {
    // biome-ignore lint/suspicious/noExplicitAny: pg has an overload for every way to call it, and all of them are passed on.
    override query(...args: any[]): any {
      queries += 1
      return super.query(...(args as [string]))
    }
  }
  const { hapax, consumer, close } = await rig(bench.url('postgres'), 'bench_idle', {}, { Client: CountingClient })
  const worker = hapax.worker({ consume: [consumer] })
  await worker.start()
  await delay(bench.size(5_000, 2_000))
  queries = 0
  const seconds = bench.size(20, 4)
  await delay(seconds * 1_000)
  const aim = { of: 'hapax', most: 2 } as const
  reportValue('queries of an idle worker', queries / seconds, '/s', { aim })
  await worker.stop()
  await close()
}
