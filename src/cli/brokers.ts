import type { Destination } from '../core/broker.ts'
import { CliError } from './errors.ts'
import type { Io } from './io.ts'
import { stdoutDestination } from './stdout-destination.ts'
import { readConfig } from './store.ts'
import { safe } from './text.ts'

/** Makes a destination of what stands behind the scheme of a URL. */
type Opener = (url: string, io: Io) => Promise<Destination>

/** Every scheme that `--broker` knows. A broker adds its line here. */
const SCHEMES: Readonly<Record<string, Opener>> = {
  memory: async (url) => {
    const { memoryBroker } = await import('../brokers/memory.ts')
    return memoryBroker().topic(rest(url) || 'hapax')
  },
  stdout: async (_, io) => stdoutDestination(io.out),
}

/** Finds where the relay goes: --broker, HAPAX_BROKER, or `broker` in the configuration file. */
export async function findDestination(given: string | undefined, io: Io): Promise<Destination> {
  const url = given ?? (io.env['HAPAX_BROKER'] || undefined) ?? (await fromConfig(io))
  if (typeof url === 'object') return url
  if (url === undefined) {
    throw new CliError('usage', 'which broker? None was given', [
      'on the command line:      --broker stdout:  (or another URL)',
      'in the environment:       HAPAX_BROKER=stdout:',
      `in a configuration file:  hapax.config.ts with  export default { store, broker: … }, a URL or a destination`,
    ])
  }
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase()
  const open = scheme !== undefined && Object.hasOwn(SCHEMES, scheme) ? SCHEMES[scheme] : undefined
  if (open !== undefined) return open(url, io)
  // The rest of the URL may hold a password.
  const got = scheme === undefined ? 'something else' : `${safe(scheme)}:…`
  throw new CliError('usage', `expected the broker to be a URL of a known scheme, got ${got}`, [
    `known schemes: ${Object.keys(SCHEMES)
      .map((each) => `${each}:`)
      .join(', ')}`,
  ])
}

function rest(url: string): string {
  return url.slice(url.indexOf(':') + 1).replace(/^\/\//, '')
}

async function fromConfig(io: Io): Promise<string | Destination | undefined> {
  const found = await readConfig(io)
  const broker: unknown = found?.config.broker
  if (broker === undefined || typeof broker === 'string') return broker
  if (typeof (broker as Partial<Destination> | null)?.publish === 'function') return broker as Destination
  throw new CliError('config', `expected the broker of ${found?.name} to be a URL or a destination`)
}
