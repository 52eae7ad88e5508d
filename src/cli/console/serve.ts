// Serves the console in a process of its own.

import { spawn } from 'node:child_process'
import { systemClock, within } from '../../base/index.ts'
import type { ConsoleHapax } from '../../console/index.ts'
import { standaloneConsole } from '../../console/standalone/index.ts'
import { type Io, json, line } from '../io/io.ts'
import { type Address, shown } from '../metrics-server.ts'
import { Ending } from '../serving.ts'
import { type ConsoleCommandOptions, type doors, hostsOf } from './options.ts'
import { opened } from './server.ts'

/** How a console is served. */
export interface Served extends ConsoleCommandOptions {
  readonly listen: Address
  readonly who: ReturnType<typeof doors>
  /** What to do while it is open, until the signal is aborted. What it throws ends the console. */
  readonly meanwhile?: (signal: AbortSignal) => Promise<void>
}

/** Serves the console until the process is asked to end. The caller closes the hapax. */
export async function serveConsole(hapax: ConsoleHapax, name: string, options: Served, io: Io): Promise<number> {
  const [ending, working] = [new Ending(io), new AbortController()]
  const server = await opened(options.listen)
  let work: Promise<void> = Promise.resolve()
  try {
    const hosts = hostsOf(server.address, options.origin)
    const warn = (text: string): void => void io.err.write(`${new Date().toISOString()} ${text}\n`)
    const served = standaloneConsole(hapax, { ...options.who, hosts, name, warn })
    server.serve(served, options.origin)
    tell(addressFor(served.token, server.address, options), name, options, io)
    // Also what others have begun: perhaps no worker is alive.
    if (options.readOnly !== true) work = hapax.operations.work({ signal: working.signal })
    const meanwhile = options.meanwhile?.(working.signal)
    await Promise.race([ending.first, meanwhile ?? ending.first])
    working.abort()
    await meanwhile
    await within(systemClock, CLOSE_MS, served.close(), () => {})
    return 0
  } finally {
    working.abort()
    await within(systemClock, CLOSE_MS, work, () => {})
    server.close()
    ending.forget()
  }
}

const CLOSE_MS = 5_000

/** With passwords, there is no token. */
function addressFor(token: () => string, listening: Address, { origin: own, who }: Served): string {
  const url = `${own ?? `http://${shown(listening)}`}/`
  return who.accounts === undefined ? `${url}#token=${token()}` : url
}

function tell(url: string, name: string, { open, json: asJson }: Served, io: Io): void {
  if (asJson) json(io, { url })
  else {
    line(io, `The console of ${name}:`)
    line(io)
    line(io, `  ${url}`)
    line(io)
    line(io, 'Press Ctrl-C to end it.')
  }
  if (open) openBrowser(url)
}

const OPENERS: Readonly<Record<string, readonly [string, ...string[]]>> = {
  darwin: ['open'],
  win32: ['cmd', '/c', 'start', ''],
}

/** Where there is no browser, the address has been printed. */
function openBrowser(url: string): void {
  const [program, ...words] = OPENERS[process.platform] ?? ['xdg-open']
  spawn(program, [...words, url], { stdio: 'ignore', detached: true })
    .on('error', () => {})
    .unref()
}
