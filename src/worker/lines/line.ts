import { present } from '../../base/index.ts'
import type { Entry, Look, Share, StoreWorkers } from '../../contracts/index.ts'

/**
 * A queue that a worker moves: the inbox of a consumer, or the outbox of a relay. The worker looks for all its lines with one statement,
 * offers each what was found, and lets it begin.
 */
export interface Line {
  /** What to look at now; nothing while there is no room. */
  shares(): readonly Share[]
  /** Takes rows that were found, one look per share. Returns whether it took any. `elsewhere`: the rows that other workers have recorded. */
  offer(looks: readonly Look[], elsewhere: ReadonlySet<string>): boolean
  /** Whether overdue rows of other workers' lanes were found, so that the caller has to list what those have recorded and whether they live. */
  reaches(looks: readonly Look[]): boolean
  /** Whether the store has to be asked, before the offer, which types other processes handle by name. */
  mustAsk?(looks: readonly Look[]): boolean
  /** Begins with what it has in hand, as far as there are places. */
  begin(): void
  /** Keys are looked at page by page: whether there are more pages. */
  readonly unfinished: boolean
  /** Whether nothing is in hand. */
  readonly idle: boolean
  /** In how many milliseconds to look again at the latest, if the line knows of a row that becomes due. */
  readonly nextMs: number | undefined
  /** The rows of all workers, for `drain`: one share, or the part of it behind these keys. */
  allShares(after: ReadonlyMap<number, string>): readonly [Share]
  /** Whether an entry of `allShares` is due now, for any worker. */
  isDue(entry: Entry): boolean
  /** Gives back what has not begun. */
  drop(): void
  /** What has begun. */
  readonly running: readonly Promise<void>[]
}

/** How many rows of all workers one look lists. */
export const DRAIN_LIMIT = 1_000

/** Whether nothing is due in these lines for any worker. Looks at all lanes, page by page. */
export async function isDrained(workers: Pick<StoreWorkers, 'look'>, lines: readonly Line[]): Promise<boolean> {
  let open = lines.map((line) => ({ line, after: NO_KEYS }))
  while (open.length > 0) {
    const looks = await workers.look(open.flatMap(({ line, after }) => line.allShares(after)))
    const found = open.map(({ line }, index) => ({ line, look: present(looks[index], 'a look at each share') }))
    if (found.some(({ line, look }) => look.entries.some((entry) => line.isDue(entry) && isHead(entry, look)))) {
      return false
    }
    open = found.map(({ line, look }) => ({ line, after: look.after })).filter(({ after }) => after.size > 0)
  }
  return true
}

const NO_KEYS: Look['after'] = new Map()

/** Whether an entry is the first of its key. One behind another message is not due, whatever its time says. */
function isHead(entry: Entry, { entries }: Look): boolean {
  return entry.key === null || entries.find((each) => each.key === entry.key) === entry
}
