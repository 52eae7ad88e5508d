// Receipts, the inbox and leases on MariaDB and MySQL. MySQL does not return what it deletes or updates, so a row is locked and read
// first, and changed by a second statement of the same transaction. Locks are taken in the order of seq, or transactions deadlock.

import type { Lease, Param, Result, Row } from '../../../contracts/index.ts'
import { ALL_LANES, numberOf, type StoredMessage } from '../../../message/index.ts'
import {
  asUuid,
  type InboxStatements,
  type LeaseStatements,
  MYSQL_ONLY,
  mysqlReset,
  plain,
  type ReceiptStatements,
  statement,
  uuidBytes,
} from '../../sql/index.ts'
import {
  BY_KEY,
  byNumber,
  COLUMNS,
  DUE_IN,
  HISTORY,
  INBOX,
  INBOX_AGE,
  LATER,
  LINE,
  LINK,
  LOCK_WAIT,
  lockWaitSet,
  MANY,
  MS,
  NAME,
  NOW,
  RETURNING,
  ROW,
  ROWS,
  SEQS,
  seconds,
  tables,
} from './fragments.ts'
import {
  bytes,
  chunks,
  failedOnce,
  inboxRow,
  inserts,
  type MultiRow,
  microseconds,
  named,
  one,
  receipt,
  text,
} from './rows.ts'

/** Receipts. */
export function receipts(prefix: string): ReceiptStatements {
  const { receipts } = tables(prefix)
  // MariaDB has returned them with the insert.
  const takenText = (count: number) => `${MYSQL_ONLY} */
select message_key, token, ${LINK} from ${receipts} ${BY_KEY}
where consumer = ? and message_key in (${MANY(count)})`
  const many = receiptRows(prefix)
  const takeText = byNumber(
    (timeout): MultiRow => ({
      head: `${LOCK_WAIT(timeout)} ${many.head}`,
      row: many.row,
      tail: `${many.tail} ${RETURNING} message_key, token, ${LINK} */`,
    }),
  )
  const takenTexts = byNumber(takenText)
  const receiptsText = (count: number) => `
select message_key, token, source, id, type, fingerprint, ${MS('taken_at')} as taken_at
from ${receipts} ${BY_KEY} where consumer = ? and message_key in (${MANY(count)})`
  return {
    take: (consumer, token, messages, lockTimeoutMs) => {
      const rows = sorted(messages).map((message) => receipt(consumer, token, message))
      return [
        plain(lockWaitSet(lockTimeoutMs)),
        ...inserts(takeText(seconds(lockTimeoutMs)), rows),
        ...chunks(rows).map((part) => ({
          text: takenTexts(part.length),
          params: [bytes(consumer), ...part.map(([, messageKey = null]) => messageKey)],
        })),
        mysqlReset,
      ]
    },
    taken: takenKeys,
    read: (consumer, keys) => ({
      text: receiptsText(keys.length),
      params: [bytes(consumer), ...keys.map(uuidBytes)],
    }),
    insert: statement(
      `
insert into ${receipts} (consumer, message_key, token, fingerprint, source, id, type, taken_at)
values (?, ?, ?, ?, ?, ?, ?, ${NOW})`,
      (consumer, token, message) => receipt(consumer, token, message),
    ),
  }
}

/** Writes many receipts where there are none. */
export function receiptRows(prefix: string): MultiRow {
  const { receipts } = tables(prefix)
  return {
    head: `insert into ${receipts} (consumer, message_key, token, fingerprint, source, id, type, taken_at) values`,
    row: `(?, ?, ?, ?, ?, ?, ?, ${NOW})`,
    // Not INSERT IGNORE: that would also ignore values that do not fit.
    tail: 'on duplicate key update message_key = message_key',
  }
}

/** Whether a failure that is about to be recorded is on record. Parameters: attempts, lost, entry. */
const REPEATED = 'coalesce(attempts = ? and lost = ? and instr(history, ?) > 0, 0)'

