import { HapaxError } from '../../../base/index.ts'
import { addressBytes, type Block, isIn, isPublic, unmapped } from './addresses.ts'

/** What may be called. */
export interface Rules {
  readonly allowHttp: boolean
  readonly ports: readonly number[] | 'all'
  readonly allow: Places
  readonly deny: Places
}

/** Hosts by name, and blocks of addresses. */
export interface Places {
  readonly hosts: ReadonlySet<string>
  readonly blocks: readonly Block[]
}

/** A URL that may be called, as far as can be said without asking for the addresses of its host. */
export interface Target {
  readonly secure: boolean
  /** A name or an address, as `net.connect` takes it: without brackets. */
  readonly host: string
  /** The host is an address itself. */
  readonly literal: boolean
  readonly port: number
  /** For the header `host`: with brackets, and with a port that is not the default. */
  readonly authority: string
  /** Path and query. */
  readonly path: string
}

const MAX_URL = 2_048

/** Reads a URL, or throws `forbidden-url`. All that follows uses what this function made of it, and never the text again. */
export function targetOf(text: unknown, rules: Rules): Target {
  const url = parsed(text)
  const secure = url.protocol === 'https:'
  if (!secure && !(rules.allowHttp && url.protocol === 'http:')) {
    refuse(`begin with https://${rules.allowHttp ? ' or http://' : ''}, got ${url.protocol}`)
  }
  if (url.username !== '' || url.password !== '') refuse('contain no user and no password')
  if (url.href.includes('#')) refuse('have no fragment')
  const port = url.port === '' ? (secure ? 443 : 80) : Number(url.port)
  if (rules.ports !== 'all' && !rules.ports.includes(port)) {
    refuse(`have a port that is allowed (${rules.ports.join(', ')}), got ${port}`)
  }
  const host = hostOf(url.hostname)
  const bytes = addressBytes(host)
  if (bytes === undefined ? rules.deny.hosts.has(host) : !isAllowed(bytes, rules)) {
    refuse(`name a host to which webhooks may be sent, got ${host}`)
  }
  const path = `${url.pathname}${url.search}`
  return { secure, host, literal: bytes !== undefined, port, authority: url.host, path }
}

/** What the URL standard would repair silently: it skips line feeds, takes a backslash for a slash, and any number of slashes for two. */
const REPAIRED = /[\s\\\p{Cc}]/u
const ABSOLUTE = /^[a-z][a-z0-9+.-]*:\/\/[^/]/i

function parsed(text: unknown): URL {
  if (typeof text !== 'string' || text.length > MAX_URL) refuse(`be a text of at most ${MAX_URL} characters`)
  if (REPAIRED.test(text)) refuse('contain no spaces, control characters and backslashes')
  const url = ABSOLUTE.test(text) ? URL.parse(text) : null
  return url ?? refuse('be an absolute URL')
}

/** A number in any notation is in dotted digits by now. */
function hostOf(hostname: string): string {
  if (hostname.endsWith('.')) refuse('have no dot at the end of its host')
  return hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
}

function refuse(what: string): never {
  throw new HapaxError('forbidden-url', `expected the url of a webhook to ${what}`)
}

/** Whether an address may be connected to: it is public, or an exception. */
export function isAllowed(bytes: Uint8Array, { allow, deny }: Rules): boolean {
  if (deny.blocks.some((block) => isIn(block, bytes) || isIn(block, unmapped(bytes)))) return false
  return isPublic(bytes) || allow.blocks.some((block) => isIn(block, bytes))
}
