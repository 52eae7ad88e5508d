import type { MigrationSource } from '../../core/sql/index.ts'

/**
 * The schema, step by step. A released step is never changed: add one. DDL commits by itself here, so every statement has
 * to be one that can be repeated after a crash in the middle of a step.
 *
 * Text is stored as bytes: only they compare exactly, and no character set of a connection can change them. Texts of up to
 * 2048 bytes may grow to three times that when they are encoded.
 */
export function migrations(prefix: string): readonly MigrationSource[] {
  return [
    {
      version: 1,
      name: 'inbox and outbox',
      sql: [
        `create table if not exists ${prefix}receipts (
  consumer varbinary(255) not null,
  message_key binary(16) not null,
  token binary(16) not null,
  fingerprint binary(8) not null,
  taken_at datetime(6) not null,
  source varbinary(6148) not null,
  id varbinary(6148) not null,
  type varbinary(6148) not null,
  primary key (consumer, message_key)
) engine = innodb row_format = dynamic`,
        `create table if not exists ${prefix}inbox (
  seq bigint not null auto_increment primary key,
  created_at datetime(6) not null,
  available_at datetime(6) not null,
  message_key binary(16) not null,
  attempts int not null default 0,
  lost int not null default 0,
  starts int not null default 0,
  fingerprint binary(8) not null,
  consumer varbinary(255) not null,
  source varbinary(6148) not null,
  id varbinary(6148) not null,
  type varbinary(6148) not null,
  \`key\` varbinary(6148),
  attributes longblob not null,
  error longblob,
  data longblob not null,
  index inbox_due (consumer, available_at, seq),
  index inbox_message (message_key)
) engine = innodb row_format = dynamic`,
        `create table if not exists ${prefix}outbox (
  seq bigint not null auto_increment primary key,
  created_at datetime(6) not null,
  available_at datetime(6) not null,
  message_key binary(16) not null,
  fingerprint binary(8) not null,
  relay varbinary(255) not null,
  source varbinary(6148) not null,
  id varbinary(6148) not null,
  type varbinary(6148) not null,
  \`key\` varbinary(6148),
  attributes longblob not null,
  data longblob not null
) engine = innodb row_format = dynamic`,
        `create table if not exists ${prefix}failed (
  seq bigint not null auto_increment primary key,
  failed_at datetime(6) not null,
  message_key binary(16) not null,
  attempts int not null,
  fingerprint binary(8) not null,
  consumer varbinary(255) not null,
  source varbinary(6148) not null,
  id varbinary(6148) not null,
  type varbinary(6148) not null,
  \`key\` varbinary(6148),
  attributes longblob not null,
  reason varbinary(255) not null,
  error longblob not null,
  data longblob not null,
  unique index failed_message (consumer, message_key, fingerprint)
) engine = innodb row_format = dynamic`,
        // By type first: a publisher looks for the consumers of a type, and locks what it reads.
        `create table if not exists ${prefix}subscriptions (
  type varbinary(2048) not null,
  consumer varbinary(255) not null,
  primary key (type, consumer)
) engine = innodb row_format = dynamic`,
      ],
    },
  ]
}
