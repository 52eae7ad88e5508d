import type { MigrationSource } from '../../core/sql/index.ts'

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
  ]
}
