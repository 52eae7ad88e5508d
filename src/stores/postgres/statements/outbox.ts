// The outbox, relays and sent messages on PostgreSQL. A row leaves the outbox only after the broker has confirmed the message; rows
// that another relay has locked are skipped, not waited for.

import type { Param, SentWhere } from '../../../contracts/index.ts'
import { encodeText, laneOf } from '../../../message/index.ts'
import {
  errorJson,
  type OutboxStatements,
  type RelayStatements,
  type SentStatements,
  type Sql,
  statement,
} from '../../sql/index.ts'
import { array } from '../literal.ts'
import { AGO, AT, COLUMNS, DUE_IN, ENTERED, HISTORY, LATER, MS, ROW_MESSAGE, ROWS, SEQ } from './fragments.ts'
import { encoded, messageArrays, named, numberOrNull, one } from './rows.ts'

const SENT_WHERE = `(values ($1::text, $2::text, $3::float8, $4::float8, $5::float8, $6::float8))
  as f (relay, type, older, newer, since, until)
where (f.relay is null or m.relay = f.relay) and (f.type is null or m.type = f.type)
  and (f.older is null or m.sent_at < ${AGO('f.older')}) and (f.newer is null or m.sent_at >= ${AGO('f.newer')})
  and (f.since is null or m.sent_at >= ${AT('f.since')}) and (f.until is null or m.sent_at < ${AT('f.until')})`

/** A message as a relay reads it. */
const MESSAGE = `${SEQ('outbox')} as seq, source, id, type, key, attributes, data, attempts`
/** How long ago a row was due first. Once a broker did not take it, that is not known any more, but when it was written is. */
const AGE = `${MS('clock_timestamp() - case when attempts = 0 then available_at else created_at end')} as age_ms`

/** What waits for brokers. */
export function outbox(schema: string): OutboxStatements {
  const insertOutboxText = `
insert into ${schema}.outbox
  (relay, message_key, source, id, type, key, attributes, data, fingerprint, available_at, lane)
select m.relay, m.message_key, m.source, m.id, m.type, nullif(m.key, ''), m.attributes, m.data,
  decode(m.fingerprint, 'hex'), ${LATER('m.delay_ms')}, m.lane
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::float8[], $11::text::smallint[])
  with ordinality as m (relay, message_key, source, id, type, key, attributes, data, fingerprint, delay_ms, lane, place)
where ${ENTERED('$12')}
order by m.place`
  const reading = (columns: string): Sql<[seqs: readonly string[]]> =>
    statement(
      `
select ${columns} from ${schema}.outbox
where ${ROWS('$1', '$2')} order by outbox.seq`,
      (seqs) => named(seqs),
    )
  const [read, readAged] = [reading(MESSAGE), reading(`${MESSAGE}, ${AGE}`)]
  const postponeText = `
update ${schema}.outbox set attempts = attempts + 1, ${DUE_IN('m.delay_ms')}, error = m.error,
  failures = failures + 1, history = ${HISTORY('history', 'attempts + 1', 'm.entry')}
from unnest($1::text::bigint[], $2::text::bigint[], $3::text::float8[], $4::text::text[], $5::text::text[])
  as m (seq, mark, delay_ms, error, entry)
where outbox.seq = m.seq and outbox.mark = m.mark`
  return {
    insert: (rows, entered = '') => [
      {
        text: insertOutboxText,
        prepare: true,
        params: [
          array(rows.map((row) => row.relay)),
          ...messageArrays(rows.map((row) => row.message)),
          array(rows.map((row) => row.delayMs)),
          array(rows.map((row) => laneOf(row.message, true))),
          entered,
        ],
      },
    ],
    read: (seqs, aged) => (aged ? readAged(seqs) : read(seqs)),
    left: statement(`select ${SEQ('outbox')} as seq from ${schema}.outbox where ${ROWS('$1', '$2')}`, (seqs) =>
      named(seqs),
    ),
    lockFree: statement(
      `
select ${SEQ('outbox')} as seq, followed from ${schema}.outbox
where ${ROWS('$1', '$2')} order by outbox.seq for update skip locked`,
      (seqs) => named(seqs),
    ),
    delete: statement(`delete from ${schema}.outbox where ${ROWS('$1', '$2')}`, (seqs) => named(seqs)),
    // A server that crashes may bring back what was deleted in its last moment; then it is sent again.
    deleteConfirmed: statement(
      `
with settings as materialized (
  select set_config('synchronous_commit', 'off', true) as eventually, set_config('lock_timeout', '1s', true) as impatient
)
delete from ${schema}.outbox using settings
where ${ROWS('$1', '$2')} and not followed and eventually = 'off' and impatient = '1s'`,
      (seqs) => named(seqs),
    ),
    postpone: (rows) => [
      {
        text: postponeText,
        params: [
          ...named(rows.map((row) => row.seq)),
          array(rows.map((row) => row.delayMs)),
          array(rows.map((row) => errorJson(row.error))),
          array(rows.map((row) => row.entry)),
        ],
      },
    ],
    lock: statement(
      `
select ${SEQ('outbox')} as seq from ${schema}.outbox where seq = $1::bigint and mark = $2::bigint for update`,
      (seq) => one(seq),
    ),
    hold: statement(
      `
update ${schema}.outbox set held_at = clock_timestamp(), aside = true, waits = false, attempts = attempts + 1, error = $1::text,
  failures = failures + 1, history = ${HISTORY('history', 'attempts + 1', '$4::text')}
where seq = $2::bigint and mark = $3::bigint`,
      ({ seq, error, entry }) => [errorJson(error), ...one(seq), entry],
    ),
  }
}

