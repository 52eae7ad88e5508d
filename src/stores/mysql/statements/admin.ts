// Audit, cleaning and traces on MariaDB and MySQL. Cleaning goes through a table page by page in the order of its key: a
// statement is short however much there is, and the next one goes on where it ended.

import type { Cleaned, CleanupStep, Origin, Result, Row, Statement } from '../../../contracts/index.ts'
import {
  type AdminStatements,
  asBoolean,
  asNumber,
  asUuid,
  type Check,
  lookAt,
  plain,
  statement,
  type TraceStatements,
  uuidBytes,
} from '../../sql/index.ts'
import { AGO, BY_KEY, KEYED, LIMIT, MS, NAME, NOW, NUMBERED, ROW, SEQ, tables } from './fragments.ts'
import { bytes, chunks, list, microseconds, numbered, one, text, textOrNull } from './rows.ts'

const NO_UUID = '00000000-0000-0000-0000-000000000000'

/** What people look after. */
export function admin(prefix: string, checks: readonly Check[]): AdminStatements {
  const table = tables(prefix)
  const { inbox, outbox, failed, audit } = table
  const scope = { inbox: 'consumer', outbox: 'relay' }
  // In every lane that has rows.
  const heldRows = (origin: Origin): string => `
  select '${origin}' as origin, m.seq, m.message_key, m.${scope[origin]} as scope, m.lane, m.\`key\`, m.key_hash, m.id, m.held_at
  from (select distinct ${scope[origin]} as scope, lane from ${table[origin]} force index (${origin}_lane)) as l
  straight_join ${table[origin]} as m force index (${origin}_lane)
    on m.${scope[origin]} = l.scope and m.lane = l.lane and m.timed = 3`
  const heldKeysText = (limit: number) => `
select h.origin, h.scope, h.\`key\`, h.id, ${MS('h.held_at')} as held_at, ${NAME()} as failed_seq,
  case when h.origin = 'outbox'
    then (select count(*) from ${outbox} as o
      where o.relay = h.scope and o.lane = h.lane and o.key_hash = h.key_hash and o.seq > h.seq)
    else (select count(*) from ${inbox} as i
      where i.consumer = h.scope and i.lane = h.lane and i.key_hash = h.key_hash and i.seq > h.seq)
  end as waiting
from (
  ${heldRows('inbox')}
  union all
  ${heldRows('outbox')}
  order by held_at, seq ${LIMIT(limit)}
) as h left join ${failed} as m on m.held_seq = h.seq and m.origin = h.origin and m.message_key = h.message_key
order by h.held_at, h.seq`
  const texts = cleaningTexts(prefix)
  return {
    keys: (limit) => plain(heldKeysText(limit)),
    auditFailed: statement(
      `
insert into ${audit} (at, action, actor, note, origin, consumer, source, id, type)
select ${NOW}, ?, ?, ?, m.origin, m.consumer, m.source, m.id, m.type from ${failed} as m where ${ROW}`,
      (seq, { action, actor, note }) => [bytes(action), text(actor), textOrNull(note), ...one(seq)],
    ),
    audit: statement(
      `
insert into ${audit} (at, action, actor, note, origin, consumer, source, id, type)
values (${NOW}, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ({ action, actor, note }, { origin, consumer, source, id, type }) => [
        bytes(action),
        text(actor),
        ...[note, origin, consumer, source, id, type].map(textOrNull),
      ],
    ),
    clean: (query, step, olderThanMs, limit) => cleaned(texts, query, step, olderThanMs, limit),
    checkup: (query) => lookAt(query, checks),
  }
}

/** Where a message is. */
export function traces(prefix: string): TraceStatements {
  const table = (name: string): string => `${prefix}${name}`
  const newest = (name: string, limit: number): string =>
    `select source from (select source from ${table(name)} order by seq desc ${LIMIT(limit)}) as ${name}_`
  const receiptSourcesText = (limit: number) => `
select distinct source from (
  select source from ${table('receipts')} ${BY_KEY} where consumer = ? order by message_key ${LIMIT(limit)}) as sample`
  const otherSourcesText = (limit: number) =>
    ['inbox', 'outbox', 'sent', 'failed'].map((name) => newest(name, limit)).join(' union ')
  const receiptsText = (where: string) => `
select 'receipt' as place, m.consumer as scope, m.source, m.type, ${MS('m.taken_at')} as at
from ${table('receipts')} as m where ${where}`
  const failedText = (where: string) => `
select 'failed' as place, ${NAME()} as seq, m.origin, m.consumer as scope, m.source, m.type, m.attributes,
  ${MS('m.failed_at')} as at, m.attempts, m.reason, cast(m.held_seq as char) as held_seq, m.replaced_by, m.error, m.failures, m.history
from ${table('failed')} as m where ${where}`
  const sentText = (where: string) => `
select 'sent' as place, m.relay as scope, m.source, m.type, m.attributes, ${MS('m.sent_at')} as at from ${table('sent')} as m where ${where}
order by m.seq`
  const inboxText = (where: string) => `
select 'inbox' as place, ${NAME()} as seq, m.consumer as scope, m.source, m.type, m.attributes, ${MS('m.created_at')} as at, m.attempts, m.\`key\`,
  m.lease_token is not null as leased, ${MS('m.available_at')} as due_at, ${MS('m.held_at')} as held_at, m.error, m.failures, m.history
from ${table('inbox')} as m where ${where}`
  const auditText = `
select 'audit' as place, m.consumer as scope, m.source, m.type, ${MS('m.at')} as at, m.action, m.actor, m.note
from ${table('audit')} as m where m.id = ? order by m.seq`
  const responsesText = `
select 'response' as place, p.consumer as scope, m.source, m.type, ${MS('p.created_at')} as at, p.status, ${MS('p.expires_at')} as expires_at
from ${table('responses')} as p
left join ${table('receipts')} as m ${BY_KEY} on m.consumer = p.consumer and m.message_key = p.message_key
where p.id = ?`
  const outboxText = (where: string) => `
select 'outbox' as place, ${NAME()} as seq, m.relay as scope, m.source, m.type, m.attributes, ${MS('m.created_at')} as at, m.attempts, m.\`key\`,
  ${MS('m.held_at')} as held_at, m.error, m.failures, m.history
from ${table('outbox')} as m where ${where}`
  return {
    receiptSources: (consumer, limit) => ({ text: receiptSourcesText(limit), params: [bytes(consumer)] }),
    otherSources: (limit) => plain(otherSourcesText(limit)),
    receipts: (id, consumer, { from, to }) => ({
      text: receiptsText('m.consumer = ? and m.message_key between ? and ? and m.id = ?'),
      params: [bytes(consumer), uuidBytes(from), uuidBytes(to), text(id)],
    }),
    byKey: (id, { from, to }) =>
      [inboxText, outboxText, sentText, failedText].map((each) => ({
        text: each('m.message_key between ? and ? and m.id = ?'),
        params: [uuidBytes(from), uuidBytes(to), text(id)],
      })),
    audit: (id) => ({ text: auditText, params: [text(id)] }),
    responses: (id) => ({ text: responsesText, params: [text(id)] }),
    all: (id) =>
      [receiptsText, inboxText, outboxText, sentText, failedText].map((each) => ({
        text: each('m.id = ?'),
        params: [text(id)],
      })),
  }
}

/**
 * Reads a page without locks, then deletes by key what it found. One statement would lock what it looks up in the inbox,
 * and wait for every handler. What was finished when it was read stays finished: nothing comes back without its receipt. What was old
 * is looked at again: after a fail-over in between, another row may have the number, or the key, of one that was old.
 */
async function cleaned(
  texts: ReturnType<typeof cleaningTexts>,
  query: (statement: Statement) => Promise<Result>,
  step: CleanupStep,
  olderThanMs: number,
  limit: number,
): Promise<Cleaned> {
  const ago = microseconds(olderThanMs)
  if (step.kind === 'receipts') {
    const { old, after, oldestMs } = await receiptPage(texts, query, step, olderThanMs, limit)
    if (step.dryRun) return { deleted: old.length, after }
    const deleted = await deleteAll(query, old, (part) => ({
      text: texts.deleteReceipts,
      params: [list(part), bytes(step.consumer), ago],
    }))
    return { deleted, after, oldestMs }
  }
  const table = step.kind
  const params = table === 'sent' ? [ago, bytes(step.relay)] : [ago, step.after ?? '0']
  if (step.kind === 'audit' && !step.dryRun) await query({ text: texts.deleteOperations(limit), params: [ago] })
  const { rows } = await query({ text: texts.page[table](limit), params })
  const old = rows.filter((row: Row) => asBoolean(row['old'])).map((row) => String(row['seq']))
  // The oldest rows come first; if one of the page is too young, so is what follows.
  const after = old.length < limit ? undefined : old.at(-1)
  if (step.kind === 'audit' && step.dryRun) return { deleted: old.length, after }
  const deleted = await deleteAll(query, old, (part) => ({
    text: texts.deleteRows[table],
    params: [numbered(part), ago],
  }))
  return { deleted, after }
}

/** A page of receipts: the keys of those that are old and finished, and the age of the oldest other one. */
async function receiptPage(
  texts: ReturnType<typeof cleaningTexts>,
  query: (statement: Statement) => Promise<Result>,
  { consumer, after = NO_UUID }: { readonly consumer: string; readonly after: string | undefined },
  olderThanMs: number,
  limit: number,
): Promise<{ readonly old: readonly Buffer[] } & Pick<Cleaned, 'after' | 'oldestMs'>> {
  const params = [microseconds(olderThanMs), bytes(consumer), uuidBytes(after)]
  const { rows } = await query({ text: texts.receiptPage(limit), params })
  const old: Buffer[] = []
  let oldestMs: number | undefined
  for (const { age_ms: age, message_key: key } of rows) {
    if (age === null) old.push(uuidBytes(asUuid(key)))
    else oldestMs = Math.max(oldestMs ?? 0, asNumber(age))
  }
  return { old, oldestMs, after: rows.length < limit ? undefined : asUuid(rows.at(-1)?.['message_key']) }
}

async function deleteAll<T>(
  query: (statement: Statement) => Promise<Result>,
  values: readonly T[],
  statement: (part: readonly T[]) => Statement,
): Promise<number> {
  let deleted = 0
  for (const part of chunks(values)) deleted += (await query(statement(part))).affected
  return deleted
}

/** The statements of the cleaning. */
function cleaningTexts(prefix: string) {
  const { receipts, responses, inbox, failed, sent, audit, operations } = tables(prefix)
  /** A receipt stays while the inbox or the failed store has its message, and while its response is kept. */
  const finished = `
  not exists (select 1 from ${inbox} as i where i.message_key = r.message_key and i.consumer = r.consumer)
  and not exists (select 1 from ${failed} as f
    where f.consumer = r.consumer and f.message_key = r.message_key and f.origin = 'inbox')
  and not exists (select 1 from ${responses} as p where p.consumer = r.consumer and p.message_key = r.message_key)`
  return {
    // By key, because there is no index on taken_at: a receipt has to stay small.
    receiptPage: (limit: number) => `
select r.message_key,
  case when r.taken_at < ${AGO('?')} and ${finished} then null
    else timestampdiff(microsecond, r.taken_at, ${NOW}) div 1000 end as age_ms
from ${receipts} as r ${BY_KEY} where r.consumer = ? and r.message_key > ? order by r.message_key ${LIMIT(limit)}`,
    deleteReceipts: `delete m from ${KEYED(receipts, 'message_key')} and m.consumer = ? and m.taken_at < ${AGO('?')}`,
    page: {
      sent: (limit: number) => `
select cast(m.seq as char) as seq, m.sent_at < ${AGO('?')} as old from ${sent} as m force index (sent_relay)
where m.relay = ? order by m.seq ${LIMIT(limit)}`,
      audit: (limit: number) => `
select cast(m.seq as char) as seq, m.at < ${AGO('?')} as old from ${audit} as m ${BY_KEY}
where m.seq > ${SEQ} order by m.seq ${LIMIT(limit)}`,
    },
    deleteOperations: (limit: number) =>
      `delete from ${operations} where ended_at < ${AGO('?')} order by ended_at ${LIMIT(limit)}`,
    deleteRows: {
      sent: `delete m from ${NUMBERED(sent)} and m.sent_at < ${AGO('?')}`,
      audit: `delete m from ${NUMBERED(audit)} and m.at < ${AGO('?')}`,
    },
  } as const
}
