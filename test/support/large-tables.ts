import { DatabaseSync } from 'node:sqlite'
import { laneOfKey } from '../../src/message/lanes.ts'
import type { Checker } from './databases.ts'

/** How a database writes what the tables are filled with. */
interface Words {
  readonly tables: string
  /** So many rows with a column n from 1 on. */
  readonly numbers: (rows: number) => string
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
      numbers: (rows) => `generate_series(1, ${rows}) as g (n)`,
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
      numbers: (rows) => `(select 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d + 100000 * h.d as n
  from ${DIGITS} as a, ${DIGITS} as b, ${DIGITS} as c, ${DIGITS} as e, ${DIGITS} as f, ${DIGITS} as h having n <= ${rows}) as g`,
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
    numbers: (rows) =>
      `(with recursive g (n) as (select 1 union all select n + 1 from g where n < ${rows}) select n from g)`,
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

/**
 * Very many rows in every table that grows: for a consumer with order and one without, and one that is gone. With `prefix` all of them
 * are those of others.
 */
export async function fillTables(checker: Checker, rows: number, prefix = ''): Promise<void> {
  const w = wordsOf(checker)
  const numbers = w.numbers(rows)
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
    }${now} from ${numbers}`
  const receipts = (consumer: string): string =>
    `insert into ${w.tables}receipts (consumer, message_key, token, source, id, type, fingerprint${mysql ? ', taken_at' : ''})
select '${consumer}', ${w.uuid}, ${w.uuid}, '/sender', ${concat('id ', 'n')}, 'grown', ${w.hex}${now} from ${numbers}`
  const failed = (consumer: string): string =>
    `insert into ${w.tables}failed (consumer, ${columns}, attempts, reason, error${mysql ? ', failed_at' : ''})
select '${consumer}', ${message}, null, ${rest}, 1, 'permanent', '{"name":"Error","message":"no"}'${now} from ${numbers}`
  const sent = (relay: string): string =>
    `insert into ${w.tables}sent (relay, ${columns}${mysql ? ', sent_at' : ''})
select '${relay}', ${message}, null, ${rest}${now} from ${numbers}`
  const effects = (consumer: string): string =>
    `insert into ${w.tables}effects (consumer, message_key, name, token, state, attempts, place${mysql ? ', first_at, last_at' : ''})
select '${consumer}', ${w.uuid}, 'call', ${w.uuid}, 'done', 1, 0${now}${now} from ${numbers}`
  // All of them have expired.
  const responses = (consumer: string): string =>
    `insert into ${w.tables}responses (consumer, message_key, id, status, headers, body, expires_at${created})
select consumer, message_key, id, 201, '[]', fingerprint, ${w.now}${now} from ${w.tables}receipts where consumer = '${consumer}'`
  const [gone, loose, keyed, relay] = ['gone', 'loose', 'keyed', 'default'].map((name) => `${prefix}${name}`) as Four
  const web = `${prefix}http:orders`
  const statements = [
    queue('inbox', 'consumer', gone, null),
    queue('inbox', 'consumer', loose, null),
    queue('inbox', 'consumer', keyed, concat('key ', half)),
    queue('outbox', 'relay', gone, null),
    queue('outbox', 'relay', relay, null),
    queue('outbox', 'relay', relay, concat('key ', half)),
    ...[gone, loose, web].flatMap((consumer) => [receipts(consumer), effects(consumer)]),
    ...[failed(gone), sent(gone), sent(relay), responses(web)],
    `insert into ${w.tables}audit (action, actor${mysql ? ', at' : ''}) select 'test', 'test'${now} from ${numbers}`,
  ]
  await run(checker, statements)
}

/**
 * What the planner of a database knows of the tables: what they are like now, what they were like when they had a few rows of others, or
 * nothing.
 */
export type Statistics = 'new' | 'old' | 'none'

/** What the planner may know. MariaDB and MySQL always learn something. */
export function statisticsOf({ place }: Checker): readonly Statistics[] {
  return place.store === 'postgres' ? ['old', 'none', 'new'] : ['old', 'new']
}

/** Makes the planner know a few rows of consumers and relays that are not those of the test. */
export async function knowFewRows(checker: Checker): Promise<void> {
  const { tables } = wordsOf(checker)
  const { store } = checker.place
  for (const table of LARGE) {
    // It would learn more by itself, sooner or later.
    if (store === 'postgres') await checker.query(`alter table ${tables}${table} set (autovacuum_enabled = off)`)
    if (store === 'mysql') await checker.query(`alter table ${tables}${table} stats_auto_recalc = 0`)
  }
  await fillTables(checker, 20, 'before')
  await analyze(checker)
}

/** Makes the planner know this from now on. */
export async function know(checker: Checker, statistics: Statistics): Promise<void> {
  if (statistics === 'new') await analyze(checker)
  if (statistics === 'none') await forget(checker)
}

async function analyze(checker: Checker): Promise<void> {
  const { tables } = wordsOf(checker)
  const word = checker.place.store === 'mysql' ? 'analyze table' : 'analyze'
  for (const table of LARGE) await checker.query(`${word} ${tables}${table}`)
}

async function forget(checker: Checker): Promise<void> {
  const { store, schema } = checker.place
  if (store !== 'postgres') return
  const own = `select oid from pg_class where relnamespace = '${schema}'::regnamespace`
  await checker.query(`delete from pg_statistic where starelid in (${own})`)
  await checker.query(`update pg_class set reltuples = -1, relpages = 0 where oid in (${own})`)
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
export const LARGE = ['receipts', 'inbox', 'outbox', 'failed', 'sent', 'audit', 'effects', 'responses'] as const

type Four = [string, string, string, string]
