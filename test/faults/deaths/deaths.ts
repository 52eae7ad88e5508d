import { setTimeout as delay } from 'node:timers/promises'
import { createHapax, defineMessage, silentLogger } from 'hapax'
import { Child } from '../../support/child.ts'
import { type Checker, table } from '../../support/databases.ts'
import { openAsUsual } from './store.ts'
import type { DeathsJob, Handled } from './worker-child.ts'

/** A load on three workers, one of which is killed now and then and replaced. */
export interface Deaths {
  readonly ordered: boolean
  readonly perSecond: number
  readonly ms: number
  readonly killEveryMs: number
  readonly takeoverMs?: number
}

/** The result of a load. */
export interface Lags {
  readonly published: readonly string[]
  /** The lag of the first run of each message that a process reported before it died, sorted. */
  readonly lags: readonly number[]
  readonly kills: number
}

/** The lag that this many per mille of the messages do not exceed. */
export function perMille({ lags }: Lags, part: number): number {
  return lags[Math.min(lags.length - 1, Math.floor((lags.length * part) / 1_000))] ?? Number.NaN
}

/** Runs a load until everything is handled. */
export async function runDeaths(checker: Checker, deaths: Deaths): Promise<Lags> {
  const { ordered, perSecond, ms, killEveryMs, takeoverMs } = deaths
  const work: DeathsJob = { place: checker.place, ordered, takeoverMs }
  const lags = new Map<string, number>()
  const workers = new Set<Child<Handled>>()
  const listening: Promise<void>[] = []
  const start = async (): Promise<void> => {
    const child = new Child<Handled>(new URL('./worker-child.ts', import.meta.url), work, ms + 170_000)
    await child.next()
    workers.add(child)
    listening.push(hear(child, lags))
  }
  await Promise.all([start(), start(), start()])

  const Sent = defineMessage<{ at: number }>('sent', { key: () => `k${Math.floor(Math.random() * 200)}` })
  const store = openAsUsual(checker.place)
  const hapax = createHapax({ store, source: '/deaths', logger: silentLogger, delivery: 'local' })
  const published: string[] = []
  const end = performance.now() + ms
  const publishing = (async () => {
    const began = performance.now()
    while (performance.now() < end) {
      const many = Math.floor(((performance.now() - began) / 1_000) * perSecond) - published.length
      const ids = Array.from({ length: many }, (_, index) => `m${published.length + index}`)
      await hapax.transaction(async (tx) => {
        for (const id of ids) await hapax.publish(tx, Sent, { at: Date.now() }, { id })
      })
      published.push(...ids)
      await delay(20)
    }
  })()
  let kills = 0
  for (let next = performance.now() + killEveryMs; next < end - 1_000; next += killEveryMs) {
    await delay(Math.max(0, next - performance.now()))
    const [oldest] = workers
    if (oldest === undefined) break
    workers.delete(oldest)
    oldest.kill('SIGKILL')
    kills += 1
    await delay(1_000)
    await start()
  }
  await publishing
  const inbox = `select count(*) as waiting from ${table(checker.place, 'inbox')}`
  while (Number((await checker.query(inbox))[0]?.['waiting']) > 0) await delay(50)
  for (const worker of workers) worker.tell({ stop: true })
  await Promise.all(listening)
  await hapax.close()
  return { published, lags: [...lags.values()].sort((a, b) => a - b), kills }
}

/** Resolves when the process has ended, for whatever reason. */
async function hear(child: Child<Handled>, lags: Map<string, number>): Promise<void> {
  try {
    for (;;) {
      const { id, lagMs } = await child.next()
      if (!lags.has(id)) lags.set(id, lagMs)
    }
  } catch {
    await child.ended
  }
}
