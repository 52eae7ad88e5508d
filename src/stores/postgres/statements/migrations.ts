import type { MigrationSource } from '../../sql/index.ts'
import { publishFunction } from './publish.ts'

/** What tells a row from another one that gets its number from a promoted replica. */
const MARK = '(random() * 281474976710655)::bigint'

/** The schema, step by step. A released step is never changed: add one. */
export function migrations(schema: string): readonly MigrationSource[] {
  return [
    {
      version: 1,
      name: 'hapax',
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
  mark bigint not null default ${MARK},
  created_at timestamptz not null default clock_timestamp(),
  available_at timestamptz not null,
  held_at timestamptz,
  fence bigint not null default 0,
  message_key uuid not null,
  lease_token uuid,
  attempts integer not null default 0,
  lost integer not null default 0,
  starts integer not null default 0,
  crashes integer not null default 0,
  lane smallint not null default 0,
  ordered boolean not null default false,
  aside boolean not null default false,
  waits boolean not null default false,
  followed boolean not null default false,
  fingerprint bytea not null,
  consumer text not null,
  source text not null,
  id text not null,
  type text not null,
  key text collate "C",
  attributes text not null,
  error text,
  data bytea not null
)`,
        `create index inbox_message on ${schema}.inbox (message_key)`,
        `create index inbox_lane on ${schema}.inbox (consumer, lane, available_at, seq) where not ordered`,
        `create index inbox_suspect on ${schema}.inbox (consumer, lane, available_at, seq) where not ordered and starts > 0`,
        `create index inbox_key on ${schema}.inbox (consumer, lane, key, seq) where ordered`,
        // What a look goes through, without the keys that cannot run now, and those of them that wait for their time.
        `create index inbox_front on ${schema}.inbox (consumer, lane, key, seq) where ordered and not aside`,
        `create index inbox_waits on ${schema}.inbox (consumer, lane, available_at, seq) where waits`,
        `create table ${schema}.outbox (
  seq bigint generated always as identity primary key,
  mark bigint not null default ${MARK},
  created_at timestamptz not null default clock_timestamp(),
  available_at timestamptz not null,
  held_at timestamptz,
  message_key uuid not null,
  attempts integer not null default 0,
  lane smallint not null default 0,
  aside boolean not null default false,
  waits boolean not null default false,
  followed boolean not null default false,
  fingerprint bytea not null,
  relay text not null,
  source text not null,
  id text not null,
  type text not null,
  key text collate "C",
  attributes text not null,
  error text,
  data bytea not null
)`,
        `create index outbox_lane on ${schema}.outbox (relay, lane, available_at, seq) where key is null`,
        `create index outbox_key on ${schema}.outbox (relay, lane, key, seq) where key is not null`,
        `create index outbox_front on ${schema}.outbox (relay, lane, key, seq) where key is not null and not aside`,
        `create index outbox_waits on ${schema}.outbox (relay, lane, available_at, seq) where waits`,
        `create table ${schema}.failed (
  seq bigint generated always as identity primary key,
  mark bigint not null default ${MARK},
  failed_at timestamptz not null default clock_timestamp(),
  held_seq bigint,
  message_key uuid not null,
  attempts integer not null,
  lane smallint not null default 0,
  ordered boolean not null default false,
  fingerprint bytea not null,
  origin text not null default 'inbox',
  consumer text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  reason text not null,
  error text not null,
  error_hash text not null default '',
  replaced_by text,
  data bytea not null,
  constraint hapax_failed_message unique (consumer, message_key, fingerprint, origin)
)`,
        `create index failed_key on ${schema}.failed (message_key)`,
        // Few rows are held, so these indexes cost next to nothing, and they find the held rows among millions.
        `create index inbox_held on ${schema}.inbox (held_at) where held_at is not null`,
        `create index outbox_held on ${schema}.outbox (held_at) where held_at is not null`,
        `create index failed_held on ${schema}.failed (held_seq) where held_seq is not null`,
        `create table ${schema}.subscriptions (
  consumer text not null,
  type text not null,
  ordered boolean not null default false,
  primary key (consumer, type)
)`,
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
  mark bigint not null default ${MARK},
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
        `create index sent_relay on ${schema}.sent (relay, seq)`,
        `create index sent_message on ${schema}.sent (message_key)`,
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
        // An id may be longer than what an index takes.
        `create index audit_message on ${schema}.audit (left(id, 100)) where id is not null`,
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
        publishFunction(schema),
      ],
    },
  ]
}
