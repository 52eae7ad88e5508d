// The outbox, relays and sent messages on MariaDB and MySQL. A row leaves the outbox only after the broker has confirmed the message;
// rows that another relay has locked are skipped, not waited for.

import type { Param, SentWhere } from '../../../contracts/index.ts'
import { laneOf, numberOf } from '../../../message/index.ts'
import {
  type OutboxStatements,
  type RelayStatements,
  type SentStatements,
  type Sql,
  statement,
} from '../../sql/index.ts'
import {
  AGO,
  ALL,
  AT,
  BY_KEY,
  COLUMNS,
  DUE_IN,
  HISTORY,
  LATER,
  LIMIT,
  MAX_SEQ,
  MESSAGE,
  MS,
  NAME,
  NOW,
  ROW,
  ROWS,
  SEQ,
  tables,
} from './fragments.ts'
import { bytes, columns, inserts, microseconds, microsecondsOrNull, named, one, text, textOrNull } from './rows.ts'

const SENT_WHERE = `(select ? as relay_, ? as type_, cast(? as signed) as older_, cast(? as signed) as newer_,
  cast(? as signed) as since_, cast(? as signed) as until_) as f
where (f.relay_ is null or m.relay = f.relay_) and (f.type_ is null or m.type = f.type_)
  and (f.older_ is null or m.sent_at < ${AGO('f.older_')}) and (f.newer_ is null or m.sent_at >= ${AGO('f.newer_')})
  and (f.since_ is null or m.sent_at >= ${AT('f.since_')}) and (f.until_ is null or m.sent_at < ${AT('f.until_')})`

/** A message as a relay reads it. */
const LEAVING = `${NAME()} as seq, m.source, m.id, m.type, m.\`key\`, m.attributes, m.data, m.attempts`
/** How long ago a row was due first. Once a broker did not take it, that is not known any more, but when it was written is. */
const AGE = `timestampdiff(microsecond, if(m.attempts = 0, m.available_at, m.created_at), ${NOW}) / 1000 as age_ms`

/** What waits for brokers. */
export function outbox(prefix: string): OutboxStatements {
  const { outbox } = tables(prefix)
  const insertOutboxText = {
    head: `insert into ${outbox} (relay, ${COLUMNS}, created_at, available_at, lane) values`,
    row: `(?, ?, ?, ?, ?, ?, ?, ?, ?, ${NOW}, ${LATER}, ?)`,
    tail: '',
  }
  const reading = (columns: string): Sql<[seqs: readonly string[]]> =>
    statement(`select ${columns} from ${ROWS(outbox)} order by m.seq`, (seqs) => [named(seqs)])
  const [read, readAged] = [reading(LEAVING), reading(`${LEAVING}, ${AGE}`)]
  const postponeText = `
update ${outbox} set failures = failures + 1, history = ${HISTORY('history', 'attempts + 1')}, attempts = attempts + 1,
  ${DUE_IN()}, error = ?
where ${ROW}`
  return {
    insert: (rows) =>
      inserts(
        insertOutboxText,
        rows.map(({ relay, message, delayMs }) => [
          bytes(relay),
          ...columns(message),
          microseconds(delayMs),
          laneOf(message, true),
        ]),
      ),
    read: (seqs, aged) => (aged ? readAged(seqs) : read(seqs)),
    left: statement(`select ${NAME()} as seq from ${ROWS(outbox)}`, (seqs) => [named(seqs)]),
    lockFree: statement(
      `select ${NAME()} as seq, m.followed from ${ROWS(outbox)} order by m.seq for update skip locked`,
      (seqs) => [named(seqs)],
    ),
    delete: statement(`delete m from ${ROWS(outbox)}`, (seqs) => [named(seqs)]),
    // The limit keeps MySQL from merging what it selects into the delete, which it then refuses.
    deleteConfirmed: statement(
      `
delete m from (
  select f.seq from ${ROWS(outbox, 'f')} limit 1000000 for update skip locked
) as free straight_join ${outbox} as m ${BY_KEY} on m.seq = free.seq
where m.followed = 0`,
      (seqs) => [named(seqs)],
    ),
    postpone: (rows) =>
      rows.map(({ seq, delayMs, error, entry }) => ({
        text: postponeText,
        params: [bytes(entry), microseconds(delayMs), bytes(JSON.stringify(error)), ...one(seq)],
      })),
    lock: statement(`select ${NAME()} as seq from ${outbox} as m where ${ROW} for update`, (seq) => one(seq)),
    hold: statement(
      `
update ${outbox} set failures = failures + 1, history = ${HISTORY('history', 'attempts + 1')}, attempts = attempts + 1,
  held_at = ${NOW}, aside = 1, waits = 0, error = ?
where ${ROW}`,
      ({ seq, error, entry }) => [bytes(entry), bytes(JSON.stringify(error)), ...one(seq)],
    ),
  }
}

