import { join } from 'node:path'
import pg from 'pg'
import { postgres } from './postgres.ts'
import { findPrograms } from './programs.ts'
import { type Instance, LOOPBACK, type Service } from './service.ts'

/** PgBouncer in front of a PostgreSQL server, in transaction mode: two transactions of a client may run in two sessions. */
export function pgbouncer(behind: string): Service {
  return {
    title: 'PgBouncer',
    name: 'pgbouncer',
    debianPackages: ['pgbouncer'],
    otherwise: ['skip'],
    url: (port, address = LOOPBACK) => {
      const url = new URL(behind)
      url.host = `${address}:${port}`
      return url.href
    },

    find() {
      const programs = findPrograms(['pgbouncer'], ['/usr/sbin', '/usr/local/sbin'])
      if (programs === undefined) return undefined
      return {
        from: programs.pgbouncer,
        user: 'postgres',
        launch: (instance) => ({
          files: { 'pgbouncer.ini': settings(new URL(behind), instance) },
          prepare: [],
          // Stopped at once: nothing of it is kept.
          server: { command: [programs.pgbouncer, join(instance.directory, 'pgbouncer.ini')], stop: 'SIGTERM' },
        }),
      }
    },

    async ping(url) {
      await postgres.ping(url)
      const console = new URL(url)
      console.pathname = '/pgbouncer'
      const client = new pg.Client({ connectionString: console.href, connectionTimeoutMillis: 5_000 })
      client.on('error', () => {})
      try {
        await client.connect()
        const { rows } = await client.query<{ version: string }>('show version')
        return `PgBouncer ${rows[0]?.version.split(' ').at(-1)}`
      } finally {
        await client.end()
      }
    },
  }
}

function settings(
  { hostname, port: serverPort, pathname, username, password }: URL,
  { directory, port, address }: Instance,
): string {
  const login = [
    `user=${decodeURIComponent(username)}`,
    ...(password ? [`password=${decodeURIComponent(password)}`] : []),
  ]
  const server = `host=${hostname} port=${serverPort || 5432} ${login.join(' ')}`
  return `[databases]
narrow = ${server} dbname=${pathname.slice(1)} pool_size=2
* = ${server}

[pgbouncer]
listen_addr = ${address}
listen_port = ${port}
unix_socket_dir = ${directory}
auth_type = any
admin_users = ${decodeURIComponent(username)}
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 100
`
}
