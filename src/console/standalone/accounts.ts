import { expected } from '../../base/index.ts'
import { type Person, personOf } from '../options.ts'
import { safelyEqual } from './sessions.ts'

/** Somebody with a password. */
export interface Account extends Person {
  readonly password: string
}

/** A password that can be guessed is none. */
const LEAST = 12

/** Reads lines of `name:role:password`; empty ones and those that begin with # do not count. */
export function accountsOf(text: string): readonly Account[] {
  const lines = text.split(/\r?\n/).map((line, index) => ({ line, at: `line ${index + 1}` }))
  const accounts = lines.filter(({ line }) => line.trim() !== '' && !line.startsWith('#')).map(accountOf)
  if (accounts.length === 0) expected('the file of --auth', 'lines of name:role:password', 'none')
  return accounts
}

/** A line that is wrong is not shown: it has a password in it. */
function accountOf({ line, at }: { readonly line: string; readonly at: string }): Account {
  const [, actor = '', role = '', password = ''] = /^([^:]+):([^:]+):(.+)$/.exec(line) ?? []
  const person = personOf({ actor, role })
  if (person === undefined) expected(at, 'name:role:password with the role viewer, operator or admin', '***')
  if (password.length < LEAST) expected(at, `a line with a password of at least ${LEAST} characters`, '***')
  return { ...person, password }
}

/** Who sends this header of HTTP Basic; null: nobody who is known. */
export function personOfBasic(authorization: string, accounts: readonly Account[]): Person | null {
  const [, encoded = ''] = /^basic ([a-z0-9+/=_-]+)$/i.exec(authorization) ?? []
  const decoded = Buffer.from(encoded, 'base64').toString('utf8')
  const at = decoded.indexOf(':')
  const [name, password] = [decoded.slice(0, Math.max(at, 0)), decoded.slice(at + 1)]
  // All are compared, so that the time says nothing about names.
  const matching = accounts.filter((each) => {
    const [sameName, samePassword] = [safelyEqual(each.actor, name), safelyEqual(each.password, password)]
    return sameName && samePassword
  })
  const [found] = matching
  return at < 0 || found === undefined ? null : { actor: found.actor, role: found.role }
}