/** Where relays go. */
export function relays(prefix: string): RelayStatements {
  const { relays } = tables(prefix)

  return {
    record: statement(
      `
insert into ${relays} (name, destination, recorded_at) values (?, ?, ${NOW}) on duplicate key update name = name`,
      (name, destination) => [bytes(name), text(destination)],
    ),
    get: statement(`select destination from ${relays} where name = ?`, (name) => [bytes(name)]),
    move: statement(
      `
insert into ${relays} (name, destination, recorded_at) values (?, ?, ${NOW})
on duplicate key update destination = values(destination), recorded_at = values(recorded_at)`,
      (name, destination) => [bytes(name), text(destination)],
    ),
  }
}

/** Messages that were published and kept. */
export function sent(prefix: string): SentStatements {
  const { outbox, sent } = tables(prefix)
  const sentListText = (limit: number) => `
select ${NAME()} as seq, m.relay, ${MS('m.sent_at')} as sent_at, ${MESSAGE}
from ${sent} as m join ${SENT_WHERE} and m.seq < ${SEQ} order by m.seq desc ${LIMIT(limit)}`
  const sentSeqsText = (limit: number) => `
select ${NAME()} as seq from ${sent} as m join ${SENT_WHERE} and m.seq > ${SEQ}
order by m.seq ${LIMIT(limit)}`
  const freezeText = (limit: number) => `
select c.count, ${NAME('newest')} as last from (
  select count(*) as count, max(seq) as seq from (
    select m.seq from ${sent} as m join ${SENT_WHERE} order by m.seq ${LIMIT(limit)}) as chosen
) as c left join ${sent} as newest on newest.seq = c.seq`
  return {
    copy: statement(
      `
insert into ${sent} (relay, ${COLUMNS}, sent_at)
select m.relay, ${MESSAGE}, ${NOW} from ${ROWS(outbox)} order by m.seq for update`,
      (seqs) => [named(seqs)],
    ),
    list: ({ before, limit, ...where }) => ({
      text: sentListText(limit),
      params: [...sentParams(where), before === undefined ? MAX_SEQ : numberOf(before)],
    }),
    seqs: (where, after, limit) => ({
      text: sentSeqsText(limit),
      params: [...sentParams(where), numberOf(after ?? '0')],
    }),
    freeze: (where, limit) => ({ text: freezeText(limit ?? ALL), params: sentParams(where) }),
    get: statement(`select ${NAME()} as seq, m.relay, ${MESSAGE} from ${sent} as m where ${ROW}`, (seq) => one(seq)),
    delete: statement(`delete m from ${ROWS(sent)}`, (seqs) => [named(seqs)]),
    republish: statement(
      `
insert into ${outbox} (relay, ${COLUMNS}, lane, created_at, available_at)
select m.relay, ${MESSAGE}, ?, ${NOW}, ${NOW} from ${sent} as m where ${ROW}`,
      (seq, lane) => [lane, ...one(seq)],
    ),
  }
}

/** The parameters of `SENT_WHERE`. */
function sentParams({ relay, type, olderThanMs, newerThanMs, since, until }: SentWhere): readonly Param[] {
  const ages = [microsecondsOrNull(olderThanMs), microsecondsOrNull(newerThanMs)]
  return [textOrNull(relay), textOrNull(type), ...ages, since?.getTime() ?? null, until?.getTime() ?? null]
}
