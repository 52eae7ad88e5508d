import type { MinuteSample, Sample } from '../../contracts/index.ts'
import type { Data } from './data.ts'
import { order } from './pauses.ts'
import type { SampleRow } from './rows.ts'

const MINUTE_MS = 60_000

/** Adds the counts of a worker to the current minute; drops old minutes, and future ones, which are left when the clock went back. */
export function addSamples(data: Data, worker: string, samples: readonly Sample[], keepMs: number): void {
  const now = data.clock.now()
  const at = new Date(now - (now % MINUTE_MS))
  for (const sample of samples) {
    const key = JSON.stringify([at.getTime(), worker, sample.origin, sample.scope])
    const before = data.samples.get(key)
    data.samples.set(key, before === undefined ? { ...sample, at, worker } : { ...added(before, sample), at, worker })
  }
  for (const { at: minute, worker: other, origin, scope } of data.samples.all()) {
    const key = JSON.stringify([minute.getTime(), other, origin, scope])
    if (minute.getTime() < now - keepMs || minute.getTime() > now + MINUTE_MS) data.samples.delete(key)
  }
}

/** Minute by minute, over all workers. */
export function listSamples(data: Data, sinceMs: number): readonly MinuteSample[] {
  const since = data.clock.now() - sinceMs
  const rows = data.samples.all().filter(({ at }) => at.getTime() >= since)
  const alike = Map.groupBy(rows, ({ at, origin, scope }) => JSON.stringify([at, origin, scope]))
  const minutes = [...alike.values()].flatMap(([first, ...others]) => {
    return first === undefined ? [] : [{ ...others.reduce<Sample>(added, partOf(first)), at: first.at }]
  })
  return minutes.sort((a, b) => a.at.getTime() - b.at.getTime() || order(a.origin, b.origin) || order(a.scope, b.scope))
}

function partOf({ at: _, worker: __, ...sample }: SampleRow): Sample {
  return sample
}

function added(a: Sample, b: Sample): Sample {
  return {
    origin: a.origin,
    scope: a.scope,
    done: a.done + b.done,
    duplicates: a.duplicates + b.duplicates,
    retried: a.retried + b.retried,
    failed: a.failed + b.failed,
    lagMs: a.lagMs + b.lagMs,
    aged: a.aged + b.aged,
    waiting: largest(a.waiting, b.waiting),
    oldestMs: largest(a.oldestMs, b.oldestMs),
  }
}

function largest(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.max(a, b)
}
