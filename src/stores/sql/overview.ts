import type { Result, Row, Statement, WorkerRow } from '../../contracts/index.ts'
import { COUNTED_RECEIPTS, type StoreStatus, type Trace } from '../../contracts/index.ts'
import { type KeyRange, keyRange, messageKey } from '../../message/index.ts'
import type { Dialect } from './dialect/dialect.ts'
import { asConsumerStatus, asStatus, asTrace } from './operator-rows.ts'
import { asEffect } from './rows.ts'
import { asText } from './values.ts'

type ConsumerStatus = StoreStatus['consumers'][number]

/** How many rows of each place are asked for their sources. */
const SAMPLE = 1_000

/** What people look at: `status` and `explain`. */
export class SqlOverview {
  readonly #dialect: Dialect
  readonly #run: (statement: Statement) => Promise<Result>

  constructor(dialect: Dialect, run: (statement: Statement) => Promise<Result>) {
    this.#dialect = dialect
    this.#run = run
  }

  async status(workers: readonly WorkerRow[]): Promise<StoreStatus> {
    const { overview } = this.#dialect
    const consumers = new Map<string, ConsumerStatus>()
    for (const consumer of await this.#receiptConsumers())
      consumers.set(consumer, { ...NOTHING, consumer, ...(await this.#receipts(consumer)) })
    for (const row of (await this.#rows(overview.statusConsumers)).map(asConsumerStatus))
      consumers.set(row.consumer, { ...(consumers.get(row.consumer) ?? NOTHING), ...row })
    const sorted = [...consumers.values()].sort((a, b) => (a.consumer < b.consumer ? -1 : 1))
    return asStatus(sorted, await this.#rows(overview.statusRelays), workers)
  }

  async #receipts(consumer: string): Promise<Pick<ConsumerStatus, 'receipts' | 'moreReceipts'>> {
    const counted = await this.#rows(this.#dialect.overview.receiptCount(consumer, COUNTED_RECEIPTS + 1))
    const count = Number(counted[0]?.['count'] ?? 0)
    return { receipts: Math.min(count, COUNTED_RECEIPTS), moreReceipts: count > COUNTED_RECEIPTS }
  }

  async trace(id: string, source?: string, scan = false): Promise<readonly Trace[]> {
    const { overview } = this.#dialect
    const byId = await this.#traces(overview.traceId(id))
    const others = scan ? await this.#traces(overview.traceAll(id)) : await this.#byKey(id, source, byId)
    const found = [...byId, ...others, ...(await this.#effects(id, others))]
    return found
      .filter((trace) => source === undefined || trace.source === source)
      .sort((a, b) => a.at.getTime() - b.at.getTime())
  }

  async #byKey(id: string, source: string | undefined, byId: readonly Trace[]): Promise<readonly Trace[]> {
    const { overview } = this.#dialect
    const consumers = await this.#receiptConsumers()
    const found: Trace[] = []
    for (const keys of await this.#keys(id, source, byId, consumers)) {
      const receipts = consumers.map((consumer) => overview.traceReceipts(id, consumer, keys))
      found.push(...(await this.#traces([...receipts, ...overview.traceKeys(id, keys)])))
    }
    return found
  }

  /** The keys that the message may have. */
  async #keys(
    id: string,
    source: string | undefined,
    byId: readonly Trace[],
    consumers: readonly string[],
  ): Promise<readonly KeyRange[]> {
    if (source !== undefined) return [exactly(source, id)]
    const range = keyRange(id)
    if (range !== undefined) return [range]
    const { overview } = this.#dialect
    const sources = new Set(byId.map((trace) => trace.source))
    const samples = consumers.map((consumer) => overview.receiptSources(consumer, SAMPLE))
    for (const statement of [...samples, overview.otherSources(SAMPLE)])
      for (const row of await this.#rows(statement)) sources.add(asText(row['source']))
    return [...sources].map((each) => exactly(each, id))
  }

  /** The journals of the receipts that were found. */
  async #effects(id: string, found: readonly Trace[]): Promise<readonly Trace[]> {
    const effects: Trace[] = []
    for (const trace of found) {
      if (trace.where !== 'receipt') continue
      const { consumer, source, type } = trace
      const effectOf = { consumer, messageKey: messageKey(source, id) }
      for (const row of await this.#rows(this.#dialect.leases.effects(consumer, effectOf.messageKey))) {
        const effect = asEffect(effectOf, row)
        effects.push({ where: 'effect', consumer, source, type, at: effect.firstAt, effect })
      }
    }
    return effects
  }

  async #receiptConsumers(): Promise<readonly string[]> {
    return (await this.#rows(this.#dialect.overview.receiptConsumers)).map((row) => asText(row['consumer']))
  }

  async #traces(statements: readonly Statement[]): Promise<readonly Trace[]> {
    const traces: Trace[] = []
    for (const statement of statements) traces.push(...(await this.#rows(statement)).map(asTrace))
    return traces
  }

  async #rows(statement: Statement): Promise<readonly Row[]> {
    return (await this.#run(statement)).rows
  }
}

const NOTHING = { receipts: 0, moreReceipts: false, waiting: 0, retrying: 0, held: 0, failed: 0 } as const

function exactly(source: string, id: string): KeyRange {
  const key = messageKey(source, id)
  return { from: key, to: key }
}
