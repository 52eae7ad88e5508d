import type { ServerName } from '../../test/support/servers.ts'
import { serverVariables } from '../../test/support/servers.ts'
import type { Obtained } from './obtained.ts'

/** The variable that names a server of a version: HAPAX_TEST_MYSQL_9_7. */
export function variableOf(name: string): string {
  return `HAPAX_TEST_${name.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}`
}

/** A server that the environment names. */
export function given(name: string, service: ServerName): Obtained | undefined {
  const url = process.env[variableOf(name)]
  return url ? { how: `given by ${variableOf(name)}`, env: { [serverVariables[service]]: url } } : undefined
}
