// The outbox, relays and sent messages on SQLite. A row leaves the outbox only after the broker has confirmed the message.

import type { Param, SentWhere } from '../../../contracts/index.ts'
import { encodeText, laneOf, numberOf } from '../../../message/index.ts'
import {
  type OutboxStatements,
  type RelayStatements,
  type SentStatements,
  type Sql,
  statement,
} from '../../sql/index.ts'
import {
  COLUMNS,
  DUE_IN,
  HISTORY,
  LATER,
  MAX_SEQ,
  MESSAGE,
  MESSAGE_VALUES,
  NAME,
  ROW,
  ROW_MESSAGE,
  ROWS,
  SEQ,
} from './fragments.ts'
import { NOW } from './migrations.ts'
import { columns, encoded, named, one } from './rows.ts'

const SENT_GIVEN = `
with f (relay_, type_, older_, newer_, since_, until_) as (values (?, ?, ?, ?, ?, ?))`
const SENT_WHERE = `(f.relay_ is null or m.relay = f.relay_) and (f.type_ is null or m.type = f.type_)
  and (f.older_ is null or m.sent_at < ${NOW} - f.older_) and (f.newer_ is null or m.sent_at >= ${NOW} - f.newer_)
  and (f.since_ is null or m.sent_at >= f.since_) and (f.until_ is null or m.sent_at < f.until_)`

/** A message as a relay reads it. */
const LEAVING = `${SEQ}, source, id, type, key, attributes, data, attempts`
/** How long ago a row was due first. Once a broker did not take it, that is not known any more, but when it was written is. */
const AGE = `${NOW} - iif(attempts = 0, available_at, created_at) as age_ms`

/** What waits for brokers. */
export function outbox(prefix: string): OutboxStatements {
  const insertOutboxText = `
insert into ${prefix}outbox (relay, ${MESSAGE}, available_at, lane)
values (?, ${MESSAGE_VALUES}, ${LATER}, ?)`
  const reading = (columns: string): Sql<[seqs: readonly string[]]> =>
    statement(`select ${columns} from ${prefix}outbox as o where ${ROWS} order by o.seq`, (seqs) => named(seqs))
  const [read, readAged] = [reading(LEAVING), reading(`${LEAVING}, ${AGE}`)]
  const postponeText = `
update ${prefix}outbox set attempts = attempts + 1, ${DUE_IN}, error = ?, failures = failures + 1,
  history = ${HISTORY('(attempts + 1)')}
where ${ROW}`
  return {
    insert: (rows) =>
      rows.map(({ relay, message, delayMs }) => ({
        text: insertOutboxText,
        params: [relay, ...columns(message), delayMs, laneOf(message, true)],
      })),
    read: (seqs, aged) => (aged ? readAged(seqs) : read(seqs)),
    left: statement(`select ${SEQ} from ${prefix}outbox where ${ROWS}`, (seqs) => named(seqs)),
    lockFree: statement(`select ${SEQ}, followed from ${prefix}outbox where ${ROWS}`, (seqs) => named(seqs)),
    delete: statement(`delete from ${prefix}outbox where ${ROWS}`, (seqs) => named(seqs)),
    deleteConfirmed: statement(`delete from ${prefix}outbox where ${ROWS} and followed = 0`, (seqs) => named(seqs)),
    postpone: (rows) =>
      rows.map(({ seq, delayMs, error, entry }) => ({
        text: postponeText,
        params: [delayMs, JSON.stringify(error), entry, ...one(seq)],
      })),
    lock: statement(`select ${SEQ} from ${prefix}outbox where ${ROW}`, (seq) => one(seq)),
    hold: statement(
      `
update ${prefix}outbox set held_at = ${NOW}, aside = 1, waits = 0, attempts = attempts + 1, error = ?, failures = failures + 1,
  history = ${HISTORY('(attempts + 1)')}
where ${ROW}`,
      ({ seq, error, entry }) => [JSON.stringify(error), entry, ...one(seq)],
    ),
  }
}

/** Where relays go. */
export function relays(prefix: string): RelayStatements {
  return {
    record: statement(
      `insert into ${prefix}relays (name, destination) values (?, ?) on conflict do nothing`,
      (name, destination) => [name, destination],
    ),
    get: statement(`select destination from ${prefix}relays where name = ?`, (name) => [name]),
    move: statement(
      `
insert into ${prefix}relays (name, destination) values (?, ?)
on conflict (name) do update set destination = excluded.destination, recorded_at = ${NOW}`,
      (name, destination) => [name, encodeText(destination)],
    ),
  }
}

/** Messages that were published and kept. */
export function sent(prefix: string): SentStatements {
  return {
    copy: statement(
      `
insert into ${prefix}sent (relay, ${MESSAGE})
select relay, ${MESSAGE} from ${prefix}outbox where ${ROWS} order by seq`,
      (seqs) => named(seqs),
    ),
    list: statement(
      `${SENT_GIVEN}
select ${NAME('m')} as seq, m.relay, m.sent_at, ${ROW_MESSAGE} from ${prefix}sent as m, f
where ${SENT_WHERE} and m.seq < cast(? as integer) order by m.seq desc limit ?`,
      ({ before, limit, ...where }) => [...sentParams(where), before === undefined ? MAX_SEQ : numberOf(before), limit],
    ),
    seqs: statement(
      `${SENT_GIVEN}
select ${NAME('m')} as seq from ${prefix}sent as m, f
where ${SENT_WHERE} and m.seq > cast(? as integer) order by m.seq limit ?`,
      (where, after, limit) => [...sentParams(where), numberOf(after ?? '0'), limit],
    ),
    freeze: statement(
      `${SENT_GIVEN}
select c.count, ${NAME('newest')} as last from (
  select count(*) as count, max(seq) as seq from (
    select m.seq from ${prefix}sent as m, f where ${SENT_WHERE} order by m.seq limit ?)
) as c left join ${prefix}sent as newest on newest.seq = c.seq`,
      (where, limit) => [...sentParams(where), limit ?? -1],
    ),
    get: statement(`select ${NAME('m')} as seq, m.relay, ${ROW_MESSAGE} from ${prefix}sent as m where ${ROW}`, (seq) =>
      one(seq),
    ),
    delete: statement(`delete from ${prefix}sent where ${ROWS}`, (seqs) => named(seqs)),
    republish: statement(
      `
insert into ${prefix}outbox (relay, ${COLUMNS}, lane, available_at)
select relay, ${COLUMNS}, ?, ${NOW} from ${prefix}sent where ${ROW}`,
      (seq, lane) => [lane, ...one(seq)],
    ),
  }
}

/** The parameters of `SENT_WHERE`. */
function sentParams({ relay, type, olderThanMs, newerThanMs, since, until }: SentWhere): readonly Param[] {
  const times = [olderThanMs ?? null, newerThanMs ?? null, since?.getTime() ?? null, until?.getTime() ?? null]
  return [relay ?? null, encoded(type), ...times]
}
