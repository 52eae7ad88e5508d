import { lookup, Resolver } from 'node:dns/promises'
import { fieldOf } from '../../../base/index.ts'

/** The addresses of a name, as texts. Rejects if there are none. */
export type Resolve = (name: string, signal: AbortSignal) => Promise<readonly string[]>

/** One question about a name waits at most 1.5 and 3 s. */
const QUESTION = { timeout: 1_500, tries: 2 }

/**
 * Asks the name servers directly. `dns.lookup` would take one of four threads that the whole process shares, for as long as the
 * name servers of a stranger take to answer.
 */
export async function askServers(
  name: string,
  signal: AbortSignal,
  servers?: readonly string[],
): Promise<readonly string[]> {
  // A new one each time: it reads the settings of the machine, which may have changed.
  const resolver = new Resolver(QUESTION)
  if (servers !== undefined) resolver.setServers(servers)
  const cancel = (): void => resolver.cancel()
  signal.addEventListener('abort', cancel, { once: true })
  try {
    signal.throwIfAborted()
    const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
    const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
    if (found.length === 0) throw worst(answers)
    return found
  } finally {
    signal.removeEventListener('abort', cancel)
  }
}

/** That a name does not exist is only known if nothing else went wrong. */
function worst(answers: readonly PromiseSettledResult<unknown>[]): unknown {
  const errors = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []))
  return errors.find((error) => !isMissing(error)) ?? errors[0]
}

/** Whether the name servers say that there is no such name, or that it has no address. */
export function isMissing(error: unknown): boolean {
  const code = fieldOf(error, 'code')
  return code === 'ENOTFOUND' || code === 'ENODATA'
}

/** Asks the machine: its file of hosts and its search domains count as well. Only for names that the operator trusts. */
async function askMachine(name: string): Promise<readonly string[]> {
  const found = await lookup(name, { all: true, order: 'ipv4first' })
  return found.map(({ address }) => address)
}

/** `trusted`: hosts that are allowed by name. `inside`: there are exceptions, so other names may be known to the machine only. */
export function resolver(trusted: ReadonlySet<string>, inside: boolean): Resolve {
  return async (name, signal) => {
    if (trusted.has(name)) return askMachine(name)
    try {
      return await askServers(name, signal)
    } catch (error) {
      if (inside && isMissing(error)) return askMachine(name)
      throw error
    }
  }
}
