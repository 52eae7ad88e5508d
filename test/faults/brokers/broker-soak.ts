import { Child } from '../../support/child.ts'
import type { CheckerJob, CheckerOrder, CheckerReport } from '../soak/checker-child.ts'
import { type Ledger, ledgerTables, openLedger } from '../soak/ledger.ts'
import type { PublisherJob, PublisherOrder, PublisherReport } from '../soak/publisher-child.ts'
import type { Verdict } from '../soak/verdict.ts'
import type { CopierJob, CopierReport } from './copier-child.ts'
import { Crew, type CrewOptions, type FaultKind, type Scene } from './crew.ts'
import { timetable } from './timetable.ts'

/** The size of a soak of a broker. */
export interface BrokerSoakOptions extends CrewOptions {
  readonly messages: number
  readonly keys: number
  /** The share of messages that a plain client sends once more, straight to the broker. */
  readonly plainCopies: number
  /** The share of messages that are published once more under the same id. */
  readonly publishedCopies: number
  /** How long all may take to come to rest after the last fault. */
  readonly restMs: number
}

/** Something that was done, and how many messages were on their way at that moment. */
interface DoneFault {
  readonly kind: FaultKind
  readonly underWay: number
}

/** What came of it. */
export interface BrokerSoakResult {
  readonly verdict: Verdict
  readonly faults: readonly DoneFault[]
  readonly copies: number
  /** What did not come to rest in time, before and after the consumers went. */
  readonly left: readonly string[]
  readonly workerErrors: number
  readonly seconds: number
  /** From the last fault to rest. */
  readonly restSeconds: number
}

/** Publishes round by round while the broker and its clients are killed, waits for rest, and asks the checker. */
export async function brokerSoak(scene: Scene, options: BrokerSoakOptions): Promise<BrokerSoakResult> {
  const start = performance.now()
  const others: Child<never>[] = []
  const child = <Said>(file: string, job: object): Child<Said> => {
    const made = new Child<Said>(new URL(file, import.meta.url), job, options.deadlineMs)
    others.push(made as unknown as Child<never>)
    return made
  }
  const ledger = await openLedger(scene.place)
  const crew = new Crew(scene, options, ledger)
  try {
    const checker = child<CheckerReport>('../soak/checker-child.ts', checkerJob(scene, options))
    await checker.next()
    await crew.start()
    const copier = child<CopierReport>('./copier-child.ts', copierJob(scene, options))
    await publishUnderFaults(child('../soak/publisher-child.ts', publisherJob(scene, options)), crew, options)
    const calm = performance.now()
    await copier.next()
    const rested = await ask(checker, 'rest')
    const restSeconds = (performance.now() - calm) / 1000
    const workerErrors = await crew.dismiss()
    const judged = await ask(checker, 'judge')
    if (rested.said !== 'rested' || judged.said !== 'verdict') throw new Error('the checker lost its place')
    return {
      verdict: judged.verdict,
      faults: await faultsIn(ledger, scene),
      copies: judged.copies,
      left: [...rested.left, ...judged.left],
      workerErrors,
      seconds: (performance.now() - start) / 1000,
      restSeconds,
    }
  } finally {
    await crew.destroy()
    for (const each of others) each.kill('SIGKILL')
    await Promise.all(others.map((each) => each.ended))
    await ledger.close()
  }
}

/** Each round publishes its share, so that there is work whenever something breaks. */
async function publishUnderFaults(
  publisher: Child<PublisherReport>,
  crew: Crew,
  options: BrokerSoakOptions,
): Promise<void> {
  await publisher.next()
  const rounds = timetable(options)
  for (const [index, round] of rounds.entries()) {
    const order: PublisherOrder = { upTo: (index + 1) / rounds.length, overMs: options.roundMs }
    publisher.tell(order)
    await Promise.all([publisher.next(), crew.torment(round)])
  }
}

async function faultsIn(ledger: Ledger, { place }: Scene): Promise<DoneFault[]> {
  const { faults, sent, effects } = ledgerTables(place)
  const before = (table: string): string => `(select count(*) from ${table} each where each.at < fault.at)`
  const rows = await ledger.query(
    `select kind, ${before(sent)} - ${before(effects)} as under_way from ${faults} fault order by at`,
  )
  return rows.map((row) => ({ kind: row['kind'] as FaultKind, underWay: Number(row['under_way']) }))
}

function checkerJob({ place, broker }: Scene, { keys, messages, restMs }: BrokerSoakOptions): CheckerJob {
  // Nothing happens while the broker is away, and it may take its time to come back.
  const silenceLimitMs = Number.MAX_SAFE_INTEGER
  return { place, broker, ordered: broker.single, keys, messages, silenceLimitMs, restMs }
}

function publisherJob({ place }: Scene, { seed, messages, keys, publishedCopies }: BrokerSoakOptions): PublisherJob {
  return { place, delivery: 'relay', publisher: 0, publishers: 1, seed, messages, keys, copies: publishedCopies }
}

function copierJob({ place, broker }: Scene, { seed, messages, plainCopies }: BrokerSoakOptions): CopierJob {
  return { place, broker, seed, messages, copies: plainCopies }
}

function ask(checker: Child<CheckerReport>, order: CheckerOrder): Promise<CheckerReport> {
  checker.tell({ order })
  return checker.next()
}
