import { DatabaseSync } from 'node:sqlite'
import { laneOfKey } from '../../src/message/lanes.ts'
import type { Checker } from './databases.ts'

/** How a database writes what the tables are filled with. */
interface Words {
  readonly tables: string
  /** Rows with a column n from 1 on: enough for a planner that looks at sizes. */
  readonly numbers: string
  readonly now: string
  readonly uuid: string
  readonly bytes: (text: string) => string
  readonly lane: (key: string) => string
  readonly yes: string
  readonly text: (n: string) => string
  readonly key: string
  readonly hex: string
}

const DIGITS =
  '(select 0 as d union all select 1 union all select 2 union all select 3 union all select 4 union all select 5 union all select 6 union all select 7 union all select 8 union all select 9)'

function wordsOf({ place }: Checker): Words {
  if (place.store === 'postgres')
    return {
      tables: `${place.schema}.`,
      numbers: 'generate_series(1, 50000) as g (n)',
      now: 'clock_timestamp()',
      uuid: 'gen_random_uuid()',
      bytes: (text) => `convert_to(${text}, 'UTF8')`,
      lane: (key) => `get_byte(sha256(convert_to(${key}, 'UTF8')), 0) % 64`,
      yes: 'true',
      text: (n) => `(${n})::text`,
      key: 'key',
      hex: `'\\x0011223344556677'`,
    }
  if (place.store === 'mysql')
    return {
      tables: 'hapax_',
      numbers: `(select 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d as n
  from ${DIGITS} as a, ${DIGITS} as b, ${DIGITS} as c, ${DIGITS} as e, (select 0 as d union all select 1) as f) as g`,
      now: 'utc_timestamp(6)',
      uuid: 'unhex(left(sha2(concat(n, rand()), 256), 32))',
      bytes: (text) => text,
      lane: (key) => `conv(left(sha2(${key}, 256), 2), 16, 10) % 64`,
      yes: '1',
      text: (n) => `cast(${n} as char)`,
      key: '`key`',
      hex: `x'0011223344556677'`,
    }
  return {
    tables: 'hapax_',
    numbers: '(with recursive g (n) as (select 1 union all select n + 1 from g where n < 20000) select n from g)',
    now: `cast(unixepoch('subsec') * 1000 as integer)`,
    uuid: 'randomblob(16)',
    bytes: (text) => `cast(${text} as blob)`,
    lane: (key) => `lane_of(${key})`,
    yes: '1',
    text: (n) => `cast(${n} as text)`,
    key: 'key',
    hex: `x'0011223344556677'`,
  }
}

/** Very many rows in every table that grows: for a consumer with order and one without, and one that is gone. */
export async function fillTables(checker: Checker): Promise<void> {
  const w = wordsOf(checker)
  const mysql = checker.place.store === 'mysql'
  const created = mysql ? ', created_at' : ''
  const now = mysql ? `, ${w.now}` : ''
  const concat = (prefix: string, n: string): string =>
    mysql ? `concat('${prefix}', ${n})` : `('${prefix}' || ${w.text(`(${n})`)})`
  const half = mysql ? 'n div 2' : 'n / 2'
  const message = `${w.uuid}, '/sender', ${concat('id ', 'n')}, 'grown'`
  const rest = `'{}', ${w.bytes(w.text('n % 1000'))}, ${w.hex}`
  const columns = `message_key, source, id, type, ${w.key}, attributes, data, fingerprint`
  const queue = (table: string, scope: string, name: string, key: string | null): string =>
    `insert into ${w.tables}${table} (${scope}, ${columns}, available_at, lane${table === 'inbox' ? ', ordered' : ''}${created})
select '${name}', ${message}, ${key ?? 'null'}, ${rest}, ${w.now}, ${key === null ? 'n % 64' : w.lane(key)}${
      table === 'inbox' ? `, ${key === null ? `not ${w.yes}` : w.yes}` : ''
    }${now} from ${w.numbers}`
  const receipts = (consumer: string): string =>
    `insert into ${w.tables}receipts (consumer, message_key, token, source, id, type, fingerprint${mysql ? ', taken_at' : ''})
select '${consumer}', ${w.uuid}, ${w.uuid}, '/sender', ${concat('id ', 'n')}, 'grown', ${w.hex}${now} from ${w.numbers}`
  const statements = [
    queue('inbox', 'consumer', 'gone', null),
    queue('inbox', 'consumer', 'loose', null),
    queue('inbox', 'consumer', 'keyed', concat('key ', half)),
    queue('outbox', 'relay', 'gone', null),
    queue('outbox', 'relay', 'default', concat('key ', half)),
    receipts('gone'),
    receipts('loose'),
    `insert into ${w.tables}failed (consumer, ${columns}, attempts, reason, error${mysql ? ', failed_at' : ''})
select 'gone', ${message}, null, ${rest}, 1, 'permanent', '{"name":"Error","message":"no"}'${now} from ${w.numbers}`,
    `insert into ${w.tables}sent (relay, ${columns}${mysql ? ', sent_at' : ''})
select 'gone', ${message}, null, ${rest}${now} from ${w.numbers}`,
    `insert into ${w.tables}audit (action, actor${mysql ? ', at' : ''}) select 'test', 'test'${now} from ${w.numbers}`,
  ]
  await run(checker, statements)
  if (checker.place.store === 'postgres') await checker.query('analyze')
  if (mysql) for (const table of LARGE) await checker.query(`analyze table ${w.tables}${table}`)
}

/** SQLite cannot compute a lane in SQL. */
async function run(checker: Checker, statements: readonly string[]): Promise<void> {
  if (checker.place.store !== 'sqlite') {
    for (const statement of statements) await checker.query(statement)
    return
  }
  const client = new DatabaseSync(checker.place.url)
  client.function('lane_of', { deterministic: true }, (key) => laneOfKey(String(key)))
  for (const statement of statements) client.exec(statement)
  client.close()
}

/** The tables that grow. */
export const LARGE = ['receipts', 'inbox', 'outbox', 'failed', 'sent', 'audit'] as const
