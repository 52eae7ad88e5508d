import { inspect } from 'node:util'
import { fieldOf, redact, safe, safeLines } from '../../base/index.ts'
import { type Io, paint } from './io.ts'

/** A command cannot continue: wrong usage (exit code 2) or a failure (exit code 1), with hints what to do. */
export class CliError extends Error {
  override readonly name = 'CliError'
  readonly code: string
  readonly hints: readonly string[]
  readonly exitCode: number

  constructor(code: string, message: string, hints: readonly string[] = []) {
    super(message)
    this.code = code
    this.hints = hints
    this.exitCode = code === 'usage' || code === 'no-store' ? 2 : 1
  }
}

const FILE = 'check the path of the file and its permissions'
const DENIED = 'check the credentials and the privileges of the database user'
const SLOW = 'the database is busy, or a transaction has locked a table of hapax: look for long transactions'

/** What to do, by error code. Codes whose message already says it are left out. */
const HINTS: Readonly<Record<string, string>> = {
  'store-unavailable': 'check the address (or the file) and the credentials, and that the database is running',
  'schema-newer':
    'install the version of hapax that migrated the database, or a newer one; npx hapax --version prints the installed one',
  'schema-drift': 'use the version of hapax that created the schema, or migrate another --schema or --prefix',
  busy: 'another transaction holds the row: try again',
  EACCES: FILE,
  EISDIR: FILE,
  // The databases' own codes for missing privileges.
  '42501': DENIED,
  ER_ACCESS_DENIED_ERROR: DENIED,
  ER_DBACCESS_DENIED_ERROR: DENIED,
  ER_TABLEACCESS_DENIED_ERROR: DENIED,
  ER_COLUMNACCESS_DENIED_ERROR: DENIED,
  ER_PROCACCESS_DENIED_ERROR: DENIED,
  // A statement that took longer than it may.
  '57014': SLOW,
  ER_STATEMENT_TIMEOUT: SLOW,
  ER_QUERY_TIMEOUT: SLOW,
}

/** Prints on stderr what went wrong, in one line and without a stack; returns the exit code. */
export function report(io: Io, thrown: unknown): number {
  const [message, code] = [fieldOf(thrown, 'message'), fieldOf(thrown, 'code')]
  const text = typeof message === 'string' && message !== '' ? message : String(code ?? thrown)
  const suffix = typeof code === 'string' || typeof code === 'number' ? ` (${code})` : ''
  // stderr may be a file while stdout is a terminal.
  const name = io.err.isTTY ? paint(io, 'red', 'hapax:') : 'hapax:'
  io.err.write(`${name} ${safe(redact(text + suffix))}\n`)
  for (const hint of hintsOf(thrown)) io.err.write(`  ${safe(redact(hint))}\n`)
  if (io.env['HAPAX_DEBUG'] === '1') {
    for (const each of safeLines(redact(inspect(thrown)))) io.err.write(`  ${each}\n`)
  }
  return thrown instanceof CliError ? thrown.exitCode : 1
}

function hintsOf(thrown: unknown): readonly string[] {
  if (thrown instanceof CliError) return thrown.hints
  const code = String(fieldOf(thrown, 'code'))
  const hint = Object.hasOwn(HINTS, code) ? HINTS[code] : undefined
  return hint === undefined ? [] : [hint]
}
