import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

/** How long a token waits to be exchanged. */
const TOKEN_MS = 10 * 60_000
/** How long a browser stays signed in. */
const SESSION_MS = 12 * 3_600_000

/** One-time tokens, and the sessions that they were exchanged for. Only hashes are kept. */
export class Sessions {
  readonly #now: () => number
  readonly #tokens = new Map<string, number>()
  readonly #sessions = new Map<string, number>()

  constructor(now: () => number) {
    this.#now = now
  }

  /** A new token. */
  token(): string {
    const token = randomBytes(32).toString('base64url')
    this.#tokens.set(hashed(token), this.#now() + TOKEN_MS)
    return token
  }

  /** The cookie of a new session; undefined: this token is none, was used before, or is too old. */
  exchanged(token: string, url: URL): string | undefined {
    const hash = hashed(token)
    const until = this.#tokens.get(hash)
    this.#tokens.delete(hash)
    if (until === undefined || until <= this.#now()) return undefined
    const session = randomBytes(32).toString('base64url')
    this.#sessions.set(hashed(session), this.#now() + SESSION_MS)
    return cookie(url, cookieName(url), session, SESSION_MS / 1_000)
  }

  /** Whether a request has the cookie of a session. */
  has(request: Request): boolean {
    return cookiesOf(request, cookieName(new URL(request.url))).some((each) => this.#isLive(each))
  }

  /** Ends the session of a request. Returns the cookie that removes its own. */
  ended(request: Request): string {
    const url = new URL(request.url)
    for (const session of cookiesOf(request, cookieName(url))) this.#sessions.delete(hashed(session))
    return cookie(url, cookieName(url), '', 0)
  }

  #isLive(session: string): boolean {
    const hash = hashed(session)
    const until = this.#sessions.get(hash)
    if (until === undefined) return false
    if (until > this.#now()) return true
    this.#sessions.delete(hash)
    return false
  }
}

/** Cookies do not know ports: two consoles on one machine need two names. */
export function cookieName({ protocol, port }: URL, what: string = 'console'): string {
  return protocol === 'https:' ? `__Host-hapax-${what}` : `hapax-${what}-${port || '80'}`
}

/** A cookie that only this host gets, and no script. */
export function cookie({ protocol }: URL, name: string, value: string, seconds: number): string {
  const secure = protocol === 'https:' ? '; Secure' : ''
  return `${name}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${seconds}${secure}`
}

/** The values of the cookies of this name. */
export function cookiesOf(request: Request, name: string): readonly string[] {
  const cookies = (request.headers.get('cookie') ?? '').split(';').map((each) => each.trim())
  return cookies.filter((each) => each.startsWith(`${name}=`)).map((each) => each.slice(name.length + 1))
}

export function hashed(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}

/** Compares secrets in a time that says nothing about them. */
export function safelyEqual(a: string, b: string): boolean {
  return timingSafeEqual(Buffer.from(hashed(a)), Buffer.from(hashed(b)))
}
