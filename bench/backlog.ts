import type pg from 'pg'

/** Messages that wait in the inbox of a consumer. */
export interface Backlog {
  readonly schema: string
  readonly consumer: string
  readonly type: string
  readonly count: number
  /** Which messages of the consumer have order: those of one key, whose first is held, or of many keys. */
  readonly order?: 'one held key' | 'many keys'
  /** They are of a type that the consumer does not handle here. @default false */
  readonly unserved?: boolean
}

/**
 * Writes receipts and inbox rows as `publish` does under local delivery, a million in seconds. The data is the number of the
 * message. The one place in the benchmark that knows these columns.
 */
export async function fillInbox(pool: pg.Pool, backlog: Backlog): Promise<void> {
  const { schema, consumer, type, count, order, unserved = false } = backlog
  const key = { 'one held key': `'held'`, 'many keys': `'key ' || n % 1000` }
  const lane = { 'one held key': '7', 'many keys': 'n % 1000 % 64' }
  await pool.query(
    `
with m as (
  select n, ${uuidOf('n')} as message_key, gen_random_uuid()::text as id from generate_series(1, $3::integer) as n
), receipt as (
  insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
  select $1::text, message_key, gen_random_uuid(), '/bench', id, $2::text, '\\x0011223344556677'::bytea from m
)
insert into ${schema}.inbox (consumer, message_key, source, id, type, key, attributes, data, fingerprint, available_at,
  lane, ordered, held_at)
select $1::text, message_key, '/bench', id, $2::text, ${order ? key[order] : 'null'},
  '{"time":"2026-01-01T00:00:00.000Z","datacontenttype":"application/json"}', convert_to(n::text, 'UTF8'),
  '\\x0011223344556677', clock_timestamp(), ${order ? lane[order] : 'n % 64'}, ${order !== undefined},
  ${order === 'one held key' ? 'case when n = 1 then clock_timestamp() end' : 'null'}
from m order by n`,
    [consumer, unserved ? `${type}-elsewhere` : type, count],
  )
  await pool.query(`vacuum analyze ${schema}.inbox, ${schema}.receipts`)
}

/**
 * Writes two messages for each of many keys, of which the first one is held, or waits for its next attempt. Held rows stand aside,
 * as a hold puts them; the others are as they were stored.
 */
export async function fillStuck(
  pool: pg.Pool,
  { schema, consumer, type, count }: Backlog,
  how: 'held' | 'waiting',
): Promise<void> {
  const held = how === 'held' ? 'nth = 1' : 'false'
  await pool.query(
    `
insert into ${schema}.inbox (consumer, message_key, source, id, type, key, attributes, data, fingerprint, available_at,
  lane, ordered, held_at, aside)
select $1::text, ${uuidOf('n')}, '/bench', gen_random_uuid()::text, $2::text, 'stuck ' || n, '{}', '1', '\\x0011223344556677',
  clock_timestamp() + case when nth = 1 and not ${how === 'held'} then interval '1 hour' else interval '0' end, n % 64, true,
  case when ${held} then clock_timestamp() end, ${held}
from generate_series(1, $3::integer) as n, generate_series(1, 2) as nth order by nth, n`,
    [consumer, type, count],
  )
  await pool.query(`vacuum analyze ${schema}.inbox`)
}

/** Writes receipts of messages that were finished long ago; the index is built at the end. */
export async function fillReceipts(
  pool: pg.Pool,
  { schema, consumer, type, count }: Backlog,
  days: number,
  written: (count: number) => void,
): Promise<void> {
  await pool.query(`alter table ${schema}.receipts drop constraint hapax_receipts_key`)
  for (let done = 0; done < count; done += BATCH) {
    const batch = Math.min(BATCH, count - done)
    await pool.query(
      `
insert into ${schema}.receipts (taken_at, consumer, message_key, token, source, id, type, fingerprint)
select now() - $4::integer * interval '1 day', $1::text, ${uuidOf('n')}, gen_random_uuid(), '/bench',
  gen_random_uuid()::text, $2::text, '\\x0011223344556677' from generate_series(1, $3::integer) as n`,
      [consumer, type, batch, days],
    )
    written(done + batch)
  }
  const key = 'constraint hapax_receipts_key primary key (consumer, message_key)'
  await pool.query(`alter table ${schema}.receipts add ${key}`)
  await pool.query(`vacuum analyze ${schema}.receipts`)
  await pool.query('checkpoint')
}

const BATCH = 1_000_000

/** Keys that rise as those of UUIDv7 ids do, so that the index grows at its end. */
function uuidOf(n: string): string {
  return `(lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0') || '8' || substr(md5(${n}::text || random()::text), 1, 19))::uuid`
}

/** Writes failed messages of a consumer, of many types and errors, with their receipts. */
export async function fillFailed(pool: pg.Pool, { schema, consumer, type, count }: Backlog): Promise<void> {
  await pool.query(
    `
insert into ${schema}.failed (failed_at, consumer, message_key, source, id, type, attributes, data, fingerprint, attempts, reason,
  error, error_hash)
select clock_timestamp() - n * interval '100 milliseconds', $1::text, ${uuidOf('n')}, '/bench', gen_random_uuid()::text,
  $2::text || n % 7, '{"datacontenttype":"application/json"}', convert_to(n::text, 'UTF8'), '\\x0011223344556677', 10,
  case when n % 3 = 0 then 'permanent' else 'attempts' end, '{"name":"Error","message":"no route to host ' || n % 20 || '"}',
  'hash ' || n % 20
from generate_series(1, $3::integer) as n`,
    [consumer, type, count],
  )
  await pool.query(`vacuum analyze ${schema}.failed`)
}
