import { existsSync, realpathSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import mysql from 'mysql2/promise'
import { mysqlOf } from './mysql.ts'
import { findPrograms, firstProgram } from './programs.ts'
import { type Instance, LOOPBACK, type Service } from './service.ts'

export const mariadb: Service = {
  title: 'MariaDB',
  name: 'mysql',
  debianPackages: ['mariadb-server'],
  otherwise: ['container'],
  url: (port, address = LOOPBACK) => `mysql://root@${address}:${port}/hapax`,

  find() {
    const first = firstProgram(['mariadbd', 'mysqld'])
    if (first !== undefined && basename(first) === 'mysqld') return mysqlOf(first, settings)
    const programs = findPrograms(['mariadbd', 'mariadb-install-db'], ['/usr/sbin', '/usr/bin', '/usr/libexec'])
    if (programs === undefined) return undefined
    return {
      from: programs.mariadbd,
      user: 'mysql',
      launch: (instance) => {
        const { directory, address } = instance
        const own = [`--datadir=${join(directory, 'data')}`, `--tmpdir=${directory}`]
        const common = ['--no-defaults', ...placesOf(programs.mariadbd), ...own]
        return {
          files: { 'init.sql': ['create database hapax;', ...(address === LOOPBACK ? [] : REACHED), ''].join('\n') },
          prepare: [
            [programs['mariadb-install-db'], ...common, '--auth-root-authentication-method=normal', '--skip-test-db'],
          ],
          // Killed at once: the data is thrown away.
          server: { command: [programs.mariadbd, ...common, ...settings(instance)], stop: 'SIGKILL' },
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

/** Otherwise root may come from this machine only. */
const REACHED = ["create user root@'%';", "grant all on *.* to root@'%' with grant option;"]

/** Where the program finds what belongs to it: not where its packager put it, if it was unpacked elsewhere. */
function placesOf(program: string): string[] {
  const base = dirname(dirname(realpathSync(program)))
  const plugins = join(base, 'lib', 'mysql', 'plugin')
  return [`--basedir=${base}`, ...(existsSync(plugins) ? [`--plugin-dir=${plugins}`] : [])]
}

function settings({ directory, port, address }: Instance): string[] {
  return [
    `--socket=${join(directory, 'socket')}`,
    `--pid-file=${join(directory, 'pid')}`,
    `--init-file=${join(directory, 'init.sql')}`,
    `--bind-address=${address}`,
    `--port=${port}`,
    '--skip-name-resolve',
    '--max-connections=300',
    '--character-set-server=utf8mb4',
    '--innodb-flush-log-at-trx-commit=1',
  ]
}
