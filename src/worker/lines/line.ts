import { present } from '../../base/index.ts'
import type { Entry, Look, Share, StoreWorkers } from '../../contracts/index.ts'

/** Something that a worker moves: the inbox of a consumer, or the outbox of a relay. */
export interface Line {
  /** What to look at now; nothing while there is no room. */
  shares(): readonly Share[]
  /** Takes up what was found, one look per share. Answers whether it took anything into hand. */
  offer(looks: readonly Look[]): boolean
  /** Begins with what it has in hand, as far as there are places. */
  begin(): void
  /** Keys are looked at page by page: whether there are more of them. */
  readonly unfinished: boolean
  /** Whether nothing is in hand. */
  readonly idle: boolean
  /** When to look again at the latest, because of what it knows itself: milliseconds. */
  readonly nextMs: number | undefined
  /** Everybody's rows, to find out whether anything is left: one share, or what is left of it behind these keys. */
  allShares(after: ReadonlyMap<number, string>): readonly [Share]
  /** Whether an entry of `allShares` is work to be done now, by whomever. */
  isDue(entry: Entry): boolean
  /** Gives back what has not begun. */
  drop(): void
  /** What has begun. */
  readonly running: readonly Promise<void>[]
}

/** How much one look lists of everybody's rows. */
export const DRAIN_LIMIT = 1_000

/** Whether nothing is due in these lines, for anybody: looks at everybody's lanes, page by page. */
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

/** What stands behind another message of its key is not due, whatever its time says. */
function isHead(entry: Entry, { entries }: Look): boolean {
  return entry.key === null || entries.find((each) => each.key === entry.key) === entry
}