/** What waits for consumers. */
export function inbox(prefix: string): InboxStatements {
  const { inbox } = tables(prefix)
  // Rows that are gone are left out before anything is locked: a locking read of one locks the gap where it was, and
  // every insert into the inbox would wait for this transaction.
  const claimText = (columns: string) => `
select ${columns}, ${LINK}
from (select m.seq from ${ROWS(inbox)} limit 1000000) as there
  straight_join ${inbox} as m ${BY_KEY} on m.seq = there.seq
where m.held_at is null and (m.lease_token is null or m.available_at <= ${NOW})
order by m.seq for update skip locked`
  // Every read locks on this level, also that of the rows that are there, and it would wait for them.
  const claimSerializableText = (columns: string) => `
select ${columns}, ${LINK} from ${ROWS(inbox)}
where m.held_at is null and (m.lease_token is null or m.available_at <= ${NOW})
order by m.seq for update skip locked`
  const claiming = (columns: string) => ({
    usual: claimText(columns),
    serializable: claimSerializableText(columns),
  })
  const [withoutAge, withAge] = [claiming(INBOX), claiming(`${INBOX}, ${INBOX_AGE}`)]
  const lockAllText = (timeout: number) => `
${LOCK_WAIT(timeout)} select ${NAME()} as seq, ${LINK} from ${ROWS(inbox)}
order by m.seq for update`
  // A plain read, which waits for no lock; where the server is set to SERIALIZABLE it locks, but does not wait for long.
  // The oldest row of the key outside these is found from the front: what waits behind them costs nothing.
  const blockedText = (count: number) => `
${LOCK_WAIT(1)} select ${NAME()} as seq from ${inbox} as m ${BY_KEY}
where m.seq in (${SEQS(count)}) and m.key_hash is not null and m.seq > (
  select older.seq from ${inbox} as older force index (inbox_key)
  where older.consumer = m.consumer and older.lane = m.lane and older.key_hash = m.key_hash
    and older.seq not in (${SEQS(count)})
  order by older.seq limit 1)`
  const deleteInboxText = `delete m from ${ROWS(inbox)}`
  const insertInboxText = {
    head: `
insert into ${inbox} (consumer, ${COLUMNS}, attempts, starts, created_at, available_at, first_due_at, error, lane, ordered) values`,
    row: `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ${NOW}, ${LATER}, ${LATER}, ?, ?, ?)`,
    tail: '',
  }
  // Rows that have failed once; the others are many, and must not pay for it.
  const insertFailedText = {
    head: insertInboxText.head.replace(') values', ', failures, history) values'),
    row: insertInboxText.row.replace(/\)$/, `, 1, ${LINE('?')})`),
    tail: '',
  }
  const looseText = (limit: number) => `
select ${NAME()} as seq, m.\`key\` from ${inbox} as m force index (inbox_lane)
where m.consumer = ? and m.lane in (${ALL_LANES.join()}) and m.timed = 0 and m.\`key\` is not null limit ${limit}`
  return {
    claim: (seqs, isolation, aged) => {
      const { usual, serializable } = aged ? withAge : withoutAge
      return { text: isolation === 'serializable' ? serializable : usual, params: [named(seqs)] }
    },
    claimDeletes: false,
    lockAll: (seqs, lockTimeoutMs) => ({ text: lockAllText(seconds(lockTimeoutMs)), params: [named(seqs)] }),
    blocked: (seqs) => ({ text: blockedText(seqs.length), params: [...seqs, ...seqs].map(numberOf) }),
    delete: (seqs) => chunks(seqs).map((part) => ({ text: deleteInboxText, params: [named(part)] })),
    insert: (rows) => [
      ...inserts(insertInboxText, rows.filter(({ entry }) => entry === undefined).map(inboxRow)),
      ...inserts(insertFailedText, rows.filter(({ entry }) => entry !== undefined).map(failedOnce)),
    ],
    store: () => undefined,
    // Repeated, because the answer was lost, it counts once. What is set is seen by what is set after it.
    reschedule: statement(
      `
update ${inbox} set failures = failures + if(${REPEATED}, 0, 1), history = if(${REPEATED}, history, ${HISTORY('history', '?')}),
  attempts = ?, lost = ?, starts = 0, ${DUE_IN()}, error = ?, lease_token = null
where ${ROW} and lease_token <=> ?`,
      ({ seq, attempts, lost, delayMs, error, entry, leaseToken }) => [
        ...[attempts, lost, bytes(entry)],
        ...[attempts, lost, bytes(entry)],
        ...[attempts, bytes(entry)],
        attempts,
        lost,
        microseconds(delayMs),
        bytes(JSON.stringify(error)),
        ...one(seq),
        leaseToken && uuidBytes(leaseToken),
      ],
    ),
    lock: statement(
      `
select ${NAME()} as seq from ${inbox} as m where ${ROW} and m.lease_token <=> ? and m.held_at is null for update`,
      (seq, leaseToken) => [...one(seq), leaseToken && uuidBytes(leaseToken)],
    ),
    hold: statement(
      `update ${inbox} set held_at = ${NOW}, aside = 1, waits = 0, attempts = ?, error = ?, starts = 0, lease_token = null,
  failures = failures + 1, history = ${HISTORY('history', '?')}
where ${ROW}`,
      ({ seq, attempts, error, entry }) => [
        attempts,
        bytes(JSON.stringify(error)),
        attempts,
        bytes(entry),
        ...one(seq),
      ],
    ),
    loose: (consumer, limit) => ({ text: looseText(limit), params: [bytes(consumer)] }),
    addOrder: statement(
      `
update ${ROWS(inbox)} set m.ordered = 1, m.lane = ?, m.\`key\` = coalesce(?, m.\`key\`) where m.ordered = 0`,
      (seqs, lane, key) => [named(seqs), lane, key && text(key)],
    ),
    find: statement(
      `
select ${NAME()} as seq from ${inbox} as m
where m.consumer = ? and m.message_key = ? order by m.seq limit 1`,
      (consumer, messageKey) => [bytes(consumer), uuidBytes(messageKey)],
    ),
  }
}

