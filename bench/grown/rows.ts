import type { AnyRig, Fill } from '../rig.ts'
import { CONSUMER, Counted } from '../rig.ts'
import type { GrownRig, Stuck } from './grown.ts'

/** How a database writes what the tables are filled with. */
export interface Words {
  /** A table with a column n from 1 to `count`. */
  numbers(count: number): string
  readonly now: string
  readonly later: string
  daysAgo(days: number): string
  /** A message key; those of a later place are larger. */
  key(place: number): string
  readonly id: string
  bytes(hex: string): string
  text(n: string): string
  joined(text: string, n: string): string
  lane(key: string): string
  /** Whether the times at which rows are written have to be given. */
  readonly times: boolean
}

const MESSAGE = 'message_key, source, id, type, attributes, data, fingerprint'
const FINGERPRINT = '0011223344556677'
const ATTRIBUTES = '{"time":"2026-01-01T00:00:00.000Z","datacontenttype":"application/json"}'

/** Inbox rows and their receipts, as `publish` writes them under local delivery; the data is the number of the message. */
export function rowsOf(words: Words, { count, order, unserved = false }: Fill): readonly string[] {
  const { now, id, times } = words
  const key = { 'one held key': `'held'`, 'many keys': words.joined('key ', 'n % 1000') }
  const type = unserved ? `${Counted.type}-elsewhere` : Counted.type
  const ordered = order === undefined ? 0 : 1
  const held = order === 'one held key' ? `case when n = 1 then ${now} end` : 'null'
  const lane = order === undefined ? 'n % 64' : words.lane(key[order])
  return [
    `insert into hapax_inbox (consumer, ${MESSAGE}, available_at, lane, ordered, held_at, ${words.times ? '`key`, created_at' : 'key'})
select '${CONSUMER}', ${words.key(0)}, '/bench', ${id}, '${type}', '${ATTRIBUTES}', ${words.text('n')}, ${words.bytes(FINGERPRINT)},
  ${now}, ${lane}, ${ordered}, ${held}, ${order === undefined ? 'null' : key[order]}${times ? `, ${now}` : ''}
from ${words.numbers(count)} order by n`,
    `insert into hapax_receipts (consumer, message_key, token, source, id, type, fingerprint${times ? ', taken_at' : ''})
select consumer, message_key, message_key, source, id, type, fingerprint${times ? `, ${now}` : ''} from hapax_inbox as i
where not exists (select 1 from hapax_receipts as r where r.consumer = i.consumer and r.message_key = i.message_key)
order by seq`,
  ]
}

/** Two messages for each of many keys, of which the first one cannot run. Held rows stand aside, as a hold puts them. */
export function stuckRowsOf(words: Words, count: number, how: Stuck): readonly string[] {
  const { now, id, times } = words
  const key = words.joined('stuck ', 'n')
  return [1, 2].map((nth) => {
    const held = how === 'held' && nth === 1
    const due = how === 'waiting' && nth === 1 ? words.later : now
    return `insert into hapax_inbox (consumer, ${MESSAGE}, available_at, lane, ordered, held_at, aside, ${words.times ? '`key`, created_at' : 'key'})
select '${CONSUMER}', ${words.key(nth)}, '/bench', ${id}, '${Counted.type}', '${ATTRIBUTES}', ${words.text('1')}, ${words.bytes(FINGERPRINT)},
  ${due}, ${words.lane(key)}, 1, ${held ? now : 'null'}, ${held ? 1 : 0}, ${key}${times ? `, ${now}` : ''}
from ${words.numbers(count)} order by n`
  })
}

const BATCH = 500_000

/** What a store knows of its database, for a rig. */
interface Ways extends Pick<AnyRig, 'hapax' | 'worker'> {
  run(text: string): Promise<void>
  /** The only value that a statement returns. */
  first(text: string): Promise<number>
  rows(backlog: Fill): readonly string[]
  stuckRows(count: number, how: Stuck): readonly string[]
  readonly words: Words
  close(): Promise<void>
}

/** A rig on a database with the tables of MariaDB or SQLite. */
export function asGrown({
  hapax,
  worker,
  run,
  first,
  rows,
  stuckRows,
  words,
  close,
}: Ways & { hapax: { close(): Promise<void> } }): GrownRig {
  const all = async (texts: readonly string[]): Promise<void> => {
    for (const text of texts) await run(text)
  }
  return {
    hapax,
    worker,
    firstCall: undefined,
    fill: (backlog) => all(rows(backlog)),
    fillStuck: (count, how) => all(stuckRows(count, how)),
    async fillReceipts(count, days, written) {
      for (let done = 0; done < count; done += BATCH) {
        await run(`
insert into hapax_receipts (consumer, message_key, token, source, id, type, fingerprint, taken_at)
select '${CONSUMER}', ${words.key(done)}, ${words.bytes('00'.repeat(16))}, '/bench', ${words.id}, '${Counted.type}',
  ${words.bytes(FINGERPRINT)}, ${words.daysAgo(days)} from ${words.numbers(BATCH)} order by n`)
        written(done + BATCH)
      }
    },
    hasStuckInFront: async () =>
      (await first('select exists (select 1 from hapax_inbox where ordered = 1 and aside = 0)')) === 1,
    effects: () => first('select count(distinct id) from business'),
    tidy: async () => {},
    async close() {
      await hapax.close()
      await close()
    },
  }
}
