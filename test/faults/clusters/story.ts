import { Child } from '../../support/child.ts'
import type { LosingCluster, NodeFault } from '../../support/clusters/nodes.ts'
import type { Place } from '../../support/databases.ts'
import type { BrokerPlace } from '../brokers/broker-place.ts'
import type { ConsumerJob } from '../brokers/consumer-child.ts'
import type { RelayJob } from '../brokers/relay-child.ts'
import type { Sabotage } from '../brokers/sabotage.ts'
import type { CheckerJob, CheckerOrder, CheckerReport } from '../soak/checker-child.ts'
import { type Ledger, ledgerTables, openLedger } from '../soak/ledger.ts'
import { Post } from '../soak/post.ts'
import type { PublisherJob, PublisherOrder, PublisherReport } from '../soak/publisher-child.ts'
import type { WorkerReport } from '../soak/shift.ts'
import type { Verdict } from '../soak/verdict.ts'

/** Where a story happens. */
export interface StoryScene {
  readonly place: Place
  readonly broker: BrokerPlace
  readonly cluster: LosingCluster
}

/** The size of a story. */
export interface StoryOptions {
  readonly seed: number
  /** What happens, one after the other; the messages are divided among them. */
  readonly faults: readonly NodeFault[]
  readonly messages: number
  readonly keys: number
  /** How long the messages of one fault are spread over. */
  readonly roundMs: number
  readonly consumers: number
  /** How long the cluster may take to go on without the node. */
  readonly standstillMs: number
  readonly sabotage?: Sabotage
}

/** One fault, and for how long nothing took effect because of it. */
interface LivedFault {
  readonly fault: NodeFault
  readonly standstillMs: number
}

/** What came of it. */
export interface StoryResult {
  readonly verdict: Verdict
  readonly faults: readonly LivedFault[]
  /** The faults during which work did not go on in time. */
  readonly stuck: readonly NodeFault[]
  /** What did not come to rest in time. */
  readonly left: readonly string[]
  readonly workerErrors: number
}

const DEADLINE_MS = 900_000
/** Work goes on when so many messages that were published after the fault have taken effect. */
const GOES_ON = 20

/**
 * Publishes without a pause while the cluster loses a node, again and again. The node comes back when the others have gone on without it.
 * Publisher, relay, consumers and checker are processes of their own; the store is PostgreSQL, and is not touched.
 */
export async function clusterStory(scene: StoryScene, options: StoryOptions): Promise<StoryResult> {
  const others: Child<never>[] = []
  const child = <Said>(file: string, job: object): Child<Said> => {
    const made = new Child<Said>(new URL(file, import.meta.url), job, DEADLINE_MS)
    others.push(made as unknown as Child<never>)
    return made
  }
  const ledger = await openLedger(scene.place)
  const crew = crewOf(scene, options)
  try {
    const checker = child<CheckerReport>('../soak/checker-child.ts', checkerJob(scene, options))
    await checker.next()
    // One after the other: consumers declare where relays send to.
    for (const post of crew) await post.fill()
    const publisher = child<PublisherReport>('../soak/publisher-child.ts', publisherJob(scene, options))
    await publisher.next()
    const stuck: NodeFault[] = []
    for (const [index, fault] of options.faults.entries()) {
      if (!(await loseNode(scene, options, ledger, publisher, index))) stuck.push(fault)
    }
    const rested = await ask(checker, 'rest')
    const reports = await Promise.all(crew.map((post) => post.dismiss()))
    const judged = await ask(checker, 'judge')
    if (rested.said !== 'rested' || judged.said !== 'verdict') throw new Error('the checker lost its place')
    return {
      verdict: judged.verdict,
      faults: await standstills(ledger, scene),
      stuck,
      left: [...rested.left, ...judged.left],
      workerErrors: reports.reduce((sum, { errors }) => sum + errors, 0),
    }
  } finally {
    await Promise.all(crew.map((post) => post.destroy()))
    for (const each of others) each.kill('SIGKILL')
    await Promise.all(others.map((each) => each.ended))
    await ledger.close()
  }
}