/** Leases on rows of the inbox. */
export function leases(prefix: string): LeaseStatements {
  const { inbox } = tables(prefix)
  const renewableText = (count: number) => `
select ${NAME()} as seq from ${ROWS(inbox)}
where m.lease_token in (${MANY(count)}) and m.held_at is null for update skip locked`
  const renewText = (count: number) => `
update ${ROWS(inbox)} set ${DUE_IN('m.')}
where m.lease_token in (${MANY(count)}) and m.held_at is null`
  const leasedText = (count: number) => `
select ${NAME()} as seq from ${ROWS(inbox)}
where m.lease_token in (${MANY(count)}) and m.held_at is null`
  return {
    // Rows that are gone are left out before anything is locked, as for a claim.
    lockDue: statement(
      `
select ${INBOX}, ${INBOX_AGE}
from (select m.seq from ${ROWS(inbox)} limit 1000000) as there
  straight_join ${inbox} as m ${BY_KEY} on m.seq = there.seq
where m.held_at is null and (m.available_at <= ${NOW} or m.lease_token = ?) order by m.seq for update skip locked`,
      (seqs, token) => [named(seqs), uuidBytes(token)],
    ),
    lease: statement(
      `
update ${ROWS(inbox)} set m.lease_token = ?, m.fence = m.fence + 1, ${DUE_IN('m.')}`,
      (seqs, token, leaseMs) => [named(seqs), uuidBytes(token), microseconds(leaseMs)],
    ),
    renewable: (held) => ({ text: renewableText(held.length), params: both(held) }),
    renew: (held, leaseMs) => ({ text: renewText(held.length), params: renewing(held, leaseMs) }),
    release: statement(
      `
update ${inbox} as m set m.lease_token = null, ${DUE_IN('m.')}
where ${ROW} and m.lease_token = ? and m.fence = ? and m.held_at is null`,
      ({ seq, token, fence }, delayMs) => [microseconds(delayMs), ...one(seq), uuidBytes(token), fence],
    ),
    leased: (held) => ({ text: leasedText(held.length), params: both(held) }),
    settle: statement(
      `
select ${INBOX}, ${LINK} from ${inbox} as m ${BY_KEY}
where ${ROW} and m.lease_token = ? and m.fence = ? and m.held_at is null for update`,
      ({ seq, token, fence }) => [...one(seq), uuidBytes(token), fence],
    ),
  }
}

/** Sorted, because two groups inserting in different order deadlock. */
function sorted(messages: readonly StoredMessage[]): readonly StoredMessage[] {
  return messages.toSorted((a, b) => (a.messageKey < b.messageKey ? -1 : 1))
}

/** A receipt with our token is one that we wrote: a token is used for one transaction only. */
function takenKeys(
  answers: readonly Result[],
  token: string,
  messages: readonly StoredMessage[],
): ReadonlySet<string> | 'all' {
  const bytesOfToken = uuidBytes(token)
  const isOurs = ({ token: found }: Row): boolean =>
    found instanceof Uint8Array ? bytesOfToken.equals(found) : asUuid(found) === token
  const ours = answers.flatMap((answer) => answer.rows.filter(isOurs))
  return ours.length === messages.length ? 'all' : new Set(ours.map((row) => asUuid(row['message_key'])))
}

function both(held: readonly Lease[]): readonly Param[] {
  return [named(held.map(({ seq }) => seq)), ...held.map(({ token }) => uuidBytes(token))]
}

function renewing(held: readonly Lease[], leaseMs: number): readonly Param[] {
  const [rows = null, ...tokens] = both(held)
  return [rows, microseconds(leaseMs), ...tokens]
}
