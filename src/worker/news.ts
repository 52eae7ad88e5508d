// What processes tell each other: which rows they have committed. It only saves the time until the next look; nothing depends on it.

import { type Clock, type Logger, pause, within } from '../base/index.ts'
import type { Entry, StoreNews } from '../contracts/index.ts'
import { asciiJson, isSeq } from '../message/index.ts'
import type { Committed } from '../transaction/index.ts'

/** What news need of their hapax. */
interface NewsOptions {
  readonly news: StoreNews | undefined
  readonly clock: Clock
  readonly logger: Logger
  /** Tells this process from others. */
  readonly from: string
}

/** Is called with rows that another process has committed; undefined: there may be any. */
type Wake = (rows: readonly Committed[] | undefined) => void

/** Tells other processes what this one has committed, and its workers what others have. */
export class News {
  readonly #options: NewsOptions
  readonly #listeners = new Set<Wake>()
  /** What has not been said yet; undefined: nothing. */
  #unsaid: { rows: Committed[] | undefined } | undefined
  #telling: Promise<void> | undefined
  readonly #closing = new AbortController()
  #end: (() => Promise<void>) | undefined

  constructor(options: NewsOptions) {
    this.#options = options
  }

  /** Tells other processes about rows; undefined: there may be any. One text at a time: the next one has all that came meanwhile. */
  tell(rows: readonly Committed[] | undefined): void {
    const { news } = this.#options
    if (news === undefined || rows?.length === 0) return
    this.#unsaid ??= { rows: [] }
    if (rows === undefined || (this.#unsaid.rows?.length ?? 0) > MOST_ROWS) this.#unsaid.rows = undefined
    else this.#unsaid.rows?.push(...rows)
    this.#telling ??= this.#tellAll(news).finally(() => {
      this.#telling = undefined
    })
  }

  /** Calls `wake` with what others say, until the function that it returns is called. */
  listen(wake: Wake): () => Promise<void> {
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

  /** Says what has not been said yet, and waits for it, but not for long. */
  async close(): Promise<void> {
    this.#closing.abort()
    if (this.#telling !== undefined) await within(this.#options.clock, CLOSE_MS, this.#telling, () => {})
  }

  async #tellAll(news: StoreNews): Promise<void> {
    const { clock, logger, from } = this.#options
    // What is committed in the same moment is said together.
    await null
    try {
      for (let unsaid = this.#unsaid; unsaid !== undefined; unsaid = this.#unsaid) {
        this.#unsaid = undefined
        await news.tell(newsText(from, unsaid.rows))
        // Every text wakes workers: what is committed one after the other is not worth a text each.
        await pause(clock, GAP_MS, this.#closing.signal)
      }
    } catch (error) {
      this.#unsaid = undefined
      logger.debug({ error }, 'other processes could not be notified; they find what was committed by polling')
    }
  }

  #heard(text: string | undefined): void {
    const said = text === undefined ? {} : readNews(text)
    if (said.from === this.#options.from) return
    for (const wake of this.#listeners) wake(said.rows)
  }
}

/**
 * Rows as text: in full, as locations only, or not at all, depending on what fits. Rows with a key are sent as locations only, because the
 * database may log the text, and a key may be a customer number.
 */
export function newsText(from: string, rows: readonly Committed[] | undefined): string {
  if (rows !== undefined) {
    const whole = rows.filter(({ entry }) => entry?.key === null)
    const others = rows.filter(({ entry }) => entry?.key !== null)
    for (const said of [[...whole, ...placesOf(others)], placesOf(rows)]) {
      const text = asciiJson(JSON.stringify({ from, rows: said }))
      if (text.length <= MOST_BYTES) return text
    }
  }
  return JSON.stringify({ from })
}

function placesOf(rows: readonly Committed[]): readonly Committed[] {
  const places = rows.map(
    ({ table, scope, lane }) => [JSON.stringify([table, scope, lane]), { table, scope, lane }] as const,
  )
  return [...new Map(places).values()]
}

/** What a text says. One that cannot be read may mean anything. */
export function readNews(text: string): { readonly from?: unknown; readonly rows?: readonly Committed[] } {
  try {
    const { from, rows }: { from?: unknown; rows?: unknown } = JSON.parse(text)
    return Array.isArray(rows) && rows.every(isCommitted) ? { from, rows } : { from }
  } catch {
    return {}
  }
}

/** Another version of hapax may have written something else. */
function isCommitted(row: Committed): boolean {
  const { table, scope, lane, entry } = row ?? {}
  if (!(table === 'inbox' || table === 'outbox') || typeof scope !== 'string' || typeof lane !== 'number') return false
  return entry === undefined || isEntry(entry)
}

function isEntry({ seq, type, lane, key, bytes, dueMs }: Entry): boolean {
  const texts = isSeq(seq) && typeof type === 'string' && key === null
  return texts && [lane, bytes, dueMs].every((number) => typeof number === 'number')
}

/** The longest text, below what PostgreSQL takes. */
const MOST_BYTES = 7_000
/** With more rows, everybody looks. */
const MOST_ROWS = 500
const GAP_MS = 10
/** How long closing waits for what is being said. */
const CLOSE_MS = 1_000
