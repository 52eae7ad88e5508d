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
  ]
}
