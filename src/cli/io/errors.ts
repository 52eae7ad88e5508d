import { inspect } from 'node:util'
import { redact, safe, safeLines } from '../../base/index.ts'
import { type Io, paint } from './io.ts'

/** A command cannot go on: wrong usage (exit code 2) or a failure (1), and what to do about it. */
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

const FILE = 'check the path of the file, and who may read and write it'
const DENIED = 'check the credentials, and what this user of the database may do'

/** What to do, by the code of an error of hapax. Messages that say it themselves are not here. */
const HINTS: Readonly<Record<string, string>> = {
  'store-unavailable': 'check the address (or the file), the credentials and that the database is running',
  'schema-drift': 'use the version of hapax that made the schema, or migrate another --schema or --prefix',
  busy: 'another transaction holds the row: try again',
  EACCES: FILE,
  EISDIR: FILE,
  // What the databases themselves say of a user who may not.
  '42501': DENIED,
  ER_ACCESS_DENIED_ERROR: DENIED,
  ER_DBACCESS_DENIED_ERROR: DENIED,
  ER_TABLEACCESS_DENIED_ERROR: DENIED,
  ER_COLUMNACCESS_DENIED_ERROR: DENIED,
  ER_PROCACCESS_DENIED_ERROR: DENIED,
}

/** Says on stderr, in one line and without a stack, what went wrong; answers the exit code. */
export function report(io: Io, thrown: unknown): number {
  const { message, code } = thrown as { message?: unknown; code?: unknown }
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
  const code = String((thrown as { code?: unknown }).code)
  return Object.hasOwn(HINTS, code) ? [HINTS[code] as string] : []
}
