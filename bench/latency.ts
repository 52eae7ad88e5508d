import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { heading, percentile, reportValue } from './measure.ts'
import type { Bench, Part } from './part.ts'
import { type Latent, latentGraphile, latentHapax } from './sides/latent.ts'
import { installPeers, versionOf } from './sides/peers.ts'

export const latency: Part = {
  name: 'latency',
  about: 'from publish to the commit of the effect, beside graphile-worker',
  needs: ['postgres'],
  run,
}

const SCHEMAS = ['bench_latency', 'bench_latency_hapax', 'bench_latency_graphile']

/**
 * One message at a time, from the call that publishes it to the commit of its effect, by a worker of the same and of another process.
 * The messages of both libraries alternate, so that whatever else the machine does hits both.
 */
async function run(bench: Bench): Promise<void> {
  heading('Latency from publish to the commit of the effect')
  const url = bench.url('postgres')
  const names = installPeers() ? ['hapax', 'graphile-worker'] : ['hapax']
  const pool = new pg.Pool({ connectionString: url, max: 2 })
  for (const schema of SCHEMAS) await pool.query(`drop schema if exists ${schema} cascade`)
  await pool.query('create schema bench_latency; create table bench_latency.effects (id text not null)')
  const sides = await Promise.all(names.map((name) => sideOf(name, url)))
  const count = bench.size(500, 100)
  for (const side of sides) await side.work()
  report('worker of the same process', names, await alternating(sides, count, 30, (side) => side.arrived()), {
    p50: 4,
    p99: 10,
  })
  for (const side of sides) await side.stop()
  const child = await startChild(url, names)
  const arrival = (_side: Latent, index: number): Promise<void> => said(child, names[index])
  report('worker of another process', names, await alternating(sides, count, 30, arrival), { p50: 8 })
  const rarely = await alternating(sides, bench.size(20, 5), 2_000, arrival)
  report('worker of another process, a message every 2 s', names, rarely, { p50: 8 })
  child.kill()
  for (const side of sides) await side.close()
  for (const schema of SCHEMAS) await pool.query(`drop schema if exists ${schema} cascade`)
  await pool.end()
}

/** A side by its name. */
export function sideOf(name: string, url: string): Promise<Latent> {
  return name === 'hapax' ? latentHapax(url) : latentGraphile(url)
}

/** The milliseconds of each side, without the first tenth. */
async function alternating(
  sides: readonly Latent[],
  count: number,
  pauseMs: number,
  arrival: (side: Latent, index: number) => Promise<unknown>,
): Promise<readonly (readonly number[])[]> {
  const times = sides.map((): number[] => [])
  const warmUp = Math.ceil(count / 10)
  for (let number = 0; number < count + warmUp; number++) {
    for (const [index, side] of sides.entries()) {
      await delay(pauseMs * (0.2 + Math.random() * 0.8))
      const arrived = arrival(side, index)
      const begun = performance.now()
      await side.publish(`${number}`)
      await arrived
      if (number >= warmUp) times[index]?.push(performance.now() - begun)
    }
  }
  return times
}

async function startChild(url: string, names: readonly string[]): Promise<ChildProcess> {
  const child = fork(join(import.meta.dirname, 'sides', 'latent-child.ts'), [url, ...names], {
    execArgv: ['--conditions=hapax-source'],
  })
  await said(child, 'ready')
  return child
}

function said(child: ChildProcess, word: string | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const heard = (message: unknown): void => {
      if (message !== word) return
      child.off('message', heard)
      child.off('exit', ended)
      resolve()
    }
    const ended = (): void => reject(new Error('the other process has ended'))
    child.on('message', heard)
    child.on('exit', ended)
  })
}

function report(
  where: string,
  names: readonly string[],
  [own = [], others]: readonly (readonly number[])[],
  aims: Readonly<Record<string, number>>,
): void {
  for (const [name, most] of Object.entries(aims)) {
    const part = Number(name.slice(1)) / 100
    const hapax = percentile(own, part)
    reportValue(`${where}, ${name}`, hapax, 'ms', { aim: { of: 'hapax', most } })
    if (others === undefined) continue
    const other = percentile(others, part)
    const peer = `${names[1]} ${versionOf(names[1] ?? '')}`
    reportValue(`${where}, ${name} / ${peer}`, hapax, 'ms', { other, aim: { of: 'ratio', most: 1.2 } })
  }
}
