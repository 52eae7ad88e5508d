// Counts what the jobs allocate on a store, in a process of its own: with a new space that is never collected, and without the
// optimising compiler, which leaves out allocations in the functions that it happens to have compiled.
import { createHook } from 'node:async_hooks'
import { job as given, say } from '../child.ts'
import type { DurableStore } from '../databases.ts'
import { type Job, jobs, type Opened } from './jobs.ts'
import { directStore } from './measure.ts'

/** What each run of a job makes in this process. */
export interface Allocated {
  readonly name: string
  readonly kib: number
  readonly promises: number
}

const ROUNDS = 5

let made = 0
const hook = createHook({
  init(_, type) {
    if (type === 'PROMISE') made += 1
  },
})

for (const [name, job] of Object.entries<Job>(jobs)) {
  if (job.paced) continue
  await using ground = await directStore(given<DurableStore>())
  const opened = job.open(ground)
  await repeat(job, opened, () => 0)
  const bytes = await repeat(job, opened, () => process.memoryUsage().heapUsed)
  hook.enable()
  const promises = await repeat(job, opened, () => made)
  hook.disable()
  await opened.close()
  await say({ name, kib: Math.ceil(bytes / 1024), promises: Math.ceil(promises) } satisfies Allocated)
}

/** By how much a figure grows in one run: the median, because now and then a table somewhere is doubled. */
async function repeat({ times }: Job, { run }: Opened, figure: () => number): Promise<number> {
  const grown: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    globalThis.gc?.()
    const start = figure()
    for (let time = 0; time < times; time++) await run()
    grown.push((figure() - start) / times)
  }
  return grown.sort((a, b) => a - b)[Math.floor(ROUNDS / 2)] ?? 0
}
