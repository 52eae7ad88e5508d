import type { MigrationSource } from '../../core/sql/index.ts'

/** Milliseconds since 1970 on SQLite's own clock. */
export const NOW = `cast(round(unixepoch('subsec') * 1000) as integer)`

/** The schema, step by step. A released step is never changed: add one. */
export function migrations(prefix: string): readonly MigrationSource[] {
  return [
    {
      version: 1,
      name: 'inbox and outbox',
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
        // Autoincrement: else the seq of a deleted last row would be given out again.
        `create table ${prefix}inbox (
  seq integer primary key autoincrement,
  created_at integer not null default (${NOW}),
  available_at integer not null,
  message_key blob not null,
  attempts integer not null default 0,
  lost integer not null default 0,
  starts integer not null default 0,
  fingerprint blob not null,
  consumer text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  error text,
  data blob not null
) strict`,
        `create index ${prefix}inbox_due on ${prefix}inbox (consumer, available_at, seq)`,
        `create index ${prefix}inbox_message on ${prefix}inbox (message_key)`,
        `create table ${prefix}outbox (
  seq integer primary key autoincrement,
  created_at integer not null default (${NOW}),
  available_at integer not null,
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
        `create table ${prefix}failed (
  seq integer primary key autoincrement,
  failed_at integer not null default (${NOW}),
  message_key blob not null,
  attempts integer not null,
  fingerprint blob not null,
  consumer text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  reason text not null,
  error text not null,
  data blob not null,
  unique (consumer, message_key, fingerprint)
) strict`,
        `create table ${prefix}subscriptions (
  consumer text not null,
  type text not null,
  primary key (consumer, type)
) strict, without rowid`,
      ],
    },
    {
      version: 2,
      name: 'workers, relays and order',
      sql: [
        `alter table ${prefix}inbox add column held_at integer`,
        `alter table ${prefix}inbox add column crashes integer not null default 0`,
        `alter table ${prefix}inbox add column lane integer not null default 0`,
        `alter table ${prefix}inbox add column ordered integer not null default 0`,
        `drop index ${prefix}inbox_due`,
        `create index ${prefix}inbox_lane on ${prefix}inbox (consumer, lane, available_at, seq) where ordered = 0`,
        `create index ${prefix}inbox_key on ${prefix}inbox (consumer, lane, key, seq) where ordered = 1`,
        `alter table ${prefix}outbox add column held_at integer`,
        `alter table ${prefix}outbox add column attempts integer not null default 0`,
        `alter table ${prefix}outbox add column lane integer not null default 0`,
        `alter table ${prefix}outbox add column error text`,
        `create index ${prefix}outbox_lane on ${prefix}outbox (relay, lane, available_at, seq) where key is null`,
        `create index ${prefix}outbox_key on ${prefix}outbox (relay, lane, key, seq) where key is not null`,
        // A unique constraint cannot be changed: the table is written anew, and goes on counting where it was.
        `create table ${prefix}failed_new (
  seq integer primary key autoincrement,
  failed_at integer not null default (${NOW}),
  message_key blob not null,
  attempts integer not null,
  fingerprint blob not null,
  consumer text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  reason text not null,
  error text not null,
  data blob not null,
  held_seq integer,
  lane integer not null default 0,
  ordered integer not null default 0,
  origin text not null default 'inbox',
  error_hash text not null default '',
  replaced_by text,
  unique (consumer, message_key, fingerprint, origin)
) strict`,
        `insert into sqlite_sequence (name, seq)
select '${prefix}failed_new', seq from sqlite_sequence where name = '${prefix}failed'`,
        `insert into ${prefix}failed_new
  (seq, failed_at, message_key, attempts, fingerprint, consumer, source, id, type, key, attributes, reason, error, data)
select seq, failed_at, message_key, attempts, fingerprint, consumer, source, id, type, key, attributes, reason, error, data
from ${prefix}failed`,
        `drop table ${prefix}failed`,
        `alter table ${prefix}failed_new rename to ${prefix}failed`,
        // Few rows are held: these cost nothing but for them, and find them among millions.
        `create index ${prefix}inbox_held on ${prefix}inbox (held_at) where held_at is not null`,
        `create index ${prefix}outbox_held on ${prefix}outbox (held_at) where held_at is not null`,
        `create index ${prefix}failed_held on ${prefix}failed (held_seq) where held_seq is not null`,
        `alter table ${prefix}subscriptions add column ordered integer not null default 0`,
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
      ],
    },
    {
      version: 3,
      name: 'leases and effects',
      sql: [
        `alter table ${prefix}inbox add column lease_token blob`,
        `alter table ${prefix}inbox add column fence integer not null default 0`,
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
      ],
    },
  ]
}
