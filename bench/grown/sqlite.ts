import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { createHapax, silentLogger } from 'hapax'
import { sqlite } from 'hapax/sqlite'
import { CONSUMER, Counted } from '../rig.ts'
import type { GrownStore } from './grown.ts'
import { asGrown, rowsOf, stuckRowsOf, type Words } from './rows.ts'

const NOW = `cast(unixepoch('subsec') * 1000 as integer)`

const WORDS: Words = {
  numbers: (count) =>
    `(with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ${count}) select n from numbers)`,
  now: NOW,
  later: `${NOW} + 3600000`,
  daysAgo: (days) => `${NOW} - ${days * 86_400_000}`,
  key: (place) => `unhex(printf('%014x', unixepoch() * 1000000 + n + ${place}) || hex(randomblob(9)))`,
  id: 'lower(hex(randomblob(16)))',
  bytes: (hex) => `x'${hex}'`,
  text: (n) => `cast(cast(${n} as text) as blob)`,
  joined: (text, n) => `'${text}' || (${n})`,
  lane: (key) => `lane_of(${key})`,
  times: false,
}

/** Growth on SQLite. */
export const grownSqlite: GrownStore = {
  title: 'SQLite',
  async open(name, { many = false, ...options }) {
    const folder = mkdtempSync(join(tmpdir(), `${name}-`))
    const path = join(folder, 'hapax.db')
    const hapax = createHapax({ store: sqlite({ path }), source: '/bench', delivery: 'local', logger: silentLogger })
    await hapax.migrate()
    const db = new DatabaseSync(path, { timeout: 10_000 })
    db.function('lane_of', (key) => createHash('sha256').update(String(key)).digest().readUInt8(0) % 64)
    db.exec('create table business (id text not null, number integer not null) strict')
    const consumer = hapax.consumer(CONSUMER, options)
    const grown = asGrown({
      hapax,
      worker: () => hapax.worker({ consume: [consumer] }),
      run: async (text) => db.exec(text),
      first: async (text) => Number(Object.values(db.prepare(text).get() ?? {})[0]),
      rows: (backlog) => rowsOf(WORDS, backlog),
      stuckRows: (count, how) => stuckRowsOf(WORDS, count, how),
      words: WORDS,
      close: async () => {
        db.close()
        rmSync(folder, { recursive: true, force: true })
      },
    })
    const insert = 'insert into business (id, number) values (?, ?)'
    if (many) {
      consumer.onMany(Counted, async (items, { tx }) => {
        grown.firstCall ??= performance.now()
        for (const { message, data } of items) await tx.query(insert, [message.id, data])
      })
    } else {
      consumer.on(Counted, async (number, { tx, message }) => {
        grown.firstCall ??= performance.now()
        await tx.query(insert, [message.id, number])
      })
    }
    return grown
  },
}
