// The console of a process of its own, `hapax console`: it has no application around it that knows who people are.

import { bodyOf, refuseForeign } from '../guard.ts'
import type { ConsoleHapax } from '../hapax.ts'
import { type ConsoleOptions, type Person, settingsOf } from '../options.ts'
import { Refusal } from '../problems.ts'
import { ConsoleServer, type SignIn } from '../server.ts'
import { type Account, accountsOf, personOfBasic } from './accounts.ts'
import { Guesses } from './guesses.ts'
import { Sessions, safelyEqual } from './sessions.ts'

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
  const personOf = (authorization: string): Person | null => {
    if (/^bearer /i.test(authorization)) return isBearer(authorization, bearer) ? person : null
    return personOfBasic(authorization, accounts ?? [])
  }
  const authorize: ConsoleOptions['authorize'] = (request) => {
    const authorization = request.headers.get('authorization') ?? ''
    if (authorization === '') return accounts === undefined && sessions.has(request) ? person : null
    const found = personOf(authorization)
    if (found !== null) guesses.right(authorization)
    else {
      guesses.wrong()
      warn('a sign-in to the console was refused: wrong name, password or token')
    }
    return found
  }
  const { readOnly, hosts, name } = options
  const settings = settingsOf({ authorize, readOnly, allowedHosts: hosts, name, basePath: '/' })
  const way = accounts === undefined ? byToken(sessions, settings) : BY_PASSWORD
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

/** Rejects rate-limited credentials. They were not checked, so the response reveals nothing about them. */
function refuseGuess(request: Request, guesses: Guesses): void {
  const authorization = request.headers.get('authorization') ?? ''
  const waitMs = authorization === '' ? 0 : guesses.waitMs(authorization)
  if (waitMs <= 0) return
  const seconds = Math.ceil(waitMs / 1_000)
  const advice = `Too many wrong names, passwords or tokens: try again in ${seconds} s.`
  throw new Refusal(429, 'too-many-sign-ins', advice, { 'retry-after': String(seconds) })
}

function isBearer(authorization: string, bearer: string | undefined): boolean {
  return bearer !== undefined && safelyEqual(authorization.slice('bearer '.length).trim(), bearer)
}

const BY_PASSWORD: SignIn = {
  enter: async () => undefined,
  fromPage: false,
  advice: 'Sign in with a name and a password of the file of --auth.',
  challenge: { 'www-authenticate': 'Basic realm="hapax", charset="UTF-8"' },
}

/** The page takes the token out of the fragment of its address, which browsers send to nobody, and posts it to `api/login`. */
function byToken(sessions: Sessions, settings: ReturnType<typeof settingsOf>): SignIn {
  return {
    fromPage: true,
    advice: 'Open the address that hapax console has printed; it lets one browser in, once.',
    challenge: {},
    enter: async (request, segments, url) => {
      if (segments.join('/') !== 'api/login') return undefined
      if (request.method !== 'POST') throw new Refusal(405, 'method', 'Only POST is allowed here.', { allow: 'POST' })
      refuseForeign(request, url, settings)
      const { token }: { readonly token?: unknown } = await bodyOf(request, false)
      const cookie = typeof token === 'string' ? sessions.exchanged(token, url) : undefined
      if (cookie === undefined) {
        throw new Refusal(401, 'token', 'This token was used before, is too old, or is none: start the console again.')
      }
      return new Response('{"ok":true}', { headers: { 'content-type': 'application/json', 'set-cookie': cookie } })
    },
  }
}
