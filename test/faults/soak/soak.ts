import { Child } from '../../support/child.ts'
import type { Place } from '../../support/databases.ts'
import type { CheckerJob, CheckerOrder, CheckerReport } from './checker-child.ts'
import { Crew, type FaultCounts, type Torment } from './crew.ts'
import { openLedger } from './ledger.ts'
import type { PublisherJob, PublisherOrder, PublisherReport } from './publisher-child.ts'
import type { Verdict } from './verdict.ts'

/** The size of a soak. */
export interface SoakOptions extends Torment {
  readonly messages: number
  readonly keys: number
  readonly publishers: number
  /** Over how long the messages are published. */
  readonly overMs: number
  readonly silenceLimitMs: number
  /** How long all may take to come to rest after the last fault. */
  readonly restMs: number
}

/** The share of messages that are published again under the same id. */
const COPIES = 0.2

/** What came of it. */
export interface SoakResult {
  readonly verdict: Verdict
  readonly faults: FaultCounts
  /** What did not come to rest in time. */
  readonly left: readonly string[]
  /** How often an id was published again. */
  readonly copies: number
  readonly repeated: number
  readonly contradictions: readonly string[]
  readonly workerErrors: number
  readonly seconds: number
  /** From the last fault to rest. */
  readonly restSeconds: number
}

/** Publishes, torments, waits for rest, and asks the checker; hapax may reach the place another way than the checker. */
export async function soak(place: Place, options: SoakOptions, way: Place = place): Promise<SoakResult> {
  const start = performance.now()
  const children: Child<never>[] = []
  const child = <Said>(file: string, job: object): Child<Said> => {
    const made = new Child<Said>(new URL(file, import.meta.url), job, options.deadlineMs)
    children.push(made as unknown as Child<never>)
    return made
  }
  const checker = child<CheckerReport>('./checker-child.ts', checkerJob(place, options))
  await checker.next()
  const ledger = await openLedger(place)
  const crew = new Crew(way, options, ledger)
  try {
    await crew.start()
    const reports = await Promise.race([publishAll(way, options, child), crew.failure()])
    await crew.enough()
    const calm = performance.now()
    const rested = await ask(checker, 'rest')
    const restSeconds = (performance.now() - calm) / 1000
    const workerErrors = await crew.dismiss()
    const judged = await ask(checker, 'judge')
    if (rested.said !== 'rested' || judged.said !== 'verdict') throw new Error('the checker lost its place')
    return {
      verdict: judged.verdict,
      faults: crew.counts,
      left: rested.left,
      copies: judged.copies,
      repeated: reports.reduce((sum, { repeated }) => sum + repeated, 0),
      contradictions: reports.flatMap(({ contradictions }) => contradictions),
      workerErrors,
      seconds: (performance.now() - start) / 1000,
      restSeconds,
    }
  } finally {
    await crew.destroy()
    for (const each of children) each.kill('SIGKILL')
    await Promise.all(children.map((each) => each.ended))
    await ledger.close()
  }
}

function checkerJob(place: Place, { keys, messages, silenceLimitMs, restMs }: SoakOptions): CheckerJob {
  return { place, ordered: true, keys, messages, silenceLimitMs, restMs }
}

async function publishAll(
  place: Place,
  { seed, messages, keys, publishers, overMs }: SoakOptions,
  child: <Said>(file: string, job: object) => Child<Said>,
): Promise<PublisherReport[]> {
  const all = Array.from({ length: publishers }, (_, publisher) => {
    const job: PublisherJob = { place, delivery: 'local', publisher, seed, messages, keys, copies: COPIES, publishers }
    return child<PublisherReport>('./publisher-child.ts', job)
  })
  await Promise.all(all.map((publisher) => publisher.next()))
  const order: PublisherOrder = { upTo: 1, overMs }
  for (const publisher of all) publisher.tell(order)
  return Promise.all(all.map((publisher) => publisher.next()))
}

function ask(checker: Child<CheckerReport>, order: CheckerOrder): Promise<CheckerReport> {
  checker.tell({ order })
  return checker.next()
}
