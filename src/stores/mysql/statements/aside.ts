// Keys that cannot run. Rows behind a message that is held, or that waits for its next attempt, would be read again by every look.
// They are put aside, out of the index that looks read, and brought forward when the row in front of them has gone.

import type { Origin, Param, Statement } from '../../../contracts/index.ts'
import { numberOf } from '../../../message/index.ts'
import { type AsideStatements, type KeyRef, statement } from '../../sql/index.ts'
import { BY_KEY, NOW, NUMBERED, SEQ } from './fragments.ts'
import { bytes, keyHash, numbered } from './rows.ts'

/** Parts of one statement at most. */
const MAX_PARTS = 200

/**
 * The statements that keep keys which cannot run out of the way. What is locked is found by its number: a search would lock what it
 * passes. That a number is another row's by now does no harm: what it is found to be is what is put aside.
 */
export function aside(prefix: string, origin: Origin): AsideStatements {
  const table = `${prefix}${origin}`
  const scope = origin === 'inbox' ? 'consumer' : 'relay'
  const leased = origin === 'inbox' ? ' and m.lease_token is null' : ''
  /** Those of these rows that are there, by their key. */
  const there = `
(select m.seq from ${NUMBERED(table)} limit 1000000) as there
  straight_join ${table} as m ${BY_KEY} on m.seq = there.seq`
  const behindText = (limit: number) => `
(select ? as head, cast(m.seq as char) as seq from ${table} as m force index (${origin}_front)
where m.${scope} = ? and m.lane = ? and m.aside = 0 and m.key_hash = ? and m.seq > ${SEQ} order by m.seq limit ${limit})`
  const nextText = `
(select cast(m.seq as char) as seq from ${table} as m force index (${origin}_key)
where m.${scope} = ? and m.lane = ? and m.key_hash = ? and m.aside = 1 and m.waits = 0 and m.held_at is null
order by m.seq limit 1)`
  return {
    heads: statement(
      `
select cast(m.seq as char) as seq, m.${scope} as scope, m.lane, m.key_hash from ${there}
where m.key_hash is not null${leased} and (m.held_at is not null or m.available_at > ${NOW} + interval 1 second)
order by m.seq for update skip locked`,
      (seqs) => [listed(seqs)],
    ),
    behind: (heads, limit) =>
      united(
        heads.map(({ seq, scope, lane, key_hash }) => ({
          text: behindText(limit),
          params: [seq, scope, lane, key_hash, seq] as readonly Param[],
        })),
      ),
    free: statement(
      `
select cast(m.seq as char) as seq from ${there} where m.aside = 0 order by m.seq for update skip locked`,
      (seqs) => [listed(seqs)],
    ),
    putHeads: statement(
      `
update ${NUMBERED(table)} set m.aside = 1, m.waits = m.held_at is null, m.followed = greatest(m.followed, ?)
where not (m.aside = 1 and m.followed >= ?)`,
      (seqs, followed) => [listed(seqs), Number(followed), Number(followed)],
    ),
    putBehind: statement(`update ${NUMBERED(table)} set m.aside = 1, m.followed = 1`, (seqs) => [listed(seqs)]),
    next: (keys) => united(keys.map((key) => ({ text: nextText, params: placeOf(key) }))),
    forward: statement(`update ${NUMBERED(table)} set m.aside = 0 where m.waits = 0 and m.held_at is null`, (seqs) => [
      listed(seqs),
    ]),
    forwardBehind: statement(
      `
update (
  select (
    select n.seq from ${table} as n force index (${origin}_key)
    where n.${scope} = p.${scope} and n.lane = p.lane and n.key_hash = p.key_hash and n.aside = 1 and n.waits = 0
      and n.held_at is null and n.seq > p.seq
    order by n.seq limit 1) as seq
  from ${NUMBERED(table, 'p')} where p.followed = 1 limit 1000000
) as next straight_join ${table} as m ${BY_KEY} on m.seq = next.seq
set m.aside = 0`,
      (seqs) => [listed(seqs)],
    ),
  }
}

function listed(seqs: readonly string[]): Param {
  return numbered(seqs.map(numberOf))
}

function placeOf({ scope, lane, key }: KeyRef): readonly Param[] {
  return [bytes(scope), lane, keyHash(key)]
}

/** Many small reads as few statements. */
function united(parts: readonly Statement[]): readonly Statement[] {
  const statements: Statement[] = []
  for (let from = 0; from < parts.length; from += MAX_PARTS) {
    const some = parts.slice(from, from + MAX_PARTS)
    statements.push({
      text: some.map(({ text }) => text).join(' union all '),
      params: some.flatMap(({ params }) => [...params]),
    })
  }
  return statements
}