function crewOf({ place, broker }: StoryScene, { seed, consumers, sabotage }: StoryOptions): Post<WorkerReport>[] {
  const takeoverMs = 5_000
  const post = (file: string, job: ConsumerJob | RelayJob): Post<WorkerReport> =>
    new Post(() => new Child(new URL(file, import.meta.url), job, DEADLINE_MS))
  return [
    ...Array.from({ length: consumers }, (_, worker) =>
      post('../brokers/consumer-child.ts', { place, broker, seed, worker, takeoverMs, sabotage }),
    ),
    post('../brokers/relay-child.ts', { place, broker, takeoverMs, sabotage }),
  ]
}

/** Whether the cluster went on without the node. */
async function loseNode(
  { place, broker, cluster }: StoryScene,
  { faults, roundMs, standstillMs }: StoryOptions,
  ledger: Ledger,
  publisher: Child<PublisherReport>,
  index: number,
): Promise<boolean> {
  const tables = ledgerTables(place)
  const count = async (query: string): Promise<number> => Number((await ledger.query(query))[0]?.['n'])
  const before = await count(`select count(*) as n from ${tables.effects}`)
  // That may take its time, in which nothing should be published.
  const node = await cluster.find(broker.name)
  const order: PublisherOrder = { upTo: (index + 1) / faults.length, overMs: roundMs }
  publisher.tell(order)
  let done = false
  const published = publisher.next().then(() => {
    done = true
  })
  const began = await within(standstillMs, async () => {
    return (await count(`select count(*) as n from ${tables.effects}`)) >= before + GOES_ON
  })
  const fault = faults[index] as NodeFault
  const lost = await node.lose(fault)
  await note(ledger, tables.faults, fault)
  await lost.replaced?.()
  const since = await note(ledger, tables.faults, 'replaced')
  const later = `select id from ${tables.sent} where at > ${since}`
  const wentOn = await within(standstillMs, async () => {
    if ((await count(`select count(*) as n from ${tables.effects} where id in (${later})`)) >= GOES_ON) return true
    return (
      done &&
      (await count(`select count(*) as n from ${tables.sent} where id not in (select id from ${tables.effects})`)) === 0
    )
  })
  await note(ledger, tables.faults, 'over')
  await Promise.all([lost.restore(), published])
  return began && wentOn
}

/** Returns when that was. */
async function note(ledger: Ledger, table: string, what: NodeFault | 'replaced' | 'over'): Promise<number> {
  const rows = await ledger.query(`insert into ${table} (kind, worker) values ('${what}', 0) returning at`)
  return Number(rows[0]?.['at'])
}

async function within(ms: number, holds: () => Promise<boolean>): Promise<boolean> {
  for (const deadline = performance.now() + ms; !(await holds()); ) {
    if (performance.now() > deadline) return false
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return true
}

/** For each fault, the longest time without any effect until the cluster had gone on. */
async function standstills(ledger: Ledger, { place }: StoryScene): Promise<LivedFault[]> {
  const { faults, effects } = ledgerTables(place)
  const notes = await ledger.query(`select kind, at from ${faults} order by at`)
  const at = (await ledger.query(`select at from ${effects} order by at`)).map((row) => Number(row['at']))
  return notes.flatMap(({ kind, at: from }, index) => {
    if (kind === 'over' || kind === 'replaced') return []
    const to = Number(notes[index + 2]?.['at'])
    const steps = [Number(from), ...at.filter((each) => each > Number(from) && each <= to), to]
    const gaps = steps.slice(1).map((each, step) => each - (steps[step] as number))
    return [{ fault: kind as NodeFault, standstillMs: Math.round(Math.max(...gaps)) }]
  })
}

function checkerJob({ place, broker }: StoryScene, { keys, messages }: StoryOptions): CheckerJob {
  const silenceLimitMs = Number.MAX_SAFE_INTEGER
  return { place, broker, ordered: broker.single, keys, messages, silenceLimitMs, restMs: 300_000 }
}

function publisherJob({ place }: StoryScene, { seed, messages, keys }: StoryOptions): PublisherJob {
  return { place, delivery: 'relay', publisher: 0, publishers: 1, seed, messages, keys, copies: 0 }
}

function ask(checker: Child<CheckerReport>, order: CheckerOrder): Promise<CheckerReport> {
  checker.tell({ order })
  return checker.next()
}