/** Where relays go. */
export function relays(schema: string): RelayStatements {
  return {
    record: statement(
      `
insert into ${schema}.relays (name, destination) values ($1::text, $2::text) on conflict do nothing`,
      (name, destination) => [name, destination],
    ),
    get: statement(`select destination from ${schema}.relays where name = $1::text`, (name) => [name]),
    move: statement(
      `
insert into ${schema}.relays (name, destination) values ($1::text, $2::text)
on conflict (name) do update set destination = excluded.destination, recorded_at = clock_timestamp()`,
      (name, destination) => [name, encodeText(destination)],
    ),
  }
}

/** Messages that were published and kept. */
export function sent(schema: string): SentStatements {
  return {
    copy: statement(
      `
insert into ${schema}.sent (message_key, fingerprint, relay, source, id, type, key, attributes, data)
select message_key, fingerprint, relay, source, id, type, key, attributes, data from (
  select * from ${schema}.outbox where ${ROWS('$1', '$2')} order by outbox.seq
) as confirmed`,
      (seqs) => named(seqs),
    ),
    list: statement(
      `
select ${SEQ('m')} as seq, m.relay, ${MS('m.sent_at')} as sent_at, ${ROW_MESSAGE} from ${schema}.sent m, ${SENT_WHERE}
  and m.seq < coalesce($7::bigint, 9223372036854775807)
order by m.seq desc limit $8::integer`,
      ({ before, limit, ...where }) => [...sentParams(where), numberOrNull(before), limit],
    ),
    seqs: statement(
      `
select ${SEQ('m')} as seq from ${schema}.sent m, ${SENT_WHERE}
  and m.seq > coalesce($7::bigint, 0)
order by m.seq limit $8::integer`,
      (where, after, limit) => [...sentParams(where), numberOrNull(after), limit],
    ),
    freeze: statement(
      `
select c.count, ${SEQ('newest')} as last from (
  select count(*) as count, max(seq) as seq from (
    select m.seq from ${schema}.sent m, ${SENT_WHERE} order by m.seq limit $7::bigint) as rows
) as c left join ${schema}.sent newest on newest.seq = c.seq`,
      (where, limit) => [...sentParams(where), limit],
    ),
    get: statement(
      `
select ${SEQ('m')} as seq, m.relay, ${ROW_MESSAGE} from ${schema}.sent m where m.seq = $1::bigint and m.mark = $2::bigint`,
      (seq) => one(seq),
    ),
    delete: statement(`delete from ${schema}.sent where ${ROWS('$1', '$2')}`, (seqs) => named(seqs)),
    republish: statement(
      `
insert into ${schema}.outbox (relay, ${COLUMNS}, lane, available_at)
select relay, ${COLUMNS}, $1::smallint, clock_timestamp() from ${schema}.sent
where seq = $2::bigint and mark = $3::bigint`,
      (seq, lane) => [lane, ...one(seq)],
    ),
  }
}

/** The parameters of `SENT_WHERE`. */
function sentParams({ relay, type, olderThanMs, newerThanMs, since, until }: SentWhere): readonly Param[] {
  const times = [olderThanMs ?? null, newerThanMs ?? null, since?.getTime() ?? null, until?.getTime() ?? null]
  return [relay ?? null, encoded(type), ...times]
}
