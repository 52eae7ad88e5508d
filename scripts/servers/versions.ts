import type { ServerName } from '../../test/support/servers.ts'
import type { Packages } from './archive.ts'

/** A way to a version of a server. */
export type Way =
  | { readonly apt: string }
  | { readonly npm: string }
  | { readonly archive: Packages }
  | { readonly image: string }
  /** The version of Kafka that `kafka.ts` fetches. */
  | { readonly maven: 'kafka' }

/** A version of a server that the suites run on. */
export interface ServerVersion {
  /** How people ask for it, and what its row begins with: `mysql-9.7`. */
  readonly name: string
  readonly service: ServerName
  /** What the server says that it is, without the last numbers: `MySQL 9.7`. */
  readonly says: string
  /** Tried one after the other, unless the environment names a server. */
  readonly ways: readonly Way[]
}

/** Every version, in the order of the table. */
export const versions: readonly ServerVersion[] = [
  postgres('13', { npm: '13.23.0-beta.16' }),
  postgres('14', { npm: '14.23.0-beta.17' }),
  postgres('15', { apt: 'postgresql-15' }, { npm: '15.18.0-beta.17' }),
  postgres('16', { npm: '16.14.0-beta.17' }),
  postgres('17', { npm: '17.10.0-beta.17' }),
  postgres('18', { npm: '18.4.0-beta.17' }),
  pgbouncer('1.18', 'bookworm'),
  pgbouncer('1.26', 'sid'),
  mysql('8.0', 'noble', 'mysql-server-core-8.0'),
  mysql('8.4', 'resolute', 'mysql-server-core'),
  mysql('9.7', 'sid', 'mysql-server-core'),
  mariadb('10.6', 'jammy', ['mariadb-server-10.6', 'mariadb-server-core-10.6']),
  mariadb('10.11', 'bookworm'),
  mariadb('11.4', 'plucky'),
  mariadb('11.8', 'trixie'),
  rabbitmq('3.10', 'bookworm'),
  rabbitmq('3.12', 'noble'),
  rabbitmq('4.0', 'trixie'),
  rabbitmq('4.3', 'sid'),
  nats('2.9', 'bookworm'),
  nats('2.10', 'trixie'),
  nats('2.15', 'sid'),
  redis('7.0', 'bookworm'),
  redis('8.0', 'trixie'),
  redis('8.6', 'experimental'),
  valkey('8.0', 'bookworm-backports'),
  valkey('8.1', 'trixie'),
  valkey('9.1', 'sid'),
  kafka('4'),
]

/** What other commands run on: what apt installs on Debian 12, and the Kafka that `npm run test:faults` starts. */
export const usual: readonly string[] = [
  ...['postgres-15', 'pgbouncer-1.18', 'mariadb-10.11'],
  ...['rabbitmq-3.10', 'nats-2.9', 'redis-7.0', 'kafka-4'],
]

type Suite = Packages['suite']

function postgres(version: string, ...ways: Way[]): ServerVersion {
  return {
    name: `postgres-${version}`,
    service: 'postgres',
    says: `PostgreSQL ${version}`,
    ways: [...ways, { image: `postgres:${version}` }],
  }
}

/** In front of the PostgreSQL that is installed here. */
function pgbouncer(version: string, suite: Suite): ServerVersion {
  const archive = { suite, packages: ['pgbouncer'], programs: ['usr/sbin/pgbouncer'] }
  return {
    name: `pgbouncer-${version}`,
    service: 'pgbouncer',
    says: `PgBouncer ${version}`,
    ways: [{ apt: 'pgbouncer' }, { archive }],
  }
}

function mysql(version: string, suite: Suite, debianPackage: string): ServerVersion {
  const archive = { suite, packages: [debianPackage], programs: ['usr/sbin/mysqld'] }
  return {
    name: `mysql-${version}`,
    service: 'mysql',
    says: `MySQL ${version}`,
    ways: [{ archive }, { image: `mysql:${version}` }],
  }
}

function mariadb(
  version: string,
  suite: Suite,
  packages: readonly string[] = ['mariadb-server', 'mariadb-server-core'],
): ServerVersion {
  const archive = { suite, packages, programs: ['usr/sbin/mariadbd', 'usr/bin/mariadb-install-db'] }
  return {
    name: `mariadb-${version}`,
    service: 'mysql',
    says: `MariaDB ${version}`,
    ways: [{ apt: 'mariadb-server' }, { archive }, { image: `mariadb:${version}` }],
  }
}

function rabbitmq(version: string, suite: Suite): ServerVersion {
  const scripts = ['rabbitmq-env', 'rabbitmq-server', 'rabbitmq-defaults', 'rabbitmqctl'].map(
    (each) => `usr/lib/rabbitmq/bin/${each}`,
  )
  const archive = {
    suite,
    packages: ['rabbitmq-server'],
    programs: ['usr/lib/erlang/bin/erl', ...scripts],
    rooted: { 'usr/lib/erlang/{,erts-*/}bin/erl': '/usr/lib/erlang' },
  }
  return {
    name: `rabbitmq-${version}`,
    service: 'rabbitmq',
    says: `RabbitMQ ${version}`,
    ways: [{ apt: 'rabbitmq-server' }, { archive }, { image: `rabbitmq:${version}` }],
  }
}

function nats(version: string, suite: Suite): ServerVersion {
  const archive = { suite, packages: ['nats-server'], programs: ['usr/sbin/nats-server'] }
  return {
    name: `nats-${version}`,
    service: 'nats',
    says: `NATS ${version}`,
    ways: [{ apt: 'nats-server' }, { archive }, { image: `nats:${version}-alpine` }],
  }
}

function redis(version: string, suite: Suite): ServerVersion {
  const archive = { suite, packages: ['redis-server'], programs: ['usr/bin/redis-server'] }
  return {
    name: `redis-${version}`,
    service: 'redis',
    says: `Redis ${version}`,
    ways: [{ apt: 'redis-server' }, { archive }, { image: `redis:${version}` }],
  }
}

function kafka(version: string): ServerVersion {
  return {
    name: `kafka-${version}`,
    service: 'kafka',
    says: `Kafka ${version}`,
    ways: [{ maven: 'kafka' }, { image: 'apache/kafka:4.1.0' }],
  }
}

function valkey(version: string, suite: Suite): ServerVersion {
  const archive = { suite, packages: ['valkey-server'], programs: ['usr/bin/valkey-server'] }
  return {
    name: `valkey-${version}`,
    service: 'redis',
    says: `Valkey ${version}`,
    ways: [{ archive }, { image: `valkey/valkey:${version}` }],
  }
}
