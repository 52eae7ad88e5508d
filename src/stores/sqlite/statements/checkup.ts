// What `doctor` checks on SQLite. Each check is one statement, so that one which fails is a warning of its own and does not hide the
// others.

import { readFileSync, realpathSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Finding, Result, Row, Statement } from '../../../contracts/index.ts'
import {
  asText,
  type Check,
  type CheckResult,
  clockCheck,
  error,
  expectedTables,
  lookAt,
  ok,
  schemaVerdict,
  size,
  warning,
} from '../../sql/index.ts'
import { migrations, NOW } from './migrations.ts'

const plain = (text: string): Statement => ({ text, params: [] })

/** A larger file is not read from end to end: nothing else could run in this process meanwhile. */
const MAX_CHECKED = 256 * 1024 * 1024

/** What `doctor` looks at on SQLite. */
export async function checkup(
  query: (statement: Statement) => Promise<Result>,
  prefix: string,
): Promise<readonly Finding[]> {
  let bytes = 0
  const checks: readonly Check[] = [
    {
      check: 'file',
      statement: plain(`
select page_count * page_size as bytes, freelist_count * page_size as free, sqlite_version() as version
from pragma_page_count(), pragma_page_size(), pragma_freelist_count()`),
      judge: ([row]) => {
        bytes = Number(row?.['bytes'])
        return ok(`SQLite ${asText(row?.['version'])}, ${size(bytes)}, ${size(Number(row?.['free']))} of it free`)
      },
    },
    { check: 'file system', statement: plain('pragma database_list'), judge: fileSystem },
    { check: 'settings', statement: plain('pragma synchronous'), judge: ([row]) => synchronous(row) },
    { check: 'settings', statement: plain('pragma journal_mode'), judge: ([row]) => journal(row) },
    clockCheck(plain(`select ${NOW} as ms`)),
    {
      check: 'schema drift',
      statement: {
        text: `
select t.name as name, c.name as part from sqlite_schema as t, pragma_table_info(t.name) as c
where t.type = 'table' and substr(t.name, 1, ?) = ?
union all
select tbl_name, name from sqlite_schema where type = 'index' and substr(tbl_name, 1, ?) = ?`,
        params: [prefix.length, prefix, prefix.length, prefix],
      },
      judge: (rows) =>
        schemaVerdict(
          expectedTables(migrations(prefix), (table) => table),
          new Set(rows.map((row) => `${asText(row['name'])}.${asText(row['part'])}`)),
        ),
    },
  ]
  const findings = await lookAt(query, checks)
  if (bytes > MAX_CHECKED) return [...findings, unchecked(bytes)]
  return [
    ...findings,
    ...(await lookAt(query, [{ check: 'integrity', statement: plain('pragma quick_check(1)'), judge: integrity }])),
  ]
}

function unchecked(bytes: number): Finding {
  return {
    check: 'integrity',
    ...ok(`not read: the file has ${size(bytes)}; sqlite3 <file> 'pragma quick_check' reads it in another process`),
  }
}

function integrity([row]: readonly Row[]): CheckResult {
  const answer = asText(row?.['quick_check'])
  if (answer === 'ok') return ok('the file is sound')
  return error(
    `the file is damaged: ${answer}`,
    'Stop writing to it and restore a backup, or try sqlite3 <file> .recover.',
  )
}

function synchronous(row: Row | undefined): CheckResult {
  const level = Number(row?.['synchronous'])
  if (level >= 2) return ok(`synchronous is ${level === 2 ? 'full' : 'extra'}`)
  return error(
    `synchronous is ${level === 1 ? 'normal' : 'off'}: what was acknowledged may be lost when the power fails`,
    'Do not change it on the connection of hapax.',
  )
}

function journal(row: Row | undefined): CheckResult {
  const mode = asText(row?.['journal_mode'])
  if (mode === 'wal') return ok('journal_mode is wal')
  if (mode === 'memory') return warning('the database lives in memory and ends with the process', 'Use a file.')
  return warning(
    `journal_mode is ${mode}: readers wait for writers`,
    'It was changed by hand: run pragma journal_mode = wal.',
  )
}

const NETWORK =
  /^(nfs\d?|cifs|smb\w*|ncpfs|afs|coda|ceph|lustre|glusterfs|9p|fuse\.(sshfs|glusterfs|s3fs|rclone|gcsfuse))$/

/** SQLite's locks and its shared memory work only between processes of one host. */
function fileSystem(rows: readonly Row[]): CheckResult {
  const file = asText(rows.find((row) => asText(row['name']) === 'main')?.['file'] ?? '')
  if (file === '') return ok('in memory')
  const type = mountType(dirname(file))
  if (type === undefined) return ok('not known on this platform; the file must be on a disk of this host')
  if (!NETWORK.test(type)) return ok(`the file is on ${type}`)
  return error(
    `the file is on ${type}, where the locks of SQLite cannot be trusted`,
    'Move the file to a disk of this host; share a database between hosts with PostgreSQL or MariaDB.',
  )
}

/** The type of the file system that a directory is on, where Linux tells. */
function mountType(directory: string): string | undefined {
  try {
    const path = `${realpathSync(directory)}/`
    let best: { at: string; type: string } | undefined
    for (const line of readFileSync('/proc/mounts', 'utf8').split('\n')) {
      const [, at = '', type = ''] = line.split(' ')
      const mount = at.replaceAll('\\040', ' ')
      const inside = mount === '/' || path.startsWith(`${mount}/`)
      // The last one of equal length lies over the others.
      if (at !== '' && inside && mount.length >= (best?.at.length ?? 0)) best = { at: mount, type }
    }
    return best?.type
  } catch {
    return undefined
  }
}
