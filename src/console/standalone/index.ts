// The console of a process of its own, `hapax console`: it has no application around it that knows who people are.

import { asError, messageOf } from '../../base/index.ts'
import { bodyOf, refuseForeign } from '../guard.ts'
import type { ConsoleHapax } from '../hapax.ts'
import { type Person, type Settings, settingsOf } from '../options.ts'
import { Refusal } from '../problems.ts'
import { ConsoleServer, type SignIn } from '../server.ts'
import { Trail } from '../trail.ts'
import { type Account, accountsOf, personOfBasic } from './accounts.ts'
import { Guesses } from './guesses.ts'
import { cookie, cookieName, cookiesOf, Sessions, safelyEqual } from './sessions.ts'

export { type Account, accountsOf }

/** Options of `standaloneConsole`. */
export interface StandaloneOptions {
  /** Under which hosts it is reached. */
  readonly hosts: readonly string[]
  /** Who signs in with the one-time token, or sends the bearer token. */
  readonly person: Person
  readonly readOnly: boolean
  /** What the page calls the database. */
  readonly name: string
  /** A secret that programs and proxies send. */
  readonly bearer?: string | undefined
  /** People who sign in with a password, instead of the one-time token. */
  readonly accounts?: readonly Account[] | undefined
  /** Called for each refused sign-in. */
  readonly warn?: (text: string) => void
  /** By default, that of the process. */
  readonly now?: () => number
}

/** A console that people sign in to. */
export interface StandaloneConsole {
  readonly handler: (request: Request) => Promise<Response>
  /** A new token that lets one browser in, once, within ten minutes. */
  token(): string
  close(): Promise<void>
}

/** Creates a console that knows people by a one-time token, a password or a bearer token. */
export function standaloneConsole(hapax: ConsoleHapax, options: StandaloneOptions): StandaloneConsole {
  const { accounts, bearer, person, now = Date.now, warn = () => {} } = options
  const [sessions, guesses] = [new Sessions(now), new Guesses(now)]
  const trail = new Trail(hapax, (error) => warn(`the audit could not be written: ${messageOf(asError(error))}`))
  const personOf = (authorization: string): Person | null => {
    if (isBearer(authorization)) return isRight(authorization, bearer) ? person : null
    return personOfBasic(authorization, accounts ?? [])
  }
  const entering = async (request: Request, isBack: boolean): Promise<Person | null> => {
    const authorization = request.headers.get('authorization') ?? ''
    if (authorization === '') return accounts === undefined && sessions.has(request) ? person : null
    const found = personOf(authorization)
    if (found === null) {
      guesses.wrong()
      warn('a sign-in to the console was refused: wrong name, password or token')
    } else if (guesses.right(authorization) || isBack) {
      const note = isBearer(authorization) ? 'by the bearer token' : 'by password'
      await trail.record('sign-in', { actor: found.actor, note })
    }
    return found
  }
  const authorize = (request: Request): Promise<Person | null> => entering(request, false)
  const { readOnly, hosts, name } = options
  const settings = settingsOf({ authorize, readOnly, allowedHosts: hosts, name, basePath: '/' })
  const entrance = { settings, trail, entering, sessions, person }
  const way = accounts === undefined ? byToken(entrance) : byPassword(entrance)
  const signIn: SignIn = {
    ...way,
    enter: async (request, segments, url) => {
      refuseGuess(request, guesses)
      return way.enter(request, segments, url)
    },
  }
  const server = new ConsoleServer(hapax, settings, signIn)
  return { handler: (request) => server.answer(request), token: () => sessions.token(), close: () => server.close() }
}

/** What both ways to sign in need. */
interface Entrance {
  readonly settings: Settings
  readonly trail: Trail
  /** Who sends this request. `isBack`: somebody who has signed out there signs in again, which is recorded. */
  readonly entering: (request: Request, isBack: boolean) => Promise<Person | null>
  readonly sessions: Sessions
  readonly person: Person
}

/** Rejects rate-limited credentials. They were not checked, so the response reveals nothing about them. */
function refuseGuess(request: Request, guesses: Guesses): void {
  const authorization = request.headers.get('authorization') ?? ''
  const waitMs = authorization === '' ? 0 : guesses.waitMs(authorization)
  if (waitMs <= 0) return
  const seconds = Math.ceil(waitMs / 1_000)
  const advice = `Too many wrong names, passwords or tokens: try again in ${seconds} s.`
  throw new Refusal(429, 'too-many-sign-ins', advice, { 'retry-after': String(seconds) })
}

