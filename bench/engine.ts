import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { heading, reportValue } from './measure.ts'
import { Counted, GROUPS, rig } from './rig.ts'

/** What the worker costs. */
export async function benchEngine(url: string): Promise<void> {
  heading('Engine on PostgreSQL')
  await latency(url)
  await idle(url)
}

/** One message at a time, from the call of the transaction that publishes it to the commit of its effect. */
async function latency(url: string): Promise<void> {
  const { hapax, consumer, close } = await rig(url, 'bench_latency', GROUPS)
  const worker = hapax.worker({ consume: [consumer] })
  await worker.start()
  let arrived = (): void => {}
  hapax.events.on('processed', () => arrived())
  const times: number[] = []
  for (let number = 0; number < 520; number++) {
    await delay(5 + Math.random() * 25)
    const { promise, resolve } = Promise.withResolvers<number>()
    arrived = () => resolve(performance.now())
    const begun = performance.now()
    await hapax.transaction((tx) => hapax.publish(tx, Counted, number))
    times.push((await promise) - begun)
  }
  await worker.stop()
  const sorted = times.slice(20).sort((a, b) => a - b)
  const [p50, p99] = [percentile(sorted, 0.5), percentile(sorted, 0.99)]
  reportValue('latency from publish to effect, p50 in ms', p50.toFixed(1), p50 <= 5, '<= 5')
  reportValue('latency from publish to effect, p99 in ms', p99.toFixed(1), p99 <= 20, '<= 20')
  await close()
}

function percentile(sorted: readonly number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
}

/** What a worker asks of the database when there is nothing to do. */
async function idle(url: string): Promise<void> {
  let queries = 0
  class CountingClient extends pg.Client {
    // biome-ignore lint/suspicious/noExplicitAny: pg has an overload for every way to call it, and all of them are passed on.
    override query(...args: any[]): any {
      queries += 1
      return super.query(...(args as [string]))
    }
  }
  const { hapax, consumer, close } = await rig(url, 'bench_idle', GROUPS, { Client: CountingClient })
  const worker = hapax.worker({ consume: [consumer] })
  await worker.start()
  await delay(5_000)
  queries = 0
  const seconds = 20
  await delay(seconds * 1_000)
  const perSecond = queries / seconds
  reportValue('queries per second of an idle worker', perSecond.toFixed(2), perSecond <= 2, '<= 2')
  await worker.stop()
  await close()
}
