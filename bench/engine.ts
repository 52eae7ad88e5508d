import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { heading, reportValue } from './measure.ts'
import type { Bench, Part } from './part.ts'
import { rig } from './rig.ts'

export const engine: Part = {
  name: 'engine',
  about: 'the cost of an idle worker, on PostgreSQL',
  needs: ['postgres'],
  run,
}

async function run(bench: Bench): Promise<void> {
  heading('Engine on PostgreSQL')
  await idle(bench)
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
