// Audit, cleaning and traces on SQLite. Cleaning goes through a table page by page in the order of its key: it holds the only
// write lock, and must give it back soon.

import type { Cleaned, CleanupStep, Result, Statement } from '../../../contracts/index.ts'
import { encodeText } from '../../../message/index.ts'
import { type AdminStatements, asUuid, statement, type TraceStatements } from '../../sql/index.ts'
import { checkup } from './checkup.ts'
import { NAME, ROW, UUID } from './fragments.ts'
import { NOW } from './migrations.ts'
import { encoded, one } from './rows.ts'

const NO_UUID = '00000000-0000-0000-0000-000000000000'

/** What people look after. */
export function admin(prefix: string): AdminStatements {
  const texts = cleaningTexts(prefix)
  return {
    keys: statement(
      `
select h.origin, h.scope, h.key, h.id, h.held_at, ${NAME('m')} as failed_seq,
  case h.origin
    when 'outbox' then (select count(*) from ${prefix}outbox as o
      where o.relay = h.scope and o.lane = h.lane and o.key = h.key and o.seq > h.seq)
    else (select count(*) from ${prefix}inbox as i
      where i.consumer = h.scope and i.lane = h.lane and i.key = h.key and i.ordered = 1 and i.seq > h.seq)
  end as waiting
from (
  select 'inbox' as origin, seq, message_key, consumer as scope, lane, key, id, held_at from ${prefix}inbox
  where held_at is not null and key is not null
  union all
  select 'outbox', seq, message_key, relay, lane, key, id, held_at from ${prefix}outbox
  where held_at is not null and key is not null
  order by held_at, seq limit ?
) as h left join ${prefix}failed as m on m.origin = h.origin and m.held_seq = h.seq
  and m.message_key = h.message_key
order by h.held_at, h.seq`,
      (limit) => [limit],
    ),
    auditFailed: statement(
      `
insert into ${prefix}audit (action, actor, note, origin, consumer, source, id, type)
select ?, ?, ?, origin, consumer, source, id, type from ${prefix}failed where ${ROW}`,
      (seq, { action, actor, note }) => [action, encodeText(actor), encoded(note), ...one(seq)],
    ),
    audit: statement(
      `
insert into ${prefix}audit (action, actor, note, origin, consumer, source, id, type) values (?, ?, ?, ?, ?, ?, ?, ?)`,
      ({ action, actor, note }, { origin, consumer, source, id, type }) => [
        action,
        encodeText(actor),
        ...[note, origin, consumer, source, id, type].map(encoded),
      ],
    ),
    clean: (query, step, olderThanMs, limit) => cleaned(texts, query, step, olderThanMs, limit),
    checkup: (query) => checkup(query, prefix),
  }
}

/** Where a message is. */
export function traces(prefix: string): TraceStatements {
  const receiptsText = (where: string) => `
select 'receipt' as place, consumer as scope, source, type, taken_at as at from ${prefix}receipts where ${where}`
  const failedText = (where: string) => `
select 'failed' as place, ${NAME('m')} as seq, origin, consumer as scope, source, type, attributes, failed_at as at, attempts,
  reason, cast(held_seq as text) as held_seq, replaced_by, error, failures, history
from ${prefix}failed as m where ${where}`
  const sentText = (where: string) => `
select 'sent' as place, relay as scope, source, type, attributes, sent_at as at from ${prefix}sent where ${where}
order by seq`
  const inboxText = (where: string) => `
select 'inbox' as place, ${NAME(`${prefix}inbox`)} as seq, consumer as scope, source, type, attributes, created_at as at, attempts, key,
  lease_token is not null as leased, available_at as due_at, held_at, error, failures, history
from ${prefix}inbox where ${where}`
  const auditText = `
select 'audit' as place, consumer as scope, source, type, at, action, actor, note from ${prefix}audit where id = ?
order by seq`
  const responsesText = `
select 'response' as place, p.consumer as scope, r.source, r.type, p.created_at as at, p.status, p.expires_at
from ${prefix}responses as p left join ${prefix}receipts as r on r.consumer = p.consumer and r.message_key = p.message_key
where p.id = ?`
  const outboxText = (where: string) => `
select 'outbox' as place, ${NAME(`${prefix}outbox`)} as seq, relay as scope, source, type, attributes, created_at as at, attempts, key, held_at, error, failures, history
from ${prefix}outbox where ${where}`
  return {
    receiptSources: statement(
      `
select distinct source from (select source from ${prefix}receipts where consumer = ? order by message_key limit ?)`,
      (consumer, limit) => [consumer, limit],
    ),
    otherSources: statement(
      `
select source from (select source from ${prefix}inbox order by seq desc limit ?) union
select source from (select source from ${prefix}outbox order by seq desc limit ?) union
select source from (select source from ${prefix}sent order by seq desc limit ?) union
select source from (select source from ${prefix}failed order by seq desc limit ?)`,
      (limit) => [limit, limit, limit, limit],
    ),
    receipts: (id, consumer, { from, to }) => ({
      text: receiptsText(`consumer = ? and message_key between ${UUID} and ${UUID} and id = ?`),
      params: [consumer, from, to, encodeText(id)],
    }),
    byKey: (id, { from, to }) =>
      [inboxText, outboxText, sentText, failedText].map((text) => ({
        text: text(`message_key between ${UUID} and ${UUID} and id = ?`),
        params: [from, to, encodeText(id)],
      })),
    audit: (id) => ({ text: auditText, params: [encodeText(id)] }),
    responses: (id) => ({ text: responsesText, params: [encodeText(id)] }),
    all: (id) =>
      [receiptsText, inboxText, outboxText, sentText, failedText].map((text) => ({
        text: text('id = ?'),
        params: [encodeText(id)],
      })),
  }
}

