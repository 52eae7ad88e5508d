import { realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Installation, Instance } from './service.ts'

/** MySQL under the name of MariaDB: both are the server of one store. */
export function mysqlOf(mysqld: string, settings: (instance: Instance) => string[]): Installation {
  const base = dirname(dirname(realpathSync(mysqld)))
  const places = [`--basedir=${base}`, `--lc-messages-dir=${join(base, 'share', 'mysql')}`]
  return {
    from: mysqld,
    user: 'mysql',
    launch: (instance) => {
      const { directory } = instance
      const own = [`--datadir=${join(directory, 'data')}`, `--tmpdir=${directory}`, '--secure-file-priv=NULL']
      const common = ['--no-defaults', ...places, ...own]
      return {
        files: { 'init.sql': FIRST },
        prepare: [[mysqld, ...common, '--initialize-insecure']],
        // Killed at once: the data is thrown away. A packet is as large as MariaDB allows it to be.
        server: {
          command: [mysqld, ...common, ...settings(instance), '--mysqlx=OFF', '--max-allowed-packet=16777216'],
          stop: 'SIGKILL',
        },
      }
    },
  }
}

/** Run at every start. No names are resolved, and without them root may come by the socket only. */
const FIRST = `create database if not exists hapax;
create user if not exists 'root'@'%';
grant all on *.* to 'root'@'%' with grant option;
`
