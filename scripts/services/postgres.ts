import { join } from 'node:path'
import pg from 'pg'
import { findPrograms } from './programs.ts'
import { type Command, LOOPBACK, type Service } from './service.ts'

export const postgres: Service = {
  title: 'PostgreSQL',
  name: 'postgres',
  debianPackages: ['postgresql'],
  otherwise: ['container'],
  url: (port, address = LOOPBACK) => `postgres://hapax@${address}:${port}/postgres`,

  find() {
    const programs = findPrograms(['postgres', 'initdb'], ['/usr/lib/postgresql/*/bin', '/usr/pgsql-*/bin'])
    if (programs === undefined) return undefined
    return {
      from: programs.postgres,
      user: 'postgres',
      launch: ({ directory, port, address }) => {
        const data = join(directory, 'data')
        return {
          // Only the making of the files skips syncing; the server itself is as durable as a real one.
          prepare: [
            [programs.initdb, '-D', data, '-U', 'hapax', '--auth=trust', '--no-sync', '--no-locale', '--encoding=UTF8'],
            ...(address === LOOPBACK ? [] : [admitNeighbours(data)]),
          ],
          // Quit at once: the data is thrown away.
          server: {
            command: [
              programs.postgres,
              '-D',
              data,
              ...settings({ listen_addresses: address, port, unix_socket_directories: directory }),
            ],
            stop: 'SIGQUIT',
          },
        }
      },
    }
  },

  async ping(url) {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 })
    client.on('error', () => {})
    try {
      await client.connect()
      const { rows } = await client.query<{ server_version: string }>('show server_version')
      return `PostgreSQL ${rows[0]?.server_version.split(' ')[0]}`
    } finally {
      await client.end()
    }
  },
}

/** Otherwise clients may come from this machine only. */
function admitNeighbours(data: string): Command {
  const lines = ['all', 'replication'].map((databases) => `host ${databases} all samenet trust`)
  return ['sh', '-c', `printf '${lines.join('\\n')}\\n' >> ${join(data, 'pg_hba.conf')}`]
}

function settings(own: Record<string, string | number>): string[] {
  const values = {
    fsync: 'on',
    max_connections: 300,
    max_prepared_transactions: 10,
    ...own,
  }
  return Object.entries(values).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}