/** Finds the end of a page, then deletes, or counts, what is old and finished up to there. */
async function cleaned(
  texts: ReturnType<typeof cleaningTexts>,
  query: (statement: Statement) => Promise<Result>,
  step: CleanupStep,
  olderThanMs: number,
  limit: number,
): Promise<Cleaned> {
  if (step.kind === 'receipts') {
    const { consumer, after = NO_UUID } = step
    const page = await receiptPage(texts, query, consumer, after, limit)
    if (page === undefined) return { deleted: 0, after: undefined }
    const range = [consumer, after, page.last]
    const next = page.more ? page.last : undefined
    if (step.dryRun) {
      const { rows } = await query({ text: texts.countReceipts, params: [...range, olderThanMs] })
      return { deleted: Number(rows[0]?.['count'] ?? 0), after: next }
    }
    // Most pages have nothing to delete, and need no more than a look.
    if (page.oldestMs <= olderThanMs) return { deleted: 0, after: next, oldestMs: page.oldestMs }
    const { affected } = await query({ text: texts.cleanReceipts, params: [...range, olderThanMs] })
    const oldestMs = (await query({ text: texts.oldestReceipt, params: range })).rows[0]?.['oldest'] ?? undefined
    return { deleted: affected, after: next, oldestMs: oldestMs === undefined ? undefined : Number(oldestMs) }
  }
  if (step.kind === 'audit' && step.dryRun) {
    const { rows } = await query({ text: texts.countAudit, params: [step.after ?? '0', limit, olderThanMs] })
    const deleted = Number(rows[0]?.['count'] ?? 0)
    return { deleted, after: deleted < limit ? undefined : String(rows[0]?.['last']) }
  }
  if (step.kind === 'audit') await query({ text: texts.cleanOperations, params: [olderThanMs, limit] })
  const { affected } = await query(
    step.kind === 'sent'
      ? { text: texts.cleanSent, params: [step.relay, limit, olderThanMs] }
      : { text: texts.cleanAudit, params: [limit, olderThanMs] },
  )
  // The oldest rows come first; if one of the page is too young, so is what follows. What is gone needs no mark.
  return { deleted: affected, after: affected < limit ? undefined : '0' }
}

/** The last key of a page of receipts; undefined: there are none. */
async function receiptPage(
  texts: ReturnType<typeof cleaningTexts>,
  query: (statement: Statement) => Promise<Result>,
  consumer: string,
  after: string,
  limit: number,
): Promise<{ readonly last: string; readonly more: boolean; readonly oldestMs: number } | undefined> {
  const [page] = (await query({ text: texts.receiptPage, params: [consumer, after, limit] })).rows
  if (page === undefined || Number(page['count']) === 0) return undefined
  return { last: asUuid(page['last']), more: Number(page['count']) === limit, oldestMs: Number(page['oldest']) }
}

/** The statements of the cleaning. */
function cleaningTexts(prefix: string) {
  /** A receipt stays while the inbox or the failed store has its message, and while its response is kept. */
  const finished = `
  not exists (select 1 from ${prefix}inbox as i where i.message_key = r.message_key and i.consumer = r.consumer)
  and not exists (select 1 from ${prefix}failed as f
    where f.consumer = r.consumer and f.message_key = r.message_key and f.origin = 'inbox')
  and not exists (select 1 from ${prefix}responses as p where p.consumer = r.consumer and p.message_key = r.message_key)`
  return {
    // By key, because there is no index on taken_at: a receipt has to stay small.
    receiptPage: `
select max(message_key) as last, count(*) as count, ${NOW} - min(taken_at) as oldest from (
  select message_key, taken_at from ${prefix}receipts where consumer = ? and message_key > ${UUID} order by message_key limit ?)`,
    cleanReceipts: `
delete from ${prefix}receipts as r
where r.consumer = ? and r.message_key > ${UUID} and r.message_key <= ${UUID} and r.taken_at < ${NOW} - ? and ${finished}`,
    oldestReceipt: `
select ${NOW} - min(r.taken_at) as oldest from ${prefix}receipts as r
where r.consumer = ? and r.message_key > ${UUID} and r.message_key <= ${UUID}`,
    countReceipts: `
select count(*) as count from ${prefix}receipts as r
where r.consumer = ? and r.message_key > ${UUID} and r.message_key <= ${UUID} and r.taken_at < ${NOW} - ? and ${finished}`,
    cleanSent: `
delete from ${prefix}sent where seq in (select seq from ${prefix}sent where relay = ? order by seq limit ?)
  and sent_at < ${NOW} - ?`,
    countAudit: `
select count(*) as count, max(seq) as last from (
  select seq, at from ${prefix}audit where seq > cast(? as integer) order by seq limit ?) where at < ${NOW} - ?`,
    cleanOperations: `
delete from ${prefix}operations where id in (
  select id from ${prefix}operations where ended_at < ${NOW} - ? order by ended_at limit ?)`,
    cleanAudit: `
delete from ${prefix}audit where seq in (select seq from ${prefix}audit order by seq limit ?) and at < ${NOW} - ?`,
  } as const
}
