import { join } from 'node:path'
import mysql from 'mysql2/promise'
import { findPrograms } from './programs.ts'
import type { Service } from './service.ts'

export const mariadb: Service = {
  title: 'MariaDB',
  name: 'mysql',
  debianPackages: ['mariadb-server'],
  otherwise: ['container'],
  url: (port) => `mysql://root@127.0.0.1:${port}/hapax`,

  find() {
    const programs = findPrograms(['mariadbd', 'mariadb-install-db'], ['/usr/sbin', '/usr/bin', '/usr/libexec'])
    if (programs === undefined) return undefined
    return {
      from: programs.mariadbd,
      user: 'mysql',
      launch: ({ directory, port }) => {
        const common = ['--no-defaults', `--datadir=${join(directory, 'data')}`, `--tmpdir=${directory}`]
        return {
          files: { 'init.sql': 'create database hapax;\n' },
          prepare: [
            [programs['mariadb-install-db'], ...common, '--auth-root-authentication-method=normal', '--skip-test-db'],
          ],
          // Killed at once: the data is thrown away.
          server: { command: [programs.mariadbd, ...common, ...settings(directory, port)], stop: 'SIGKILL' },
        }
      },
    }
  },

  async ping(url) {
    const connection = await mysql.createConnection({ uri: url, connectTimeout: 5_000 })
    connection.on('error', () => {})
    try {
      const [rows] = await connection.query<mysql.RowDataPacket[]>('select version() as version')
      const version = String(rows[0]?.version)
      return `${/mariadb/i.test(version) ? 'MariaDB' : 'MySQL'} ${version.split('-')[0]}`
    } finally {
      await connection.end()
    }
  },
}

function settings(directory: string, port: number): string[] {
  return [
    `--socket=${join(directory, 'socket')}`,
    `--pid-file=${join(directory, 'pid')}`,
    `--init-file=${join(directory, 'init.sql')}`,
    '--bind-address=127.0.0.1',
    `--port=${port}`,
    '--skip-name-resolve',
    '--max-connections=300',
    '--character-set-server=utf8mb4',
    '--innodb-flush-log-at-trx-commit=1',
  ]
}
