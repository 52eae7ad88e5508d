// The web console in a process of its own.

import { InvalidArgumentError, Option } from 'commander'
import { type ConsoleCommandOptions, doors } from '../console/options.ts'
import { serveConsole } from '../console/serve.ts'
import { CliError } from '../io/errors.ts'
import type { Io } from '../io/io.ts'
import { type Address, addressOf } from '../metrics-server.ts'
import { type AddCommand, examples, wholeNumber, withStore } from '../options.ts'
import { withHapax } from '../store.ts'

/** Adds `hapax console`. */
export const addConsole: AddCommand = (root, io, done) => {
  withStore(root.command('console'))
    .description('Opens the web console on this database, for this machine.')
    .option('--port <n>', 'the port on 127.0.0.1 (default: a free one)', wholeNumber(0, 65_535))
    .option('--listen <address>', 'listen on another address, such as 0.0.0.0:8080; needs a login', address)
    .option('--origin <url>', 'how people reach it, behind a proxy: https://ops.example.com', origin)
    .option('--auth <file>', 'sign in with names and passwords: lines of name:role:password')
    .addOption(new Option('--role <role>', 'what you may do').choices(['viewer', 'operator', 'admin']).default('admin'))
    .option('--actor <name>', 'who you are, for the audit (default: the operating system user)')
    .option('--read-only', 'nothing can be changed, by anybody')
    .option('--open', 'open it in the browser')
    .addHelpText(
      'after',
      `
Prints an address with a token in it, which lets one browser in, once, within ten
minutes. On an address that others can reach, people sign in with --auth, or a
proxy sends HAPAX_CONSOLE_TOKEN as a bearer token. Runs until SIGTERM or SIGINT.
It uses at most two connections.
${examples('hapax console --store postgres://localhost/shop', 'hapax console --read-only --open')}`,
    )
    .action(async (options) => done(await console(options, io)))
}

function address(text: string): Address {
  const found = addressOf(text)
  if (found !== undefined) return found
  throw new InvalidArgumentError('expected an address such as 127.0.0.1:8080, [::1]:8080 or 8080')
}

function origin(text: string): string {
  const url = URL.parse(text)
  if (url !== null && /^https?:$/.test(url.protocol) && `${url.origin}/` === url.href) return url.origin
  throw new InvalidArgumentError('expected an origin such as https://ops.example.com')
}

async function console(options: ConsoleCommandOptions, io: Io): Promise<number> {
  if (options.listen !== undefined && options.port !== undefined) {
    throw new CliError('usage', 'expected --listen or --port, got both')
  }
  const listen = options.listen ?? { host: '127.0.0.1', port: options.port ?? 0 }
  const who = doors(options, listen, io)
  return withHapax(options, io, (hapax, { name }) => serveConsole(hapax, name, { ...options, listen, who }, io), {
    max: CONNECTIONS,
  })
}

/** The console must not take the connections that the application needs. */
const CONNECTIONS = 2
