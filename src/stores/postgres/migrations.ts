import type { MigrationSource } from '../../core/sql/index.ts'
import { publishFunction } from './publish.ts'

/** The schema, step by step. A released step is never changed: add one. */
export function migrations(schema: string): readonly MigrationSource[] {
  return [
    {
      version: 1,
      name: 'inbox and outbox',
      sql: [
        // Columns by alignment, widest first: a receipt has to stay small.
        `create table ${schema}.receipts (
  taken_at timestamptz not null default clock_timestamp(),
  message_key uuid not null,
  token uuid not null,
  fingerprint bytea not null,
  consumer text not null,
  source text not null,
  id text not null,
  type text not null,
  constraint hapax_receipts_key primary key (consumer, message_key)
)`,
        `create table ${schema}.inbox (
  seq bigint generated always as identity primary key,
  created_at timestamptz not null default clock_timestamp(),
  available_at timestamptz not null,
  message_key uuid not null,
  attempts integer not null default 0,
  lost integer not null default 0,
  starts integer not null default 0,
  fingerprint bytea not null,
  consumer text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  error text,
  data bytea not null
)`,
        `create index inbox_due on ${schema}.inbox (consumer, available_at, seq)`,
        `create index inbox_message on ${schema}.inbox (message_key)`,
        `create table ${schema}.outbox (
  seq bigint generated always as identity primary key,
  created_at timestamptz not null default clock_timestamp(),
  available_at timestamptz not null,
  message_key uuid not null,
  fingerprint bytea not null,
  relay text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  data bytea not null
)`,
        `create table ${schema}.failed (
  seq bigint generated always as identity primary key,
  failed_at timestamptz not null default clock_timestamp(),
  message_key uuid not null,
  attempts integer not null,
  fingerprint bytea not null,
  consumer text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  reason text not null,
  error text not null,
  data bytea not null,
  constraint hapax_failed_message unique (consumer, message_key, fingerprint)
)`,
        `create table ${schema}.subscriptions (
  consumer text not null,
  type text not null,
  primary key (consumer, type)
)`,
      ],
    },
    {
      version: 2,
      name: 'workers, relays and order',
      sql: [
        // All tables at once, because transactions at work take them in many orders and would deadlock with one after the
        // other. Shortly, because all that come later wait behind; and a try is longer now and then, so that long handlers
        // end within one.
        `select set_config('lock_timeout', (100 * 2 ^ floor(6 * random() ^ 2))::integer::text, true)`,
        `lock table ${schema}.subscriptions, ${schema}.inbox, ${schema}.outbox, ${schema}.failed in access exclusive mode`,
        `alter table ${schema}.inbox
  add column held_at timestamptz,
  add column crashes integer not null default 0,
  add column lane smallint not null default 0,
  add column ordered boolean not null default false,
  alter column key type text collate "C"`,
        `drop index ${schema}.inbox_due`,
        `create index inbox_lane on ${schema}.inbox (consumer, lane, available_at, seq) where not ordered`,
        `create index inbox_key on ${schema}.inbox (consumer, lane, key, seq) where ordered`,
        `alter table ${schema}.outbox
  add column held_at timestamptz,
  add column attempts integer not null default 0,
  add column lane smallint not null default 0,
  add column error text,
  alter column key type text collate "C"`,
        `create index outbox_lane on ${schema}.outbox (relay, lane, available_at, seq) where key is null`,
        `create index outbox_key on ${schema}.outbox (relay, lane, key, seq) where key is not null`,
        `alter table ${schema}.failed
  add column held_seq bigint,
  add column lane smallint not null default 0,
  add column ordered boolean not null default false,
  add column origin text not null default 'inbox',
  add column error_hash text not null default '',
  add column replaced_by text,
  drop constraint hapax_failed_message,
  add constraint hapax_failed_message unique (consumer, message_key, fingerprint, origin)`,
        // Few rows are held: these cost nothing but for them, and find them among millions.
        `create index inbox_held on ${schema}.inbox (held_at) where held_at is not null`,
        `create index outbox_held on ${schema}.outbox (held_at) where held_at is not null`,
        `create index failed_held on ${schema}.failed (held_seq) where held_seq is not null`,
        `alter table ${schema}.subscriptions add column ordered boolean not null default false`,
        `create table ${schema}.workers (
  id text primary key,
  started_at timestamptz not null default clock_timestamp(),
  heartbeat_at timestamptz not null default clock_timestamp(),
  ttl_ms integer not null,
  alone boolean not null default false,
  name text not null,
  serves text not null,
  in_hand text not null default '[]'
)`,
        `create table ${schema}.relays (
  name text primary key,
  destination text not null,
  recorded_at timestamptz not null default clock_timestamp()
)`,
        `create table ${schema}.sent (
  seq bigint generated always as identity primary key,
  sent_at timestamptz not null default clock_timestamp(),
  message_key uuid not null,
  fingerprint bytea not null,
  relay text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  data bytea not null
)`,
        `create table ${schema}.audit (
  seq bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  action text not null,
  actor text not null,
  origin text,
  consumer text,
  source text,
  id text,
  type text,
  note text
)`,
        publishFunction(schema),
      ],
    },
    {
      version: 3,
      name: 'leases and effects',
      sql: [
        `select set_config('lock_timeout', (100 * 2 ^ floor(6 * random() ^ 2))::integer::text, true)`,
        `alter table ${schema}.inbox
  add column lease_token uuid,
  add column fence bigint not null default 0`,
        `create table ${schema}.effects (
  first_at timestamptz not null default clock_timestamp(),
  last_at timestamptz not null default clock_timestamp(),
  message_key uuid not null,
  token uuid not null,
  attempts integer not null,
  consumer text not null,
  name text not null,
  state text not null,
  result text,
  error text,
  primary key (consumer, message_key, name)
)`,
      ],
    },
  ]
}
