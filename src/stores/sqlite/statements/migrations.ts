import type { MigrationSource } from '../../sql/index.ts'

/** Milliseconds since 1970 on SQLite's own clock. */
export const NOW = `cast(round(unixepoch('subsec') * 1000) as integer)`

/** What tells a row from another one that gets its number in a copy of the file that was put back. */
const MARK = 'random() & 281474976710655'

/** The schema, step by step. A released step is never changed: add one. */
export function migrations(prefix: string): readonly MigrationSource[] {
  return [
    {
      version: 1,
      name: 'hapax',
      sql: [
        // Without rowid: the row lives in the key's own tree, which makes a receipt smaller and its insert faster.
        `create table ${prefix}receipts (
  consumer text not null,
  message_key blob not null,
  token blob not null,
  fingerprint blob not null,
  taken_at integer not null default (${NOW}),
  source text not null,
  id text not null,
  type text not null,
  primary key (consumer, message_key)
) strict, without rowid`,
        // Autoincrement: otherwise the seq of a deleted last row would be given out again.
        `create table ${prefix}inbox (
  seq integer primary key autoincrement,
  mark integer not null default (${MARK}),
  created_at integer not null default (${NOW}),
  available_at integer not null,
  first_due_at integer,
  message_key blob not null,
  attempts integer not null default 0,
  lost integer not null default 0,
  starts integer not null default 0,
  crashes integer not null default 0,
  failures integer not null default 0,
  held_at integer,
  failed_seq integer,
  failed_mark integer,
  lease_token blob,
  fence integer not null default 0,
  lane integer not null default 0,
  ordered integer not null default 0,
  aside integer not null default 0,
  waits integer not null default 0,
  followed integer not null default 0,
  fingerprint blob not null,
  consumer text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  error text,
  history text,
  data blob not null
) strict`,
        `create index ${prefix}inbox_message on ${prefix}inbox (message_key)`,
        `create index ${prefix}inbox_lane on ${prefix}inbox (consumer, lane, available_at, seq) where ordered = 0`,
        `create index ${prefix}inbox_key on ${prefix}inbox (consumer, lane, key, seq) where ordered = 1`,
        // What a look goes through, without the keys that cannot run now, and those of them that wait for their time.
        `create index ${prefix}inbox_front on ${prefix}inbox (consumer, lane, key, seq) where ordered = 1 and aside = 0`,
        `create index ${prefix}inbox_waits on ${prefix}inbox (consumer, lane, available_at, seq) where waits = 1`,
        // What has failed, or is held, for those who look: such rows are few.
        `create index ${prefix}inbox_tried on ${prefix}inbox (consumer, held_at, seq) where (attempts > 0 or held_at is not null)`,
        `create table ${prefix}outbox (
  seq integer primary key autoincrement,
  mark integer not null default (${MARK}),
  created_at integer not null default (${NOW}),
  available_at integer not null,
  message_key blob not null,
  fingerprint blob not null,
  attempts integer not null default 0,
  failures integer not null default 0,
  held_at integer,
  failed_seq integer,
  failed_mark integer,
  lane integer not null default 0,
  aside integer not null default 0,
  waits integer not null default 0,
  followed integer not null default 0,
  relay text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  error text,
  history text,
  data blob not null
) strict`,
        `create index ${prefix}outbox_message on ${prefix}outbox (message_key)`,
        `create index ${prefix}outbox_lane on ${prefix}outbox (relay, lane, available_at, seq) where key is null`,
        `create index ${prefix}outbox_key on ${prefix}outbox (relay, lane, key, seq) where key is not null`,
        `create index ${prefix}outbox_front on ${prefix}outbox (relay, lane, key, seq) where key is not null and aside = 0`,
        `create index ${prefix}outbox_waits on ${prefix}outbox (relay, lane, available_at, seq) where waits = 1`,
        `create index ${prefix}outbox_tried on ${prefix}outbox (relay, held_at, seq) where (attempts > 0 or held_at is not null)`,
        `create table ${prefix}failed (
  seq integer primary key autoincrement,
  mark integer not null default (${MARK}),
  failed_at integer not null default (${NOW}),
  message_key blob not null,
  attempts integer not null,
  failures integer not null default 0,
  fingerprint blob not null,
  consumer text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  reason text not null,
  error text not null,
  history text,
  data blob not null,
  held_seq integer,
  lane integer not null default 0,
  ordered integer not null default 0,
  origin text not null default 'inbox',
  error_hash text not null default '',
  replaced_by text,
  unique (consumer, message_key, fingerprint, origin)
) strict`,
        `create index ${prefix}failed_key on ${prefix}failed (message_key)`,
        `create index ${prefix}failed_reason on ${prefix}failed (origin, consumer, reason) where replaced_by is null`,
        // Few rows are held, so these indexes cost next to nothing, and they find the held rows among millions.
        `create index ${prefix}inbox_held on ${prefix}inbox (held_at) where held_at is not null`,
        `create index ${prefix}outbox_held on ${prefix}outbox (held_at) where held_at is not null`,
        `create index ${prefix}failed_held on ${prefix}failed (held_seq) where held_seq is not null`,
        `create table ${prefix}subscriptions (
  consumer text not null,
  type text not null,
  ordered integer not null default 0,
  primary key (consumer, type)
) strict, without rowid`,
        `create table ${prefix}workers (
  id text primary key,
  started_at integer not null default (${NOW}),
  heartbeat_at integer not null default (${NOW}),
  ttl_ms integer not null,
  alone integer not null default 0,
  name text not null,
  serves text not null,
  in_hand text not null default '[]'
) strict, without rowid`,
        `create table ${prefix}relays (
  name text primary key,
  destination text not null,
  recorded_at integer not null default (${NOW})
) strict, without rowid`,
        `create table ${prefix}sent (
  seq integer primary key autoincrement,
  mark integer not null default (${MARK}),
  sent_at integer not null default (${NOW}),
  message_key blob not null,
  fingerprint blob not null,
  relay text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  data blob not null
) strict`,
        `create index ${prefix}sent_relay on ${prefix}sent (relay, seq)`,
        `create index ${prefix}sent_message on ${prefix}sent (message_key)`,
        `create table ${prefix}audit (
  seq integer primary key autoincrement,
  at integer not null default (${NOW}),
  action text not null,
  actor text not null,
  origin text,
  consumer text,
  source text,
  id text,
  type text,
  note text
) strict`,
        `create index ${prefix}audit_message on ${prefix}audit (id) where id is not null`,
        `create table ${prefix}effects (
  consumer text not null,
  message_key blob not null,
  name text not null,
  token blob not null,
  state text not null,
  attempts integer not null,
  result text,
  error text,
  first_at integer not null default (${NOW}),
  last_at integer not null default (${NOW}),
  primary key (consumer, message_key, name)
) strict, without rowid`,
        // With rowid: bodies may be large.
        `create table ${prefix}responses (
  consumer text not null,
  message_key blob not null,
  status integer not null,
  created_at integer not null default (${NOW}),
  expires_at integer not null,
  id text not null,
  headers text not null,
  body blob not null,
  primary key (consumer, message_key)
) strict`,
        `create index ${prefix}responses_expiry on ${prefix}responses (expires_at)`,
        `create index ${prefix}responses_id on ${prefix}responses (id)`,
        `create table ${prefix}endpoints (
  id text primary key,
  created_at integer not null default (${NOW}),
  changed_at integer not null default (${NOW}),
  enabled integer not null,
  relay text not null,
  url text not null,
  types text not null,
  secrets text not null,
  reason text,
  note text
) strict, without rowid`,
      ],
    },
  ]
}
