import { join } from 'node:path'
import { createConnection } from 'mysql2/promise'
import pg from 'pg'
import { LinkProxy } from '../../src/conformance/brokers/link-proxy.ts'
import { until } from '../../src/testing/wait.ts'
import type { Host } from './clusters/network.ts'
import { type PrivateServer, privateServer } from './private-server.ts'

export type Rows = readonly Readonly<Record<string, unknown>>[]

/** Two servers of one database, of which the second gets what the first has written, some time later. */
export interface Replicated extends AsyncDisposable {
  /** The address that does not change in a failover. */
  readonly url: string
  readonly primary: PrivateServer
  readonly replica: PrivateServer
  onPrimary(text: string): Promise<Rows>
  onReplica(text: string): Promise<Rows>
  /** Stops replication. */
  cut(): Promise<void>
  /** Kills the primary and points the address at the replica, which does not accept writes yet. */
  fail(): Promise<void>
  /** Points the address at the replica; links to the primary stay as they are unless they are cut. */
  move(links: 'cut' | 'stay'): void
  /** Promotes the replica to primary, when it has applied all that it has received. */
  promote(): Promise<void>
}

export interface ReplicatedOptions {
  /** Whether a commit waits until the replica has it. @default false */
  readonly synchronous?: boolean
  /** Where the primary and the replica run. @default both on this machine's loopback address */
  readonly hosts?: readonly [primary: Host, replica: Host]
}

type Servers = Pick<PrivateServer, 'url'>

/** How one kind of database replicates. */
interface Kind {
  primary(options: ReplicatedOptions): Promise<PrivateServer>
  /** A replica that reads from this URL. */
  replica(source: URL, options: ReplicatedOptions): Promise<PrivateServer>
  /** From here on, if it is to be so, the primary waits for the replica. */
  follow(primary: Servers, options: ReplicatedOptions): Promise<void>
  promote(replica: Servers): Promise<void>
  ask(server: Servers, text: string): Promise<Rows>
}

const postgres: Kind = {
  primary: ({ synchronous, hosts }) =>
    privateServer('postgres', {
      ...(hosts && { host: hosts[0] }),
      args: synchronous ? ['-c', 'synchronous_standby_names=*'] : [],
    }),
  replica: ({ hostname, port }, { hosts }) =>
    privateServer('postgres', {
      ...(hosts && { host: hosts[1] }),
      prepare: (directory, programs) => [
        [
          join(programs, 'pg_basebackup'),
          ...['-D', join(directory, 'data'), '-h', hostname, '-p', port, '-U', 'hapax'],
          ...['--write-recovery-conf', '--checkpoint=fast', '--no-sync'],
        ],
      ],
    }),
  follow: async () => {},
  promote: async (replica) => void (await postgres.ask(replica, 'select pg_promote()')),
  ask: async ({ url }, text) => {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 60_000 })
    client.on('error', () => {})
    await client.connect()
    try {
      return (await client.query(text)).rows
    } finally {
      await client.end()
    }
  },
}

const mysql: Kind = {
  primary: ({ hosts }) =>
    privateServer('mysql', {
      ...(hosts && { host: hosts[0] }),
      args: ['--server-id=1', '--log-bin=binlog', '--sync-binlog=1', '--rpl-semi-sync-master-timeout=3600000'],
    }),
  replica: async ({ hostname, port }, { synchronous, hosts }) => {
    // The database and the user may exist already when it is asked to create them.
    const known = '--slave-skip-errors=1007,1396'
    const semi = synchronous ? ['--rpl-semi-sync-slave-enabled=1'] : []
    const server = await privateServer('mysql', {
      ...(hosts && { host: hosts[1] }),
      args: ['--server-id=2', '--log-bin=binlog', '--read-only=1', known, ...semi],
    })
    const source = `master_host = '${hostname}', master_port = ${port}, master_user = 'root'`
    await mysql.ask(server, `change master to ${source}, master_connect_retry = 1, master_use_gtid = no`)
    await mysql.ask(server, 'start slave')
    return server
  },
  follow: async (primary, { synchronous }) => {
    if (!synchronous) return
    await mysql.ask(primary, `set global rpl_semi_sync_master_wait_point = 'AFTER_SYNC'`)
    await mysql.ask(primary, 'set global rpl_semi_sync_master_enabled = 1')
    const waits = async (): Promise<boolean> => {
      const [row] = await mysql.ask(primary, `show status like 'Rpl_semi_sync_master_clients'`)
      return Number(row?.['Value']) > 0
    }
    await until(waits, 'the replica to be a semi-synchronous one')
  },
  promote: async (replica) => {
    await mysql.ask(replica, 'stop slave io_thread')
    // It acknowledges what it has received, not what it has applied. Of a transaction that it has received in part it applies nothing.
    let [last, since] = ['', 0]
    const applied = async (): Promise<boolean> => {
      const [row = {}] = await mysql.ask(replica, 'show slave status')
      const isAt = (one: string, other: string): boolean => String(row[one]) === String(row[other])
      if (isAt('Relay_Master_Log_File', 'Master_Log_File') && isAt('Exec_Master_Log_Pos', 'Read_Master_Log_Pos'))
        return true
      const at = `${row['Exec_Master_Log_Pos']} ${row['Slave_SQL_Running_State']}`
      if (at !== last || !at.includes('has read all relay log')) since = performance.now()
      last = at
      // It says so, too, until it has woken up to read what came last.
      return performance.now() - since > 3_000
    }
    await until(applied, 'the replica to apply what it has received')
    for (const text of ['stop slave', 'reset slave all', 'set global read_only = 0']) await mysql.ask(replica, text)
  },
  ask: async ({ url }, text) => {
    const client = await createConnection({ uri: url, connectTimeout: 60_000 })
    client.on('error', () => {})
    try {
      return (await client.query(text))[0] as unknown as Rows
    } finally {
      await client.end()
    }
  },
}

const kinds = { postgres, mysql }

/** Starts a primary and its replica. */
export async function replicated(store: 'postgres' | 'mysql', options: ReplicatedOptions = {}): Promise<Replicated> {
  const kind = kinds[store]
  await using stack = new AsyncDisposableStack()
  const primary = stack.use(await kind.primary(options))
  // Between hosts, the network itself can be cut.
  const replication = options.hosts ? undefined : stack.use(await LinkProxy.open(primary.url))
  const replica = stack.use(await kind.replica(new URL(replication?.url ?? primary.url), options))
  await kind.follow(primary, options)
  const front = stack.use(await LinkProxy.open(primary.url))
  const all = stack.move()
  const move = (links: 'cut' | 'stay'): void => {
    front.moveTo(replica.url)
    if (links === 'cut') front.cut()
  }
  return {
    url: front.url,
    primary,
    replica,
    move,
    onPrimary: (text) => kind.ask(primary, text),
    onReplica: (text) => kind.ask(replica, text),
    cut: async () => (replication === undefined ? options.hosts?.[0].isolate('other hosts') : replication.refuse()),
    fail: async () => {
      await primary.kill()
      move('cut')
    },
    promote: () => kind.promote(replica),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}
