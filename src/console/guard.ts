// Every check that stands between a request and a route.

import { object } from '../base/index.ts'
import { readBody } from '../web/index.ts'
import type { Role } from './api.ts'
import { mayAs, type Person, personOf, type Settings } from './options.ts'
import { Refusal } from './problems.ts'

/** How large a body may be: for a note, conditions, a result; and for a message in the place of another. */
const [SMALL_BYTES, LARGE_BYTES] = [1024 * 1024, 8 * 1024 * 1024]

/** Refuses a request under a name that is not the console's: a page of an attacker may have given its own name this address. */
export function refuseHost(url: URL, { allowedHosts }: Settings): void {
  if (allowedHosts === undefined || allowedHosts.has(url.host)) return
  throw new Refusal(421, 'wrong-host', 'This server is not known under the host of this request.')
}

/** Who sends a request. Null: nobody who may know that there is a console. */
export async function personFor(request: Request, settings: Settings): Promise<Person | null> {
  const given: unknown = await settings.authorize(request)
  if (given === null) return null
  const person = personOf(given)
  if (person !== undefined) return person
  throw new Error('authorize returned neither null nor { actor, role } with an actor and a role of the console')
}

/**
 * Refuses what a page of another origin makes a browser send. Browsers of today say it in Sec-Fetch-Site; of others, Origin is compared.
 * Following a link to a page is harmless, and is allowed from everywhere.
 */
export function refuseForeign(request: Request, url: URL, settings: Settings): void {
  const { headers, method } = request
  const site = headers.get('sec-fetch-site')
  // The browser knows it even where a proxy has changed what the server sees of the origin.
  if (site === 'same-origin') return
  const origin = headers.get('origin')
  const foreign = (site !== null && site !== 'none') || isForeign(origin, url, settings)
  if (foreign) throw new Refusal(403, 'cross-site', 'This request comes from a page of another origin.')
  if (method !== 'POST' || origin !== null || isBearer(headers)) return
  throw new Refusal(403, 'no-origin', 'Changes need Sec-Fetch-Site: same-origin, an Origin header, or a bearer token.')
}

function isForeign(origin: string | null, url: URL, { allowedOrigins }: Settings): boolean {
  return origin !== null && origin !== url.origin && !allowedOrigins.has(origin)
}

/** Browsers never add one by themselves, as they do with cookies and passwords. */
function isBearer(headers: Headers): boolean {
  return /^bearer \S/i.test(headers.get('authorization') ?? '')
}

/** Refuses somebody whose role is too small. */
export function refuseRole({ role }: Person, needed: Role): void {
  if (!mayAs(role, needed)) throw new Refusal(403, 'role', `This needs the role ${needed}; yours is ${role}.`)
}

/** The body of a change: a JSON object. */
export async function bodyOf(request: Request, large: boolean): Promise<object> {
  const type = request.headers.get('content-type') ?? ''
  if (!/^application\/json\s*(;\s*charset="?utf-8"?\s*)?$/i.test(type)) {
    throw new Refusal(415, 'content-type', 'Changes are sent as application/json.')
  }
  const most = large ? LARGE_BYTES : SMALL_BYTES
  const read = await readBody(request, most)
  if (read.kind === 'too-large') throw new Refusal(413, 'too-large', `A body has at most ${most} bytes here.`)
  if (read.kind !== 'whole')
    throw new Refusal(400, 'body', 'The body could not be read, or something else has read it.')
  return parsed(read.bytes)
}

function parsed(bytes: Uint8Array): object {
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    throw new Refusal(400, 'body', 'The body is not JSON.')
  }
  object('the body', value)
  // Checked by the line above.
  return value as object
}

/** The query of a read. A name that is there twice could be read in two ways. */
export function queryOf(url: URL): object {
  const query: Record<string, string> = Object.create(null)
  for (const [name, value] of url.searchParams) {
    if (name in query) throw new Refusal(400, 'query', 'A name is in the query twice.')
    query[name] = value
  }
  return { ...query }
}
