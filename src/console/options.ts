import {
  able,
  asError,
  callback,
  consoleLogger,
  expected,
  faultFields,
  fieldOf,
  flag,
  isText,
  noOthers,
  text,
  word,
} from '../base/index.ts'
import type { Role } from './api.ts'
import type { ConsoleHapax } from './hapax.ts'

/** Somebody who may use the console, as the host application knows them. */
export interface Person {
  /** Who it is, for the audit. */
  readonly actor: string
  readonly role: Role
}

/** A message as the console is about to show it. */
export interface ShownMessage {
  readonly source: string
  readonly id: string
  readonly type: string
  readonly key: string | null
  readonly contentType: string | null
  readonly headers: Readonly<Record<string, string>>
  readonly data: Uint8Array
}

/** Options of `createConsole`. */
export interface ConsoleOptions {
  /**
   * Says who sends a request, and what they may do. Called for every request, also for those of files. Null: nobody who may know that
   * there is a console; they get a 404.
   */
  readonly authorize: (request: Request) => Person | null | Promise<Person | null>
  /** Where it is mounted, such as `/ops/hapax`. @default found out from the address of each request */
  readonly basePath?: string
  /** Changes what is shown of a message to this person. What it throws, or returns wrongly, shows nothing. @default shown as it is */
  readonly redact?: (message: ShownMessage, person: Person) => Pick<ShownMessage, 'headers' | 'data'>
  /** The least role that sees payloads, headers and stacks. @default 'operator' */
  readonly payloads?: Role
  /** Addresses of other tools. */
  readonly links?: {
    /** The page of a trace. @default no link is shown */
    readonly trace?: (traceId: string) => string
  }
  /** Nobody may change anything. @default false */
  readonly readOnly?: boolean
  /** The hosts under which it may be reached, with their port: `ops.example.com`, `127.0.0.1:8080`. @default any */
  readonly allowedHosts?: readonly string[]
  /**
   * Origins that pages of this console have, such as `https://ops.example.com`, where a proxy changes what the server sees of it.
   * @default that of the address of each request
   */
  readonly allowedOrigins?: readonly string[]
  /** What the page calls this database. @default nothing */
  readonly name?: string
  /** Hears of what `authorize` or `redact` threw, and of errors that nobody expected. @default a line on standard error */
  readonly onError?: (error: unknown) => void
}

/** Checked options. */
export interface Settings {
  readonly authorize: ConsoleOptions['authorize']
  /** Without a slash at its end; undefined: it is found out. */
  readonly basePath: string | undefined
  readonly redact: ConsoleOptions['redact']
  readonly payloads: Role
  readonly traceLink: ((traceId: string) => string) | undefined
  readonly readOnly: boolean
  readonly allowedHosts: ReadonlySet<string> | undefined
  readonly allowedOrigins: ReadonlySet<string>
  readonly name: string
  /** Never throws. */
  report(error: unknown): void
}

/** The roles, the least one first. */
export const ROLES: readonly Role[] = ['viewer', 'operator', 'admin']

/** Whether somebody of this role may do what needs that one. */
export function mayAs(role: Role, needed: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(needed)
}

/** Checks a hapax that was given to a console. */
export function hapaxOption(hapax: ConsoleHapax): ConsoleHapax {
  const what = 'what createHapax returns for a store with transactions'
  able('hapax', what, hapax, ['status', 'explain', 'doctor'])
  able('hapax', what, fieldOf(hapax, 'keys'), ['list', 'release'])
  return hapax
}

/** Checks the options of `createConsole`. */
export function settingsOf(options: ConsoleOptions): Settings {
  noOthers('options of createConsole', options, [
    'authorize',
    'basePath',
    'redact',
    'payloads',
    'links',
    'readOnly',
    'allowedHosts',
    'allowedOrigins',
    'name',
    'onError',
  ])
  const { authorize, redact, links = {}, onError = logged } = options
  if (typeof authorize !== 'function') {
    expected('authorize', 'a function from a Request to { actor, role } or null', authorize)
  }
  noOthers('links', links, ['trace'])
  for (const [name, value] of Object.entries({ redact, 'links.trace': links.trace, onError })) callback(name, value)
  return {
    authorize,
    basePath: basePathOption(options.basePath),
    redact,
    payloads: options.payloads === undefined ? 'operator' : word('payloads', ROLES, options.payloads),
    traceLink: links.trace,
    readOnly: flag('readOnly', options.readOnly, false),
    allowedHosts: hostsOption(options.allowedHosts),
    allowedOrigins: originsOption(options.allowedOrigins),
    name: options.name === undefined ? '' : text('name', options.name),
    report: (error) => {
      try {
        onError(error)
      } catch {
        // There is nowhere left to say what the listener itself throws.
      }
    },
  }
}

/** What `authorize` returned; undefined: it is neither a person nor null. */
export function personOf(given: unknown): Person | undefined {
  const [actor, role] = [fieldOf(given, 'actor'), ROLES.find((each) => each === fieldOf(given, 'role'))]
  return isText(actor, 255) && role !== undefined ? { actor, role } : undefined
}

function basePathOption(given: string | undefined): string | undefined {
  if (given === undefined) return undefined
  const fine = typeof given === 'string' && /^(\/|(\/[\w.~%@-]+)+\/?)$/.test(given) && !/\/\.{1,2}(\/|$)/.test(given)
  return fine ? given.replace(/\/$/, '') : expected('basePath', 'a path such as /ops/hapax', given)
}

function hostsOption(given: readonly string[] | undefined): ReadonlySet<string> | undefined {
  if (given === undefined) return undefined
  if (!Array.isArray(given)) expected('allowedHosts', 'a list of hosts', given)
  return new Set(given.map(hostOf))
}

/** As an URL has it: in lower case, without the port that its scheme has anyway. */
function hostOf(host: string): string {
  const url = typeof host === 'string' && !/[/?#@\\]/.test(host) ? URL.parse(`http://${host}/`) : null
  return url?.host ?? expected('allowedHosts', 'hosts such as ops.example.com or 127.0.0.1:8080', host)
}

function originsOption(given: readonly string[] = []): ReadonlySet<string> {
  if (!Array.isArray(given)) expected('allowedOrigins', 'a list of origins', given)
  return new Set(given.map(originOption))
}

function originOption(origin: string): string {
  const url = typeof origin === 'string' ? URL.parse(origin) : null
  const fine = url !== null && /^https?:$/.test(url.protocol) && url.origin === origin.toLowerCase()
  return fine ? url.origin : expected('allowedOrigins', 'origins such as https://ops.example.com', origin)
}

function logged(error: unknown): void {
  consoleLogger.error(faultFields(asError(error)), 'the console could not handle a request')
}
