// What processes tell each other: that something was committed, for which consumers and relays, and in which lanes. It only saves the
// time until the next look; nothing depends on it.

import { type Clock, type Logger, pause } from '../base/index.ts'
import type { Origin, StoreNews } from '../contracts/index.ts'
import { asciiJson } from '../message/index.ts'
import type { Committed } from '../transaction/index.ts'

/** What was heard from another process. */
export interface Heard {
  /** Whether rows of this consumer or relay were committed; `owns` says whether rows of such lanes are wanted. */
  concerns(table: Origin, scope: string, owns: (said: (lane: number) => boolean) => boolean): boolean
}

/** Lanes by consumer, or by relay. */
type Lanes = Map<string, Set<number>>

/** What news need of their hapax. */
interface NewsOptions {
  readonly news: StoreNews | undefined
  readonly clock: Clock
  readonly logger: Logger
  /** Tells this process from others. */
  readonly from: string
}

/** Tells other processes what this one has committed, and its workers what others have. */
export class News {
  readonly #options: NewsOptions
  readonly #listeners = new Set<(heard: Heard) => void>()
  #unsaid: Unsaid | undefined
  #telling: Promise<void> | undefined
  #end: (() => Promise<void>) | undefined

  constructor(options: NewsOptions) {
    this.#options = options
  }

  /** Tells other processes about rows, or that anything may have changed. One text at a time: the next one has all that came meanwhile. */
  tell(rows: readonly Committed[] | undefined): void {
    const { news } = this.#options
    if (news === undefined || rows?.length === 0) return
    this.#unsaid ??= new Unsaid()
    this.#unsaid.add(rows)
    this.#telling ??= this.#tellAll(news).finally(() => {
      this.#telling = undefined
    })
  }

  /** Calls `wake` with what others say, until the function that it returns is called. */
  listen(wake: (heard: Heard) => void): () => Promise<void> {
    const { news, logger } = this.#options
    this.#listeners.add(wake)
    this.#end ??= news?.listen(
      (text) => this.#heard(text),
      (reason) => logger.debug({ reason }, 'no notifications from other processes: the worker only polls'),
    )
    return async () => {
      this.#listeners.delete(wake)
      if (this.#listeners.size > 0) return
      const end = this.#end
      this.#end = undefined
      await end?.()
    }
  }

  /** Says nothing more, and waits for what is being said. */
  async close(): Promise<void> {
    this.#unsaid = undefined
    await this.#telling
  }

  async #tellAll(news: StoreNews): Promise<void> {
    const { clock, logger, from } = this.#options
    // What is committed in the same moment is said together.
    await null
    try {
      for (let unsaid = this.#unsaid; unsaid !== undefined; unsaid = this.#unsaid) {
        this.#unsaid = undefined
        await news.tell(unsaid.text(from))
        // Every text makes workers look: what is committed one after the other is not worth a look each.
        await pause(clock, GAP_MS)
      }
    } catch (error) {
      this.#unsaid = undefined
      logger.debug({ error }, 'other processes could not be notified; they find what was committed by polling')
    }
  }

  #heard(text: string | undefined): void {
    const heard = text === undefined ? ANYTHING : heardOf(text, this.#options.from)
    if (heard !== undefined) for (const wake of this.#listeners) wake(heard)
  }
}

/** What has been committed and not been said. */
class Unsaid {
  readonly #rows: Readonly<Record<Origin, Lanes>> = { inbox: new Map(), outbox: new Map() }
  #anything = false

  add(rows: readonly Committed[] | undefined): void {
    if (rows === undefined) this.#anything = true
    else for (const { table, scope, lane } of rows) lanesIn(this.#rows[table], scope).add(lane)
  }

  text(from: string): string {
    const { inbox, outbox } = this.#rows
    const text = asciiJson(JSON.stringify({ from, inbox: listed(inbox), outbox: listed(outbox) }))
    return this.#anything || text.length > MOST ? JSON.stringify({ from }) : text
  }
}

function lanesIn(lanes: Lanes, scope: string): Set<number> {
  const known = lanes.get(scope) ?? new Set()
  lanes.set(scope, known)
  return known
}

function listed(lanes: Lanes): Readonly<Record<string, readonly number[]>> {
  return Object.fromEntries([...lanes].map(([scope, own]) => [scope, [...own]]))
}

/** What another process said. Undefined: it was this one. A text that cannot be read may mean anything. */
function heardOf(text: string, own: string): Heard | undefined {
  try {
    const { from, inbox, outbox }: Said = JSON.parse(text)
    if (from === own) return undefined
    if (inbox === undefined || outbox === undefined) return ANYTHING
    const said = { inbox: new Map(Object.entries(inbox)), outbox: new Map(Object.entries(outbox)) }
    return {
      concerns: (table, scope, owns) => {
        const told = said[table].get(scope)
        return told !== undefined && owns((lane) => told.includes(lane))
      },
    }
  } catch {
    return ANYTHING
  }
}

interface Said {
  readonly from?: unknown
  readonly inbox?: Readonly<Record<string, readonly number[]>>
  readonly outbox?: Readonly<Record<string, readonly number[]>>
}

const ANYTHING: Heard = { concerns: () => true }
/** The longest text, below what PostgreSQL takes. */
const MOST = 7_000
const GAP_MS = 10