function isBearer(authorization: string): boolean {
  return /^bearer /i.test(authorization)
}

function isRight(authorization: string, bearer: string | undefined): boolean {
  return bearer !== undefined && safelyEqual(authorization.slice('bearer '.length).trim(), bearer)
}

/**
 * Browsers send a password with every request and forget it only when it is refused: a cookie notes that somebody signed out, and then
 * that this browser was asked for the password.
 */
function byPassword({ settings, trail, entering }: Entrance): SignIn {
  const advice = 'Sign in with a name and a password of the file of --auth.'
  const challenge = { 'www-authenticate': 'Basic realm="hapax", charset="UTF-8"' }
  return {
    fromPage: false,
    advice,
    challenge,
    signOut: ({ headers }) => (/^basic /i.test(headers.get('authorization') ?? '') ? 'password' : null),
    enter: async (request, segments, url) => {
      const authorization = request.headers.get('authorization') ?? ''
      const mark = cookieName(url, 'signed-out')
      if (isBearer(authorization)) return undefined
      const [marked] = cookiesOf(request, mark)
      if (marked !== undefined) {
        // Without a challenge, a page in the background does not ask for the password.
        if (segments[0] === 'api') throw new Refusal(401, 'signed-out', advice)
        if (marked === ASKED && (await entering(request, true)) !== null) return again(url, cookie(url, mark, '', 0))
        throw new Refusal(401, 'signed-out', advice, { ...challenge, 'set-cookie': cookie(url, mark, ASKED, MARK_S) })
      }
      if (!isSignOut(request, segments, url, settings)) return undefined
      const person = await entering(request, false)
      if (person === null) return undefined
      await trail.record('sign-out', { actor: person.actor })
      return done(cookie(url, mark, SIGNED_OUT, MARK_S))
    },
  }
}

/** What the cookie notes of a browser. */
const SIGNED_OUT = '1'
const ASKED = '2'

/** How long a browser that signed out is noted: until then, it asks for the password again. */
const MARK_S = 12 * 3_600

/** The page takes the token out of the fragment of its address, which browsers send to nobody, and posts it to `api/login`. */
function byToken({ sessions, settings, trail, person: { actor } }: Entrance): SignIn {
  return {
    fromPage: true,
    advice: 'Open the address that hapax console has printed; it lets one browser in, once.',
    challenge: {},
    signOut: (request) => (sessions.has(request) ? 'token' : null),
    enter: async (request, segments, url) => {
      if (isSignOut(request, segments, url, settings)) {
        if (sessions.has(request)) await trail.record('sign-out', { actor })
        return done(sessions.ended(request))
      }
      if (segments.join('/') !== 'api/login') return undefined
      refuseOthers(request, url, settings)
      const { token }: { readonly token?: unknown } = await bodyOf(request, false)
      const session = typeof token === 'string' ? sessions.exchanged(token, url) : undefined
      if (session === undefined) {
        throw new Refusal(401, 'token', 'This token was used before, is too old, or is none: start the console again.')
      }
      await trail.record('sign-in', { actor, note: 'by the one-time token' })
      return done(session)
    },
  }
}

function isSignOut(request: Request, segments: readonly string[], url: URL, settings: Settings): boolean {
  if (segments.join('/') !== 'api/logout') return false
  refuseOthers(request, url, settings)
  return true
}

function refuseOthers(request: Request, url: URL, settings: Settings): void {
  if (request.method !== 'POST') throw new Refusal(405, 'method', 'Only POST is allowed here.', { allow: 'POST' })
  refuseForeign(request, url, settings)
}

function done(setCookie: string): Response {
  return new Response('{"ok":true}', { headers: { 'content-type': 'application/json', 'set-cookie': setCookie } })
}

/** Has the browser load the same page once more. A relative address, because a proxy may have stripped its beginning. */
function again({ pathname, search }: URL, setCookie: string): Response {
  const location = `./${pathname.slice(pathname.lastIndexOf('/') + 1)}${search}`
  return new Response(null, { status: 303, headers: { location, 'set-cookie': setCookie } })
}
