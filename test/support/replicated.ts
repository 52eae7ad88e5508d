import { join } from 'node:path'
import { createConnection } from 'mysql2/promise'
import pg from 'pg'
import { LinkProxy } from './link-proxy.ts'
import { type PrivateServer, privateServer } from './private-server.ts'

type Rows = readonly Readonly<Record<string, unknown>>[]

/** Two servers of one database, of which the second gets what the first has written, some time later. */
export interface Replicated extends AsyncDisposable {
  /** The address that does not change in a failover. */
  readonly url: string
  onPrimary(text: string): Promise<Rows>
  onReplica(text: string): Promise<Rows>
  /** Stops replication. */
  cut(): Promise<void>
  /** Kills the primary and points the address at the replica, which does not accept writes yet. */
  fail(): Promise<void>
  /** Promotes the replica to primary. */
  promote(): Promise<void>
}

type Servers = Pick<PrivateServer, 'url'>

/** How one kind of database replicates. */
interface Kind {
  primary(): Promise<PrivateServer>
  /** A replica that reads from this URL. */
  replica(source: URL): Promise<PrivateServer>
  /** Run one after the other on a replica. */
  readonly promotion: readonly string[]
  ask(server: Servers, text: string): Promise<Rows>
}

const kinds: Record<'postgres' | 'mysql', Kind> = {
  postgres: {
    primary: () => privateServer('postgres'),
    replica: ({ hostname, port }) =>
      privateServer('postgres', {
        prepare: (directory, programs) => [
          [
            join(programs, 'pg_basebackup'),
            ...['-D', join(directory, 'data'), '-h', hostname, '-p', port, '-U', 'hapax'],
            ...['--write-recovery-conf', '--checkpoint=fast', '--no-sync'],
          ],
        ],
      }),
    promotion: ['select pg_promote()'],
    ask: async ({ url }, text) => {
      const client = new pg.Client(url)
      client.on('error', () => {})
      await client.connect()
      try {
        return (await client.query(text)).rows
      } finally {
        await client.end()
      }
    },
  },
  mysql: {
    primary: () => privateServer('mysql', { args: ['--server-id=1', '--log-bin=binlog'] }),
    replica: async ({ hostname, port }) => {
      // The database may exist already when it is asked to create one.
      const args = ['--server-id=2', '--log-bin=binlog', '--read-only=1', '--slave-skip-errors=1007']
      const server = await privateServer('mysql', { args })
      const source = `master_host = '${hostname}', master_port = ${port}, master_user = 'root'`
      await kinds.mysql.ask(server, `change master to ${source}, master_use_gtid = no`)
      await kinds.mysql.ask(server, 'start slave')
      return server
    },
    promotion: ['stop slave', 'reset slave all', 'set global read_only = 0'],
    ask: async ({ url }, text) => {
      const client = await createConnection(url)
      client.on('error', () => {})
      try {
        return (await client.query(text))[0] as unknown as Rows
      } finally {
        await client.end()
      }
    },
  },
}

/** Starts a primary and its asynchronous replica. */
export async function replicated(store: 'postgres' | 'mysql'): Promise<Replicated> {
  const kind = kinds[store]
  await using stack = new AsyncDisposableStack()
  const primary = stack.use(await kind.primary())
  const replication = stack.use(await LinkProxy.open(primary.url))
  const replica = stack.use(await kind.replica(new URL(replication.url)))
  const front = stack.use(await LinkProxy.open(primary.url))
  const all = stack.move()
  return {
    url: front.url,
    onPrimary: (text) => kind.ask(primary, text),
    onReplica: (text) => kind.ask(replica, text),
    cut: () => replication.refuse(),
    fail: async () => {
      await primary.kill()
      front.moveTo(replica.url)
      front.cut()
    },
    promote: async () => {
      for (const text of kind.promotion) await kind.ask(replica, text)
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}
