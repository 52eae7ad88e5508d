// Who may reach the console, and who gets in.

import { readFileSync, type Stats, statSync } from 'node:fs'
import { userInfo } from 'node:os'
import { resolve } from 'node:path'
import { asError, messageOf } from '../../base/index.ts'
import type { Role } from '../../console/index.ts'
import { type Account, accountsOf, type StandaloneOptions } from '../../console/standalone/index.ts'
import { CliError } from '../io/errors.ts'
import type { Io } from '../io/io.ts'
import { type Address, shown } from '../metrics-server.ts'
import type { StoreOptions } from '../store.ts'

/** Options of `hapax console`. */
export interface ConsoleCommandOptions extends StoreOptions {
  readonly port?: number
  readonly listen?: Address
  readonly origin?: string
  readonly auth?: string
  readonly role: Role
  readonly actor?: string
  readonly readOnly?: true
  readonly open?: true
  readonly json?: true
}

/** The least length of a bearer token. */
const LEAST = 32

/** Who gets in, and how. Anything but this machine needs more than the token that was printed. */
export function doors(
  options: ConsoleCommandOptions,
  listen: Address,
  io: Io,
): Pick<StandaloneOptions, 'accounts' | 'bearer' | 'person' | 'readOnly'> {
  const accounts = options.auth === undefined ? undefined : accountsIn(resolve(io.cwd, options.auth))
  const bearer = bearerIn(io)
  if (!isLoopback(listen.host) && accounts === undefined && bearer === undefined) {
    throw new CliError(
      'usage',
      `${shown(listen)} can be reached from elsewhere: expected --auth or HAPAX_CONSOLE_TOKEN`,
      [
        // Not as names with values: those of passwords and tokens are not printed.
        'people sign in:  --auth people.txt, a file with a line of name:role:password for each of them',
        'programs do:     HAPAX_CONSOLE_TOKEN in the environment, at least 32 characters',
      ],
    )
  }
  const person = { actor: options.actor ?? user(), role: options.role }
  return { accounts, bearer, person, readOnly: options.readOnly === true }
}

/** Under which hosts the console is reached; any other one is a name that somebody else has given this address. */
export function hostsOf({ host, port }: Address, origin: string | undefined): readonly string[] {
  const own = origin === undefined ? [] : [new URL(origin).host]
  if (isLoopback(host)) {
    return [...own, shown({ host, port }), `127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`]
  }
  if (host !== '0.0.0.0' && host !== '::') return [...own, shown({ host, port })]
  if (own.length > 0) return own
  throw new CliError(
    'usage',
    `${shown({ host, port })} is every address: expected --origin to say which one people use`,
    ['for example: --origin https://ops.example.com'],
  )
}

/** Addresses of this machine that others cannot reach. */
function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}

function accountsIn(file: string): readonly Account[] {
  const { mode } = statOf(file)
  if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
    throw new CliError('usage', 'the file of --auth can be read by others', [`chmod 600 ${file}`])
  }
  return accountsOf(readFileSync(file, 'utf8'))
}

function statOf(file: string): Stats {
  try {
    const stat = statSync(file)
    if (stat.isFile()) return stat
  } catch (error) {
    throw new CliError('usage', `the file of --auth could not be read: ${messageOf(asError(error))}`)
  }
  throw new CliError('usage', 'expected --auth to be a file, with a line of name:role:password for each person')
}

function bearerIn({ env }: Io): string | undefined {
  const token = env['HAPAX_CONSOLE_TOKEN'] || undefined
  if (token !== undefined && token.length < LEAST) {
    throw new CliError('usage', `expected HAPAX_CONSOLE_TOKEN to have at least ${LEAST} characters`)
  }
  return token
}

function user(): string {
  try {
    return userInfo().username || 'unknown'
  } catch {
    return 'unknown'
  }
}
