import type { Entry, Look, StoreWorkers } from '../contracts/index.ts'
import type { Line } from './lines/line.ts'

/** Whether nothing is due in these lines, for anybody: looks at everybody's lanes, page by page. */
export async function isDrained(workers: Pick<StoreWorkers, 'look'>, lines: readonly Line[]): Promise<boolean> {
  let open = lines.map((line) => ({ line, after: NO_KEYS }))
  while (open.length > 0) {
    const looks = await workers.look(open.flatMap(({ line, after }) => line.allShares(after)))
    const found = open.map(({ line }, index) => ({ line, look: looks[index] as Look }))
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
