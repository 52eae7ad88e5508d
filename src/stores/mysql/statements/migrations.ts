import type { MigrationSource } from '../../sql/index.ts'
import { publishProcedure } from './publish.ts'

/** What tells a row from another one that gets its number from a promoted replica. */
const MARK = 'conv(left(sha2(uuid(), 256), 12), 16, 10)'

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
      compatibleFrom: 1,
      name: 'hapax',
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
        // A key is too long for an index, so its hash stands for it: null where order does not count. Generated, so that
        // publishers in other languages write it as well; stored, because indexes on virtual columns have failed too often.
        // By time are rows without order (timed: 0) and first rows of keys that wait for their time (1), not the others (2); those that are held (3)
        // are listed by it.
        // The attempts are in the index by time so that counting does not read the rows.
        // The size of the payload is stored too: to measure a large one, the server would have to read it.
        `create table if not exists ${prefix}inbox (
  seq bigint not null auto_increment primary key,
  mark bigint not null default (${MARK}),
  created_at datetime(6) not null,
  available_at datetime(6) not null,
  set_at datetime(6) not null default (utc_timestamp(6)),
  first_due_at datetime(6),
  message_key binary(16) not null,
  attempts int not null default 0,
  lost int not null default 0,
  starts int not null default 0,
  crashes int not null default 0,
  failures int not null default 0,
  held_at datetime(6),
  failed_seq bigint,
  failed_mark bigint,
  lease_token binary(16),
  fence bigint not null default 0,
  lane tinyint unsigned not null default 0,
  ordered tinyint not null default 0,
  aside tinyint not null default 0,
  waits tinyint not null default 0,
  followed tinyint not null default 0,
  fingerprint binary(8) not null,
  consumer varbinary(255) not null,
  source varbinary(6148) not null,
  id varbinary(6148) not null,
  type varbinary(6148) not null,
  \`key\` varbinary(6148),
  attributes longblob not null,
  error longblob,
  history longblob,
  data longblob not null,
  bytes int unsigned generated always as (length(data)) stored,
  key_hash binary(32) generated always as (if(ordered = 1, unhex(sha2(\`key\`, 256)), null)) stored,
  timed tinyint generated always as (if(ordered = 0, 0, if(held_at is not null, 3, if(waits = 1, 1, 2)))) stored,
  index inbox_message (message_key),
  index inbox_lane (consumer, lane, timed, available_at, seq, attempts),
  index inbox_key (consumer, lane, key_hash, seq),
  index inbox_front (consumer, lane, aside, key_hash, seq)
) engine = innodb row_format = dynamic`,
        `create table if not exists ${prefix}outbox (
  seq bigint not null auto_increment primary key,
  mark bigint not null default (${MARK}),
  created_at datetime(6) not null,
  available_at datetime(6) not null,
  set_at datetime(6) not null default (utc_timestamp(6)),
  message_key binary(16) not null,
  fingerprint binary(8) not null,
  attempts int not null default 0,
  failures int not null default 0,
  held_at datetime(6),
  failed_seq bigint,
  failed_mark bigint,
  lane tinyint unsigned not null default 0,
  aside tinyint not null default 0,
  waits tinyint not null default 0,
  followed tinyint not null default 0,
  relay varbinary(255) not null,
  source varbinary(6148) not null,
  id varbinary(6148) not null,
  type varbinary(6148) not null,
  \`key\` varbinary(6148),
  attributes longblob not null,
  error longblob,
  history longblob,
  data longblob not null,
  bytes int unsigned generated always as (length(data)) stored,
  key_hash binary(32) generated always as (unhex(sha2(\`key\`, 256))) stored,
  timed tinyint generated always as (if(\`key\` is null, 0, if(held_at is not null, 3, if(waits = 1, 1, 2)))) stored,
  index outbox_message (message_key),
  index outbox_lane (relay, lane, timed, available_at, seq, attempts),
  index outbox_key (relay, lane, key_hash, seq),
  index outbox_front (relay, lane, aside, key_hash, seq)
) engine = innodb row_format = dynamic`,
        `create table if not exists ${prefix}failed (
  seq bigint not null auto_increment primary key,
  mark bigint not null default (${MARK}),
  failure_seq bigint,
  failed_at datetime(6) not null,
  message_key binary(16) not null,
  attempts int not null,
  failures int not null default 0,
  held_seq bigint,
  lane tinyint unsigned not null default 0,
  ordered tinyint not null default 0,
  origin varbinary(16) not null default 'inbox',
  fingerprint binary(8) not null,
  consumer varbinary(255) not null,
  source varbinary(6148) not null,
  id varbinary(6148) not null,
  type varbinary(6148) not null,
  \`key\` varbinary(6148),
  attributes longblob not null,
  reason varbinary(255) not null,
  error longblob not null,
  error_hash varbinary(64) not null default '',
  history longblob,
  replaced_by varbinary(6148),
  data longblob not null,
  replaced tinyint generated always as (if(replaced_by is null, 0, 1)) stored,
  unique index failed_message (consumer, message_key, fingerprint, origin),
  index failed_key (message_key),
  index failed_reason (replaced, origin, consumer, reason),
  index failed_held (held_seq)
) engine = innodb row_format = dynamic`,
        // By type first: a publisher looks for the consumers of a type, and locks what it reads.
        `create table if not exists ${prefix}subscriptions (
  type varbinary(2048) not null,
  consumer varbinary(255) not null,
  ordered tinyint not null default 0,
  primary key (type, consumer)
) engine = innodb row_format = dynamic`,
        `create table if not exists ${prefix}workers (
  id varbinary(255) not null primary key,
  started_at datetime(6) not null,
  heartbeat_at datetime(6) not null,
  ttl_ms int not null,
  alone tinyint not null default 0,
  name varbinary(6148) not null,
  serves longblob not null,
  in_hand longblob not null
) engine = innodb row_format = dynamic`,
        `create table if not exists ${prefix}relays (
  name varbinary(255) not null primary key,
  destination varbinary(6148) not null,
  recorded_at datetime(6) not null
) engine = innodb row_format = dynamic`,
        `create table if not exists ${prefix}sent (
  seq bigint not null auto_increment primary key,
  mark bigint not null default (${MARK}),
  sent_at datetime(6) not null,
  message_key binary(16) not null,
  fingerprint binary(8) not null,
  relay varbinary(255) not null,
  source varbinary(6148) not null,
  id varbinary(6148) not null,
  type varbinary(6148) not null,
  \`key\` varbinary(6148),
  attributes longblob not null,
  data longblob not null,
  index sent_relay (relay, seq),
  index sent_message (message_key)
) engine = innodb row_format = dynamic`,
        `create table if not exists ${prefix}audit (
  seq bigint not null auto_increment primary key,
  at datetime(6) not null,
  action varbinary(32) not null,
  actor varbinary(6148) not null,
  origin varbinary(16),
  consumer varbinary(765),
  source varbinary(6148),
  id varbinary(6148),
  type varbinary(6148),
  note longblob,
  index audit_message (id(100))
) engine = innodb row_format = dynamic`,
        `create table if not exists ${prefix}effects (
  consumer varbinary(255) not null,
  message_key binary(16) not null,
  name varbinary(512) not null,
  token binary(16) not null,
  state varbinary(16) not null,
  attempts int not null,
  place int not null,
  result longblob,
  error longblob,
  first_at datetime(6) not null,
  last_at datetime(6) not null,
  primary key (consumer, message_key, name)
) engine = innodb row_format = dynamic`,
        `create table if not exists ${prefix}responses (
  consumer varbinary(255) not null,
  message_key binary(16) not null,
  status int not null,
  created_at datetime(6) not null,
  expires_at datetime(6) not null,
  id varbinary(6148) not null,
  headers longblob not null,
  body longblob not null,
  primary key (consumer, message_key),
  index responses_expiry (expires_at),
  index responses_id (id(100))
) engine = innodb row_format = dynamic`,
        `create table if not exists ${prefix}endpoints (
  id varbinary(255) not null primary key,
  created_at datetime(6) not null,
  changed_at datetime(6) not null,
  enabled tinyint not null,
  relay varbinary(255) not null,
  url longblob not null,
  types longblob not null,
  secrets longblob not null,
  reason longblob,
  note longblob
) engine = innodb row_format = dynamic`,
        `create table if not exists ${prefix}operations (
  id varbinary(255) not null primary key,
  created_at datetime(6) not null,
  changed_at datetime(6) not null,
  ended_at datetime(6),
  leased_until datetime(6),
  total bigint not null,
  done bigint not null default 0,
  gone bigint not null default 0,
  errors bigint not null default 0,
  up_to bigint,
  up_to_mark bigint,
  after_seq bigint,
  after_mark bigint,
  per_second double,
  kind varbinary(16) not null,
  state varbinary(16) not null default 'running',
  token varbinary(255),
  conditions longblob not null,
  actor varbinary(6148) not null,
  note longblob,
  error longblob,
  index operations_state (state, id),
  index operations_ended (ended_at)
) engine = innodb row_format = dynamic`,
        `create table if not exists ${prefix}pauses (
  origin varbinary(16) not null,
  scope varbinary(765) not null,
  at datetime(6) not null,
  actor varbinary(6148) not null,
  note longblob,
  primary key (origin, scope)
) engine = innodb row_format = dynamic`,
        // A row for each worker, so that none waits for another one.
        `create table if not exists ${prefix}samples (
  at datetime not null,
  worker varbinary(255) not null,
  origin varbinary(16) not null,
  scope varbinary(765) not null,
  done bigint not null,
  duplicates bigint not null,
  retried bigint not null,
  failed bigint not null,
  lag_ms double not null,
  aged bigint not null,
  waiting bigint,
  oldest_ms double,
  primary key (at, worker, origin, scope)
) engine = innodb row_format = dynamic`,
        ...publishProcedure(prefix),
      ],
    },
  ]
}
